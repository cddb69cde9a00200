//! Header bytes as typed views and back, checksums, and capture files.
//!
//! Views borrow the bytes of a packet that starts at its IP header; nothing
//! here knows of packets, time or engines.

#![forbid(unsafe_code)]

pub mod capture;
pub mod checksum;
pub mod efm;
mod error;
mod flow;
pub mod icmp;
pub mod ip;
pub mod link;
pub mod plus;
pub mod quic;
pub mod quic_model;
pub mod tcp;
pub mod udp;

pub use efm::{Profile, Signal};
pub use error::Malformed;
pub use flow::FlowKey;
pub use icmp::Icmp;
pub use ip::{Ecn, Ip, IpFields};
pub use plus::Plus;
pub use quic::Quic;
pub use quic_model::QuicModel;
pub use tcp::{SackList, Tcp, TcpFields, TcpFlags, TcpOptions};
pub use udp::{Udp, UdpFields};
