//! The words that name an algorithm and its parameters.

use std::fmt;

use narrows_units::{Word, WordError, Words};

use crate::cubic::CubicParams;
use crate::ffi::{Params, RenoParams};
use crate::prague::PragueParams;

/// What an algorithm wants negotiated by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// ECN in any form.
    pub ecn: bool,
    /// Accurate ECN feedback (RFC 9768).
    pub accecn: bool,
    /// Its packets carry ECT(1), the L4S identifier (RFC 9331).
    pub ect1: bool,
}

/// An algorithm and its parameters: `reno`, `cubic hystart++`,
/// `prague rtt_control rate rtt_target 25ms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    params: Params,
}

const NAMES: &str = "`cubic`, `prague` or `reno`";

impl Spec {
    /// Percent of `cwnd / srtt` in slow start and after it: Linux's sysctls
    /// tcp_pacing_ss_ratio and tcp_pacing_ca_ratio.
    pub(crate) const LINUX_PACING: (u32, u32) = (200, 120);

    /// Reads a line of words.
    ///
    /// # Errors
    /// On an unknown algorithm, an unknown word, or a value out of range.
    pub fn parse(words: &str) -> Result<Self, WordError> {
        let mut words = Words::new(words);
        let name = words.take().ok_or_else(|| words.ended(NAMES))?;
        let params = match name.text {
            "cubic" => Params::Cubic(CubicParams::parse(&mut words)?),
            "prague" => Params::Prague(PragueParams::parse(&mut words)?),
            "reno" => {
                words.finish("nothing (reno has no parameters)")?;
                Params::Reno(RenoParams::default())
            }
            other => {
                return Err(WordError::new(
                    name.span(),
                    format!("the algorithm `{other}`"),
                    NAMES,
                ));
            }
        };
        Ok(Self { params })
    }

    /// The algorithm's name.
    pub fn name(&self) -> &str {
        self.algorithm()
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self.params {
            Params::Cubic(_) => "cubic",
            Params::Prague(_) => "prague",
            Params::Reno(_) => "reno",
        }
    }

    /// What it wants negotiated.
    pub fn needs(&self) -> Needs {
        match self.params {
            Params::Prague(_) => Needs {
                ecn: true,
                accecn: true,
                ect1: true,
            },
            Params::Cubic(_) | Params::Reno(_) => Needs::default(),
        }
    }

    /// Whether it is made for hosts with the fq queueing discipline, where packets
    /// leave TCP at once and wait for their time below it.
    pub fn wants_fq(&self) -> bool {
        match &self.params {
            Params::Prague(p) => p.wants_fq(),
            Params::Cubic(_) | Params::Reno(_) => false,
        }
    }

    pub(crate) fn pacing_ratios(&self) -> (u32, u32) {
        match self.params {
            Params::Prague(_) => (200, 100),
            Params::Cubic(_) | Params::Reno(_) => Self::LINUX_PACING,
        }
    }

    /// `struct nw_NAME_params` of the algorithm's header, byte for byte in this
    /// machine's order: what a kernel that runs the same C needs of a spec.
    pub fn parameter_block(&self) -> &[u8] {
        self.params.bytes()
    }

    pub(crate) fn params(&self) -> &Params {
        &self.params
    }
}

/// Takes one of `names` as the value of `key`, which may stand once.
pub(crate) fn choose(
    words: &mut Words<'_>,
    key: Word<'_>,
    slot: &mut Option<usize>,
    names: &[&str],
) -> Result<(), WordError> {
    let allowed = format!("one of {}", names.join(", "));
    let word = words.take().ok_or_else(|| words.ended(allowed.as_str()))?;
    let index = names
        .iter()
        .position(|name| *name == word.text)
        .ok_or_else(|| WordError::new(word.span(), format!("`{}`", word.text), allowed))?;
    once(key, slot, index)
}

/// Keeps the value of `key`, which may stand once.
pub(crate) fn once<T>(key: Word<'_>, slot: &mut Option<T>, value: T) -> Result<(), WordError> {
    if slot.replace(value).is_some() {
        let found = format!("`{}` a second time", key.text);
        return Err(WordError::new(key.span(), found, "each word once"));
    }
    Ok(())
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.params {
            Params::Cubic(p) => p.fmt(f),
            Params::Prague(p) => p.fmt(f),
            Params::Reno(_) => f.write_str("reno"),
        }
    }
}

narrows_units::written_as_words!(Spec);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_canonical_words() {
        for (words, canonical) in [
            ("reno", "reno"),
            (" cubic ", "cubic"),
            ("cubic hystart both beta 717 bic_scale 41", "cubic"),
            ("cubic hystart++", "cubic hystart++"),
            ("cubic hystart delay", "cubic hystart delay"),
            (
                "cubic tcp_friendliness off fast_convergence off hystart off initial_ssthresh 100",
                "cubic hystart off fast_convergence off tcp_friendliness off initial_ssthresh 100",
            ),
            ("cubic mutant alpha-one", "cubic mutant alpha-one"),
            ("prague", "prague variant 2024"),
            (
                "prague variant 2020 rtt_control none",
                "prague variant 2020",
            ),
            (
                "prague variant 2020 rtt_control rate rtt_target 25ms rtt_transition 500",
                "prague variant 2020 rtt_control rate",
            ),
            (
                "prague rtt_transition 4 rtt_target 12.5ms variant 2022 ecn_fallback detect",
                "prague variant 2022 rtt_target 12.5ms rtt_transition 4 ecn_fallback detect",
            ),
            (
                "prague variant 2024 rtt_control rate",
                "prague variant 2024",
            ),
            (
                "prague mutant scale variant 2020",
                "prague variant 2020 mutant scale",
            ),
            ("prague mutant rounds", "prague variant 2024 mutant rounds"),
        ] {
            let spec = Spec::parse(words).unwrap();
            assert_eq!(spec.to_string(), canonical);
            assert_eq!(Spec::parse(canonical).unwrap(), spec);
            assert_eq!(canonical.parse(), Ok(spec));
        }
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_place() {
        for (words, at) in [
            ("", 0..0),
            ("bbr", 0..3),
            ("reno beta 1", 5..9),
            ("cubic fast", 6..10),
            ("cubic hystart maybe", 14..19),
            ("cubic hystart both hystart++", 19..28),
            ("cubic beta 0", 11..12),
            ("cubic beta 1024", 11..15),
            ("cubic bic_scale 103", 16..19),
            ("cubic tcp_friendliness", 22..22),
            ("prague rtt_control", 18..18),
            ("prague rtt_control fast", 19..23),
            ("prague rtt_target 25", 18..20),
            ("prague rtt_target 127us", 18..23),
            ("prague rtt_target 1.1s", 18..22),
            ("prague rtt_transition -1", 22..24),
            ("prague variant 2022 variant 2020", 20..27),
            ("prague variant 2021", 15..19),
            ("prague mutant none", 14..18),
            ("prague ecn_fallback on", 7..19),
            ("prague ecn_fallback detect variant 2024", 7..19),
        ] {
            let error = Spec::parse(words).unwrap_err();
            assert_eq!(error.span, at, "{words}: {error}");
        }
    }

    #[test]
    fn refusals_do_not_offer_mutants() {
        for words in ["cubic x", "prague x"] {
            let error = Spec::parse(words).unwrap_err();
            assert!(!error.allowed.contains("mutant"), "{error}");
        }
    }

    #[test]
    fn the_parameter_block_is_what_the_c_side_reads() {
        let word = |block: &[u8], i: usize| {
            let bytes = block[4 * i..][..4].try_into().unwrap();
            u32::from_ne_bytes(bytes)
        };
        let cubic = Spec::parse("cubic beta 700 initial_ssthresh 9").unwrap();
        let block = cubic.parameter_block();
        assert_eq!(block.len(), 48);
        assert_eq!((word(block, 3), word(block, 9)), (700, 9));
        let prague = Spec::parse("prague variant 2020 rtt_target 20ms mutant rounds").unwrap();
        let block = prague.parameter_block();
        assert_eq!(block.len(), 28);
        assert_eq!([0, 3, 6].map(|i| word(block, i)), [20, 20_000, 1]);
        assert_eq!(Spec::parse("reno").unwrap().parameter_block(), [0; 4]);
    }

    #[test]
    fn only_prague_asks_for_l4s() {
        let l4s = Needs {
            ecn: true,
            accecn: true,
            ect1: true,
        };
        assert_eq!(Spec::parse("prague").unwrap().needs(), l4s);
        for words in ["reno", "cubic"] {
            assert_eq!(Spec::parse(words).unwrap().needs(), Needs::default());
        }
    }
}
