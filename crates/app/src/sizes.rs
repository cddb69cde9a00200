//! How large what is sent is: a constant, or drawn.

use std::fmt;

use narrows_units::{Bytes, Rng, Value, WordError, Words};

use crate::draw::normal;
use crate::exchange::Ask;

/// The largest spread of a log-normal distribution that is taken, in natural logarithms (our
/// choice): a few draws of a wider one are all of its bytes.
const WIDEST: f64 = 4.0;

/// The largest size that is drawn, in bytes (our choice): no run carries more.
const LARGEST: f64 = 1e12;

/// The smallest size, in bytes: that of a request that says for how many it asks.
const SMALLEST: u64 = Ask::LEN;

const ALLOWED: &str = "a size of at least 24 bytes";

/// The words of sizes.
pub(crate) const SIZES: &str = "constant BYTES, lognormal median BYTES sigma NUMBER, \
     lognormal mean BYTES sigma NUMBER, list BYTES BYTES …, or cdf BYTES:PART BYTES:PART …";

/// A distribution of sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sizes {
    Constant(u64),
    /// Of which the logarithm is normally distributed.
    LogNormal {
        centre: Centre,
        size: u64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// One of these, each as likely as the others.
    List(Vec<u64>),
    /// Empirical: sizes, and which part of all is no larger, linear between them.
    Cdf(Vec<(u64, f64)>),
}

/// What of a log-normal distribution is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Centre {
    Median,
    Mean,
}

const CENTRES: [(&str, Centre); 2] = [("median", Centre::Median), ("mean", Centre::Mean)];

impl Sizes {
    /// Reads the words of sizes.
    ///
    /// # Errors
    /// When they are none.
    pub(crate) fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let word = words.needed(SIZES)?;
        match word.text {
            "constant" => Ok(Self::Constant(size(words)?)),
            "lognormal" => {
                let centre = words.one_of(&CENTRES)?;
                let size = size(words)?;
                if !words.take_if("sigma") {
                    let next = words.needed("sigma NUMBER")?;
                    return Err(next.refused("sigma NUMBER"));
                }
                let allowed = format!("a number above 0, up to {WIDEST}");
                let sigma = words.checked_value(allowed, |s| *s > 0.0 && *s <= WIDEST)?;
                Ok(Self::LogNormal {
                    centre,
                    size,
                    sigma,
                })
            }
            "list" => {
                let mut sizes = vec![size(words)?];
                while words.peek().is_some_and(|w| Bytes::parse(w.text).is_some()) {
                    sizes.push(size(words)?);
                }
                Ok(Self::List(sizes))
            }
            "cdf" => Self::cdf(words),
            _ => Err(word.refused(SIZES)),
        }
    }

    fn cdf(words: &mut Words<'_>) -> Result<Self, WordError> {
        const POINT: &str = "BYTES:PART with at least 24 bytes, both no smaller than in the point \
                             before, and PART 1 in the last";
        let mut points: Vec<(u64, f64)> = Vec::new();
        while points.last().is_none_or(|last| last.1 < 1.0) {
            let word = words.needed(POINT)?;
            let point = word
                .text
                .split_once(':')
                .and_then(|(size, part)| Some((Bytes::parse(size)?.get(), f64::parse(part)?)));
            let before = points.last().copied().unwrap_or((SMALLEST, 0.0));
            let follows = |p: &(u64, f64)| p.0 >= before.0 && p.1 >= before.1 && p.1 <= 1.0;
            points.push(point.filter(follows).ok_or_else(|| word.refused(POINT))?);
        }
        Ok(Self::Cdf(points))
    }

    /// Mean size in bytes.
    pub(crate) fn mean(&self) -> f64 {
        match self {
            Self::Constant(size) => *size as f64,
            Self::LogNormal { sigma, .. } => self.median() * libm::exp(sigma * sigma / 2.0),
            Self::List(sizes) => {
                sizes.iter().map(|s| *s as f64).sum::<f64>() / sizes.len().max(1) as f64
            }
            Self::Cdf(points) => {
                let first = points.first().map_or(0.0, |p| p.0 as f64 * p.1);
                let between = points.windows(2).map(|pair| {
                    let middle = (pair[0].0 as f64 + pair[1].0 as f64) / 2.0;
                    middle * (pair[1].1 - pair[0].1)
                });
                first + between.sum::<f64>()
            }
        }
    }

    /// The median of a log-normal distribution.
    fn median(&self) -> f64 {
        match self {
            Self::LogNormal {
                centre: Centre::Mean,
                size,
                sigma,
            } => *size as f64 * libm::exp(-sigma * sigma / 2.0),
            Self::LogNormal { size, .. } => *size as f64,
            _ => 0.0,
        }
    }

    /// Draws one.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Constant(size) => *size,
            Self::LogNormal { sigma, .. } => {
                let size = self.median() * libm::exp(sigma * normal(rng));
                libm::round(size.clamp(SMALLEST as f64, LARGEST)) as u64
            }
            Self::List(sizes) => {
                let at = rng.below(u32::try_from(sizes.len()).unwrap_or(u32::MAX));
                sizes.get(at as usize).copied().unwrap_or(1)
            }
            Self::Cdf(points) => at_part(points, rng.unit()),
        }
    }
}

/// The size that `part` of all do not exceed.
fn at_part(points: &[(u64, f64)], part: f64) -> u64 {
    let at = points.partition_point(|p| p.1 <= part);
    let Some(above) = points.get(at) else {
        return points.last().map_or(1, |p| p.0);
    };
    let Some(below) = at.checked_sub(1).map(|i| points[i]) else {
        return above.0;
    };
    let share = (part - below.1) / (above.1 - below.1);
    let more = share * (above.0 - below.0) as f64;
    below.0 + libm::round(more) as u64
}

fn size(words: &mut Words<'_>) -> Result<u64, WordError> {
    let size: Bytes = words.checked_value(ALLOWED, |size: &Bytes| size.get() >= SMALLEST)?;
    Ok(size.get())
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(size) => write!(f, "constant {}", Bytes::new(*size)),
            Self::LogNormal {
                centre,
                size,
                sigma,
            } => {
                let centre = narrows_units::word_for(&CENTRES, centre);
                write!(f, "lognormal {centre} {} sigma {sigma}", Bytes::new(*size))
            }
            Self::List(sizes) => {
                f.write_str("list")?;
                sizes
                    .iter()
                    .try_for_each(|s| write!(f, " {}", Bytes::new(*s)))
            }
            Self::Cdf(points) => {
                f.write_str("cdf")?;
                let mut points = points.iter();
                points.try_for_each(|(size, part)| write!(f, " {}:{part}", Bytes::new(*size)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(line: &str) -> Sizes {
        let mut words = Words::new(line);
        let sizes = Sizes::parse(&mut words).unwrap_or_else(|e| panic!("{line}: {e}"));
        words.finish("the end").expect(line);
        assert_eq!(sizes.to_string(), line);
        sizes
    }

    fn draws(sizes: &Sizes) -> Vec<f64> {
        let mut rng = Rng::for_name(1, "app/short/sizes");
        (0..100_000).map(|_| sizes.draw(&mut rng) as f64).collect()
    }

    fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let count = values.len() as f64;
        values.sum::<f64>() / count
    }

    fn near(measured: f64, expected: f64) {
        let error = (measured / expected - 1.0).abs();
        assert!(error < 0.01, "{measured} for {expected}");
    }

    #[test]
    fn log_normal_sizes_have_their_median_mean_and_spread() {
        // Mean e^(σ²/2) medians; the logarithm's mean and deviation are the parameters.
        for (line, median) in [
            ("lognormal median 20000b sigma 1", 20_000.0),
            (
                "lognormal mean 20000b sigma 1",
                20_000.0 / std::f64::consts::E.sqrt(),
            ),
        ] {
            let sizes = sizes(line);
            let drawn = draws(&sizes);
            let mut sorted = drawn.clone();
            sorted.sort_by(f64::total_cmp);
            near(sorted[50_000], median);
            near(mean(drawn.iter().copied()), median * libm::exp(0.5));
            near(sizes.mean(), median * libm::exp(0.5));
            let logs: Vec<f64> = drawn.iter().map(|s| libm::log(*s)).collect();
            let centre = mean(logs.iter().copied());
            near(centre, libm::log(median));
            let square = mean(logs.iter().map(|l| (l - centre) * (l - centre)));
            near(square.sqrt(), 1.0);
        }
    }

    #[test]
    fn empirical_sizes_have_the_distribution_that_was_given() {
        let list = sizes("list 1000b 1000b 4000b");
        let drawn = draws(&list);
        near(mean(drawn.iter().copied()), 2_000.0);
        near(list.mean(), 2_000.0);
        let small = drawn.iter().filter(|s| **s == 1_000.0).count() as f64;
        near(small / 1e5, 2.0 / 3.0);

        // Half are between 1000 and 3000 bytes, evenly; the others up to 11000.
        let cdf = sizes("cdf 1000b:0 3000b:0.5 11000b:1");
        let drawn = draws(&cdf);
        near(mean(drawn.iter().copied()), 4_500.0);
        near(cdf.mean(), 4_500.0);
        let part = |size: f64| drawn.iter().filter(|s| **s <= size).count() as f64 / 1e5;
        near(part(2_000.0), 0.25);
        near(part(3_000.0), 0.5);
        near(part(7_000.0), 0.75);
        assert!(drawn.iter().all(|s| (1_000.0..=11_000.0).contains(s)));
        // What the first point has is of that size.
        let drawn = draws(&sizes("cdf 1000b:0.2 2000b:1"));
        let first = drawn.iter().filter(|s| **s == 1_000.0).count() as f64;
        near(first / 1e5, 0.2);
    }

    #[test]
    fn wrong_words_are_refused_at_their_place() {
        for (line, at) in [
            ("", ""),
            ("many", "many"),
            ("constant 0", "0"),
            ("lognormal 3kb", "3kb"),
            ("lognormal median 0b sigma 1", "0b"),
            ("lognormal median 3kb", ""),
            ("lognormal median 3kb spread 1", "spread"),
            ("lognormal median 3kb sigma 0", "0"),
            ("lognormal median 3kb sigma -1", "-1"),
            ("lognormal mean 3kb sigma 9", "9"),
            ("list", ""),
            ("list 0", "0"),
            ("cdf", ""),
            ("cdf 1000", "1000"),
            ("cdf 1000:0.5", ""),
            ("cdf 1000:0.5 900:1", "900:1"),
            ("cdf 1000:0.5 2000:0.4", "2000:0.4"),
            ("cdf 1000:1.5", "1000:1.5"),
            ("cdf 0:0 1000:1", "0:0"),
            ("constant 23", "23"),
            ("list 24 2 30", "2"),
            ("lognormal mean 23b sigma 1", "23b"),
            ("cdf 23:0.1 1000:1", "23:0.1"),
        ] {
            let error = Sizes::parse(&mut Words::new(line)).expect_err(line);
            assert_eq!(&line[error.span.clone()], at, "{line}: {error}");
        }
    }
}
