//! UDP headers (RFC 768, RFC 8200 §8.1).

use std::net::IpAddr;

use crate::checksum::Sum;
use crate::error::Malformed;
use crate::ip;

/// Bytes of a UDP header.
pub const HEADER_LEN: usize = 8;

/// A checked UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Bytes of header and payload as the header says.
    pub length: u16,
    /// The checksum as on the wire; 0 means that none was computed.
    pub checksum: u16,
}

impl Udp {
    /// Reads the header at the start of `bytes` (those after the IP header).
    /// The payload need not be complete.
    ///
    /// # Errors
    /// When the header is cut or its length is less than a header's.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some(h) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Truncated("UDP header"));
        };
        let length = u16::from_be_bytes([h[4], h[5]]);
        if usize::from(length) < HEADER_LEN {
            return Err(Malformed::Invalid("UDP length"));
        }
        Ok(Self {
            source_port: u16::from_be_bytes([h[0], h[1]]),
            destination_port: u16::from_be_bytes([h[2], h[3]]),
            length,
            checksum: u16::from_be_bytes([h[6], h[7]]),
        })
    }
}

/// What goes into a UDP header that is written here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpFields {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

impl UdpFields {
    /// Appends header and `payload`; length and checksum cover them and
    /// `zero_tail` zeros that follow. The whole datagram must be at most
    /// 65535 bytes.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        source: IpAddr,
        destination: IpAddr,
        payload: &[u8],
        zero_tail: u32,
    ) {
        let start = out.len();
        let length = (HEADER_LEN + payload.len()) as u32 + zero_tail;
        debug_assert!(length <= 0xffff, "a UDP datagram of {length} bytes");
        let mut h = [0u8; HEADER_LEN];
        h[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        h[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        h[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        out.extend_from_slice(&h);
        out.extend_from_slice(payload);
        let mut sum = Sum::default();
        sum.add_pseudo_header(source, destination, ip::UDP, length);
        sum.add(&out[start..]);
        // A computed 0 is sent as all ones; 0 says "no checksum" (RFC 768).
        let sum = match sum.finish() {
            0 => 0xffff,
            sum => sum,
        };
        out[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn sums_to_ones(source: IpAddr, destination: IpAddr, datagram: &[u8]) -> bool {
        let mut sum = Sum::default();
        sum.add_pseudo_header(source, destination, ip::UDP, datagram.len() as u32);
        sum.add(datagram);
        sum.finish() == 0
    }

    #[test]
    fn a_datagram_reads_back_and_its_checksum_covers_the_zero_tail() {
        let fields = UdpFields {
            source_port: 4433,
            destination_port: 9,
        };
        for (a, b) in [
            (
                IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
                IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
            ),
            (
                IpAddr::V6(Ipv6Addr::LOCALHOST),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            ),
        ] {
            let mut out = Vec::new();
            fields.write(&mut out, a, b, b"odd", 14);
            out.resize(out.len() + 14, 0);
            let read = Udp::parse(&out).unwrap();
            assert_eq!((read.source_port, read.destination_port), (4433, 9));
            assert_eq!(usize::from(read.length), out.len());
            assert!(sums_to_ones(a, b, &out));
        }
    }

    #[test]
    fn a_computed_zero_is_sent_as_all_ones() {
        let a = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let fields = UdpFields::default();
        let mut out = Vec::new();
        fields.write(&mut out, a, a, &[0, 0], 0);
        // The payload word that makes the rest sum to all ones.
        let missing = Udp::parse(&out).unwrap().checksum;
        out.clear();
        fields.write(&mut out, a, a, &missing.to_be_bytes(), 0);
        assert_eq!(Udp::parse(&out).unwrap().checksum, 0xffff);
        assert!(sums_to_ones(a, a, &out));
    }

    #[test]
    fn a_cut_header_and_a_length_below_eight_are_refused() {
        assert_eq!(Udp::parse(&[0; 7]), Err(Malformed::Truncated("UDP header")));
        assert_eq!(
            Udp::parse(&[0, 1, 0, 1, 0, 7, 0, 0]),
            Err(Malformed::Invalid("UDP length"))
        );
    }
}
