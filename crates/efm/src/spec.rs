//! The words for signals and their rules: `d+q`, `s spin naive`,
//! `d delay thesis tmax 225ms`.

use std::fmt;

use narrows_units::{Duration, Word, WordError, WordWriter, Words, word_for};
use narrows_wire::{Profile, Signal};

use crate::params::{
    DELAY_DYNAMIC, DELAY_HOLD, DELAY_SKIP_SACK, SPIN_NAIVE, SignalParams, VEC_HOLD,
};

/// What SYNs say of the signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// Each side announces what it marks, and marks it.
    Always,
    /// The responder answers with what it supports of what was offered.
    Negotiate,
    /// SYNs stay as they are; both sides mark.
    Never,
}

/// Which packets set the spin value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinRule {
    /// Every packet, as in the thesis.
    Naive,
    /// Those newer than all before (RFC 9506 §2.1).
    Rfc,
}

/// Whose delay bit it is: what is not said has this one's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayRule {
    /// The thesis's: T_Max 100 ms, no threshold, none beside SACK blocks.
    Thesis,
    /// RFC 9506 §2.2: T_Max of the RTT and at most 1 s, threshold 1 ms.
    Rfc,
}

const ANNOUNCE: [(&str, Announce); 3] = [
    ("always", Announce::Always),
    ("negotiate", Announce::Negotiate),
    ("never", Announce::Never),
];
const SPIN: [(&str, SpinRule); 2] = [("rfc", SpinRule::Rfc), ("naive", SpinRule::Naive)];
const DELAY: [(&str, DelayRule); 2] = [("rfc", DelayRule::Rfc), ("thesis", DelayRule::Thesis)];
const SWITCH: [(&str, bool); 2] = [("off", false), ("on", true)];
/// Whether packets with SACK blocks are skipped.
const SACK: [(&str, bool); 2] = [("mark", false), ("skip", true)];

const KEYS: &str = "`announce`, `spin`, `vec_hold`, `delay`, `tmax`, `dynamic`, `hold`, `sack`, \
                    `n` or `threshold`";

/// RFC 9506 §2.2.2, and the same for a valid edge (draft-trammell-quic-spin-03).
const HOLD: Duration = Duration::from_millis(1);
/// The block length that RFC 9506 §3.2.1 recommends.
const N: u32 = 64;
/// Packets of the next block that end one: Spindump's reorder threshold.
const THRESHOLD: u32 = 10;

/// Signals and the rules by which they are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalSpec {
    profile: Profile,
    announce: Announce,
    spin: SpinRule,
    vec_hold: Option<Duration>,
    delay: Delay,
    n: u32,
    threshold: u32,
}

/// The delay bit's rules, all resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delay {
    rule: DelayRule,
    t_max: Duration,
    dynamic: bool,
    hold: Option<Duration>,
    skip_sack: bool,
}

impl Delay {
    const fn of(rule: DelayRule) -> Self {
        match rule {
            DelayRule::Thesis => Self {
                rule,
                t_max: Duration::from_millis(100),
                dynamic: false,
                hold: None,
                skip_sack: true,
            },
            DelayRule::Rfc => Self {
                rule,
                t_max: Duration::from_secs(1),
                dynamic: true,
                hold: Some(HOLD),
                skip_sack: false,
            },
        }
    }
}

impl SignalSpec {
    /// `profile` by the rules of the RFC.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            announce: default_announce(profile),
            spin: SpinRule::Rfc,
            vec_hold: Some(HOLD),
            delay: Delay::of(DelayRule::Rfc),
            n: N,
            threshold: THRESHOLD,
        }
    }

    /// Reads a line of words: a profile, then keys with values.
    ///
    /// # Errors
    /// On an unknown word, a value out of range, or a key of a signal that the
    /// profile does not have.
    pub fn parse(words: &str) -> Result<Self, WordError> {
        let mut words = Words::new(words);
        let mut spec = Self::new(words.value()?);
        let mut read = Read::default();
        while let Some(key) = words.take() {
            read.key(key, &mut words, spec.profile)?;
        }
        let mut delay = Delay::of(read.delay.unwrap_or(DelayRule::Rfc));
        delay.t_max = read.t_max.unwrap_or(delay.t_max);
        delay.dynamic = read.dynamic.unwrap_or(delay.dynamic);
        delay.hold = read.hold.unwrap_or(delay.hold);
        delay.skip_sack = read.skip_sack.unwrap_or(delay.skip_sack);
        spec.delay = delay;
        spec.announce = read.announce.unwrap_or(spec.announce);
        spec.spin = read.spin.unwrap_or(spec.spin);
        spec.vec_hold = read.vec_hold.unwrap_or(spec.vec_hold);
        spec.n = read.n.unwrap_or(spec.n);
        spec.threshold = match read.threshold {
            None => spec.threshold,
            Some((_, threshold)) if threshold < spec.n / 2 => threshold,
            Some((word, threshold)) => {
                let allowed = format!("less than half of the {} packets of a block", spec.n);
                return Err(WordError::new(word, format!("`{threshold}`"), allowed));
            }
        };
        Ok(spec)
    }

    /// Its signals.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// What SYNs say of them.
    pub fn announce(&self) -> Announce {
        self.announce
    }

    /// Which packets set the spin value.
    pub fn spin(&self) -> SpinRule {
        self.spin
    }

    /// Whose delay bit it is.
    pub fn delay(&self) -> DelayRule {
        self.delay.rule
    }

    /// T_Max of the delay bit, or its upper bound where it follows the RTT.
    pub fn t_max(&self) -> Duration {
        self.delay.t_max
    }

    /// Packets in a Q block, a power of two.
    pub fn block(&self) -> u32 {
        self.n
    }

    /// Whether a socket must report what it has lost, or how many CE marks it was notified of.
    pub fn needs_socket(&self) -> bool {
        self.profile.has(Signal::Loss) || self.profile.has(Signal::EcnEcho)
    }

    /// Whether its signals count packets on the wire, so that a packet which
    /// segmentation will cut cannot carry them. All but the spin bit do.
    pub fn counts_packets(&self) -> bool {
        !(self.profile.is_none() || self.profile.bits() == Signal::Spin as u8)
    }

    /// As the state machines want it.
    pub fn params(&self) -> SignalParams {
        let micros = |d: Duration| (d.as_nanos() / 1000) as u32;
        let rules = [
            (self.spin == SpinRule::Naive, SPIN_NAIVE),
            (self.delay.dynamic, DELAY_DYNAMIC),
            (self.delay.hold.is_some(), DELAY_HOLD),
            (self.delay.skip_sack, DELAY_SKIP_SACK),
            (self.vec_hold.is_some(), VEC_HOLD),
        ];
        SignalParams {
            t_max_us: micros(self.delay.t_max),
            hold_us: self.delay.hold.map_or(0, micros),
            vec_hold_us: self.vec_hold.map_or(0, micros),
            q_shift: self.n.trailing_zeros(),
            r_threshold: self.threshold,
            signals: self.profile.bits(),
            announce: match self.announce {
                Announce::Always => 0,
                Announce::Negotiate => 1,
                Announce::Never => 2,
            },
            rules: rules.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum(),
            unused: 0,
        }
    }
}

fn default_announce(profile: Profile) -> Announce {
    match profile.code() {
        Some(_) => Announce::Always,
        None => Announce::Never,
    }
}

/// What a line sets, as far as it was read.
#[derive(Default)]
struct Read {
    announce: Option<Announce>,
    spin: Option<SpinRule>,
    vec_hold: Option<Option<Duration>>,
    delay: Option<DelayRule>,
    t_max: Option<Duration>,
    dynamic: Option<bool>,
    hold: Option<Option<Duration>>,
    skip_sack: Option<bool>,
    n: Option<u32>,
    threshold: Option<(std::ops::Range<usize>, u32)>,
}

impl Read {
    fn key(
        &mut self,
        key: Word<'_>,
        words: &mut Words<'_>,
        profile: Profile,
    ) -> Result<(), WordError> {
        let needed = match key.text {
            "announce" => None,
            "spin" => Some((Signal::Spin, "s")),
            "vec_hold" => Some((Signal::Vec, "vec")),
            "delay" | "tmax" | "dynamic" | "hold" | "sack" => Some((Signal::Delay, "d")),
            "n" => Some((Signal::Square, "q")),
            "threshold" => Some((Signal::Reflection, "r")),
            _ => return Err(key.refused(KEYS)),
        };
        if let Some((_, word)) = needed.filter(|(signal, _)| !profile.has(*signal)) {
            let found = format!("`{}` beside the profile {profile}", key.text);
            let allowed = format!("a profile with {word}");
            return Err(WordError::new(key.span(), found, allowed));
        }
        match key.text {
            "announce" => {
                let at = words.peek();
                let how = words.one_of(&ANNOUNCE)?;
                if how != Announce::Never && profile.code().is_none() {
                    let span = at.map_or(key.span(), |w| w.span());
                    let found = format!("an announcement of {profile}, which has no code");
                    return Err(WordError::new(span, found, "`never`"));
                }
                once(key, &mut self.announce, how)
            }
            "spin" => once(key, &mut self.spin, words.one_of(&SPIN)?),
            "vec_hold" => once(key, &mut self.vec_hold, threshold_time(words)?),
            "delay" => once(key, &mut self.delay, words.one_of(&DELAY)?),
            "tmax" => {
                // Below 1 ms no RTT fits; above 1 min a lost sample is replaced too late
                // to be of use.
                let range = Duration::from_millis(1)..=Duration::from_secs(60);
                let allowed = "a time from 1ms to 60s, such as 225ms";
                let t_max = words.value_where(allowed, |t| range.contains(t))?;
                once(key, &mut self.t_max, t_max)
            }
            "dynamic" => once(key, &mut self.dynamic, words.one_of(&SWITCH)?),
            "hold" => once(key, &mut self.hold, threshold_time(words)?),
            "sack" => once(key, &mut self.skip_sack, words.one_of(&SACK)?),
            "n" => {
                // RFC 9506 §3.2.1: at least 64 and a power of two. Longer blocks than
                // 16,384 show nothing within a minute.
                let fits = |n: &u32| n.is_power_of_two() && (64..=16_384).contains(n);
                let n = words.value_where("a power of two from 64 to 16384", fits)?;
                once(key, &mut self.n, n)
            }
            _ => {
                let span = words.peek().map_or(key.span(), |w| w.span());
                let allowed = "a number of packets from 1, below half of a block";
                let value = words.value_where(allowed, |n| (1..8192).contains(n))?;
                once(key, &mut self.threshold, (span, value))
            }
        }
    }
}

/// `off`, or the longest time that something may wait.
fn threshold_time(words: &mut Words<'_>) -> Result<Option<Duration>, WordError> {
    if words.take_if("off") {
        return Ok(None);
    }
    let allowed = "`off` or a time from 1us to 1s, such as 1ms";
    let range = Duration::from_micros(1)..=Duration::from_secs(1);
    words.value_where(allowed, |t| range.contains(t)).map(Some)
}

/// Keeps the value of `key`, which may be given once.
fn once<T>(key: Word<'_>, slot: &mut Option<T>, value: T) -> Result<(), WordError> {
    match slot.replace(value) {
        Some(_) => Err(key.repeated()),
        None => Ok(()),
    }
}

impl fmt::Display for SignalSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::new(self.profile);
        let rule = Delay::of(self.delay.rule);
        let (announce, spin) = (
            word_for(&ANNOUNCE, &self.announce),
            word_for(&SPIN, &self.spin),
        );
        write!(f, "{}", self.profile)?;
        WordWriter::new(f)
            .stated("announce", announce, word_for(&ANNOUNCE, &plain.announce))
            .stated("spin", spin, word_for(&SPIN, &plain.spin))
            .stated("vec_hold", or_off(self.vec_hold), or_off(plain.vec_hold))
            .stated(
                "delay",
                word_for(&DELAY, &rule.rule),
                word_for(&DELAY, &plain.delay.rule),
            )
            .stated("tmax", self.delay.t_max, rule.t_max)
            .stated(
                "dynamic",
                word_for(&SWITCH, &self.delay.dynamic),
                word_for(&SWITCH, &rule.dynamic),
            )
            .stated("hold", or_off(self.delay.hold), or_off(rule.hold))
            .stated(
                "sack",
                word_for(&SACK, &self.delay.skip_sack),
                word_for(&SACK, &rule.skip_sack),
            )
            .stated("n", self.n, plain.n)
            .stated("threshold", self.threshold, plain.threshold)
            .finish()
    }
}

fn or_off(time: Option<Duration>) -> String {
    time.map_or("off".to_owned(), |t| t.to_string())
}

narrows_units::written_as_words!(SignalSpec);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_canonical_words() {
        for (words, canonical) in [
            ("d", "d"),
            (" d  tmax 1s delay rfc hold 1ms sack mark dynamic on ", "d"),
            ("q+d", "d+q"),
            ("s spin naive", "s spin naive"),
            ("d delay thesis", "d delay thesis"),
            ("d delay thesis tmax 225ms", "d delay thesis tmax 225ms"),
            ("d tmax 0.5s dynamic off", "d tmax 500ms dynamic off"),
            ("d hold off sack skip", "d hold off sack skip"),
            (
                "d delay thesis sack mark hold 1ms",
                "d delay thesis hold 1ms sack mark",
            ),
            ("d+q+r n 128 threshold 32", "d+q+r n 128 threshold 32"),
            ("s+vec vec_hold off", "s+vec vec_hold off"),
            ("d announce negotiate", "d announce negotiate"),
            ("d announce always", "d"),
            ("s+t announce never", "s+t"),
            ("d announce never", "d announce never"),
            ("none", "none"),
        ] {
            let spec = SignalSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"));
            assert_eq!(spec.to_string(), canonical);
            assert_eq!(SignalSpec::parse(canonical), Ok(spec));
        }
    }

    #[test]
    fn wrong_words_are_refused_where_they_stand() {
        for (words, at) in [
            ("", ""),
            ("x", "x"),
            ("d+x", "d+x"),
            ("d spin naive", "spin"),
            ("s tmax 1s", "tmax"),
            ("d n 64", "n"),
            ("q threshold 5", "threshold"),
            ("q n 100", "100"),
            ("q n 32", "32"),
            ("q n 32768", "32768"),
            ("q+r threshold 32", "32"),
            ("q+r threshold 0", "0"),
            ("d tmax 0.5ms", "0.5ms"),
            ("d tmax 2m", "2m"),
            ("d tmax", ""),
            ("d hold 2s", "2s"),
            ("d delay rfc delay rfc", "delay"),
            ("d loud", "loud"),
            ("s+t announce negotiate", "negotiate"),
            ("s+t announce always", "always"),
        ] {
            let error = SignalSpec::parse(words).expect_err(words);
            assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
        }
    }

    #[test]
    fn one_segment_per_packet_is_asked_for_by_all_but_the_spin_bit() {
        let counts = |words: &str| SignalSpec::parse(words).unwrap().counts_packets();
        assert!(!counts("none") && !counts("s"));
        assert!(counts("d") && counts("s+vec") && counts("q") && counts("s+t"));
        assert!(SignalSpec::parse("d+q+l").unwrap().needs_socket());
        assert!(!SignalSpec::parse("d+q+r").unwrap().needs_socket());
    }
}
