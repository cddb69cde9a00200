//! Resolved socket options, and the endpoints that are made with them.

use std::net::SocketAddr;

use narrows_core::{Endpoint, FlowId, Role};
use narrows_quic::datagram::Sealer;
use narrows_units::{Instant, Rng};
use narrows_wire::ip;
use narrows_wire::tcp::FastOpenCookie;

use crate::numbers;

/// What carries a socket's data.
#[derive(Clone, Debug)]
pub enum Transport {
    /// TCP; addresses, MTU and Fast Open cookie are filled in for each connection.
    Tcp(Box<narrows_tcp::TcpConfig>),
    /// QUIC, in a run whose time starts at the epoch; addresses and MTU are filled in.
    Quic(narrows_quic::QuicConfig, narrows_quic::Epoch),
    /// A modelled flow.
    Model(narrows_quic::model::ModelSpec),
    /// Datagrams.
    Datagrams,
    /// The machine's own TCP ([`System`](crate::System)).
    System,
}

/// What an end of a connection does for the flow that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It sends the flow's data: what its transport measures is reported as the flow's.
    Sends,
    /// It receives the flow's data.
    Receives,
    /// It is an end of a connection at a proxy in between: packets belong to the flow, what
    /// its transport measures does not.
    Relays,
}

/// A set of socket options.
#[derive(Clone, Debug)]
pub struct Options {
    /// What carries the data.
    pub transport: Transport,
    /// The traffic class of packets, where the transport does not set its own.
    pub traffic_class: u8,
    /// The flow of the plan that packets belong to.
    pub flow: Option<FlowId>,
    /// What this end does for that flow.
    pub part: Part,
    /// Seeds the randomness of connections: `flow/<name>/opener`.
    pub name: String,
    /// Randomness of the first connection, where it is not to come from the name.
    pub rng: Option<Rng>,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub role: Role,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// With which initial sequence number of TCP this one begins, if one is given.
    pub isn: Option<u32>,
}

/// What is known when an end of a connection is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub now: Instant,
    /// The largest IP packet that the first link takes, in bytes, or less as ICMP has reported.
    pub mtu: u32,
    /// The server's Fast Open cookie, if one is known.
    pub cookie: Option<&'a [u8]>,
}

/// Makes the endpoints of sockets that have the same options.
pub(crate) struct EndpointFactory {
    pub options: Options,
    connections: u64,
}

impl EndpointFactory {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            connections: 0,
        }
    }

    /// The protocol number of its packets.
    pub fn protocol(&self) -> u8 {
        match self.options.transport {
            Transport::Tcp(_) | Transport::System => ip::TCP,
            Transport::Quic(..) | Transport::Model(_) | Transport::Datagrams => ip::UDP,
        }
    }

    /// Randomness for the next connection: each has its own, by name.
    fn draw(&mut self, seed: u64) -> Rng {
        self.connections += 1;
        let name = &self.options.name;
        match (self.connections, self.options.rng.take()) {
            (1, Some(rng)) => rng,
            (1, None) => Rng::for_name(seed, name),
            (n, _) => Rng::for_name(seed, &format!("{name}/{n}")),
        }
    }

    /// The addressing of its datagrams.
    pub fn sealer(&self, source: SocketAddr, destination: SocketAddr) -> Sealer {
        Sealer {
            source,
            destination,
            dscp: self.options.traffic_class >> 2,
            flow: self.options.flow,
            ident: 0,
        }
    }

    /// A new end of a connection; `None` for datagrams.
    pub fn endpoint(
        &mut self,
        seed: u64,
        ends: Ends,
        known: Known<'_>,
    ) -> Option<Box<dyn Endpoint>> {
        let rng = self.draw(seed);
        let Ends {
            role,
            local,
            remote,
            isn,
        } = ends;
        let Known { now, mtu, cookie } = known;
        Some(match &self.options.transport {
            Transport::Tcp(config) => {
                let offset = numbers::timestamp_offset(seed, local.ip(), remote.ip());
                let config = narrows_tcp::TcpConfig {
                    local,
                    remote,
                    isn: isn.or_else(|| Some(numbers::isn(seed, local, remote, now))),
                    timestamp_offset: Some(offset),
                    mtu,
                    fast_open_cookie: cookie.and_then(FastOpenCookie::new),
                    ..(**config).clone()
                };
                Box::new(match role {
                    Role::Initiator => narrows_tcp::Connection::client(config, rng),
                    Role::Responder => narrows_tcp::Connection::server(config, rng),
                })
            }
            Transport::Quic(config, epoch) => {
                let config = narrows_quic::QuicConfig {
                    local,
                    remote,
                    mtu,
                    ..config.clone()
                };
                Box::new(narrows_quic::Socket::new(match role {
                    Role::Initiator => narrows_quic::Connection::client(config, *epoch, rng),
                    Role::Responder => narrows_quic::Connection::server(config, *epoch, rng),
                }))
            }
            Transport::Model(spec) => Box::new(narrows_quic::model::Socket::new(
                narrows_quic::model::Endpoint::new(*spec, role, (local.is_ipv4(), mtu), rng),
                self.sealer(local, remote),
            )),
            Transport::Datagrams | Transport::System => return None,
        })
    }
}
