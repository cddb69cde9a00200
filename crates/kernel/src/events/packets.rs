//! The bytes of packets that were last sent, so that a packet which passes several
//! elements crosses once.

use narrows_core::PacketId;

/// Packets remembered; one takes another's place if their ids are so far apart. More
/// than are on their way at 1 Gbit/s over 100 ms (8,300) would be remembered in vain:
/// what an id meets again soon is near.
const PLACES: usize = 4096;

/// Of a packet's stored bytes, those that are sent even if they are zeros, so that no
/// header is cut short: IPv6 and TCP with all options are 100, tunnels stand before them.
const ALWAYS_SENT: usize = 160;

/// What one end remembers; that of the other is equal at each place in the stream.
pub(super) struct Remembered(Vec<Option<(PacketId, Vec<u8>)>>);

impl Default for Remembered {
    fn default() -> Self {
        Self(vec![None; PLACES])
    }
}

impl Remembered {
    fn place(&mut self, id: PacketId) -> &mut Option<(PacketId, Vec<u8>)> {
        &mut self.0[id.0 as usize % PLACES]
    }

    /// Notes that packet `id` now has these bytes; whether that was known.
    pub(super) fn note(&mut self, id: PacketId, bytes: &[u8]) -> bool {
        match self.place(id) {
            Some((known, before)) => {
                if *known == id && before == bytes {
                    return true;
                }
                *known = id;
                before.clear();
                before.extend_from_slice(bytes);
            }
            none => *none = Some((id, bytes.to_vec())),
        }
        false
    }

    /// The bytes of packet `id`, if they are remembered.
    pub(super) fn bytes(&mut self, id: PacketId) -> Option<&[u8]> {
        let place = self.place(id).as_ref().filter(|(known, _)| *known == id);
        place.map(|(_, bytes)| &bytes[..])
    }
}

/// The part of a packet's stored bytes that is sent, and how many zeros follow it.
pub(super) fn without_zeros(bytes: &[u8]) -> (&[u8], u32) {
    let last = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    let kept = last.max(ALWAYS_SENT).min(bytes.len());
    // A stored prefix never exceeds an IP packet's 64 KiB.
    (&bytes[..kept], (bytes.len() - kept) as u32)
}
