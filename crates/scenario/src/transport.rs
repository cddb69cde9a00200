//! What carries what applications send, with the options that it has; what a spin bit does.

use std::fmt;

use narrows_cc::Needs;
use narrows_quic::{QuicControl, model};
use narrows_units::word_for;
use serde::Serialize;
use serde::ser::SerializeMap;

use crate::parts::{Control, EcnMode, HostModel};
use crate::plan::{Plan, ecn_mode_word};

/// What carries what an application sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// Connections of TCP.
    Tcp(TcpOptions),
    /// Connections of real QUIC, quinn's.
    Quic(QuicOptions),
    /// A modelled flow, which shows a path what QUIC or PLUS would show it.
    Modelled(model::ModelSpec),
    /// Plain datagrams over UDP.
    Datagrams,
}

/// What is asked of both ends of a TCP connection.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpOptions {
    /// The sender's congestion control.
    pub cc: Control,
    /// What both ends ask for in the handshake.
    pub ecn: EcnMode,
    /// Whether data goes with the SYN where a cookie is known.
    pub fast_open: bool,
    /// How the two hosts treat its segments.
    pub host: HostModel,
}

/// What is asked of both ends of a QUIC connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuicOptions {
    /// The sender's congestion control, one of quinn's.
    pub cc: QuicControl,
    /// Whether packets carry ECT(0).
    pub ecn: bool,
    /// What its spin bit does.
    pub spin: SpinUse,
}

impl Transport {
    /// The options of TCP, if that is what it is.
    pub const fn tcp(&self) -> Option<&TcpOptions> {
        match self {
            Self::Tcp(options) => Some(options),
            Self::Quic(_) | Self::Modelled(_) | Self::Datagrams => None,
        }
    }

    /// The options of real QUIC, if that is what it is.
    pub const fn quic(&self) -> Option<&QuicOptions> {
        match self {
            Self::Quic(options) => Some(options),
            Self::Tcp(_) | Self::Modelled(_) | Self::Datagrams => None,
        }
    }

    /// The congestion control in words, if it has one.
    pub fn cc(&self) -> Option<String> {
        match self {
            Self::Tcp(options) => Some(options.cc.to_string()),
            Self::Quic(options) => Some(options.cc.to_string()),
            Self::Modelled(_) | Self::Datagrams => None,
        }
    }

    /// What decides how fast it sends, in words: its congestion control, what a modelled
    /// flow has in its place, or `none` for datagrams.
    pub fn control_words(&self) -> String {
        match self {
            Self::Modelled(spec) => spec.to_string(),
            other => other.cc().unwrap_or_else(|| "none".to_owned()),
        }
    }

    /// The congestion control's name alone, `cubic`; empty if it has none.
    pub fn control_name(&self) -> &str {
        match self {
            Self::Tcp(options) => options.cc.name(),
            Self::Quic(options) => options.cc.name(),
            Self::Modelled(_) | Self::Datagrams => "",
        }
    }

    /// What its congestion control wants negotiated by itself.
    pub fn needs(&self) -> Needs {
        self.tcp().map(|tcp| tcp.cc.needs()).unwrap_or_default()
    }

    /// What its handshake asks for; nothing where there is nothing to negotiate.
    pub fn ecn(&self) -> EcnMode {
        match self {
            Self::Tcp(options) => options.ecn,
            Self::Quic(QuicOptions { ecn: true, .. }) => EcnMode::Classic,
            Self::Quic(_) | Self::Modelled(_) | Self::Datagrams => EcnMode::Off,
        }
    }

    /// Whether both ends open a connection before data may flow.
    pub const fn has_handshake(&self) -> bool {
        !matches!(self, Self::Datagrams)
    }

    /// Whether it sends as fast as the path lets it. A modelled flow has a window or a rate.
    pub const fn is_elastic(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Quic(_))
    }

    /// The protocol number in the IP header of its packets.
    pub const fn protocol(&self) -> u8 {
        match self {
            Self::Tcp(_) => narrows_wire::ip::TCP,
            Self::Quic(_) | Self::Modelled(_) | Self::Datagrams => narrows_wire::ip::UDP,
        }
    }
}

impl Plan {
    /// What carries each flow and each application, by its full name.
    pub fn transports(&self) -> impl Iterator<Item = (String, &Transport)> {
        let flows = self.flows.iter();
        let flows = flows.map(|f| (format!("flow/{}", f.name), &f.transport));
        let apps = self.apps.iter();
        flows.chain(apps.map(|a| (format!("app/{}", a.name), &a.transport)))
    }
}

/// What results keep of it, in two parts, between which stands what is no option of it.
impl Transport {
    pub(crate) fn serialize_before<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let Some(cc) = self.cc() else {
            return Ok(());
        };
        map.serialize_entry("cc", &cc)?;
        map.serialize_entry("ecn", ecn_mode_word(self.ecn()))
    }

    pub(crate) fn serialize_after<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Tcp(tcp) => {
                map.serialize_entry("fast_open", &tcp.fast_open)?;
                map.serialize_entry("host", &tcp.host)
            }
            Self::Quic(quic) => {
                map.serialize_entry("transport", "quic")?;
                match quic.spin.is_default() {
                    true => Ok(()),
                    false => map.serialize_entry("spin", &quic.spin),
                }
            }
            Self::Modelled(spec) => map.serialize_entry("transport", &spec.to_string()),
            Self::Datagrams => Ok(()),
        }
    }
}

/// The transport that a file names: its options stand beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TransportName {
    #[default]
    Tcp,
    Quic,
    /// A modelled flow's words say all of it.
    Modelled(model::ModelSpec),
}

impl TransportName {
    /// Those that a word says in full, in the order in which messages name them.
    pub(crate) const ALL: [(&str, Self); 2] = [("tcp", Self::Tcp), ("quic", Self::Quic)];
}

impl fmt::Display for TransportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Modelled(spec) => spec.fmt(f),
            other => f.write_str(word_for(&Self::ALL, other)),
        }
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
