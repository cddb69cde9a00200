//! The types of lower floors that a plan is made of.

pub use narrows_cc::Spec as Control;
pub use narrows_tcp::{EcnMode, Gro, HostModel, PacingUse, Segmentation};
pub use standin::{Dscp, EcnWord, ElementSpec, Traffic};

mod standin {
    #![allow(missing_docs, clippy::missing_errors_doc)]
    use narrows_units::{Value, WordError, Words};
    use narrows_wire::Ecn;
    use std::fmt;

    #[derive(Clone, Debug, PartialEq)]
    pub enum ElementSpec {
        Other(String),
        Tap(String),
    }
    impl ElementSpec {
        pub fn parse(line: &str) -> Result<Self, WordError> {
            if let Some(tap) = line.strip_prefix("tap ") {
                return Ok(Self::Tap(tap.to_owned()));
            }
            Ok(Self::Other(line.to_owned()))
        }
        pub fn check_change(&self, _: &str) -> Result<(), WordError> {
            Ok(())
        }
    }
    impl fmt::Display for ElementSpec {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Other(o) => f.write_str(o),
                Self::Tap(o) => write!(f, "tap {o}"),
            }
        }
    }
    #[derive(Clone, Debug, PartialEq)]
    pub struct Traffic(String);
    impl Default for Traffic {
        fn default() -> Self {
            Self("bulk".to_owned())
        }
    }
    impl Traffic {
        pub fn parse(line: &str) -> Result<Self, WordError> {
            Ok(Self(line.to_owned()))
        }
    }
    impl fmt::Display for Traffic {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }
    #[derive(Clone, Copy)]
    pub struct Dscp(pub u8);
    impl Value for Dscp {
        const ALLOWED: &'static str = "a DSCP: 0 to 63, or a name such as cs1, af41, ef, le";
        fn parse(word: &str) -> Option<Self> {
            word.parse().ok().filter(|d| *d < 64).map(Self)
        }
    }
    #[derive(Clone, Copy)]
    pub struct EcnWord(pub Ecn);
    impl Value for EcnWord {
        const ALLOWED: &'static str = "one of not-ect, ect0, ect1, ce";
        fn parse(word: &str) -> Option<Self> {
            Some(Self(match word {
                "not-ect" => Ecn::NotEct,
                "ect1" => Ecn::Ect1,
                "ect0" => Ecn::Ect0,
                "ce" => Ecn::Ce,
                _ => return None,
            }))
        }
    }
    #[allow(unused)]
    fn unused(_: Words<'_>) {}
}
