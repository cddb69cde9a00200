//! What an observer found in each second of a run, and in the whole: the two
//! tables to which M. Guarna's thesis (Politecnico di Torino 2024, appendix H)
//! reduces its measurements, with the smoothed round trip that `ss` would have
//! shown at the sender once a second.
//!
//! Throughput is IP bytes of both directions, in MiB and Mibit/s, and round
//! trips are those of both sides together, with the standard deviation of all
//! that there were, as there. Unlike there a second without a round trip has
//! its row too, and seconds are those of the run.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use narrows_core::FlowSample;
use narrows_files::{FileError, Whole};
use narrows_observe::{Measured, Quantity, Technique};
use narrows_scenario::Plan;
use narrows_units::Instant;

use super::window::Span;
use super::{Entry, Watching};
use crate::summary::FlowSummary;

/// The file with a row for each second.
pub const SECONDS: &str = "seconds.csv";
/// The file with a row for the whole run.
pub const TOTALS: &str = "totals.csv";

const SECOND_NS: u64 = 1_000_000_000;
/// Intervals in which growth is seen, ns: at 5 ms some twenty round trips.
const INTERVAL_NS: u64 = 100_000_000;
const INTERVALS_IN_SECOND: usize = (SECOND_NS / INTERVAL_NS) as usize;

/// IP bytes of a flow that passed a tap, in each interval.
#[derive(Default)]
pub(super) struct Carried(Vec<u64>);

impl Carried {
    pub(super) fn add(&mut self, now: Instant, bytes: u64) {
        let at = (now.as_nanos() / INTERVAL_NS) as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += bytes;
    }

    fn in_second(&self, second: usize) -> u64 {
        let from = (second * INTERVALS_IN_SECOND).min(self.0.len());
        let to = (from + INTERVALS_IN_SECOND).min(self.0.len());
        self.0[from..to].iter().sum()
    }

    /// How fast the flow grew after its slow start, in Mbit/s per second: the
    /// slope of the line with the least squares through its rate in intervals
    /// of 100 ms, from the trough behind its first peak to the interval in which
    /// it again carries half of what it carries in its best second. From its
    /// first packet on if it has no such trough; `None` of a flow that carries
    /// that at once. Of what it carries within `span`.
    pub(super) fn growth(&self, span: Span) -> Option<f64> {
        let inside = |i: &usize| span.has(*i, INTERVAL_NS);
        let from = (0..self.0.len()).find(inside)?;
        let to = from + (from..self.0.len()).take_while(inside).count();
        let rates = &self.0[from..to];
        let first = rates.iter().position(|b| *b > 0)?;
        let rates = &rates[first..];
        let best = rates
            .windows(INTERVALS_IN_SECOND)
            .map(|w| w.iter().sum::<u64>())
            .max()?;
        let half = best as f64 / INTERVALS_IN_SECOND as f64 / 2.0;
        let trough = trough(rates).filter(|at| (rates[*at] as f64) < half);
        let rates = &rates[trough.unwrap_or(0)..];
        let end = rates.iter().position(|b| *b as f64 >= half)?;
        let rates = &rates[..=end];
        let n = rates.len() as f64;
        let seconds = INTERVAL_NS as f64 / 1e9;
        let mean_t = (n - 1.0) / 2.0;
        let (mut above, mut below) = (0.0, 0.0);
        for (i, bytes) in rates.iter().enumerate() {
            // Times from their mean add up to nothing, so that of the rates need not be taken off.
            let t = i as f64 - mean_t;
            above += t * *bytes as f64;
            below += t * t;
        }
        // Bytes in an interval per interval.
        (below > 0.0).then(|| above / below * 8.0 / 1e6 / seconds / seconds)
    }
}

/// Where what falls behind its first peak begins to rise again.
fn trough(rates: &[u64]) -> Option<usize> {
    let falls = rates.windows(2).position(|w| w[1] < w[0])?;
    let rises = rates[falls..].windows(2).position(|w| w[1] >= w[0])?;
    Some(falls + rises)
}

/// What `ss` shows of each flow's sender at the end of each second, in ms.
pub(super) struct SmoothedRtt(Vec<Vec<Option<f64>>>);

impl SmoothedRtt {
    pub(super) fn new(flows: usize) -> Self {
        Self(vec![Vec::new(); flows])
    }

    /// A periodic sample of a sender; of several in a second the last counts.
    pub(super) fn sampled(&mut self, now: Instant, flow: usize, sample: &FlowSample) {
        let Some(seconds) = self.0.get_mut(flow).filter(|_| !sample.srtt.is_zero()) else {
            return;
        };
        // A second's end belongs to it.
        let at = (now.as_nanos().saturating_sub(1) / SECOND_NS) as usize;
        if seconds.len() <= at {
            seconds.resize(at + 1, None);
        }
        seconds[at] = Some(sample.srtt.as_millis_f64());
    }

    fn at(&self, flow: usize, second: usize) -> Option<f64> {
        self.0.get(flow)?.get(second).copied().flatten()
    }

    /// Those of the seconds within `span`.
    pub(super) fn within(&self, flow: usize, span: Span) -> Spread {
        let mut spread = Spread::default();
        for (second, ms) in self.0.get(flow).into_iter().flatten().enumerate() {
            if let Some(ms) = ms.filter(|_| span.has(second, SECOND_NS)) {
                spread.add(ms);
            }
        }
        spread
    }
}

/// Number, mean and standard deviation of all values that there were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread {
    pub(super) n: u64,
    mean: f64,
    squares: f64,
}

impl Spread {
    pub(super) fn add(&mut self, value: f64) {
        self.n += 1;
        // Welford's update.
        let before = value - self.mean;
        self.mean += before / self.n as f64;
        self.squares += before * (value - self.mean);
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.n > 0).then_some(self.mean)
    }

    pub(super) fn sd(&self) -> Option<f64> {
        (self.n > 0).then(|| (self.squares / self.n as f64).max(0.0).sqrt())
    }
}

/// Full round trips of one flow by one technique: in each second, and in all.
#[derive(Default)]
struct Trips {
    seconds: BTreeMap<usize, Spread>,
    all: Spread,
}

fn trips(watching: &Watching) -> BTreeMap<(u64, Technique), Trips> {
    let mut found: BTreeMap<(u64, Technique), Trips> = BTreeMap::new();
    for entry in &watching.found.log {
        let Entry::Sample(flow, sample) = entry else {
            continue;
        };
        let (Quantity::FullRtt(_), Measured::Rtt(rtt)) = (sample.quantity, sample.value) else {
            continue;
        };
        let trips = found.entry((*flow, sample.technique)).or_default();
        let second = (sample.at.as_nanos() / SECOND_NS) as usize;
        let ms = rtt.as_millis_f64();
        for _ in 0..sample.weight {
            trips.seconds.entry(second).or_default().add(ms);
            trips.all.add(ms);
        }
    }
    found
}

/// Writes both tables into the folder `dir`; `flows` are the flows' own
/// figures, in the plan's order.
pub(super) fn write(
    dir: &Path,
    plan: &Plan,
    all: &[Watching],
    srtt: &SmoothedRtt,
    flows: &[FlowSummary],
) -> Result<(), FileError> {
    let mut seconds = Whole::begin(&dir.join(SECONDS))?;
    let mut totals = Whole::begin(&dir.join(TOTALS))?;
    tables(&mut seconds, &mut totals, plan, all, (srtt, flows))
        .map_err(FileError::at("write", &dir.join(SECONDS)))?;
    seconds.keep()?;
    totals.keep()
}

fn tables(
    seconds: &mut Whole,
    totals: &mut Whole,
    plan: &Plan,
    all: &[Watching],
    (srtt, flows): (&SmoothedRtt, &[FlowSummary]),
) -> io::Result<()> {
    writeln!(
        seconds,
        "second,observer,flow,technique,throughput_mibit,rtt_ms,sd_ms,n,ss_ms"
    )?;
    writeln!(
        totals,
        "observer,flow,technique,mib,rtt_ms,sd_ms,n,ss_ms,ss_sd_ms,retransmissions"
    )?;
    let length = plan.duration.as_nanos().div_ceil(SECOND_NS) as usize;
    for watching in all {
        for ((seen, technique), trips) in trips(watching) {
            let Some(seen) = watching.found.flows.get(&seen) else {
                continue;
            };
            let Some(flow) = seen.plan else { continue };
            let who = format!(
                "{},{},{}",
                watching.name,
                plan.flows[flow].name,
                technique.name()
            );
            let carried = watching.carried.get(flow);
            for second in 0..length {
                let spread = trips.seconds.get(&second).copied().unwrap_or_default();
                let bytes = carried.map_or(0, |c| c.in_second(second));
                writeln!(
                    seconds,
                    "{second},{who},{:.6},{},{},{},{}",
                    bytes as f64 / 1024.0 / 128.0,
                    cell(spread.mean()),
                    cell(spread.sd()),
                    spread.n,
                    cell(srtt.at(flow, second)),
                )?;
            }
            let smoothed = srtt.within(flow, Span::WHOLE);
            let again = flows.get(flow).map(|f| f.retransmissions.to_string());
            writeln!(
                totals,
                "{who},{:.6},{},{},{},{},{},{}",
                seen.all.bytes as f64 / f64::from(1 << 20),
                cell(trips.all.mean()),
                cell(trips.all.sd()),
                trips.all.n,
                cell(smoothed.mean()),
                cell(smoothed.sd()),
                again.unwrap_or_default(),
            )?;
        }
    }
    Ok(())
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |v| format!("{v:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn growth_is_the_slope_of_a_rate_that_rises_in_a_line() {
        let mut carried = Carried::default();
        // From the second second on 4 Mbit/s more in each, up to 40 Mbit/s.
        for i in 0..200u64 {
            let mbit = (0.4 * (i as f64 + 0.5)).min(40.0);
            carried.add(at(1_000 + 100 * i), (mbit * 1e6 / 8.0 / 10.0) as u64);
        }
        let growth = carried.growth(Span::WHOLE).unwrap();
        assert!((growth - 4.0).abs() < 0.01, "{growth}");
        // The same behind a slow start that overshoots.
        let mut overshot = Carried::default();
        for (i, bytes) in [1, 2, 4, 8, 5, 1].into_iter().enumerate() {
            overshot.add(at(100 * i as u64), 62_500 * bytes);
        }
        for i in 0..200u64 {
            let mbit = (5.0 + 0.4 * (i + 1) as f64).min(45.0);
            overshot.add(at(600 + 100 * i), (mbit * 1e6 / 8.0 / 10.0) as u64);
        }
        let growth = overshot.growth(Span::WHOLE).unwrap();
        assert!((growth - 4.0).abs() < 0.01, "{growth}");
        let mut at_once = Carried::default();
        (0..20).for_each(|i| at_once.add(at(100 * i), 1_000));
        assert_eq!(at_once.growth(Span::WHOLE), None);
    }

    #[test]
    fn a_second_has_the_bytes_of_its_ten_intervals() {
        let mut carried = Carried::default();
        for ms in [0, 999, 1_000, 1_950, 2_000] {
            carried.add(at(ms), 10);
        }
        let bytes: Vec<u64> = (0..4).map(|s| carried.in_second(s)).collect();
        assert_eq!(bytes, [20, 20, 10, 0]);
    }

    #[test]
    fn of_the_looks_at_a_sender_in_a_second_the_last_counts() {
        let mut srtt = SmoothedRtt::new(1);
        for (ms, rtt) in [(500, 10), (1_000, 20), (1_001, 30), (3_000, 50)] {
            let sample = FlowSample {
                srtt: Duration::from_millis(rtt),
                ..FlowSample::default()
            };
            srtt.sampled(at(ms), 0, &sample);
        }
        let seen: Vec<_> = (0..4).map(|s| srtt.at(0, s)).collect();
        assert_eq!(seen, [Some(20.0), Some(30.0), Some(50.0), None]);
        let all = srtt.within(0, Span::WHOLE);
        assert_eq!((all.n, all.mean()), (3, Some(100.0 / 3.0)));
        // The deviation of all three, not of a sample of more.
        assert!((all.sd().unwrap() - (1400.0f64 / 9.0).sqrt()).abs() < 1e-9);
    }

    /// Bytes in each interval, and then a kilobyte for two seconds.
    fn begun(bytes: &[u64]) -> Carried {
        let mut all = bytes.to_vec();
        all.extend([1_000; 20]);
        Carried(all)
    }

    #[test]
    fn growth_is_from_the_trough_behind_the_first_peak_if_that_is_below_half_of_the_best() {
        // Bytes per interval of a tenth of a second and per interval, from the first to the one
        // that carries half of 1000.
        for (bytes, slope) in [
            // It never falls; what stays the same is no peak.
            (&[100, 200, 200][..], 270.0),
            // It falls to exactly half: from the first packet on.
            (&[250, 1_000, 500], 750.0),
            (&[100, 900, 50, 150, 250], 295.0),
            // Packets pass from the third interval on.
            (&[0, 0, 100, 200, 200], 270.0),
        ] {
            let growth = begun(bytes).growth(Span::WHOLE).expect("it grows");
            assert!((growth - slope * 8e-4).abs() < 1e-9, "{bytes:?} {growth}");
        }
    }

    #[test]
    fn nothing_has_no_mean_and_no_deviation() {
        assert_eq!(
            (Spread::default().mean(), Spread::default().sd()),
            (None, None)
        );
        let mut one = Spread::default();
        one.add(3.0);
        assert_eq!((one.mean(), one.sd()), (Some(3.0), Some(0.0)));
    }
}
