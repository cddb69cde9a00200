//! `cell`: a base station that shares the resource blocks of its downlink among terminals.
//!
//! A node with a port for each terminal. Every millisecond a scheduler gives resource blocks to
//! terminals for which something waits; what fits into a terminal's blocks leaves as one transport
//! block, packets cut into segments and joined again as in radio link control. A transport block
//! that is not decoded is sent again eight milliseconds later, up to three times, and the packets
//! behind it wait, so that a terminal's packets keep their order.
//!
//! Sources: 3GPP TS 36.211 (grid), TS 36.213 (channel quality), TS 36.321 (HARQ), TS 36.322
//! (segments, order), TR 36.942 (path loss); for the proportional-fair rule Jalali, Padovani and
//! Pankaj, "Data throughput of CDMA-HDR" (VTC 2000).
//!
//! A terminal may also be driven by a recording of what it had, in mahimahi's format.
//!
//! Deviations: the downlink alone, for what a terminal sends takes the elements of its link; every
//! subcarrier has the same quality; headers of MAC, RLC and PDCP, reference signals and broadcasts
//! take nothing; a transport block has a whole number of bytes and no other rounding, where TS
//! 36.213 has a table; reports of quality are never late or wrong.

mod channel;
mod element;
mod radio;
mod schedule;
mod spec;
#[cfg(test)]
mod tests;

pub use element::Cell;
pub use radio::Distance;
pub use schedule::Scheduler;
pub use spec::CellSpec;
