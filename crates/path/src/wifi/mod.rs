//! Wi-Fi: a radio that sends aggregates of what waits, to one station (a link in one direction) or to
//! those of an access point (a node with a port for each), and others that hold the medium in between.
//!
//! A radio whose queue has something waits for the medium: AIFS, a random backoff, and before
//! it as many turns of other stations as chance gives. Then it sends one A-MPDU of packets that
//! wait for one station, up to a number of frames, of bytes and a time. All of them arrive at its end. A
//! block ack says which did not; these are sent again with the next aggregate for that station, and the
//! receiver passes on what is behind them when they have come.
//!
//! Whose turn it is at an access point a scheduler says, see `scheduler.rs`. A link is an access point of
//! one station that reports no airtime.
//!
//! What differs from a real one: collisions, the answers of receivers in the other direction and
//! beacons take no time, hidden stations do not exist, a block ack always arrives, and the rate is
//! said and not chosen by loss. Real drivers keep an aggregate or two ready below the queue; here
//! packets are taken from the queue when their turn on the medium comes.

mod fifo;
mod medium;
mod node;
#[cfg(test)]
mod node_tests;
mod phy;
mod radio;
mod scheduler;
mod spec;
mod station;
#[cfg(test)]
mod tests;
mod turns;

pub use node::AccessPointSpec;
pub use radio::WifiRadio;
pub use scheduler::AirtimeRule;
pub use spec::WifiSpec;
