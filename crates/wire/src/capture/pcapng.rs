//! Numbers of the pcapng format (draft-ietf-opsawg-pcapng-03).

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
/// Tells the byte order of a section.
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
