//! The types of lower floors that a plan is made of.

use std::fmt;

use narrows_units::WordError;

/// An element of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementSpec(String);
/// A congestion control.
#[derive(Clone, Debug, PartialEq)]
pub struct Control(String);
/// What an application sends.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic(String);

macro_rules! words {
    ($($t:ident),*) => {$(
        impl $t {
            /// Reads the words.
            ///
            /// # Errors
            /// None yet.
            pub fn parse(line: &str) -> Result<Self, WordError> {
                Ok(Self(line.to_owned()))
            }
        }
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
words!(ElementSpec, Control, Traffic);

/// What is asked for in the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// Nothing.
    #[default]
    Off,
    /// RFC 3168.
    Classic,
    /// Accurate ECN.
    AccEcn,
}

/// How a host treats segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostModel {}
