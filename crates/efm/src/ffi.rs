//! The border to C: the only unsafe code of the crate.

use crate::params::{PacketFacts, SignalParams};

/// `NW_TCP_HEADER_MAX`, the bytes that the reader of headers may touch.
pub(crate) const HEADER_MAX: usize = 60;
/// `NW_TCP_HEADER_MIN`, the bytes that the writer touches.
pub(crate) const HEADER_MIN: usize = 20;

/// 184 bytes: the size of `struct nw_efm_flow`, which C asserts.
const STATE_WORDS: usize = 23;
/// The word that is `nw_efm_flow.mask`, at byte 168 as C asserts.
const MASKS: usize = 168 / 8;

// SAFETY: the declarations match kernel/native.h; every function reads and
// writes only what its pointers point at, for the length of the call.
unsafe extern "C" {
    fn nw_efm_native_egress(
        flow: *mut u64,
        params: *const SignalParams,
        packet: *const PacketFacts,
    ) -> u32;
    fn nw_efm_native_ingress(
        flow: *mut u64,
        params: *const SignalParams,
        packet: *const PacketFacts,
    );
    fn nw_efm_native_read(packet: *mut PacketFacts, header: *const u8, len: u32) -> u32;
    fn nw_efm_native_write(header: *mut u8, mask: u32, bits: u32);
    #[cfg(test)]
    fn nw_efm_native_layout(signals: u32, place: u32) -> u32;
    #[cfg(test)]
    fn nw_efm_native_code(signals: u32) -> u32;
}

/// What is to be written into byte 12 of a packet's TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The bits that change; the others stay.
    pub mask: u8,
    /// Their values.
    pub bits: u8,
}

impl Write {
    /// Writes the bits into the TCP header at the start of `segment` and mends
    /// its checksum. A segment of less than 20 bytes stays as it is.
    pub fn apply(self, segment: &mut [u8]) {
        if segment.len() < HEADER_MIN {
            return;
        }
        let (mask, bits) = (u32::from(self.mask), u32::from(self.bits));
        // SAFETY: C changes bytes 12, 13, 16 and 17 of the at least
        // HEADER_MIN bytes that were just checked to be there.
        unsafe { nw_efm_native_write(segment.as_mut_ptr(), mask, bits) };
    }
}

/// One connection at one host: the state of all its signals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalFlow {
    words: [u64; STATE_WORDS],
}

impl SignalFlow {
    /// A flow of which nothing was seen. It marks nothing until a handshake has
    /// gone through it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet leaves; what to write into it, if anything.
    pub fn egress(&mut self, params: &SignalParams, packet: &PacketFacts) -> Option<Write> {
        // SAFETY: the state is the 184 bytes, aligned to 8, that C asserts its
        // struct to have, and any bit pattern is valid for it; parameters and
        // packet have the C layout (asserted on both sides). All outlive the
        // call, do not overlap, and C keeps none of them.
        let write = unsafe { nw_efm_native_egress(self.words.as_mut_ptr(), params, packet) };
        let [_, _, mask, bits] = write.to_be_bytes();
        (mask != 0).then_some(Write { mask, bits })
    }

    /// The bits of byte 12 that each signal has, in the order of `enum
    /// nw_efm_place`.
    pub(crate) fn masks(&self) -> [u8; 8] {
        self.words[MASKS].to_ne_bytes()
    }

    /// A packet arrives.
    pub fn ingress(&mut self, params: &SignalParams, packet: &PacketFacts) {
        // SAFETY: as in `egress`.
        unsafe { nw_efm_native_ingress(self.words.as_mut_ptr(), params, packet) };
    }
}

/// Reads a TCP header; its length, or 0 where it cannot be one.
pub(crate) fn read(facts: &mut PacketFacts, header: &[u8; HEADER_MAX], len: u32) -> u32 {
    // SAFETY: C reads at most HEADER_MAX bytes of the header and writes the
    // facts, which have the C layout.
    unsafe { nw_efm_native_read(facts, header.as_ptr(), len) }
}

/// The bits of byte 12 that the signal at `place` has among `signals`.
#[cfg(test)]
pub(crate) fn layout(signals: u8, place: u32) -> u8 {
    // SAFETY: plain numbers of any value; the answer is a byte's.
    unsafe { nw_efm_native_layout(u32::from(signals), place) as u8 }
}

/// The code that announces `signals`, 0 where there is none.
#[cfg(test)]
pub(crate) fn code(signals: u8) -> u8 {
    // SAFETY: plain numbers of any value; the answer is a byte's.
    unsafe { nw_efm_native_code(u32::from(signals)) as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::{Profile, Signal};

    #[test]
    fn both_languages_lay_out_and_announce_every_profile_alike() {
        for signals in 0..=255 {
            let Some(profile) = Profile::checked(signals) else {
                continue;
            };
            for (place, signal) in Signal::ALL.into_iter().enumerate() {
                let c = layout(signals, place as u32);
                assert_eq!(c, profile.mask(signal), "{profile} {signal:?}");
            }
            assert_eq!(code(signals), profile.code().unwrap_or(0), "{profile}");
        }
    }
}
