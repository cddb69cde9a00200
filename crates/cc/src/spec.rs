//! The words that name an algorithm and its parameters.

use std::fmt;

use narrows_core::TelemetryField;
use narrows_units::{WordError, Words, alternatives};

use crate::ffi::{Algorithm, Params};
use crate::options::OptionError;

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
#[derive(Clone, PartialEq, Eq)]
pub struct ControlSpec {
    pub(crate) params: Params,
}

/// `NW_WANTS_FQ` and its like (`enum nw_need` of kernel/nw_cc.h).
const NEEDS_ECN: u32 = 1;
const NEEDS_ACCECN: u32 = 2;
const NEEDS_ECT1: u32 = 4;
const WANTS_FQ: u32 = 8;

/// The names of the algorithms that there are, in alphabetical order. Those of
/// tests are known in their builds and not among these.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = Algorithm::all(false).map(Algorithm::name).collect();
    names.sort_unstable();
    names
}

/// Every field of telemetry that some algorithm reports, or that follows from it
/// ([`Reference`](crate::Reference)), each once.
pub fn telemetry() -> Vec<TelemetryField> {
    let mut fields: Vec<_> = Algorithm::all(false).flat_map(Algorithm::fields).collect();
    fields.extend(crate::reference::FIELDS);
    fields.sort_unstable_by_key(|f| (f.name, f.unit));
    fields.dedup_by_key(|f| (f.name, f.unit));
    fields
}

impl ControlSpec {
    /// Reads a line of words.
    ///
    /// # Errors
    /// On an unknown algorithm, an unknown word, or a value out of range.
    pub fn parse(words: &str) -> Result<Self, WordError> {
        let mut words = Words::new(words);
        let known = || alternatives(&names());
        let name = words.take().ok_or_else(|| words.ended(known()))?;
        let mut all = Algorithm::all(false).chain(Algorithm::all(true));
        let algorithm = all.find(|a| a.name() == name.text).ok_or_else(|| {
            WordError::new(
                name.span(),
                format!("the algorithm `{}`", name.text),
                known(),
            )
        })?;
        let mut params = Params::new(algorithm);
        params.read(&mut words)?;
        Ok(Self { params })
    }

    /// Reno, which takes the place of what cannot run.
    pub(crate) fn reno() -> Self {
        let mut all = Algorithm::all(false);
        let reno = all.find(|a| a.name() == "reno").expect("reno is listed");
        Self {
            params: Params::new(reno),
        }
    }

    /// The algorithm's name.
    pub fn name(&self) -> &'static str {
        self.params.algorithm().name()
    }

    /// What it wants negotiated.
    pub fn needs(&self) -> Needs {
        let needs = self.params.needs();
        Needs {
            ecn: needs & NEEDS_ECN != 0,
            accecn: needs & NEEDS_ACCECN != 0,
            ect1: needs & NEEDS_ECT1 != 0,
        }
    }

    /// Whether it is made for hosts with the fq queueing discipline, where packets
    /// leave TCP at once and wait for their time below it.
    pub fn wants_fq(&self) -> bool {
        self.params.needs() & WANTS_FQ != 0
    }

    /// The value of the option `name`, in the unit that it has: microseconds,
    /// bytes, or the place of a word among its choices.
    pub fn option(&self, name: &str) -> Option<u64> {
        self.params.named(name)
    }

    /// Sets the option `name`, as for a connection that is not established yet.
    ///
    /// # Errors
    /// [`OptionError`].
    pub fn set_option(&mut self, name: &str, value: u64) -> Result<(), OptionError> {
        self.params.set_named(name, value, false)
    }

    /// The same for a connection that is established.
    ///
    /// # Errors
    /// [`OptionError`].
    pub fn change_option(&mut self, name: &str, value: u64) -> Result<(), OptionError> {
        self.params.set_named(name, value, true)
    }

    /// What it reports of itself.
    pub fn telemetry(&self) -> Vec<TelemetryField> {
        self.params.algorithm().fields().collect()
    }

    /// Bytes of state of a connection.
    pub fn state_size(&self) -> usize {
        self.params.algorithm().state_size()
    }

    /// `struct nw_NAME_params` of the algorithm's header, byte for byte in this
    /// machine's order: what a kernel that runs the same C needs of a spec.
    pub fn parameter_block(&self) -> Vec<u8> {
        self.params.bytes()
    }
}

impl ControlSpec {
    /// The same algorithm with the options that a block of
    /// [`parameter_block`](Self::parameter_block)'s form has; those of this spec
    /// where it has none that could be.
    #[must_use]
    pub fn with_parameter_block(&self, block: &[u8]) -> Self {
        let mut params = self.params.clone();
        params.read_block(block);
        Self { params }
    }
}

impl fmt::Display for ControlSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.params.write(f)
    }
}

impl fmt::Debug for ControlSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ControlSpec({self})")
    }
}

narrows_units::written_as_words!(ControlSpec);

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
            ("vegas alpha 2", "vegas"),
            (
                "vegas difference paper beta 16 alpha 16",
                "vegas alpha 16 beta 16 difference paper",
            ),
            ("dctcp alpha_on_init 0", "dctcp alpha_on_init 0"),
            ("ledbat target 0.1s", "ledbat"),
            (
                "ledbat slow_start on target 25ms",
                "ledbat target 25ms slow_start on",
            ),
            ("ledbatpp slowdown off", "ledbatpp slowdown off"),
            ("dalbe", "dalbe over vegas"),
            (
                "dalbe kp 500 size 100Mb deadline 1min policy mbc over cubic",
                "dalbe over cubic policy mbc deadline 60s size 104857600",
            ),
            (
                "dalbe over vegas mode reproduction interval 13s rise 1000 alpha 8",
                "dalbe over vegas interval 13s mode reproduction rise 1000 alpha 8",
            ),
        ] {
            let spec = ControlSpec::parse(words).unwrap();
            assert_eq!(spec.to_string(), canonical);
            assert_eq!(ControlSpec::parse(canonical).unwrap(), spec);
            assert_eq!(canonical.parse(), Ok(spec));
        }
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_place() {
        for (words, at) in [
            ("", 0..0),
            ("bbr2", 0..4),
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
            ("vegas alpha 0", 12..13),
            ("vegas difference both", 17..21),
            ("dctcp shift_g 11", 14..16),
            ("ledbat gain 1025", 12..16),
            ("ledbat++", 0..8),
            ("dalbe over prague", 11..17),
            ("dalbe policy pd", 13..15),
            ("dalbe kp 100001", 9..15),
            ("dalbe deadline", 14..14),
            ("dalbe interval 1us", 15..18),
            ("prague mutant rounds", 7..13),
            ("prague ecn_fallback on", 7..19),
            ("prague ecn_fallback detect variant 2024", 7..19),
        ] {
            let error = ControlSpec::parse(words).unwrap_err();
            assert_eq!(error.span, at, "{words}: {error}");
        }
    }

    #[test]
    fn refusals_and_lists_do_not_offer_what_only_tests_have() {
        let error = ControlSpec::parse("x").unwrap_err();
        assert_eq!(
            error.allowed,
            "`bbr`, `cubic`, `dalbe`, `dctcp`, `hybla`, `ledbat`, `ledbatpp`, `prague`, \
             `quickstart`, `relentless`, `reno`, `vegas` or `westwood`"
        );
        assert_eq!(
            names(),
            [
                "bbr",
                "cubic",
                "dalbe",
                "dctcp",
                "hybla",
                "ledbat",
                "ledbatpp",
                "prague",
                "quickstart",
                "relentless",
                "reno",
                "vegas",
                "westwood"
            ]
        );
    }

    #[test]
    fn an_option_is_set_and_read_by_its_name_in_its_own_unit() {
        let mut spec = ControlSpec::parse("prague variant 2022").unwrap();
        assert_eq!(spec.option("variant"), Some(1));
        assert_eq!(spec.set_option("rtt_target", 10_000), Ok(()));
        assert_eq!(spec.to_string(), "prague variant 2022 rtt_target 10ms");
        let refused = |result: Result<(), OptionError>| result.unwrap_err().to_string();
        let unknown = refused(spec.set_option("rtt", 1));
        assert!(unknown.contains("`rtt_transition` or"), "{unknown}");
        let range = refused(spec.set_option("rtt_target", 127));
        assert!(range.contains("from 128us to 1s"), "{range}");
        let clash = refused(
            ControlSpec::parse("prague")
                .unwrap()
                .set_option("ecn_fallback", 1),
        );
        assert!(clash.contains("variant 2024 has no fall-back"), "{clash}");
        assert!(spec.change_option("rtt_control", 3).is_ok());
        let late = refused(spec.change_option("variant", 0));
        assert!(late.contains("established"), "{late}");
        assert_eq!(
            spec.option("rtt_control"),
            Some(3),
            "what was refused left it"
        );
    }

    #[test]
    fn the_parameter_block_is_what_the_c_side_reads() {
        let word = |block: &[u8], i: usize| {
            let bytes = block[4 * i..][..4].try_into().unwrap();
            u32::from_ne_bytes(bytes)
        };
        // Places in struct nw_cubic_params and struct nw_prague_params.
        let cubic = ControlSpec::parse("cubic beta 700 initial_ssthresh 9").unwrap();
        let block = cubic.parameter_block();
        assert_eq!((word(&block, 5), word(&block, 7)), (700, 9));
        assert_eq!(word(&block, 9), 8 * (1024 + 700) / 3 / (1024 - 700));
        let prague = ControlSpec::parse("prague variant 2020 rtt_target 20ms").unwrap();
        let block = prague.parameter_block();
        assert_eq!(
            [0, 1, 2, 3, 6].map(|i| word(&block, i)),
            [0, 0, 20_000, 500, 20]
        );
        assert_eq!(
            ControlSpec::parse("reno").unwrap().parameter_block(),
            [0; 4]
        );
    }

    #[test]
    fn only_prague_asks_for_l4s_and_dctcp_and_relentless_for_feedback_that_counts() {
        let l4s = Needs {
            ecn: true,
            accecn: true,
            ect1: true,
        };
        assert_eq!(ControlSpec::parse("prague").unwrap().needs(), l4s);
        let counts = Needs { ect1: false, ..l4s };
        assert_eq!(ControlSpec::parse("dctcp").unwrap().needs(), counts);
        assert_eq!(ControlSpec::parse("relentless").unwrap().needs(), counts);
        for words in [
            "reno", "cubic", "vegas", "ledbat", "ledbatpp", "bbr", "hybla",
        ] {
            assert_eq!(ControlSpec::parse(words).unwrap().needs(), Needs::default());
        }
    }

    #[test]
    fn prague_since_2022_is_made_for_hosts_with_fq() {
        for (words, wants) in [
            ("prague variant 2020", false),
            ("prague variant 2022", true),
            ("prague variant 2024", true),
            ("bbr", false),
            ("cubic", false),
            ("dctcp", false),
        ] {
            let spec = ControlSpec::parse(words).unwrap();
            assert_eq!(spec.wants_fq(), wants, "{words}");
        }
    }

    #[test]
    fn specs_of_different_algorithms_differ_even_where_their_parameters_are_the_same() {
        let of = |name: &str| ControlSpec::parse(name).unwrap();
        let (reno, westwood) = (of("reno"), of("westwood"));
        assert_eq!(reno.parameter_block(), westwood.parameter_block());
        assert_ne!(reno, westwood);
        assert_eq!(reno, of("reno"));
    }
}
