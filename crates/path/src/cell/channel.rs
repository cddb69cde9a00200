//! What the air carries to a terminal: a quality, or what a recording says, over time.

use std::sync::Arc;

use narrows_units::Instant;

use super::radio::{TTI, block_bits, bytes};
use crate::recording::{Rates, Recording};
use crate::trace::{OPPORTUNITY, Trace};

/// The lowest quality with which there is service.
const LOWEST_CQI: u8 = 1;

/// What a terminal has in each subframe, if all blocks are its own.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Carries {
    /// From each time on, a quality; nothing until the file is read.
    Quality(Arc<Vec<(Instant, u8)>>),
    /// From each time on, a rate.
    Rates(Arc<Rates>),
    /// Opportunities to send.
    Opportunities(Arc<Spread>),
}

impl Default for Carries {
    fn default() -> Self {
        Self::Quality(Arc::default())
    }
}

impl Carries {
    /// This quality at all times.
    pub(super) fn quality(cqi: u8) -> Self {
        Self::Quality(Arc::new(vec![(Instant::ZERO, cqi)]))
    }

    /// The rates or opportunities of a recording, which was made with all `blocks`.
    pub(super) fn recorded(recording: &Recording, blocks: u32) -> Self {
        match recording {
            Recording::Rates(rates) => Self::Rates(Arc::clone(rates)),
            Recording::Opportunities(trace) => {
                Self::Opportunities(Arc::new(Spread::new(trace, blocks)))
            }
        }
    }

    /// Bits of the subframe in which `now` is, in all `blocks`; 0 without service, or before a
    /// recording is read.
    pub(super) fn bits(&self, now: Instant, blocks: u32) -> u64 {
        let subframe = now.as_nanos() / TTI.as_nanos();
        match self {
            Self::Quality(steps) => {
                at(steps, now).map_or(0, |cqi| block_bits(cqi) * u64::from(blocks))
            }
            Self::Rates(rates) => {
                let rate = at(rates.steps(), now).unwrap_or_default();
                // Of a rate that is no whole number of bytes a subframe, nothing is lost.
                let until = |subframes: u64| rate.bytes_in(TTI * subframes);
                8 * until(subframe + 1).saturating_sub(until(subframe))
            }
            Self::Opportunities(spread) => 8 * spread.bytes(subframe),
        }
    }
}

/// What holds at `now`.
fn at<T: Copy>(steps: &[(Instant, T)], now: Instant) -> Option<T> {
    let after = steps.partition_point(|(at, _)| *at <= now);
    let step = after.checked_sub(1).and_then(|i| steps.get(i));
    step.map(|(_, value)| *value)
}

/// Subframes that carry a number of bytes, evenly.
#[derive(Debug, PartialEq)]
struct Span {
    /// The first, in a round.
    from: u64,
    /// The one behind the last.
    to: u64,
    bytes: u64,
}

/// The opportunities of a trace as bytes of subframes.
///
/// What a trace gives at an instant the air carried in the time before: since the last opportunity, in as
/// many subframes as the lowest quality would take for it, at most. Before them there was no
/// service. So terminals share blocks also while a trace says nothing, and a terminal that has all of
/// them has received, at each opportunity, as many bytes as the trace says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Spread {
    /// Subframes of a round.
    round: u64,
    /// In rising order; none overlap.
    spans: Vec<Span>,
}

impl Spread {
    fn new(trace: &Trace, blocks: u32) -> Self {
        let times = trace.times();
        let round = times.last().copied().unwrap_or(0);
        let slowest = bytes(blocks, LOWEST_CQI).max(1);
        // What is due when a round begins is what the one before has at its end.
        let (first, rest) = times.split_at(times.partition_point(|ms| *ms == 0));
        let (mut spans, mut before) = (Vec::new(), 0);
        for same in rest.chunk_by(|a, b| a == b) {
            let to = same[0];
            let also = if to == round { first.len() } else { 0 };
            let bytes = (same.len() + also) as u64 * u64::from(OPPORTUNITY);
            let from = before.max(to.saturating_sub(bytes.div_ceil(slowest)));
            spans.push(Span { from, to, bytes });
            before = to;
        }
        Self { round, spans }
    }

    /// Bytes of a subframe, by its number from the start of the run on.
    fn bytes(&self, subframe: u64) -> u64 {
        let Some(within) = subframe.checked_rem(self.round) else {
            return 0;
        };
        let at = self.spans.partition_point(|span| span.to <= within);
        let Some(span) = self.spans.get(at).filter(|span| span.from <= within) else {
            return 0;
        };
        let until = |subframe: u64| {
            let part = u128::from(span.bytes) * u128::from(subframe - span.from);
            (part / u128::from(span.to - span.from)) as u64
        };
        until(within + 1) - until(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Duration;

    fn spread(text: &str, blocks: u32) -> Spread {
        Spread::new(&Trace::parse(text.as_bytes()).unwrap(), blocks)
    }

    fn bytes_of(spread: &Spread, subframes: std::ops::Range<u64>) -> Vec<u64> {
        subframes.map(|ms| spread.bytes(ms)).collect()
    }

    #[test]
    fn an_opportunity_is_what_the_air_carried_since_the_one_before() {
        // 1504 bytes each: in one subframe, in one (twice), and in three.
        let of = spread("1\n2\n2\n5\n", 25);
        let round = [1504, 3008, 501, 501, 502];
        assert_eq!(bytes_of(&of, 0..5), round);
        assert_eq!(bytes_of(&of, 5_000_000..5_000_005), round);
    }

    #[test]
    fn before_what_the_lowest_quality_would_take_there_was_no_service() {
        // 25 blocks of 20 bits: 62 bytes a subframe, 25 of them for 1504.
        let of = spread("1000\n", 25);
        let all = bytes_of(&of, 0..1000);
        assert_eq!(all.iter().sum::<u64>(), 1504);
        assert!(all[..975].iter().all(|bytes| *bytes == 0), "{all:?}");
        assert!(all[975..].iter().all(|bytes| *bytes >= 60), "{all:?}");
    }

    #[test]
    fn what_a_round_begins_with_the_one_before_ends_with() {
        let of = spread("0\n0\n1\n4\n", 6);
        let round = bytes_of(&of, 0..4);
        assert_eq!(round[0], 1504);
        assert_eq!(round[1..].iter().sum::<u64>(), 3 * 1504);
        assert_eq!(spread("0\n0\n3\n", 6).spans.len(), 1);
        assert_eq!(Spread::default().bytes(7), 0);
    }

    #[test]
    fn a_rate_loses_no_part_of_a_byte() {
        let rates = Rates::parse(b"time_s,rate_mbit\n0,0.1\n2,0\n3,1.0004\n").unwrap();
        let carries = Carries::Rates(Arc::new(rates));
        let bits = |from: u64, to: u64| -> u64 {
            let at = |ms| Instant::ZERO + Duration::from_millis(ms);
            (from..to).map(|ms| carries.bits(at(ms), 25)).sum()
        };
        assert_eq!(bits(0, 2_000), 200_000);
        assert_eq!(bits(2_000, 3_000), 0);
        assert_eq!(bits(3_000, 13_000), 10_004_000);
    }

    #[test]
    fn the_mean_of_a_trace_is_what_it_carries() {
        let text = "0\n3\n3\n17\n18\n250\n251\n1000\n";
        let trace = Trace::parse(text.as_bytes()).unwrap();
        for blocks in [6, 25, 100] {
            let of = Spread::new(&trace, blocks);
            let all: u64 = bytes_of(&of, 0..1000).iter().sum();
            assert_eq!(8 * all, trace.mean_rate().as_bits(), "{blocks}");
        }
    }
}
