//! Messages and their TLVs, and how they are written (RFC 8803 §4).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{Fault, HEADER_LEN, MAGIC, MAX_LEN, VERSION, WORD};

/// Types of TLVs (IANA "Convert TLVs").
pub(super) mod kind {
    pub const INFO: u8 = 1;
    pub const CONNECT: u8 = 10;
    pub const EXTENDED_TCP_HEADER: u8 = 20;
    pub const SUPPORTED_EXTENSIONS: u8 = 21;
    pub const COOKIE: u8 = 22;
    pub const ERROR: u8 = 30;
}

/// One TLV of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tlv {
    /// Asks which TCP extensions are supported (§4.2.3).
    Info,
    /// Asks for a connection (§4.2.5).
    Connect {
        /// The destination. An IPv4 address is on the wire as an IPv4-mapped one.
        peer: SocketAddr,
        /// TCP options that its SYN is to carry, in their own encoding.
        options: Vec<u8>,
    },
    /// TCP options that the destination's SYN-ACK carried (§4.2.6).
    ExtendedTcpHeader(Vec<u8>),
    /// Kinds of TCP options that can be used (§4.2.4).
    SupportedExtensions(Vec<u8>),
    /// What the converter gave, as proof of the address (§4.2.7).
    Cookie(Vec<u8>),
    /// Why not (§4.2.8).
    Error(Fault),
    /// Of a type that is not assigned.
    Unknown {
        /// The type.
        kind: u8,
        /// What follows type and length.
        value: Vec<u8>,
    },
}

/// A message that is longer than 255 words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {bytes} bytes is longer than the {MAX_LEN} that its header can count")]
pub struct TooLong {
    /// How long it would be.
    pub bytes: usize,
}

/// A message of version 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its TLVs, in order.
    pub tlvs: Vec<Tlv>,
}

impl Tlv {
    /// Its type.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Info => kind::INFO,
            Self::Connect { .. } => kind::CONNECT,
            Self::ExtendedTcpHeader(_) => kind::EXTENDED_TCP_HEADER,
            Self::SupportedExtensions(_) => kind::SUPPORTED_EXTENSIONS,
            Self::Cookie(_) => kind::COOKIE,
            Self::Error(_) => kind::ERROR,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// What follows type and length, not padded.
    fn body(&self) -> Vec<u8> {
        let after_zeros = |bytes: &[u8]| [&[0, 0], bytes].concat();
        match self {
            Self::Info => vec![0, 0],
            Self::Connect { peer, options } => {
                let address = match peer.ip() {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                [&peer.port().to_be_bytes(), &address.octets()[..], options].concat()
            }
            Self::ExtendedTcpHeader(bytes)
            | Self::SupportedExtensions(bytes)
            | Self::Cookie(bytes) => after_zeros(bytes),
            Self::Error(fault) => [&[fault.code()], &fault.value()[..]].concat(),
            Self::Unknown { value, .. } => value.clone(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[self.kind(), 0]);
        out.extend_from_slice(&self.body());
        let words = (out.len() - start).div_ceil(WORD);
        out.resize(start + words * WORD, 0);
        // A longer one does not fit a message, whose length is judged next.
        out[start + 1] = u8::try_from(words).unwrap_or(u8::MAX);
    }

    /// From the bytes after type and length: `2 + 4n` of them. `None` if they are too
    /// few for the type.
    pub(super) fn read(kind: u8, body: &[u8]) -> Option<Self> {
        let after_zeros = || body.get(2..).unwrap_or_default().to_vec();
        Some(match kind {
            kind::INFO => Self::Info,
            kind::CONNECT => {
                let (port, rest) = body.split_first_chunk::<2>()?;
                let (address, options) = rest.split_first_chunk::<16>()?;
                let address = Ipv6Addr::from(*address).to_canonical();
                Self::Connect {
                    peer: SocketAddr::from((address, u16::from_be_bytes(*port))),
                    options: options.to_vec(),
                }
            }
            kind::EXTENDED_TCP_HEADER => Self::ExtendedTcpHeader(after_zeros()),
            kind::SUPPORTED_EXTENSIONS => {
                let mut kinds = after_zeros();
                // The end of the list is padded with zeros; no option has kind 0 but
                // the end of a list itself.
                while kinds.last() == Some(&0) {
                    kinds.pop();
                }
                Self::SupportedExtensions(kinds)
            }
            kind::COOKIE => Self::Cookie(after_zeros()),
            kind::ERROR => {
                let (code, value) = body.split_first()?;
                Self::Error(Fault::read(*code, value))
            }
            kind => Self::Unknown {
                kind,
                value: body.to_vec(),
            },
        })
    }
}

impl Message {
    /// A message with this TLV alone.
    pub fn of(tlv: Tlv) -> Self {
        Self { tlvs: vec![tlv] }
    }

    /// The bytes of it.
    ///
    /// # Errors
    /// If it does not fit 255 words.
    pub fn encode(&self) -> Result<Vec<u8>, TooLong> {
        let mut out = vec![VERSION, 0];
        out.extend_from_slice(&MAGIC.to_be_bytes());
        for tlv in &self.tlvs {
            tlv.write(&mut out);
        }
        let bytes = out.len();
        out[1] = u8::try_from(bytes / WORD).map_err(|_| TooLong { bytes })?;
        Ok(out)
    }

    /// The bytes of an answer that says why not; an echo that does not fit is cut.
    pub fn refusal(mut fault: Fault) -> Vec<u8> {
        // Header, then type, length, code and the zero before the echo.
        let most = MAX_LEN - HEADER_LEN - WORD;
        match &mut fault {
            Fault::Malformed(bytes)
            | Fault::UnsupportedMessage(bytes)
            | Fault::MissingCookie(bytes)
            | Fault::UnsupportedTcpOption(bytes) => bytes.truncate(most),
            _ => {}
        }
        let message = Self::of(Tlv::Error(fault));
        message.encode().unwrap_or_default()
    }
}
