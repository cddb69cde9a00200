//! netem's three ways of losing packets.

use std::fmt;

use narrows_units::{Draw, Rng, WordError, Words};

use crate::percent::{Correlated, Percent};

/// Which packets are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossSpec {
    /// None.
    #[default]
    None,
    /// `loss [random] P [CORRELATION]`.
    Random {
        /// Probability.
        chance: Percent,
        /// How much a draw resembles the one before.
        correlation: Percent,
    },
    /// `loss gemodel P [R [1-H [1-K]]]`: Gilbert-Elliott. The chain moves on
    /// each packet; loss is decided in the state that the packet finds.
    GilbertElliott {
        /// Good to bad.
        p: Percent,
        /// Bad to good; 1 − P unless given.
        r: Percent,
        /// Loss in the bad state; 100 % unless given.
        bad_loss: Percent,
        /// Loss in the good state; 0 % unless given.
        good_loss: Percent,
    },
    /// `loss state P13 [P31 [P32 [P23 [P14]]]]`: 1 gap, received; 2 burst,
    /// received; 3 burst, lost; 4 gap, lost alone.
    FourState {
        /// From 1 to 3.
        p13: Percent,
        /// From 3 to 1; 1 − P13 unless given.
        p31: Percent,
        /// From 3 to 2; 0 % unless given.
        p32: Percent,
        /// From 2 to 3; 100 % unless given.
        p23: Percent,
        /// From 1 to 4; 0 % unless given.
        p14: Percent,
    },
}

/// The next word, if it is a percentage.
pub(super) fn maybe_percent(words: &mut Words<'_>) -> Result<Option<Percent>, WordError> {
    match words.peek() {
        Some(w) if w.text.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            words.value().map(Some)
        }
        _ => Ok(None),
    }
}

impl LossSpec {
    /// Reads what follows `loss`.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        if words.take_if("none") {
            return Ok(Self::None);
        }
        if words.take_if("gemodel") {
            let p: Percent = words.value()?;
            let mut or = |default| Ok(maybe_percent(words)?.unwrap_or(default));
            return Ok(Self::GilbertElliott {
                p,
                r: or(p.complement())?,
                bad_loss: or(Percent::HUNDRED)?,
                good_loss: or(Percent::ZERO)?,
            });
        }
        if words.take_if("state") {
            let p13: Percent = words.value()?;
            let mut or = |default| Ok(maybe_percent(words)?.unwrap_or(default));
            return Ok(Self::FourState {
                p13,
                p31: or(p13.complement())?,
                p32: or(Percent::ZERO)?,
                p23: or(Percent::HUNDRED)?,
                p14: or(Percent::ZERO)?,
            });
        }
        words.take_if("random");
        Ok(Self::Random {
            chance: words.value()?,
            correlation: maybe_percent(words)?.unwrap_or_default(),
        })
    }
}

impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => f.write_str("loss none"),
            Self::Random {
                chance,
                correlation,
            } => {
                write!(f, "loss random {chance}")?;
                if correlation.is_zero() {
                    return Ok(());
                }
                write!(f, " {correlation}")
            }
            Self::GilbertElliott {
                p,
                r,
                bad_loss,
                good_loss,
            } => write!(f, "loss gemodel {p} {r} {bad_loss} {good_loss}"),
            Self::FourState {
                p13,
                p31,
                p32,
                p23,
                p14,
            } => write!(f, "loss state {p13} {p31} {p32} {p23} {p14}"),
        }
    }
}

/// The state of a loss model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossState {
    correlated: Correlated,
    at: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Good of Gilbert-Elliott; state 1 of the four.
    #[default]
    Gap,
    /// State 2.
    BurstReceived,
    /// Bad of Gilbert-Elliott; state 3.
    BurstLost,
    /// State 4.
    GapLost,
}

impl LossState {
    /// Whether the next packet is lost.
    pub(super) fn loses(&mut self, spec: &LossSpec, rng: &mut Rng) -> bool {
        match *spec {
            LossSpec::None => false,
            LossSpec::Random {
                chance,
                correlation,
            } => self.correlated.happens(chance, correlation, rng),
            LossSpec::GilbertElliott {
                p,
                r,
                bad_loss,
                good_loss,
            } => {
                let (leaves, next, loses) = match self.at {
                    State::BurstLost => (r, State::Gap, bad_loss),
                    _ => (p, State::BurstLost, good_loss),
                };
                if draw(rng) < leaves.threshold() {
                    self.at = next;
                }
                // A certain answer needs no draw.
                match loses {
                    Percent::ZERO => false,
                    Percent::HUNDRED => true,
                    chance => draw(rng) < chance.threshold(),
                }
            }
            LossSpec::FourState {
                p13,
                p31,
                p32,
                p23,
                p14,
            } => {
                let word = draw(rng);
                let below = |first: Percent, second: Percent| {
                    if word < first.threshold() {
                        0
                    } else if word < first.threshold() + second.threshold() {
                        1
                    } else {
                        2
                    }
                };
                self.at = match self.at {
                    State::Gap => match below(p14, p13) {
                        0 => State::GapLost,
                        1 => State::BurstLost,
                        _ => State::Gap,
                    },
                    State::BurstReceived => match below(p23, Percent::ZERO) {
                        0 => State::BurstLost,
                        _ => State::BurstReceived,
                    },
                    State::BurstLost => match below(p32, p31) {
                        0 => State::BurstReceived,
                        1 => State::Gap,
                        _ => State::BurstLost,
                    },
                    State::GapLost => State::Gap,
                };
                matches!(self.at, State::BurstLost | State::GapLost)
            }
        }
    }
}

fn draw(rng: &mut Rng) -> u64 {
    u64::from(rng.draw_u32())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of a generator, and which of so many packets it loses.
    fn lost(spec: LossSpec, seed: u64, packets: usize) -> Vec<bool> {
        let mut rng = Rng::for_name(seed, "loss");
        let mut state = LossState::default();
        (0..packets).map(|_| state.loses(&spec, &mut rng)).collect()
    }

    fn words(seed: u64) -> [u64; 2] {
        let mut rng = Rng::for_name(seed, "loss");
        [draw(&mut rng), draw(&mut rng)]
    }

    #[test]
    fn a_chance_is_that_of_a_word_below_it() {
        const ZERO: Percent = Percent::ZERO;
        let elliott = |p, good_loss| LossSpec::GilbertElliott {
            p,
            r: ZERO,
            bad_loss: Percent::HUNDRED,
            good_loss,
        };
        let four = |p13, p14| LossSpec::FourState {
            p13,
            p31: ZERO,
            p32: ZERO,
            p23: ZERO,
            p14,
        };
        for seed in 0..20 {
            let [first, second] = words(seed);
            // The second packet finds the state to which the first word leads.
            let bad = |word| lost(elliott(Percent::at(word), ZERO), seed, 2)[1];
            assert!(!bad(first) && bad(first + 1), "{first}");
            let loses = |word| lost(elliott(ZERO, Percent::at(word)), seed, 1)[0];
            assert!(!loses(second) && loses(second + 1), "{second}");
            let burst = |word| lost(four(Percent::at(word), ZERO), seed, 1)[0];
            assert!(!burst(first) && burst(first + 1), "{first}");
            let alone = |word| lost(four(ZERO, Percent::at(word)), seed, 1)[0];
            assert!(!alone(first) && alone(first + 1), "{first}");
        }
    }

    #[test]
    fn a_burst_may_have_received_packets_in_it() {
        let burst = LossSpec::FourState {
            p13: Percent::HUNDRED,
            p31: Percent::ZERO,
            p32: Percent::HUNDRED,
            p23: Percent::HUNDRED,
            p14: Percent::ZERO,
        };
        assert_eq!(lost(burst, 1, 5), [true, false, true, false, true]);
    }
}
