//! DA-LBE's law (`kernel/dalbe_law.h`) in double precision, for what fixed point costs.
//!
//! An interval begins with what the control reported of the one before and brings what
//! it reports of itself; from the same, [`DalbeLaw::step`] computes the weight without
//! rounding.

use narrows_core::TelemetryField;

use crate::spec::ControlSpec;

/// The least weight (`dalbe_constants.h`).
const LEAST_W: f64 = 0.05;
/// Within which the bias stays.
const BIAS: (f64, f64) = (1.0 / 8.0, 8.0);
/// Of an error, what is learnt as the model's bias.
const DAMPING: f64 = 0.5;
/// How many times what a limit cut off a goal is not learnt.
const CUT: f64 = 8.0;
/// Of losses, what the improved law ignores at most.
const MOST_IGNORED: f64 = 0.4;
/// Of the time that is left, what makes up for lacks.
const RESERVE: f64 = 1.0 / 20.0;
/// w / (1 - w) from which a price that fades counts no more.
const FADED: f64 = 19.0;
/// The weight from which losses begin to be ignored, all that are to be at 1.
const NEAR_ONE: f64 = 0.95;
/// Where a signed Q2.30 ends, the format of errors.
const MOST_ERROR: f64 = 2.0;

/// Where an unsigned Q2.30 ends, that of goals.
const MOST_GOAL: f64 = 4.0;

/// The telemetry of an interval, in its units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DalbeInterval {
    /// How many have passed.
    pub intervals: f64,
    /// Weight that the interval ended with.
    pub w: f64,
    /// `w` times `phi`; where the price fades by 1 - `w`, and infinite at 1.
    pub mu: f64,
    /// The equivalence factor φ.
    pub phi: f64,
    /// Probability that a loss is ignored.
    pub ignored: f64,
    /// Target rate, Mbit/s.
    pub target: f64,
    /// Achieved rate, Mbit/s.
    pub achieved: f64,
    /// The policy's error.
    pub error: f64,
    /// The policy's sum of errors, seconds.
    pub sum: f64,
    /// What the model is multiplied by.
    pub bias: f64,
    /// Measured price, seconds or a probability.
    pub price: f64,
    /// Price at the target.
    pub model_price: f64,
    /// Bytes left at its end.
    pub remaining: f64,
    /// Seconds left at its end.
    pub left: f64,
    /// Bytes acknowledged in it.
    pub interval_bytes: f64,
    /// Its length, seconds.
    pub interval: f64,
    /// How much of an excess the bias learns, of what it does of a lack.
    pub learns: f64,
}

impl DalbeInterval {
    /// From what a control reports; fields without a value are 0, and μ is infinite.
    pub fn of(reported: impl Iterator<Item = (TelemetryField, i64)>) -> Self {
        let mut all = Self {
            mu: f64::INFINITY,
            ..Self::default()
        };
        for (field, value) in reported {
            all.set(field.name, field.in_units(value));
        }
        all
    }

    /// Takes over `value` of the field `name`, if it is one of these.
    pub fn set(&mut self, name: &str, value: f64) {
        let place = match name {
            "intervals" => &mut self.intervals,
            "w" => &mut self.w,
            "mu" => &mut self.mu,
            "phi" => &mut self.phi,
            "ignored" => &mut self.ignored,
            "target" => &mut self.target,
            "achieved" => &mut self.achieved,
            "error" => &mut self.error,
            "sum" => &mut self.sum,
            "bias" => &mut self.bias,
            "price" => &mut self.price,
            "model_price" => &mut self.model_price,
            "remaining" => &mut self.remaining,
            "left" => &mut self.left,
            "interval_bytes" => &mut self.interval_bytes,
            "interval" => &mut self.interval,
            "learns" => &mut self.learns,
            _ => return,
        };
        *place = value;
    }
}

/// The law with the options of a control.
#[derive(Clone, Copy, Debug)]
pub struct DalbeLaw {
    mbc: bool,
    reproduction: bool,
    incremental: bool,
    /// The price counts ever less as the weight nears 1.
    fades: bool,
    /// Kp, Ki per second, Kd in seconds.
    gains: [f64; 3],
    rise: f64,
    /// Seconds of an interval.
    nominal: f64,
}

/// Whether the control below has a delay for its price: what is named behind `over`.
fn goes_by_delay(spec: &ControlSpec) -> bool {
    let words = spec.to_string();
    let below = words.split_whitespace().skip_while(|w| *w != "over").nth(1);
    matches!(below, Some("vegas" | "ledbat"))
}

impl DalbeLaw {
    /// The law of `spec`, if that is DA-LBE.
    pub fn of(spec: &ControlSpec) -> Option<Self> {
        if spec.name() != "dalbe" {
            return None;
        }
        let option = |name| spec.option(name).map(|value| value as f64);
        Some(Self {
            mbc: spec.option("policy")? == 1,
            reproduction: spec.option("mode")? == 1,
            incremental: spec.option("map")? == 1,
            fades: spec.option("mode")? == 0 && goes_by_delay(spec),
            gains: [
                option("kp")? / 1e3,
                option("ki")? / 1e3,
                option("kd")? / 1e3,
            ],
            rise: option("rise")? / 1e3,
            nominal: option("interval")? / 1e6,
        })
    }

    /// What the interval that followed `before` should have come to: `now` with the
    /// rates, the error, the sum, the bias, the weight, μ and the probability computed.
    /// Its length, its bytes and prices, what is left, what the bias learns, and φ are
    /// taken from `now`.
    pub fn step(&self, before: &DalbeInterval, now: &DalbeInterval) -> DalbeInterval {
        let mut exact = DalbeInterval {
            achieved: now.interval_bytes * 8.0 / 1e6 / now.interval,
            target: 0.0,
            error: before.error,
            sum: before.sum,
            bias: before.bias,
            ..*now
        };
        let mut w = before.w;
        // mu does not jump when phi changes.
        if !self.reproduction && now.phi != before.phi && w > LEAST_W && w < 1.0 {
            let by = before.phi / now.phi;
            w = if self.fades {
                by * w / (1.0 - w + by * w)
            } else {
                by * w
            };
            w = w.clamp(LEAST_W, 1.0);
            exact.sum *= w / before.w;
        }
        exact.w = if now.remaining == 0.0 {
            LEAST_W
        } else if now.left == 0.0 {
            1.0
        } else {
            exact.target = now.remaining * 8.0 / 1e6 / now.left;
            if !self.reproduction {
                exact.target /= 1.0 - RESERVE;
            }
            if exact.achieved == 0.0 {
                w
            } else {
                self.weight(before, &mut exact, w)
            }
        };
        exact.mu = exact.w * now.phi;
        exact.ignored = (1.0 - 1.0 / exact.mu).max(0.0);
        if self.reproduction {
            exact.ignored *= f64::from(u8::from(exact.w == 1.0));
        } else {
            let near = (exact.w - NEAR_ONE) / (1.0 - NEAR_ONE);
            exact.ignored = exact.ignored.min(MOST_IGNORED) * near.max(0.0);
        }
        if self.fades {
            exact.mu /= 1.0 - exact.w;
        }
        exact
    }

    fn weight(&self, before: &DalbeInterval, exact: &mut DalbeInterval, w: f64) -> f64 {
        let (target, achieved) = (exact.target, exact.achieved);
        let of = if self.reproduction {
            achieved
        } else {
            achieved.max(target)
        };
        let bounded = |e: f64| e.clamp(-MOST_ERROR, MOST_ERROR);
        let (relative, goal) = if self.mbc {
            let wanted = match before.target {
                former if self.reproduction && former > 0.0 => former,
                _ => target,
            };
            let relative = (wanted - achieved) / of;
            exact.error = bounded(relative);
            let model = exact.price / exact.model_price / exact.phi;
            let factor = if self.reproduction {
                1.0 + relative
            } else {
                exact.bias
            };
            let r = model * factor;
            let goal = match self.fades {
                true if r >= FADED => 1.0,
                true => FADED * r / (FADED + (FADED - 1.0) * r),
                false => r,
            };
            (relative, goal)
        } else {
            let relative = (target - achieved) / of;
            let seconds = if self.reproduction {
                exact.interval
            } else {
                self.nominal
            };
            let [p, i, d] = self.gains;
            exact.error = bounded(w * relative);
            exact.sum += seconds * exact.error;
            let change = bounded(exact.error - before.error);
            let u = p * exact.error + i * exact.sum + d * change / seconds;
            let u = if self.incremental { w + u } else { u };
            (relative, u.max(0.0))
        };
        // A goal has the range of Q2.30.
        let goal = goal.min(MOST_GOAL);
        let next = goal.min(w + self.rise * goal).clamp(LEAST_W, 1.0);
        if self.mbc {
            let short = relative >= 0.0;
            let held = (goal >= next) == short;
            let cut = (goal - next).abs() / goal.max(next);
            let left = if held {
                (1.0 - CUT * cut).max(0.0)
            } else {
                1.0
            };
            let learns = if short { 1.0 } else { exact.learns };
            let bias = exact.bias * (1.0 + DAMPING * learns * left * relative);
            exact.bias = bias.clamp(BIAS.0, BIAS.1);
        } else if !self.reproduction && self.gains[1] > 0.0 {
            exact.sum -= (goal - next) / self.gains[1];
        }
        next
    }
}
