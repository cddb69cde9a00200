//! `pi2`: one queue under a PI controller whose output is squared for classic packets.
//!
//! The controller steers the queue's delay with a base probability p′. Classic packets are
//! dropped or marked with p′², scalable ones (ECT(1) and CE) are marked with k·p′, so that the
//! gains of the controller hold at any load and both kinds of flow share one queue.
//!
//! | | `conext-2016` | `rfc9332` |
//! |---|---|---|
//! | who is scalable | ECT(1) and CE, where `ecn` is on | no packet: all are classic |
//! | decided | as a packet comes | as it leaves |
//! | drawn | p′ compared with two random numbers | deterministic, evenly spread (`recur`) |
//! | ECN-capable packets beyond 1/k² | marked on; p′ stops at 1/k | dropped |
//!
//! Sources: De Schepper, Bondarenko, Tsang, Briscoe, "PI²: A Linearized AQM for both Classic
//! and Scalable TCP", CoNEXT 2016; the classic side of RFC 9332 Appendix A. The paper's text
//! leaves open when a packet is judged; PIE, on which its code is built, does so as it comes.

use narrows_core::{Backlog, DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Draw, Duration, Instant, Parameter, ParameterKind, Rng, Value, Word, WordError, Words,
};
use narrows_wire::{Ecn, ip};

use crate::dualpi2::DualPi2Config;
use crate::dualpi2::config::{GAIN_ALLOWED, TIME_ALLOWED, gain, time};
use crate::dualpi2::pi::{ONE, Pi};
use crate::dualpi2::{self, recur};
use crate::link_facts::LinkFacts;
use crate::reading::{self, Holds, Parameters, is, packets, read_packets};
use crate::waiting::Waiting;

/// Whose PI2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// The paper of 2016.
    #[default]
    Conext2016,
    /// The classic queue of RFC 9332 Appendix A alone.
    Rfc9332,
}

const VARIANTS: &[(&str, Variant)] = &[
    ("conext-2016", Variant::Conext2016),
    ("rfc9332", Variant::Rfc9332),
];

impl Value for Variant {
    const ALLOWED: &'static str = "conext-2016 or rfc9332";

    fn parse(word: &str) -> Option<Self> {
        let found = VARIANTS.iter().find(|(name, _)| *name == word)?;
        Some(found.1)
    }
}

/// Packets that may wait (the paper's experiments: 40000; Linux's pie 1000, which its code
/// starts from).
const LIMIT: u32 = 1_000;
/// α of the paper in Hz: 5/16.
const ALPHA_2016: f64 = 0.3125;
/// β of the paper in Hz: 50/16.
const BETA_2016: f64 = 3.125;
/// Target of the paper, ms.
const TARGET_2016: Duration = Duration::from_millis(20);
/// T of the paper, ms.
const TUPDATE_2016: Duration = Duration::from_millis(32);
/// k of the paper and of RFC 9332.
const COUPLING: u8 = 2;

/// Parameters of `pi2`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pi2Config {
    /// Whose rules.
    pub variant: Variant,
    /// Packets that may wait.
    pub limit: u32,
    /// Delay that PI steers to.
    pub target: Duration,
    /// Period of PI's update.
    pub tupdate: Duration,
    /// Integral gain in Hz.
    pub alpha: f64,
    /// Proportional gain in Hz.
    pub beta: f64,
    /// k: marking probability of scalable packets over p′.
    pub coupling_factor: u8,
    /// Mark instead of dropping where the packet allows it.
    pub ecn: bool,
}

impl Pi2Config {
    /// The defaults of `variant`.
    pub fn of(variant: Variant) -> Self {
        let (target, tupdate, alpha, beta) = match variant {
            Variant::Conext2016 => (TARGET_2016, TUPDATE_2016, ALPHA_2016, BETA_2016),
            Variant::Rfc9332 => {
                let rfc = DualPi2Config::of(dualpi2::Variant::Rfc9332);
                (rfc.target, rfc.tupdate, rfc.alpha, rfc.beta)
            }
        };
        Self {
            variant,
            limit: LIMIT,
            target,
            tupdate,
            alpha,
            beta,
            coupling_factor: COUPLING,
            ecn: true,
        }
    }

    /// The controller's parameters; its law is the exact one of RFC 9332.
    fn controller(&self) -> DualPi2Config {
        DualPi2Config {
            target: self.target,
            alpha: self.alpha,
            beta: self.beta,
            ..DualPi2Config::of(dualpi2::Variant::Rfc9332)
        }
    }
}

impl Default for Pi2Config {
    fn default() -> Self {
        Self::of(Variant::default())
    }
}

impl Parameters for Pi2Config {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "variant conext-2016|rfc9332",
            ParameterKind::Choice,
            Variant::ALLOWED,
            "conext-2016",
            "Whose rules, which also decides the other defaults; a running queue keeps it",
        ),
        packets("limit PACKETS", "1000", "Packets that may wait"),
        Parameter::new(
            "target TIME",
            ParameterKind::Time,
            TIME_ALLOWED,
            "20ms",
            "Delay that PI steers to",
        ),
        Parameter::new(
            "tupdate TIME",
            ParameterKind::Time,
            TIME_ALLOWED,
            "32ms",
            "Period of PI's update",
        ),
        Parameter::new(
            "alpha ALPHA",
            ParameterKind::Number("Hz"),
            GAIN_ALLOWED,
            "0.3125",
            "Integral gain",
        ),
        Parameter::new(
            "beta BETA",
            ParameterKind::Number("Hz"),
            GAIN_ALLOWED,
            "3.125",
            "Proportional gain",
        ),
        Parameter::new(
            "coupling_factor NUMBER",
            ParameterKind::Number(""),
            "1 to 255",
            "2",
            "k: marking probability of scalable packets over the base probability",
        ),
        Parameter::flag(
            "ecn|noecn",
            "ecn",
            "Whether packets are marked instead of dropped where they allow it",
        ),
    ];

    fn usual(words: &Words<'_>) -> Self {
        let variant = reading::named(words, "variant", Variant::parse);
        Self::of(variant.unwrap_or_default())
    }

    fn values(&self) -> Vec<Holds> {
        vec![
            is(narrows_units::word_for(VARIANTS, &self.variant)),
            is(self.limit),
            is(self.target),
            is(self.tupdate),
            is(self.alpha),
            is(self.beta),
            is(self.coupling_factor),
            Holds::Flag(self.ecn),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "variant" => {
                let usual = self.variant;
                words.value_where(Variant::ALLOWED, |found: &Variant| *found == usual)?;
            }
            "limit" => self.limit = read_packets(words)?,
            "target" => self.target = time(words)?,
            "tupdate" => self.tupdate = time(words)?,
            "alpha" => self.alpha = gain(words)?,
            "beta" => self.beta = gain(words)?,
            "coupling_factor" => {
                self.coupling_factor = words.value_where("1 to 255", |k: &u8| *k > 0)?;
            }
            "ecn" | "noecn" => self.ecn = key.text == "ecn",
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    fn bucket_of(&self, _: Rng, _: &Packet) -> Option<usize> {
        None
    }
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// Classic packets are judged with p′ instead of p′².
    Unsquared,
    /// Scalable packets are judged as classic ones.
    OneKind,
    /// p′ may exceed 1/k.
    Unbounded,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Pi2 {
    config: Pi2Config,
    pi: Pi,
    waiting: Waiting,
    next_update: Instant,
    /// Likelihood gathered by deterministic marking, 2⁻³².
    gathered: u64,
    over_limit: bool,
    rng: Rng,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl Pi2 {
    pub fn new(config: Pi2Config, entity: EntityId, link: LinkFacts, rng: Rng) -> Self {
        Self {
            pi: Pi::new(&config.controller()),
            waiting: Waiting::new(entity, link),
            next_update: Instant::ZERO + config.tupdate,
            gathered: 0,
            over_limit: false,
            rng,
            config,
            #[cfg(test)]
            mutant: None,
        }
    }

    /// 1/k in units of 2⁻³²: where p_S reaches 1 and p_C 1/k².
    fn bound(&self) -> u64 {
        #[cfg(test)]
        if self.mutant == Some(Mutant::Unbounded) {
            return ONE;
        }
        ONE / u64::from(self.config.coupling_factor)
    }

    /// p′ in units of 2⁻³².
    fn base(&self) -> u64 {
        match self.config.variant {
            Variant::Conext2016 => self.pi.probability().min(self.bound()),
            Variant::Rfc9332 => self.pi.probability(),
        }
    }

    fn is_scalable(&self, packet: &Packet) -> bool {
        #[cfg(test)]
        if self.mutant == Some(Mutant::OneKind) {
            return false;
        }
        self.config.ecn
            && self.config.variant == Variant::Conext2016
            && matches!(ip::ecn(&packet.bytes), Ecn::Ect1 | Ecn::Ce)
    }

    fn roll(&mut self, probability: u64) -> bool {
        u64::from(self.rng.draw_u32()) < probability
    }

    /// Whether p′² asks for this classic packet.
    fn squared(&mut self, base: u64) -> bool {
        #[cfg(test)]
        if self.mutant == Some(Mutant::Unsquared) {
            return self.roll(base);
        }
        match self.config.variant {
            Variant::Conext2016 => self.roll(base) && self.roll(base),
            Variant::Rfc9332 => {
                let squared = (u128::from(base) * u128::from(base)) >> 32;
                recur(&mut self.gathered, squared as u64)
            }
        }
    }

    /// Why `packet` is to be dropped, if so; marks it if that is what is due.
    fn judge(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        out: &mut Outlet<'_>,
    ) -> Option<DropCause> {
        let base = self.base();
        if self.is_scalable(packet) {
            if self.roll(base * u64::from(self.config.coupling_factor)) {
                let meter = &mut self.waiting.meter;
                meter.mark(now, packet, MarkCause::Probability, out);
            }
            return None;
        }
        if !self.squared(base) {
            return None;
        }
        let overload = self.config.variant == Variant::Rfc9332 && base >= self.bound();
        let meter = &mut self.waiting.meter;
        if self.config.ecn && !overload && meter.mark(now, packet, MarkCause::Probability, out) {
            return None;
        }
        let capable = self.config.ecn && ip::ecn(&packet.bytes).is_capable();
        Some(match capable {
            true => DropCause::Overload,
            false => DropCause::Probability,
        })
    }

    /// Drops what exceeds a limit that was lowered.
    fn trim(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if std::mem::take(&mut self.over_limit) {
            self.waiting.trim(now, self.config.limit, out);
        }
    }
}

impl Queue for Pi2 {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        self.trim(now, out);
        let refused = if self.waiting.packets() >= self.config.limit {
            Some(DropCause::Overflow)
        } else if self.config.variant == Variant::Conext2016 {
            self.judge(now, &mut packet, out)
        } else {
            None
        };
        if let Some(cause) = refused {
            self.waiting.drop(now, packet, cause, out);
            return false;
        }
        self.waiting.push(now, packet);
        true
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        self.trim(now, out);
        loop {
            let mut packet = self.waiting.pull()?;
            if self.config.variant == Variant::Conext2016 {
                return Some(packet);
            }
            match self.judge(now, &mut packet, out) {
                None => return Some(packet),
                Some(cause) => self.waiting.drop(now, packet, cause, out),
            }
        }
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        self.waiting.next_dequeue(now)
    }

    fn next_tick(&self) -> Option<Instant> {
        Some(self.next_update)
    }

    /// The delay is the age of the packet at the head.
    fn tick(&mut self, now: Instant) {
        let oldest = self.waiting.head();
        let delay = oldest.map_or(0, |p| now.since(p.held_since).as_nanos());
        self.pi.update(delay);
        self.next_update = now + self.config.tupdate;
    }

    fn waiting_mut(&mut self) -> Option<&mut Backlog> {
        Some(&mut self.waiting.meter.counts.backlog)
    }

    fn counts(&self) -> QueueCounts {
        self.waiting.meter.counts
    }

    fn probability(&self) -> f64 {
        self.base() as f64 / ONE as f64
    }

    /// What waits beyond a lower limit is dropped when the queue is next called with
    /// somewhere to report it.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "pi2", words)?;
        self.pi.configure(&self.config.controller());
        self.over_limit = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::Ecn::{Ect0, Ect1, NotEct};

    use super::*;
    use crate::testing::{Bench, ETHERNET, ms};

    const FRAME: u32 = 1514;

    fn queue(words: &str, base: u64, mutant: Option<Mutant>) -> Bench {
        let mut b = Bench::new(words);
        let words = words.strip_prefix("pi2").unwrap();
        let config = reading::fresh::<Pi2Config>(Words::new(words)).unwrap();
        let mut queue = Pi2::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
        queue.pi.set_probability(base);
        queue.mutant = mutant;
        b.queue = Box::new(queue);
        b
    }

    /// Parts of packets that were marked and dropped of 20000 that pass at p′ = `base`.
    fn parts(words: &str, base: f64, ecn: Ecn, mutant: Option<Mutant>) -> (f64, f64) {
        let mut b = queue(words, (base * ONE as f64) as u64, mutant);
        for _ in 0..20_000 {
            b.offer(ms(1), 1, ecn, FRAME);
            b.take(ms(1));
        }
        let part = |n: usize| n as f64 / 20_000.0;
        (part(b.log.marks.len()), part(b.log.drops.len()))
    }

    fn squares_for_classic_packets(mutant: Option<Mutant>) -> bool {
        let (marked, dropped) = parts("pi2", 0.2, NotEct, mutant);
        let (ect0, none) = parts("pi2", 0.2, Ect0, mutant);
        marked == 0.0 && none == 0.0 && [dropped, ect0].iter().all(|p| (p - 0.04).abs() < 0.006)
    }

    fn marks_scalable_packets_with_k_times_p(mutant: Option<Mutant>) -> bool {
        let (marked, dropped) = parts("pi2", 0.2, Ect1, mutant);
        let (three, _) = parts("pi2 coupling_factor 3", 0.2, Ect1, mutant);
        dropped == 0.0 && (marked - 0.4).abs() < 0.02 && (three - 0.6).abs() < 0.02
    }

    fn ends_at_a_quarter(mutant: Option<Mutant>) -> bool {
        let (_, dropped) = parts("pi2", 0.9, NotEct, mutant);
        (dropped - 0.25).abs() < 0.015
    }

    #[test]
    fn the_probabilities_are_those_of_the_paper() {
        assert!(squares_for_classic_packets(None));
        assert!(marks_scalable_packets_with_k_times_p(None));
        assert!(ends_at_a_quarter(None));
        assert!(!squares_for_classic_packets(Some(Mutant::Unsquared)));
        assert!(!marks_scalable_packets_with_k_times_p(Some(
            Mutant::OneKind
        )));
        assert!(!ends_at_a_quarter(Some(Mutant::Unbounded)));
    }

    #[test]
    fn the_classic_side_of_the_rfc_is_deterministic_and_drops_beyond_a_quarter() {
        let words = "pi2 variant rfc9332";
        let (marked, dropped) = parts(words, 0.25, Ect0, None);
        // The first of 16 falls due when the sum exceeds 1, so one of 1250 is still to come.
        let sixteenth = 1_249.0 / 20_000.0;
        assert_eq!((marked, dropped), (sixteenth, 0.0));
        let (marked, dropped) = parts(words, 0.25, Ect1, None);
        assert_eq!((marked, dropped), (sixteenth, 0.0));
        let (marked, dropped) = parts(words, 0.5, Ect0, None);
        assert_eq!((marked, dropped), (0.0, 4_999.0 / 20_000.0));
        let (marked, dropped) = parts("pi2 variant rfc9332 noecn", 0.25, Ect0, None);
        assert_eq!((marked, dropped), (0.0, sixteenth));
    }

    #[test]
    fn the_controller_adds_alpha_and_beta_of_the_paper_each_32_ms() {
        let mut b = Bench::new("pi2");
        b.offer(ms(2), 1, NotEct, FRAME);
        assert_eq!(b.queue.next_tick(), Some(ms(32)));
        b.tick_until(ms(32));
        // 0.3125·(30 − 20) ms + 3.125·30 ms.
        assert!((b.queue.probability() - 0.096_875).abs() < 1e-6);
        assert_eq!(b.queue.next_tick(), Some(ms(64)));
        b.take(ms(40));
        b.tick_until(ms(64));
        // The queue is empty: −0.3125·20 ms − 3.125·30 ms.
        assert_eq!(b.queue.probability(), 0.0);
    }

    #[test]
    fn the_variant_decides_the_defaults_and_stays() {
        let config = |words| reading::fresh::<Pi2Config>(Words::new(words)).unwrap();
        let rfc = config("variant rfc9332");
        assert_eq!((rfc.alpha, rfc.beta), (0.15, 3.0));
        assert_eq!(rfc.target, Duration::from_millis(15));
        assert_eq!(config("").target, Duration::from_millis(20));
        let mut b = Bench::new("pi2");
        assert!(b.queue.change(ms(1), "variant rfc9332").is_err());
        b.queue.change(ms(1), "pi2 target 5ms").unwrap();
    }

    #[test]
    fn the_limit_holds_and_a_lower_one_drops_from_the_head() {
        let mut b = Bench::new("pi2 limit 10");
        let taken = (0..12).filter(|_| b.offer(ms(1), 1, NotEct, FRAME).1);
        assert_eq!(taken.count(), 10);
        b.queue.change(ms(1), "limit 4").unwrap();
        assert_eq!(b.take(ms(1)).unwrap().id, 6);
        assert!(b.log.drops.iter().all(|d| d.2 == DropCause::Overflow));
    }

    #[test]
    fn a_drop_in_place_of_a_mark_is_one_of_overload() {
        for (words, ecn, cause) in [
            ("pi2 variant rfc9332", Ect0, DropCause::Overload),
            ("pi2 variant rfc9332", NotEct, DropCause::Probability),
            ("pi2 variant rfc9332 noecn", Ect0, DropCause::Probability),
            ("pi2 variant rfc9332 noecn", NotEct, DropCause::Probability),
        ] {
            let mut b = queue(words, ONE, None);
            (0..3).for_each(|_| assert!(b.offer(ms(1), 1, ecn, FRAME).1));
            while b.take(ms(1)).is_some() {}
            assert!(!b.log.drops.is_empty(), "{words} {ecn:?}");
            assert!(b.log.drops.iter().all(|d| d.2 == cause), "{words} {ecn:?}");
        }
    }

    #[test]
    fn a_draw_wins_below_the_probability() {
        let q = || {
            let config = Pi2Config::default();
            Pi2::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"))
        };
        let draw = u64::from(q().rng.draw_u32());
        assert!(!q().roll(draw));
        assert!(q().roll(draw + 1));
    }
}
