//! Simulated hosts and routers: sockets and listeners, the applications on them, and
//! the hooks that their packets pass.
//!
//! [`Hosts`] keeps all nodes of a run. An engine hands it packets that arrive
//! ([`Hosts::arrive`]) and wakes it at the times for which it asked
//! ([`Hosts::wake`]); it calls applications ([`App`](narrows_core::App)), which act
//! through sockets ([`Sockets`](narrows_core::Sockets)), and puts packets on their way.
//! Connections come and go while a run goes on; a packet finds its socket by its
//! five-tuple.
//!
//! ```
//! use narrows_host::{AppOn, Hosts, Net, Node, Options, Part, Topology, Transport};
//! use narrows_core::{EntityId, NullSink, Profile};
//! use narrows_path::{paths::Paths, routes};
//! use narrows_app::Responder;
//! use narrows_units::Instant;
//!
//! // One host, with a responder to latency probes.
//! let address = "10.0.0.1:2112".parse()?;
//! let node = Node::new(EntityId(0), false, [10, 0, 0, 1].into(), "fd00::1".parse()?);
//! let routes = routes::shortest(&[false], &[], &[]);
//! let topology = Topology { nodes: vec![node], links: Vec::new(), routes,
//!     routed: Vec::new() };
//! let datagrams = Options {
//!     transport: Transport::Datagrams,
//!     traffic_class: 0,
//!     flow: None,
//!     part: Part::Receives,
//!     name: "probe/ping".to_owned(),
//!     rng: None,
//! };
//! let mut hosts = Hosts::new(topology, vec![datagrams], 1, 0);
//! let mut net = Net {
//!     now: Instant::ZERO,
//!     paths: &mut Paths::default(),
//!     sink: &mut NullSink,
//!     system: None,
//! };
//! let app = Box::new(Responder::new(Profile(0), address, 36));
//! let apps = vec![AppOn { node: 0, name: "probe/ping".to_owned(), app }];
//! hosts.start(&mut net, apps).map_err(|(name, why)| format!("{name}: {why}"))?;
//! assert_eq!(hosts.sockets(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod address;
mod api;
mod hosts;
mod icmp;
mod node;
mod numbers;
mod ports;
mod profile;
mod receive;
mod sample;
mod socket;
mod stack;
mod system;
mod table;

pub use hosts::{AppOn, Hosts, Net, Topology};
pub use node::Node;
pub use profile::{Options, Part, Transport};
pub use system::System;
