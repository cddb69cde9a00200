//! Numbers, clocks and options of the pcapng format
//! (draft-ietf-opsawg-pcapng-03).

use narrows_units::Instant;

use super::order::Order;

/// Section Header Block; the same in both byte orders.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
/// Interface Description Block.
pub(super) const INTERFACE: u32 = 1;
/// The obsolete Packet Block, still found in old files.
pub(super) const PACKET: u32 = 2;
/// Simple Packet Block.
pub(super) const SIMPLE: u32 = 3;
/// Enhanced Packet Block.
pub(super) const ENHANCED: u32 = 6;
/// The byte order of a section.
pub(super) const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// `opt_comment`, of any block.
pub(super) const COMMENT: u16 = 1;
/// `shb_userappl`: the program that wrote the section.
pub(super) const APPLICATION: u16 = 4;
/// `if_name`.
pub(super) const IF_NAME: u16 = 2;
/// `if_tsresol`: the unit of stamps, a power of ten or of two.
pub(super) const IF_TSRESOL: u16 = 9;
/// `if_tsoffset`: seconds to add to stamps.
pub(super) const IF_TSOFFSET: u16 = 14;
/// `epb_flags`: the lowest two bits are the direction.
pub(super) const FLAGS: u16 = 2;
/// `epb_packetid`: the same packet at two interfaces has the same one.
pub(super) const PACKET_ID: u16 = 5;

/// How an interface counts time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// As `if_tsresol` writes it.
    pub resolution: u8,
    /// Seconds to add.
    pub offset: i64,
}

impl Clock {
    /// pcapng's default: microseconds since 1970.
    pub const DEFAULT: Self = Self {
        resolution: 6,
        offset: 0,
    };

    pub fn instant(self, stamp: u64) -> Instant {
        // What nearly all files have; the general rule divides 128 bits.
        if let (9, 0) = (self.resolution, self.offset) {
            return Instant::from_nanos(stamp);
        }
        if let (6, 0, Some(ns)) = (self.resolution, self.offset, stamp.checked_mul(1_000)) {
            return Instant::from_nanos(ns);
        }
        let exponent = u32::from(self.resolution & 0x7f);
        let stamp = u128::from(stamp) * 1_000_000_000;
        let ns = if self.resolution & 0x80 != 0 {
            stamp.checked_shr(exponent).unwrap_or(0)
        } else {
            10u128.checked_pow(exponent).map_or(0, |unit| stamp / unit)
        };
        let offset = i128::from(self.offset) * 1_000_000_000;
        let ns = i128::try_from(ns)
            .unwrap_or(i128::MAX)
            .saturating_add(offset);
        Instant::from_nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
    }
}

/// The options of a block; ends at the first that is cut.
pub(super) struct Options<'a>(pub Order, pub &'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.1.get(..4)?;
        let code = self.0.u16(head);
        let len = usize::from(self.0.u16(&head[2..]));
        let value = self.1.get(4..4 + len)?;
        self.1 = self
            .1
            .get(4 + len.next_multiple_of(4)..)
            .unwrap_or_default();
        (code != 0).then_some((code, value))
    }
}
