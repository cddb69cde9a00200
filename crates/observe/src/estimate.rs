//! What the samples of a flow amount to.

use narrows_wire::Ecn;
use narrows_wire::efm::Signal;

use crate::batches::{BatchCounts, Count, Sums};
use crate::flow::Flow;
use crate::interval::Interval;
use crate::mean::{Mean, RttMeans};
use crate::sample::{Quantity, Side, Technique};
use crate::signals::Signals;
use crate::square::Known;

/// What an estimate's value is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Ms,
    /// A share of 1.
    Ratio,
}

impl Unit {
    /// The word for it in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::Ratio => "ratio",
        }
    }
}

/// How the parameter is known that an estimate rests on: T_Max of the delay
/// bit, N of Q and R.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// It needs none.
    Measured,
    /// The flow has not shown it; the default of RFC 9506 is taken.
    Assumed,
    /// The flow has shown it.
    Learnt,
    /// It was given.
    Pinned,
}

impl Basis {
    /// The word for it in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Assumed => "assumed",
            Self::Learnt => "learnt",
            Self::Pinned => "pinned",
        }
    }
}

impl From<Known> for Basis {
    fn from(known: Known) -> Self {
        match known {
            Known::Assumed => Self::Assumed,
            Known::Learnt => Self::Learnt,
            Known::Pinned => Self::Pinned,
        }
    }
}

/// One estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// How it was found.
    pub technique: Technique,
    /// What it is of.
    pub quantity: Quantity,
    /// A mean round trip, or a rate.
    pub value: f64,
    /// What `value` is in.
    pub unit: Unit,
    /// Holds the truth 95 times in 100; `None` where there is too little to
    /// say. Of a rate, the truth is the rate at which the path loses or marks.
    pub interval: Option<Interval>,
    /// Samples that it rests on: round trips, or packets.
    pub n: u64,
    /// What its technique saw in this flow and did not take.
    pub rejected: u64,
    /// Standard deviation of round trips, in milliseconds.
    pub sd: Option<f64>,
    /// The shortest round trip, in milliseconds.
    pub min: Option<f64>,
    /// Half of the round trips are no longer, in milliseconds, to within 1.6 % where
    /// they are up to 256-fold apart.
    pub median: Option<f64>,
    /// 95 in 100 round trips are no longer; as exact as the median.
    pub p95: Option<f64>,
    /// How its parameter is known.
    pub basis: Basis,
}

impl Estimate {
    /// The same of other round trips: of `samples` in milliseconds, each with how many of
    /// them it stands for, of which `rejected` were not taken. `None` of no sample.
    pub fn of_round_trips(
        &self,
        samples: impl IntoIterator<Item = (f64, u32)>,
        rejected: u64,
    ) -> Option<Self> {
        let mut mean = Mean::default();
        for (ms, weight) in samples {
            mean.add(ms);
            mean.repeat(ms, weight.saturating_sub(1));
        }
        of_mean(&mean, self.quantity, (self.technique, rejected, self.basis))
    }
}

/// All estimates of a flow, round trips first.
pub(crate) fn of(flow: &Flow) -> Vec<Estimate> {
    let mut all = Vec::with_capacity(16);
    flow.estimators.estimates(&mut all);
    if let Some(visible) = &flow.visible {
        let how = (Technique::PsnPse, 0, Basis::Measured);
        of_means(visible.serials.means.as_deref(), how, &mut all);
    }
    if let Some(signals) = &flow.estimators.signals {
        of_signals(signals, &mut all);
    }
    let capable = |side| {
        [Ecn::Ect0, Ecn::Ect1, Ecn::Ce]
            .iter()
            .any(|e| flow.ecn(side, *e) > 0)
    };
    if flow.estimators.signals.as_ref().is_some_and(|m| m.counts())
        || Side::BOTH.into_iter().any(capable)
    {
        flow.with_batches(|batches| rates(flow.estimators.signals.as_deref(), batches, &mut all));
    }
    all
}

/// The technique, what it saw and did not take, and how its parameter is known.
pub(crate) type How = (Technique, u64, Basis);

pub(crate) fn of_mean(
    mean: &Mean,
    quantity: Quantity,
    (technique, rejected, basis): How,
) -> Option<Estimate> {
    let facts = mean.facts()?;
    Some(Estimate {
        technique,
        quantity,
        value: facts.mean,
        unit: Unit::Ms,
        interval: facts.interval,
        n: u64::from(facts.n),
        rejected: rejected + u64::from(facts.overdue),
        sd: Some(facts.sd),
        min: Some(facts.min),
        median: Some(facts.median),
        p95: Some(facts.p95),
        basis,
    })
}

pub(crate) fn of_means(means: Option<&RttMeans>, how: How, all: &mut Vec<Estimate>) {
    let Some(means) = means else { return };
    for side in Side::BOTH {
        all.extend(of_mean(
            &means.full[side.index()],
            Quantity::FullRtt(side),
            how,
        ));
    }
    all.extend(of_mean(&means.left, Quantity::LeftRtt, how));
    all.extend(of_mean(&means.right, Quantity::RightRtt, how));
}

fn of_signals(signals: &Signals, all: &mut Vec<Estimate>) {
    for technique in [
        Technique::Spin,
        Technique::SpinPacketNumber,
        Technique::SpinHeuristic,
        Technique::Vec,
        Technique::VecNonZero,
    ] {
        let rejected = signals
            .spin()
            .map_or(0, |s| u64::from(s.rejected(technique)));
        let how = (technique, rejected, Basis::Measured);
        of_means(signals.means_of(technique), how, all);
    }
    if let Some(delay) = signals.delay() {
        let how = (
            Technique::Delay,
            u64::from(delay.rejected),
            delay.t_max().1.into(),
        );
        of_means(signals.means_of(Technique::Delay), how, all);
    }
}

/// `(a − b) / (1 − b)`: what is lost on the second part of a path on whose
/// first part `b` is lost, and on both `a` (RFC 9506 §3.3.2, §3.4.2).
fn rest(a: f64, b: f64) -> Option<f64> {
    (b < 1.0).then(|| (a - b) / (1.0 - b))
}

/// Loss and marking rates from a ledger.
fn rates(signals: Option<&Signals>, batches: &BatchCounts, all: &mut Vec<Estimate>) {
    let groups = batches.groups();
    let no_wave = (0, Basis::Measured);
    let wave = |side| {
        signals
            .and_then(|m| m.square(side))
            .map_or(no_wave, |w| (u64::from(w.rejected), w.n().1.into()))
    };
    let reflected = |side| {
        signals
            .and_then(|m| m.reflection(side))
            .map_or(no_wave, |w| (u64::from(w.rejected), w.n().1.into()))
    };
    let has = |signal| signals.is_some_and(|m| m.has(signal));
    for side in Side::BOTH {
        let (own, other) = (side.index(), side.other().index());
        let mut add = |technique,
                       quantity,
                       (rejected, basis),
                       trials: f64,
                       rate: &dyn Fn(&Sums) -> Option<f64>| {
            if trials < 1.0 {
                return;
            }
            let Some((value, interval)) = groups.rate(trials, rate) else {
                return;
            };
            all.push(Estimate {
                technique,
                quantity,
                value,
                unit: Unit::Ratio,
                interval: Some(interval),
                n: trials as u64,
                rejected,
                sd: None,
                min: None,
                median: None,
                p95: None,
                basis,
            });
        };
        let n = |s, count| groups.sums.of(s, count);
        let upstream = |s: &Sums, side| s.missing(side, Count::Square);
        let three_quarter = |s: &Sums, side| s.missing(side, Count::Reflection);
        let end_to_end = |s: &Sums| s.share(own, Count::Loss);
        let half = |s: &Sums| rest(three_quarter(s, other)?, upstream(s, own)?);
        if has(Signal::Square) {
            let quantity = Quantity::UpstreamLoss(side);
            add(
                Technique::Square,
                quantity,
                wave(side),
                n(own, Count::Square),
                &|s| upstream(s, own),
            );
        }
        if has(Signal::Loss) {
            let quantity = Quantity::EndToEndLoss(side);
            let trials = n(own, Count::Loss);
            add(Technique::Loss, quantity, no_wave, trials, &end_to_end);
            if has(Signal::Square) {
                let quantity = Quantity::DownstreamLoss(side);
                let trials = trials.min(n(own, Count::Square));
                add(Technique::SquareLoss, quantity, wave(side), trials, &|s| {
                    rest(end_to_end(s)?, upstream(s, own)?)
                });
            }
        }
        if has(Signal::Reflection) {
            // An R block counts for the Q blocks that it averages.
            let trials = n(own, Count::Reflection);
            let quantity = Quantity::ThreeQuarterLoss(side);
            add(
                Technique::Reflection,
                quantity,
                reflected(side),
                trials,
                &|s| three_quarter(s, own),
            );
            // The other side's R is about this side's packets.
            let reflections = n(other, Count::Reflection) > 0.0;
            let trials = if reflections {
                n(own, Count::Square)
            } else {
                0.0
            };
            let how = reflected(side.other());
            add(
                Technique::SquareReflection,
                Quantity::EndToEndLoss(side),
                how,
                trials,
                &|s| rest(three_quarter(s, other)?, upstream(s, other)?),
            );
            add(
                Technique::SquareReflection,
                Quantity::HalfRoundTripLoss(side),
                how,
                trials,
                &half,
            );
            add(
                Technique::SquareReflection,
                Quantity::DownstreamLoss(side),
                how,
                trials,
                &|s| rest(half(s)?, upstream(s, other)?),
            );
        }
        if has(Signal::RoundTripLoss) {
            let rejected = signals
                .and_then(|m| m.trains(side))
                .map_or(0, |t| u64::from(t.rejected));
            let quantity = Quantity::RoundTripLoss(side);
            let how = (rejected, Basis::Measured);
            add(
                Technique::RoundTripLoss,
                quantity,
                how,
                n(own, Count::Train),
                &|s| s.missing(own, Count::Train),
            );
        }
        let upstream_ce = |s: &Sums| s.share(own, Count::Ce);
        let trials = n(own, Count::Ce);
        add(
            Technique::Ecn,
            Quantity::UpstreamCe(side),
            no_wave,
            trials,
            &upstream_ce,
        );
        if has(Signal::EcnEcho) {
            let echoed = |s: &Sums| s.share(own, Count::EcnEcho);
            let packets = n(own, Count::EcnEcho);
            add(
                Technique::EcnEcho,
                Quantity::EndToEndCe(side),
                no_wave,
                packets,
                &echoed,
            );
            add(
                Technique::EcnEcho,
                Quantity::DownstreamCe(side),
                no_wave,
                packets.min(trials),
                &|s| rest(echoed(s)?, upstream_ce(s)?),
            );
        }
    }
}
