//! Who decides how fast a flow sends: an algorithm of ours, a kernel's own, or
//! one of quinn's.

use std::fmt;

use narrows_cc::{ControlSpec, Needs};
use narrows_units::{Word, WordError, Words};

/// The prefix of the name of a kernel's algorithm.
const KERNEL: &str = "kernel:";

/// Letters of the longest name: Linux's TCP_CA_NAME_MAX is 16 with the closing
/// zero (include/net/tcp.h).
const LONGEST_NAME: usize = 15;

/// Algorithms of the kernel that ours repeat: the simulator runs ours for them.
const REPEATED: [&str; 2] = ["reno", "cubic"];

/// A flow's congestion control: `prague variant 2020`, `kernel:bbr`,
/// `quic:cubic`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// One of Narrows' own, with its parameters.
    Own(ControlSpec),
    /// The kernel's algorithm of this name, with whatever parameters the
    /// kernel gives it: 1 to 15 of `a` to `z`, `0` to `9` and `_`.
    Kernel(String),
    /// One of quinn's, for flows over QUIC.
    Quic(narrows_quic::QuicControl),
}

impl Control {
    /// Reads a line of words.
    ///
    /// # Errors
    /// On an unknown algorithm of ours, a name that no kernel can have, an
    /// unknown word or a value out of range.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        let first = words.peek();
        if first.is_some_and(|w| w.text.starts_with(narrows_quic::PREFIX)) {
            return narrows_quic::QuicControl::parse(line).map(Self::Quic);
        }
        let Some((word, name)) = first.and_then(|w| Some((w, w.text.strip_prefix(KERNEL)?))) else {
            return ControlSpec::parse(line)
                .map(Self::Own)
                .map_err(|error| offer_kernel(error, first));
        };
        let fits = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(fits) {
            let allowed = format!(
                "the name of a kernel's algorithm, such as kernel:cubic: \
                 1 to {LONGEST_NAME} of a-z, 0-9 and _"
            );
            return Err(word.refused(allowed));
        }
        words.take();
        words.finish("nothing (a kernel's algorithm has the kernel's parameters)")?;
        Ok(Self::Kernel(name.to_owned()))
    }

    /// The algorithm's name alone: `prague`, `bbr`.
    pub fn name(&self) -> &str {
        match self {
            Self::Own(spec) => spec.name(),
            Self::Kernel(name) => name,
            Self::Quic(control) => control.name(),
        }
    }

    /// What it wants negotiated by itself.
    pub fn needs(&self) -> Needs {
        match self {
            Self::Own(spec) => spec.needs(),
            // Linux's dctcp has TCP_CONG_NEEDS_ECN; the L4S team's prague has
            // flags for AccECN and ECT(1) as well.
            Self::Kernel(name) => Needs {
                ecn: matches!(name.as_str(), "dctcp" | "prague"),
                accecn: name == "prague",
                ect1: name == "prague",
            },
            Self::Quic(_) => Needs::default(),
        }
    }

    /// The words, if it is one of ours.
    pub fn own(&self) -> Option<&ControlSpec> {
        match self {
            Self::Own(spec) => Some(spec),
            Self::Kernel(_) | Self::Quic(_) => None,
        }
    }

    /// The kernel's name for it, if it is the kernel's own.
    pub fn kernel(&self) -> Option<&str> {
        match self {
            Self::Own(_) | Self::Quic(_) => None,
            Self::Kernel(name) => Some(name),
        }
    }

    /// Which of quinn's it is, if it is one.
    pub fn quic(&self) -> Option<narrows_quic::QuicControl> {
        match self {
            Self::Own(_) | Self::Kernel(_) => None,
            Self::Quic(control) => Some(*control),
        }
    }

    /// What a simulator runs for it: ours, which for `kernel:reno` and
    /// `kernel:cubic` is the same algorithm with Linux's defaults; nothing for
    /// the kernel's others, nor for quinn's.
    pub fn simulated(&self) -> Option<ControlSpec> {
        match self {
            Self::Own(spec) => Some(spec.clone()),
            Self::Kernel(name) if REPEATED.contains(&name.as_str()) => {
                ControlSpec::parse(name).ok()
            }
            Self::Kernel(_) | Self::Quic(_) => None,
        }
    }
}

/// Says of an algorithm that we do not have that the kernel's may be asked for.
fn offer_kernel(error: WordError, first: Option<Word<'_>>) -> WordError {
    const OF_KERNELS: [&str; 4] = ["bic", "highspeed", "htcp", "illinois"];
    let lower = first.map(|word| word.text.to_ascii_lowercase());
    match lower.as_deref() {
        // Not in capitals.
        Some("bbr") => error.with_help(
            "write `bbr`; `kernel:bbr` is the kernel's own and `quic:bbr` quinn's, which the \
             live engine runs",
        ),
        Some("bbr1" | "bbrv1") => error.with_help("write `bbr variant v1`"),
        Some(name @ ("bbr2" | "bbrv2")) => error.with_help(format!(
            "version 2 is not simulated, and `bbr variant draft-06` is version 3; \
             `kernel:{name}` is that of a kernel which has it, for the live engine"
        )),
        Some(name @ ("bbr3" | "bbrv3")) => error.with_help(format!(
            "write `bbr variant draft-06` or `bbr variant linux-v3`; `kernel:{name}` is that \
             of a kernel which has it, for the live engine"
        )),
        Some(name) if OF_KERNELS.contains(&name) => error.with_help(format!(
            "write `kernel:{name}` for the kernel's own, which the live engine runs"
        )),
        _ => error,
    }
}

impl From<ControlSpec> for Control {
    fn from(spec: ControlSpec) -> Self {
        Self::Own(spec)
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(spec) => spec.fmt(f),
            Self::Kernel(name) => write!(f, "{KERNEL}{name}"),
            Self::Quic(control) => control.fmt(f),
        }
    }
}

narrows_units::written_as_words!(Control);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_algorithm_is_its_name_and_comes_back_as_written() {
        for name in ["cubic", "bbr", "a", "dctcp", "x_2", "abcdefghijklmno"] {
            let words = format!("kernel:{name}");
            let control = Control::parse(&format!(" {words} ")).unwrap();
            assert_eq!(control.kernel(), Some(name));
            assert_eq!(control.own(), None);
            assert_eq!(control.to_string(), words);
        }
        let ours = Control::parse("prague variant 2020").unwrap();
        assert_eq!((ours.kernel(), ours.name()), (None, "prague"));
    }

    #[test]
    fn what_no_kernel_can_register_is_refused_with_its_place() {
        for (words, at) in [
            ("kernel:", 0..7),
            ("kernel:Cubic", 0..12),
            ("kernel:abcdefghijklmnop", 0..23),
            ("kernel:a-b", 0..10),
            (" kernel:cubic hystart off", 14..21),
            ("kernel", 0..6),
        ] {
            let error = Control::parse(words).unwrap_err();
            assert_eq!(error.span, at, "{words}: {error}");
        }
    }

    #[test]
    fn a_simulator_has_our_algorithm_for_what_ours_repeat_and_for_no_other() {
        for name in REPEATED {
            let kernel = Control::parse(&format!("kernel:{name}")).unwrap();
            assert_eq!(kernel.simulated(), Some(ControlSpec::parse(name).unwrap()));
        }
        assert_eq!(Control::parse("kernel:bbr").unwrap().simulated(), None);
        assert_eq!(Control::parse("kernel:prague").unwrap().simulated(), None);
    }

    #[test]
    fn an_algorithm_that_only_kernels_have_is_offered_as_the_kernels() {
        for (words, help) in [
            ("htcp", "`kernel:htcp`"),
            ("BBR", "`kernel:bbr`"),
            ("bbr3", "`bbr variant draft-06`"),
            ("bbrv1", "`bbr variant v1`"),
        ] {
            let error = Control::parse(words).unwrap_err();
            assert!(error.help.unwrap().contains(help), "{words}");
        }
        assert_eq!(Control::parse("cubik").unwrap_err().help, None);
    }
}
