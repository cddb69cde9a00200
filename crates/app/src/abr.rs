//! Which bit rate a player asks for: a ladder, and the rules that choose from it, as dash.js
//! has them.

use std::collections::VecDeque;
use std::fmt;

use narrows_units::{Rate, WordError, Words};

use crate::spec::above_zero;

/// Part of the measured throughput that is used (dash.js `bandwidthSafetyFactor`).
const SAFETY: f64 = 0.9;

/// Segments over which throughput is averaged (dash.js `averageThroughputSampleAmount.vod`).
const SAMPLES: usize = 4;

/// Segments of which throughput is kept (dash.js `maxMeasurementsToKeep`).
const KEPT: usize = 20;

/// Where throughput changes by this factor from one segment to the next, one segment more is
/// averaged (dash.js `throughputIncreaseScale`, `throughputDecreaseScale`).
const VARIES: f64 = 1.3;

/// Buffer in seconds at which BOLA still chooses the lowest rate (dash.js
/// `MINIMUM_BUFFER_S`).
const LEAST_BUFFER: f64 = 10.0;

/// Seconds of buffer that BOLA needs for each rate (dash.js
/// `MINIMUM_BUFFER_PER_BITRATE_LEVEL_S`).
const BUFFER_FOR_RATE: f64 = 2.0;

/// Average rates of Apple's HLS Authoring Specification for H.264, up to 1080p.
const HD: &[u64] = &[
    145_000, 365_000, 730_000, 1_100_000, 2_000_000, 3_000_000, 4_500_000, 6_000_000, 7_800_000,
];

/// The same for HEVC at 30 frames a second, up to 2160p.
const UHD: &[u64] = &[
    145_000, 300_000, 600_000, 900_000, 1_600_000, 2_400_000, 3_400_000, 4_500_000, 5_800_000,
    8_100_000, 11_600_000, 16_800_000,
];

const NAMED: [(&str, &[u64]); 2] = [("hd", HD), ("uhd", UHD)];

pub(crate) const LADDER: &str = "hd, uhd, or rates that rise, such as 1Mbit 3Mbit 6Mbit";

/// The rates that there are, in bits a second, rising.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ladder(Vec<u64>);

impl Default for Ladder {
    fn default() -> Self {
        Self(HD.to_vec())
    }
}

impl Ladder {
    /// Reads its words.
    ///
    /// # Errors
    /// When there is no rate, or one that does not rise.
    pub(crate) fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let first = words.peek().ok_or_else(|| words.ended(LADDER))?;
        if let Some((_, rates)) = NAMED.iter().find(|(name, _)| *name == first.text) {
            words.take();
            return Ok(Self(rates.to_vec()));
        }
        let mut rates: Vec<u64> = Vec::new();
        while let Some(word) = words.peek() {
            let rate =
                above_zero(words, Rate::as_bits).map_err(|error| match rates.is_empty() {
                    true => word.refused(LADDER),
                    false => error,
                })?;
            if rates.last().is_some_and(|last| *last >= rate.as_bits()) {
                return Err(word.refused("a higher rate than the one before"));
            }
            rates.push(rate.as_bits());
        }
        Ok(Self(rates))
    }

    /// The rate at a place.
    pub(crate) fn rate(&self, place: usize) -> u64 {
        self.0.get(place).copied().unwrap_or_default()
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMED.iter().find(|(_, rates)| *rates == self.0) {
            return f.write_str(name);
        }
        for (n, rate) in self.0.iter().enumerate() {
            let before = if n == 0 { "" } else { " " };
            write!(f, "{before}{}", Rate::from_bits(*rate))?;
        }
        Ok(())
    }
}

/// By what the next segment's rate is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The throughput of the segments before.
    Throughput,
    /// The buffer: BOLA (Spiteri, Urgaonkar, Sitaraman, INFOCOM 2016).
    Bola,
}

pub(crate) const RULES: [(&str, Rule); 2] =
    [("throughput", Rule::Throughput), ("bola", Rule::Bola)];

/// Chooses rates.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    ladder: Ladder,
    bola: Option<Bola>,
    /// Throughputs of the last segments in bits a second, the oldest first.
    history: VecDeque<f64>,
    last: usize,
}

impl Chooser {
    /// One for a player that holds up to `buffer` seconds.
    pub(crate) fn new(rule: Rule, ladder: Ladder, buffer: f64) -> Self {
        let bola = match rule {
            Rule::Throughput => None,
            Rule::Bola => Bola::new(&ladder, buffer),
        };
        Self {
            ladder,
            bola,
            history: VecDeque::new(),
            last: 0,
        }
    }

    /// A segment came at so many bits a second.
    pub(crate) fn measured(&mut self, throughput: f64) {
        self.history.push_back(throughput);
        if self.history.len() > KEPT {
            self.history.pop_front();
        }
    }

    /// The place in the ladder for the next segment, of a player that holds `buffer` seconds, and
    /// has begun to play.
    pub(crate) fn choose(&mut self, buffer: f64, begun: bool) -> usize {
        let sustained = self.sustained();
        let place = match &self.bola {
            Some(bola) if begun => {
                let place = bola.place(buffer);
                // BOLA-O: it does not rise beyond what the throughput sustains, so that it does
                // not swing between two rates.
                match place > self.last {
                    true => place.min(sustained.max(self.last)),
                    false => place,
                }
            }
            _ => sustained,
        };
        self.last = place;
        place
    }

    /// The highest rate that the throughput sustains; the lowest while nothing is known.
    fn sustained(&self) -> usize {
        let safe = self.throughput() * SAFETY;
        let above = self.ladder.0.partition_point(|rate| *rate as f64 <= safe);
        above.saturating_sub(1)
    }

    /// The mean of the last throughputs, of more where they vary.
    fn throughput(&self) -> f64 {
        let all = self.history.len();
        let mut taken = SAMPLES.min(all);
        if taken < all {
            let mut i = 1;
            while i < taken && taken < all {
                let ratio = self.history[all - i] / self.history[all - i - 1];
                if ratio >= VARIES || ratio <= 1.0 / VARIES {
                    taken += 1;
                }
                i += 1;
            }
        }
        let sum: f64 = self.history.iter().rev().take(taken).sum();
        sum / taken.max(1) as f64
    }
}

/// The parameters of BOLA as dash.js derives them, and what it maximises: the utility of a
/// rate, its logarithm, against what it takes of the buffer.
#[derive(Clone, Debug)]
struct Bola {
    /// Rates, and their utilities, of which the first is 1.
    rates: Vec<(f64, f64)>,
    gp: f64,
    vp: f64,
}

impl Bola {
    /// `None` where there is but one rate.
    fn new(ladder: &Ladder, buffer: f64) -> Option<Self> {
        let lowest = *ladder.0.first()? as f64;
        let utility = |rate: f64| libm::log(rate) - libm::log(lowest) + 1.0;
        let rates = ladder.0.iter().map(|rate| *rate as f64);
        let rates: Vec<_> = rates.map(|rate| (rate, utility(rate))).collect();
        let highest = rates.last().map(|r| r.1).filter(|u| *u > 1.0)?;
        let least = LEAST_BUFFER + BUFFER_FOR_RATE * rates.len() as f64;
        let gp = (highest - 1.0) / (buffer.max(least) / LEAST_BUFFER - 1.0);
        let vp = LEAST_BUFFER / gp;
        Some(Self { rates, gp, vp })
    }

    /// The place of the rate with the highest score; of several the highest rate.
    fn place(&self, buffer: f64) -> usize {
        let score = |(rate, utility): (f64, f64)| (self.vp * (utility + self.gp) - buffer) / rate;
        let mut best = (0, f64::NEG_INFINITY);
        for (place, rate) in self.rates.iter().enumerate() {
            let score = score(*rate);
            if score >= best.1 {
                best = (place, score);
            }
        }
        best.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: f64 = 1e6;

    fn ladder(line: &str) -> Ladder {
        Ladder::parse(&mut Words::new(line)).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// What is chosen after each segment of a trace of throughput in Mbit/s and buffer in
    /// seconds.
    fn choices(rule: Rule, trace: &[(f64, f64)]) -> Vec<usize> {
        let mut chooser = Chooser::new(rule, ladder("1Mbit 2Mbit 4Mbit"), 30.0);
        let mut chosen = Vec::new();
        for (throughput, buffer) in trace {
            chooser.measured(throughput * MBIT);
            chosen.push(chooser.choose(*buffer, true));
        }
        chosen
    }

    fn even(trace: &[f64]) -> Vec<(f64, f64)> {
        trace.iter().map(|t| (*t, 8.0)).collect()
    }

    #[test]
    fn the_throughput_rule_takes_nine_tenths_of_the_mean() {
        // A constant 4.4 sustains 3.96, a constant 4.5 sustains 4.05.
        let rule = Rule::Throughput;
        assert_eq!(choices(rule, &even(&[4.4; 3])), [1, 1, 1]);
        assert_eq!(choices(rule, &even(&[4.5; 3])), [2, 2, 2]);
        assert_eq!(choices(rule, &even(&[0.5])), [0], "the lowest at least");
        // Means of 1, 3, 3.67 and 4 sustain 0.9, 2.7, 3.3 and 3.6.
        let rise = choices(rule, &even(&[1.0, 5.0, 5.0, 5.0]));
        assert_eq!(rise, [0, 1, 1, 1]);
    }

    #[test]
    fn the_throughput_rule_averages_longer_over_a_step() {
        // Five of 5, and then 0.9.
        // 1: a step among the last four: (4 · 5 + 0.9) / 5 = 4.18, 3.76.
        // 2: (3 · 5 + 2 · 0.9) / 5 = 3.36, 3.02.
        // 3: (2 · 5 + 3 · 0.9) / 5 = 2.54, 2.29, where the last four have 1.73.
        // 4: no step among the last four: 0.9, 0.81.
        let mut trace = [5.0; 5].to_vec();
        trace.extend([0.9; 4]);
        let chosen = choices(Rule::Throughput, &even(&trace));
        assert_eq!(chosen[..5], [2; 5]);
        assert_eq!(chosen[5..], [1, 1, 1, 0]);
    }

    #[test]
    fn bola_follows_the_buffer() {
        // With utilities 1, 1 + ln 2, 1 + ln 4 and 30 s: gp = ln 4 / 2 = ln 2, Vp = 10 / ln 2.
        // Two rates score the same at Vp (2 (u + gp) - (u' + gp)): 14.43 s and 24.43 s.
        let trace = [2.0, 14.4, 14.5, 24.4, 24.5, 29.0, 24.4, 14.4, 0.1];
        let trace = trace.map(|buffer| (50.0, buffer));
        assert_eq!(choices(Rule::Bola, &trace), [0, 0, 1, 1, 2, 2, 1, 0, 0]);
    }

    #[test]
    fn bola_does_not_rise_beyond_the_throughput_and_stays_where_it_is() {
        // 2.5 Mbit/s sustain 2: however full the buffer, 4 is not begun. Once there, a throughput
        // below does not bring it down, the buffer does. At the end all six are averaged, as
        // they vary: 9.2 sustain 4 again.
        let trace = [
            (2.5, 29.0),
            (2.5, 29.0),
            (50.0, 29.0),
            (0.1, 29.0),
            (0.1, 16.0),
            (0.1, 29.0),
        ];
        assert_eq!(choices(Rule::Bola, &trace), [1, 1, 2, 2, 1, 2]);
    }

    #[test]
    fn before_it_plays_bola_goes_by_throughput() {
        let mut chooser = Chooser::new(Rule::Bola, ladder("1Mbit 2Mbit 4Mbit"), 30.0);
        assert_eq!(chooser.choose(0.0, false), 0, "nothing is known");
        chooser.measured(3.0 * MBIT);
        assert_eq!(chooser.choose(0.0, false), 1);
        assert_eq!(chooser.choose(2.0, true), 0);
    }

    #[test]
    fn one_rate_is_all_that_is_chosen() {
        let mut chooser = Chooser::new(Rule::Bola, ladder("3Mbit"), 30.0);
        chooser.measured(50.0 * MBIT);
        assert_eq!(chooser.choose(29.0, true), 0);
    }

    #[test]
    fn words_print_back_and_wrong_ones_are_refused_at_their_place() {
        for line in ["hd", "uhd", "1Mbit", "500Kbit 1Mbit 2.5Mbit"] {
            assert_eq!(ladder(line).to_string(), line);
        }
        for (line, at) in [
            ("", ""),
            ("4k", "4k"),
            ("0bit", "0bit"),
            ("1Mbit fast", "fast"),
            ("2Mbit 1Mbit", "1Mbit"),
            ("2Mbit 2Mbit", "2Mbit"),
        ] {
            let error = Ladder::parse(&mut Words::new(line)).expect_err(line);
            assert_eq!(&line[error.span.clone()], at, "{line}: {error}");
        }
    }
}
