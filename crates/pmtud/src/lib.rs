//! Datagram Packetization Layer Path MTU Discovery (RFC 8899), without I/O.
//!
//! [`Discovery`] is the state machine of RFC 8899 section 5.2 for one path: it says which probe
//! to send next, takes acknowledgements, losses and packet-too-big reports, and knows the
//! largest datagram that has been confirmed. Which sizes it tries is the business of a
//! [`Search`]; whether a path that carried large datagrams has stopped to is decided by a
//! [`BlackHole`] detector. Time is an argument, nothing is drawn at random.
//!
//! [`Client`] and [`Server`] are the two ends of a tool by which paths are tried: a server that
//! authenticates who asks and never sends more than came, and a client that has one search after
//! the other find the MTU of the way there, and then looks at the way back.
//!
//! Sizes are those of the packetization layer's datagram, for UDP its payload: the packet less
//! the headers of IP and UDP ([`Settings::headers`]).
//!
//! ```
//! use narrows_pmtud::{Discovery, Search, Settings, State};
//! use narrows_units::{Duration, Instant};
//!
//! // A path of which the narrowest link carries packets of 1492 bytes, and which is silent.
//! let largest = 1492 - 28;
//! let mut discovery = Discovery::new(Settings::ipv4(1500), Search::parse("binary").unwrap());
//! let mut now = Instant::ZERO;
//! discovery.connected();
//! while discovery.state() != State::SearchComplete {
//!     while let Some(probe) = discovery.poll_probe(now) {
//!         if probe.size <= largest {
//!             discovery.acknowledged(now + Duration::from_millis(50), probe.number);
//!         }
//!     }
//!     now = discovery.timeout().unwrap();
//!     discovery.on_timeout(now);
//! }
//! assert_eq!(discovery.plpmtu(), largest);
//! ```

#![forbid(unsafe_code)]

pub mod arena;
mod black_hole;
mod client;
mod counts;
mod discovery;
mod message;
mod report;
mod search;
mod server;
mod settings;
mod timer;

pub use black_hole::{BlackHole, LossRule};
pub use client::{Client, ClientSettings, Fate, Found, Stage, Step, Way};
pub use counts::Counts;
pub use discovery::{Discovery, Probe, Purpose, State};
pub use message::{MESSAGE_LEN, Message, MessageKind, TOKEN_LEN};
pub use report::{Effect, Report};
pub use search::{Known, SEARCH_WORDS, SEARCHES, Search, Stack};
pub use server::{Server, ServerCounts, ServerSettings, Transmit};
pub use settings::{Reports, Settings};
pub use timer::{ProbeTimer, Timers};
