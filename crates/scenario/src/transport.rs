//! What carries a flow, and what its spin bit does.

use std::fmt;

use narrows_quic::model;
use narrows_units::word_for;
use serde::{Serialize, Serializer};

/// The transport under a flow. A flow of datagrams has none, and counts as
/// [`Tcp`](Self::Tcp) here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// Real QUIC, quinn's.
    Quic,
    /// A modelled flow, which shows a path what QUIC or PLUS would show it.
    Modelled(model::ModelSpec),
}

impl Transport {
    /// Those that a word says in full, in the order in which messages name them.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Quic];

    /// The word for it in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
            Self::Modelled(spec) => spec.shape().name(),
        }
    }

    /// The modelled flow, if it is one.
    pub const fn modelled(&self) -> Option<&model::ModelSpec> {
        match self {
            Self::Modelled(spec) => Some(spec),
            Self::Tcp | Self::Quic => None,
        }
    }

    /// Whether it is what a file need not say.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What the spin bit of a QUIC flow does (RFC 9000 §17.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpinUse {
    /// As the flow's seed has it: each end switches it off by chance, as quinn
    /// does.
    #[default]
    Seed,
    /// Both ends spin.
    On,
    /// Neither does: each packet shows a random bit.
    Greased,
}

impl SpinUse {
    /// The words for it in a file, in the order in which messages name them.
    pub(crate) const WORDS: [(&str, Self); 3] = [
        ("seed", Self::Seed),
        ("on", Self::On),
        ("greased", Self::Greased),
    ];

    /// Whether it is what a file need not say.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for SpinUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_for(&Self::WORDS, self))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Modelled(spec) => spec.fmt(f),
            other => f.write_str(other.name()),
        }
    }
}

impl Serialize for Transport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
