//! TCP headers (RFC 9293) with the options that Linux uses.

mod accecn;
mod options;
mod segment;

use std::net::IpAddr;

use crate::checksum::Sum;
use crate::error::Malformed;
use crate::ip;
pub use accecn::{AccEcnOption, KIND_ACCECN0, KIND_ACCECN1};
pub use options::{FastOpenCookie, SackList, TcpOptions};

/// The nine flag bits of a TCP header: AE (RFC 9768), CWR, ECE, URG, ACK, PSH,
/// RST, SYN, FIN, with the three reserved bits above them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: u16 = 0x001;
    /// Synchronise sequence numbers.
    pub const SYN: u16 = 0x002;
    /// Reset.
    pub const RST: u16 = 0x004;
    /// Push.
    pub const PSH: u16 = 0x008;
    /// The acknowledgement number counts.
    pub const ACK: u16 = 0x010;
    /// Urgent.
    pub const URG: u16 = 0x020;
    /// ECN echo; bit 0 of AccECN's ACE field.
    pub const ECE: u16 = 0x040;
    /// Congestion window reduced; bit 1 of ACE.
    pub const CWR: u16 = 0x080;
    /// Accurate ECN; bit 2 of ACE.
    pub const AE: u16 = 0x100;
    /// The three reserved bits of byte 12 (0x08, 0x04, 0x02 there).
    pub const RESERVED: u16 = 0xe00;

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }

    /// The three-bit ACE field (RFC 9768 §3.2.2).
    pub const fn ace(self) -> u8 {
        ((self.0 >> 6) & 7) as u8
    }

    /// These flags with the ACE field set to the low three bits of `ace`.
    #[must_use]
    pub const fn with_ace(self, ace: u8) -> Self {
        Self(self.0 & !(7 << 6) | ((ace & 7) as u16) << 6)
    }
}

/// A checked TCP header with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags with AE and the reserved bits.
    pub flags: TcpFlags,
    /// Receive window as on the wire, not scaled.
    pub window: u16,
    /// Bytes of header and options.
    pub header_len: usize,
    /// The options.
    pub options: TcpOptions,
}

impl Tcp {
    /// Reads the header at the start of `bytes` (those after the IP header).
    ///
    /// # Errors
    /// When the header or an option is cut or contradicts itself.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some(h) = bytes.first_chunk::<20>() else {
            return Err(Malformed::Truncated("TCP header"));
        };
        let header_len = usize::from(h[12] >> 4) * 4;
        if header_len < 20 {
            return Err(Malformed::Invalid("TCP header length"));
        }
        let options = bytes
            .get(20..header_len)
            .ok_or(Malformed::Truncated("TCP options"))?;
        Ok(Self {
            source_port: u16::from_be_bytes([h[0], h[1]]),
            destination_port: u16::from_be_bytes([h[2], h[3]]),
            seq: u32::from_be_bytes([h[4], h[5], h[6], h[7]]),
            ack: u32::from_be_bytes([h[8], h[9], h[10], h[11]]),
            flags: TcpFlags(u16::from_be_bytes([h[12] & 0x0f, h[13]])),
            window: u16::from_be_bytes([h[14], h[15]]),
            header_len,
            options: TcpOptions::parse(options)?,
        })
    }
}

/// What goes into a TCP header that is written here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFields {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags with AE and the reserved bits.
    pub flags: TcpFlags,
    /// Receive window, already scaled down.
    pub window: u16,
    /// The options.
    pub options: TcpOptions,
}

impl TcpFields {
    /// Length in bytes of header and options.
    #[inline]
    pub fn header_len(&self) -> usize {
        20 + self.options.encoded_len()
    }

    /// Appends header, options and `payload`; the checksum covers them and
    /// `zero_tail` zeros that follow. `out` must hold the IP header alone, so
    /// that the segment starts at an even offset.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        source: IpAddr,
        destination: IpAddr,
        payload: &[u8],
        zero_tail: u32,
    ) {
        let start = out.len();
        let mut h = [0u8; 20];
        h[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        h[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        h[4..8].copy_from_slice(&self.seq.to_be_bytes());
        h[8..12].copy_from_slice(&self.ack.to_be_bytes());
        h[12..14].copy_from_slice(&(self.flags.0 & 0xfff).to_be_bytes());
        h[14..16].copy_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&h);
        self.options.write(out);
        let header_len = out.len() - start;
        debug_assert!(header_len <= 60, "a TCP header of {header_len} bytes");
        debug_assert_eq!(header_len, self.header_len());
        // The data offset, in words.
        out[start + 12] |= (header_len as u8 / 4) << 4;
        if !payload.is_empty() {
            out.extend_from_slice(payload);
        }
        let mut sum = Sum::default();
        let length = (out.len() - start) as u32 + zero_tail;
        sum.add_pseudo_header(source, destination, ip::TCP, length);
        sum.add(&out[start..]);
        let sum = sum.finish();
        out[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ace_is_the_three_bits_ae_cwr_ece() {
        let flags = TcpFlags(TcpFlags::ACK).with_ace(0b110);
        assert!(flags.has(TcpFlags::AE | TcpFlags::CWR | TcpFlags::ACK));
        assert!(!flags.has(TcpFlags::ECE));
        assert_eq!(flags.ace(), 6);
        assert_eq!(flags.with_ace(0), TcpFlags(TcpFlags::ACK));
    }

    #[test]
    fn a_header_shorter_than_its_offset_is_refused() {
        let mut h = [0u8; 24];
        h[12] = 0x40;
        assert_eq!(Tcp::parse(&h), Err(Malformed::Invalid("TCP header length")));
        h[12] = 0x70;
        assert_eq!(Tcp::parse(&h), Err(Malformed::Truncated("TCP options")));
        assert_eq!(
            Tcp::parse(&h[..19]),
            Err(Malformed::Truncated("TCP header"))
        );
    }
}
