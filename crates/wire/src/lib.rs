//! Header bytes as typed views and back, checksums, and capture files.
//!
//! Views borrow the bytes of a packet that starts at its IP header; nothing
//! here depends on packets, time or engines.
//!
//! ```
//! use narrows_wire::{Ecn, ip};
//!
//! let mut header = [
//!     0x45, 0x01, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
//! ];
//! assert_eq!(ip::ecn(&header), Ecn::Ect1);
//! ip::set_ecn(&mut header, Ecn::Ce);
//! assert_eq!(ip::ecn(&header), Ecn::Ce);
//! ```

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
mod rewrite;
pub mod tcp;
pub mod tunnel;
pub mod udp;

pub use efm::{Profile, Signal};
pub use error::Malformed;
pub use flow::FlowKey;
pub use icmp::Icmp;
pub use ip::{Ecn, Ip, IpFields};
pub use plus::Plus;
pub use quic::Quic;
pub use quic_model::QuicModel;
pub use rewrite::{PacketEnd, set_end};
pub use tcp::{SackList, Tcp, TcpFields, TcpFlags, TcpOptions};
pub use udp::{Udp, UdpFields};
