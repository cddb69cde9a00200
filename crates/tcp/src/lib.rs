//! A TCP endpoint without I/O that behaves as Linux does.
//!
//! A [`Connection`] takes packets and the time, and hands out packets, events
//! and the time at which it wants to be called again. Payload is counted, not
//! stored, except for bytes that an application really writes. Around the
//! congestion control (`narrows-cc`) runs Linux's congestion-avoidance state
//! machine with Linux's order of hook calls. Where RFCs leave a choice it does
//! what Linux v6.17 does.
//!
//! ```
//! use narrows_cc::ControlSpec;
//! use narrows_core::PacketPool;
//! use narrows_tcp::{TcpConfig, Connection};
//! use narrows_units::{Instant, Rng};
//!
//! let local = "10.0.0.1:40000".parse().unwrap();
//! let remote = "10.0.0.2:443".parse().unwrap();
//! let config = TcpConfig::new(local, remote, ControlSpec::parse("cubic").unwrap());
//! let mut client = Connection::client(config, Rng::for_name(1, "client"));
//! let mut pool = PacketPool::new();
//! client.open(Instant::ZERO);
//! let syn = client.poll_transmit(Instant::ZERO, &mut pool).unwrap();
//! // A Linux host's SYN: 20 bytes of IP, 20 of TCP, 20 of options.
//! assert_eq!(syn.len(), 60);
//! ```
//!
//! # Where it differs from Linux
//! - A segment is a segment: Linux keeps super-packets and counts segments
//!   inside them; SACKs that name part of a segment are ignored here, and a
//!   segment is cut only for a smaller path MTU or MSS, not where a window that
//!   has shrunk ends in it.
//! - Linux pushes packets out in the midst of processing an ACK; here they
//!   leave at the same instant in the same order, when they are polled.
//! - The host has no queue of its own, unless it is one with fq
//!   ([`PacingUse::Fq`]): no loss or CWR on the host, and TCP small queues only
//!   there and where they are asked for ([`SmallQueues`]).
//! - With AccECN a full-sized segment never carries the option, so that the
//!   MSS stays 1448; Linux makes room for it. Byte counters are used also
//!   when several of them move at once.
//! - AccECN is v6.18's, but for SYN-ACKs that are sent again (v7.0's). The ACE
//!   field of the ACK that completes a handshake is no counter after Fast Open
//!   either (RFC 9768 §3.2.2.1), where v6.18 counts from it.
//! - Of memory only this is modelled: what a full segment takes in the receive
//!   buffer, one segment at a time; there what waits to be read counts as payload.
//!   The send buffer counts payload unless [`SendBuffer::Auto`] is asked for.
//! - `close` is a half-close; unread data does not reset the connection, nor does
//!   data that comes after [`release`](Connection::release). In FIN-WAIT-2 after
//!   that a SYN is acknowledged, where Linux resets its sender.
//! - No urgent data, `MSG_EOR`, MD5, MPTCP, SYN cookies, metrics cache, and no CE
//!   events for the congestion control of a receiver (only DCTCP uses them).
//!
//! # Where versions of Linux differ
//! Followed is v6.17, but for:
//! - AccECN, which came with v6.18, and of which the last ACK of a simultaneous open
//!   reflects the SYN-ACK (RFC 9768 §3.2.2.1), where v6.18 to v7.2 count.
//! - A FIN beyond a window that is shut while data waits to be read: it is taken, as by
//!   v6.12 and v7.2; v6.17 waits until the data is read.
//! - [`max_rto`](TcpConfig::max_rto) of a SYN-ACK, as v7.2.
//! - The growth of the receive buffer, which is v6.15's or v6.18's
//!   ([`ReceiveTuning`]); v6.16 and v6.17 have it grow too slowly.
//!
//! Older versions differ in what this does since v6.7 (timestamps are believed for
//! 2,147 s), v6.10 (a FIN counts against the congestion window), v6.14 (old ACKs with
//! old timestamps are not answered), v6.15 (the ACK of a handshake must echo a
//! timestamp that was sent) and v6.17 (what ends beyond the window is refused while
//! data waits to be read; the size of out-of-order segments counts).
//!
//! What a real kernel reckoned of a recorded connection, this reckons as well:
//! see the crate `narrows-bpf`'s tests, for which the feature `testkit` is.
//!
//! The L4STeam tree of 2020 is older (v5.4): there a session became
//! interactive at the third reply, a full segment with PSH was not
//! acknowledged at once, and PRR's slow-start bound asked for a retransmission
//! to have been acknowledged. These are not switchable.

#![forbid(unsafe_code)]

mod accecn;
mod ack;
mod build;
mod config;
mod congestion;
mod connection;
mod delayed_ack;
mod ecn;
mod endpoint;
mod event;
mod fast_open;
mod fq;
mod handshake;
mod info;
mod input;
mod limits;
mod loss;
mod mtu_probing;
mod output;
mod pacing;
mod path_mtu;
mod probe;
mod push;
mod rack;
mod rate_sample;
mod reassembly;
mod recovery;
mod rtt;
mod sack;
mod scoreboard;
mod send_buffer;
mod sequence;
mod small_queues;
#[cfg(feature = "testkit")]
pub mod testkit;
mod time_wait;
mod timers;
mod timestamps;
mod window;

pub use build::reset_for;
pub use config::{
    AccEcnOptionUse, EcnMode, Gro, HostModel, KeepAlive, PacingUse, ReceiveBuffer, ReceiveTuning,
    Segmentation, SendBuffer, SmallQueues, TcpConfig,
};
pub use connection::Connection;
pub use event::{TcpEvent, TcpState};
pub use mtu_probing::{MtuProbing, MtuProbingUse};
