//! A Wi-Fi link in one direction: one station that sends aggregates of what waits, and others that
//! hold the medium in between.
//!
//! A station whose queue has something waits for the medium: AIFS, a random backoff, and before
//! it as many turns of other stations as chance gives. Then it sends one A-MPDU of packets that
//! wait, up to a number of frames, of bytes and a time. All of them arrive at its end. A block ack
//! says which did not; these are sent again with the next aggregate, and the receiver passes on
//! what is behind them when they have come.
//!
//! What differs from a real one: collisions, the answers of receivers in the other direction and
//! beacons take no time, hidden stations do not exist, a block ack always arrives, and the rate is
//! said and not chosen by loss. Real drivers keep an aggregate or two ready below the queue; here
//! packets are taken from the queue when their turn on the medium comes.

mod element;
mod phy;
mod spec;
#[cfg(test)]
mod tests;

pub use element::WifiLink;
pub use spec::WifiSpec;
