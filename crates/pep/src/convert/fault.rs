//! What a converter answers when it does not do as asked (RFC 8803 §4.2.8).

use super::VERSION;

/// Zero before an echoed message, so that this begins at a word (RFC 8803 §4.2.8).
const SHIFT: u8 = 0;

/// Whose fault it is, by the range of its code (IANA "Convert Errors").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// The message: 0 to 31.
    Message,
    /// The client: 32 to 63.
    Client,
    /// The converter: 64 to 95.
    Converter,
    /// The destination: 96 to 127.
    Destination,
    /// None that is assigned: 128 to 255.
    Other,
}

/// The code and value of an Error TLV.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// 0: the message's version is not one of these.
    UnsupportedVersion(Vec<u8>),
    /// 1: the message, which is echoed, cannot be read.
    Malformed(Vec<u8>),
    /// 2: the message, which is echoed, is of a kind that is not supported.
    UnsupportedMessage(Vec<u8>),
    /// 3: a cookie is wanted: this one.
    MissingCookie(Vec<u8>),
    /// 32: the client may not use the converter, or not for this.
    NotAuthorized,
    /// 33: these kinds of TCP options cannot be used towards the destination.
    UnsupportedTcpOption(Vec<u8>),
    /// 64: the converter has too much to do; try again after so many seconds, 0 for at
    /// least 30.
    ResourceExceeded {
        /// Seconds.
        retry_s: u8,
    },
    /// 65: the converter's network fails; try again after so many seconds, 0 for at
    /// least 30.
    NetworkFailure {
        /// Seconds.
        retry_s: u8,
    },
    /// 96: the destination answered with a reset.
    ConnectionReset,
    /// 97: an ICMP message says that the destination cannot be reached.
    DestinationUnreachable {
        /// The code of that message.
        icmp_code: u8,
    },
    /// Another code, which is not assigned.
    Other {
        /// The code.
        code: u8,
        /// The value as it came, padding included.
        value: Vec<u8>,
    },
}

impl Fault {
    /// What answers a message of another version.
    pub fn version() -> Self {
        Self::UnsupportedVersion(vec![VERSION])
    }

    /// Its code (IANA "Convert Errors").
    pub fn code(&self) -> u8 {
        match self {
            Self::UnsupportedVersion(_) => 0,
            Self::Malformed(_) => 1,
            Self::UnsupportedMessage(_) => 2,
            Self::MissingCookie(_) => 3,
            Self::NotAuthorized => 32,
            Self::UnsupportedTcpOption(_) => 33,
            Self::ResourceExceeded { .. } => 64,
            Self::NetworkFailure { .. } => 65,
            Self::ConnectionReset => 96,
            Self::DestinationUnreachable { .. } => 97,
            Self::Other { code, .. } => *code,
        }
    }

    /// Whose fault it is.
    pub fn class(&self) -> FaultClass {
        match self.code() {
            0..=31 => FaultClass::Message,
            32..=63 => FaultClass::Client,
            64..=95 => FaultClass::Converter,
            96..=127 => FaultClass::Destination,
            128.. => FaultClass::Other,
        }
    }

    /// Its value, without padding: at least one byte, as the code is the third of its
    /// word.
    pub(super) fn value(&self) -> Vec<u8> {
        let shifted = |bytes: &[u8]| [&[SHIFT], bytes].concat();
        match self {
            Self::UnsupportedVersion(list) | Self::UnsupportedTcpOption(list) => list.clone(),
            Self::Malformed(echo) | Self::UnsupportedMessage(echo) => shifted(echo),
            Self::MissingCookie(cookie) => shifted(cookie),
            Self::ResourceExceeded { retry_s } | Self::NetworkFailure { retry_s } => vec![*retry_s],
            Self::NotAuthorized | Self::ConnectionReset => vec![0],
            Self::DestinationUnreachable { icmp_code } => vec![*icmp_code],
            Self::Other { value, .. } => value.clone(),
        }
    }

    /// From the bytes of a TLV after its length. Lists lose their padding; an echo or a
    /// cookie, whose length is not said, keeps it.
    pub(super) fn read(code: u8, value: &[u8]) -> Self {
        let list = || {
            let padding = value.iter().rev().take_while(|b| **b == 0).count();
            value[..value.len() - padding].to_vec()
        };
        let first = value.first().copied().unwrap_or_default();
        let rest = || value.get(1..).unwrap_or_default().to_vec();
        match code {
            0 => Self::UnsupportedVersion(list()),
            1 => Self::Malformed(rest()),
            2 => Self::UnsupportedMessage(rest()),
            3 => Self::MissingCookie(rest()),
            32 => Self::NotAuthorized,
            33 => Self::UnsupportedTcpOption(list()),
            64 => Self::ResourceExceeded { retry_s: first },
            65 => Self::NetworkFailure { retry_s: first },
            96 => Self::ConnectionReset,
            97 => Self::DestinationUnreachable { icmp_code: first },
            _ => Self::Other {
                code,
                value: value.to_vec(),
            },
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnsupportedVersion(_) => f.write_str("the version is not supported"),
            Self::Malformed(_) => f.write_str("the message cannot be read"),
            Self::UnsupportedMessage(_) => f.write_str("the kind of message is not supported"),
            Self::MissingCookie(_) => f.write_str("a cookie is missing"),
            Self::NotAuthorized => f.write_str("not authorized"),
            Self::UnsupportedTcpOption(kinds) => {
                write!(f, "TCP options of the kinds {kinds:?} cannot be used")
            }
            Self::ResourceExceeded { .. } => f.write_str("the proxy has too much to do"),
            Self::NetworkFailure { .. } => f.write_str("the proxy's network fails"),
            Self::ConnectionReset => f.write_str("the destination reset the connection"),
            Self::DestinationUnreachable { .. } => f.write_str("the destination is unreachable"),
            Self::Other { code, .. } => write!(f, "error {code}"),
        }
    }
}
