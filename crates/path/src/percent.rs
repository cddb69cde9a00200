//! Probabilities as tc writes them.

use std::fmt;

use narrows_units::{Draw, Rng, Value};

/// A probability between 0 and 100 %, kept exactly as it was written (up to
/// nine decimals), so that it prints back as itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u64);

/// 1 % in the units of [`Percent`].
const ONE: u64 = 1_000_000_000;

impl Percent {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const HUNDRED: Self = Self(100 * ONE);

    /// Whether it is 0 %.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// What is missing to 100 %.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(100 * ONE - self.0)
    }

    /// The number below which a uniform 32-bit word falls with this
    /// probability; 2³² for "always".
    pub const fn threshold(self) -> u64 {
        (((self.0 as u128) << 32) / (100 * ONE) as u128) as u64
    }

    /// As a fraction of 1, for output and oracles only.
    pub fn fraction(self) -> f64 {
        self.0 as f64 / (100 * ONE) as f64
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / ONE, self.0 % ONE);
        if rest == 0 {
            return write!(f, "{whole}%");
        }
        let digits = format!("{rest:09}");
        write!(f, "{whole}.{}%", digits.trim_end_matches('0'))
    }
}

impl Value for Percent {
    const ALLOWED: &'static str = "a percentage from 0% to 100%, such as 0.1%";

    /// As in tc, the sign may be left out: `1` is one per cent.
    fn parse(word: &str) -> Option<Self> {
        let number = word.strip_suffix('%').unwrap_or(word);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if number.len() > 20 || fraction.len() > 9 || !digits(whole) || !digits(fraction) {
            return None;
        }
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        let rest: u64 = format!("{fraction:0<9}").parse().ok()?;
        let value = whole.checked_mul(ONE)?.checked_add(rest)?;
        (value <= Self::HUNDRED.0).then_some(Self(value))
    }
}

/// Random words whose neighbours resemble each other, as netem makes them:
/// each is `(1 − ρ)` of a fresh uniform word and `ρ` of its predecessor (Linux
/// `net/sched/sch_netem.c`, v6.17). With ρ > 0 the words are no longer
/// uniform, here as there, so a rate of events comes out off its nominal one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Correlated {
    /// The first one has a predecessor that is drawn, too (`init_crandom`).
    last: Option<u32>,
}

impl Correlated {
    /// The next word.
    pub fn draw(&mut self, correlation: Percent, rng: &mut Rng) -> u32 {
        let fresh = Draw::draw_u32(rng);
        if correlation.is_zero() {
            return fresh;
        }
        let last = self.last.unwrap_or_else(|| Draw::draw_u32(rng));
        let rho = correlation.threshold().min(u64::from(u32::MAX));
        let mixed =
            u128::from(fresh) * u128::from((1u64 << 32) - rho) + u128::from(last) * u128::from(rho);
        let word = (mixed >> 32) as u32;
        self.last = Some(word);
        word
    }

    /// Whether an event of probability `chance` happens.
    pub fn happens(&mut self, chance: Percent, correlation: Percent, rng: &mut Rng) -> bool {
        !chance.is_zero() && u64::from(self.draw(correlation, rng)) < chance.threshold()
    }
}

#[cfg(test)]
impl Percent {
    /// The least one below whose threshold `word` is not.
    pub(crate) fn at(word: u64) -> Self {
        let exact = u128::from(word) * u128::from(100 * ONE);
        let percent = Self(exact.div_ceil(1 << 32) as u64);
        assert_eq!(percent.threshold(), word);
        percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_happens_below_its_threshold_and_not_at_it() {
        for seed in 0..20 {
            let word = u64::from(Rng::for_name(seed, "word").draw_u32());
            let happens = |chance| {
                let mut rng = Rng::for_name(seed, "word");
                Correlated::default().happens(chance, Percent::ZERO, &mut rng)
            };
            assert!(!happens(Percent::at(word)), "{word}");
            assert!(happens(Percent::at(word + 1)), "{word}");
        }
    }

    /// With a correlation of a quarter (`get_crandom` of net/sched/sch_netem.c).
    #[test]
    fn a_correlated_word_has_its_share_of_the_one_before() {
        let (mut rng, mut same) = (Rng::for_name(3, "words"), Rng::for_name(3, "words"));
        let mut words = Correlated::default();
        let quarter = Percent::parse("25%").unwrap();
        let fresh = u64::from(same.draw_u32());
        let mut last = u64::from(same.draw_u32());
        last = (3 * fresh + last) / 4;
        assert_eq!(u64::from(words.draw(quarter, &mut rng)), last);
        for _ in 0..100 {
            last = (3 * u64::from(same.draw_u32()) + last) / 4;
            assert_eq!(u64::from(words.draw(quarter, &mut rng)), last);
        }
    }

    #[test]
    fn a_number_has_at_most_nine_decimals_and_twenty_characters() {
        let one = Percent::parse("1%");
        assert_eq!(Percent::parse("1.000000000%"), one);
        assert_eq!(Percent::parse("00000000000000000001"), one);
        for text in [
            "0.0000000001%",
            "000000000000000000001",
            "+1%",
            "1.+5%",
            "1.5.5%",
        ] {
            assert_eq!(Percent::parse(text), None, "{text}");
        }
    }

    #[test]
    fn prints_what_it_read() {
        for text in ["0%", "1%", "0.1%", "33.333333333%", "100%"] {
            assert_eq!(Percent::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Percent::parse("5"), Percent::parse("5%"));
    }

    /// With a correlation of 1 all words are the first, which is drawn: of many seeds some lose
    /// everything and some nothing.
    #[test]
    fn the_first_of_correlated_words_has_a_drawn_predecessor() {
        let half = Percent::parse("50%").unwrap();
        let lost = (0..1000).filter(|seed| {
            let (mut words, mut rng) = (Correlated::default(), Rng::for_name(*seed, "words"));
            let first = words.happens(half, Percent::HUNDRED, &mut rng);
            assert_eq!(words.happens(half, Percent::HUNDRED, &mut rng), first);
            first
        });
        let lost = lost.count();
        assert!((450..550).contains(&lost), "{lost}");
    }

    #[test]
    fn refuses_what_is_no_probability() {
        for text in ["", "%", "101%", "-1%", "100.000000001%", "1e1%", "x", "."] {
            assert_eq!(Percent::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_threshold_is_exact_at_both_ends() {
        assert_eq!(Percent::ZERO.threshold(), 0);
        assert_eq!(Percent::HUNDRED.threshold(), 1 << 32);
        assert_eq!(Percent::parse("50%").unwrap().threshold(), 1 << 31);
    }

    #[test]
    fn correlation_makes_neighbours_resemble_each_other() {
        // For x' = ρx + (1 − ρ)u the lag-1 autocorrelation is ρ.
        let mut rng = Rng::for_name(1, "correlated");
        let (mut c, rho) = (Correlated::default(), Percent::parse("60%").unwrap());
        let xs: Vec<f64> = (0..20_000)
            .map(|_| f64::from(c.draw(rho, &mut rng)))
            .collect();
        let mean = xs.iter().sum::<f64>() / xs.len() as f64;
        let var: f64 = xs.iter().map(|x| (x - mean) * (x - mean)).sum();
        let cov: f64 = xs.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
        assert!((cov / var - 0.6).abs() < 0.03, "{}", cov / var);
    }
}
