//! From a checked plan to everything that a run keeps.

use std::net::{Ipv4Addr, SocketAddr};

use narrows_efm::SignalHook;
use narrows_engine::{Carrier, Setup, SocketPlan};
use narrows_host::{Hosts, Node, Options, Topology, Transport};
use narrows_path::paths::{Next, Paths};
use narrows_path::wakes::Slot;
use narrows_quic::Epoch;
use narrows_scenario::{HostIndex, NameTable, Plan, Traffic, assemble};
use narrows_tcp::{ReceiveBuffer, TcpConfig};
use narrows_units::{Duration, Instant};

use crate::engine::Simulation;
use crate::outcome::SimError;

impl Simulation {
    /// Builds everything that `plan` names; randomness comes from `seed` and
    /// the names.
    ///
    /// # Errors
    /// When the plan cannot be run: see [`SimError`].
    pub fn new(plan: &Plan, seed: u64) -> Result<Self, SimError> {
        accepts(plan)?;
        let plan = &plan.for_seed(seed);
        // What QUIC does depends on differences of time alone.
        let epoch = Epoch::at(std::time::Instant::now());
        let setup = Setup::of(plan, seed, epoch, None)?;
        let profiles = setup
            .sockets
            .into_iter()
            .map(options)
            .collect::<Result<_, _>>()?;
        let names = NameTable::of(plan);
        let assembled = assemble(plan, &names, seed, |link, up| {
            let (first, second) = plan.links[link].ends;
            Next::Node(if up { second.0 } else { first.0 } as u32)
        })?;
        // The sampler's and that of timed changes.
        let own_slots = 2;
        let first_slot = (assembled.stages.len() + own_slots) as Slot;
        let topology = Topology {
            nodes: nodes(plan, &names),
            links: assembled.links,
            routes: plan.routes(),
            routed: plan.routed(),
        };
        Ok(Self {
            end: Instant::ZERO + plan.duration,
            // A sampler that never advances would hang the run.
            sample_interval: plan.sample_interval.max(Duration::from_micros(1)),
            paths: Paths::new(assembled.stages, own_slots),
            hosts: Hosts::new(topology, profiles, seed, first_slot).with_flows(plan.flows.len()),
            apps: setup.apps,
            accounts: setup.accounts,
            names,
            changes: assembled.changes,
            changed: 0,
            placed: assembled.placed,
            now: Instant::ZERO,
            events: 0,
            packet_hops: 0,
        })
    }
}

/// A plan's socket options for simulated hosts.
fn options(socket: SocketPlan) -> Result<Options, SimError> {
    let name = socket.name();
    let SocketPlan {
        carrier,
        traffic_class,
        flow,
        part,
        owner,
        rng,
        ..
    } = socket;
    let transport = match carrier {
        Carrier::Shared(transport) => transport,
        Carrier::Tcp(tcp) => {
            let control = tcp.control.simulated().ok_or_else(|| SimError::Kernel {
                owner: owner.clone(),
                control: tcp.control.to_string(),
            })?;
            // Each connection gets its own addresses.
            let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            let usual = TcpConfig::new(nowhere, nowhere, control);
            let receive_buffer = match (tcp.window, usual.receive_buffer) {
                (Some(max), ReceiveBuffer::Auto { initial, .. }) => ReceiveBuffer::Auto {
                    initial: initial.min(max),
                    max,
                },
                (_, usual) => usual,
            };
            Transport::Tcp(Box::new(TcpConfig {
                ecn: tcp.ecn,
                dscp: traffic_class >> 2,
                fast_open: tcp.fast_open,
                host: tcp.host,
                receive_buffer,
                unsent_low_water: tcp.unsent,
                flow,
                ..usual
            }))
        }
    };
    Ok(Options {
        transport,
        traffic_class,
        flow,
        part,
        name,
        rng,
    })
}

/// Whether there is anything in a checked plan that needs real hosts or real time.
///
/// # Errors
/// [`SimError::Kernel`], [`SimError::Unrepeatable`], [`SimError::Command`] and
/// [`SimError::Timeless`].
pub fn accepts(plan: &Plan) -> Result<(), SimError> {
    if let Some(command) = plan.commands.first() {
        return Err(SimError::Command {
            command: command.name.clone(),
        });
    }
    let mut quic = plan
        .transports()
        .filter_map(|(owner, transport)| Some((owner, transport.quic()?.cc)));
    if let Some((owner, control)) = quic.find(|(_, control)| !control.repeats()) {
        let control = control.to_string();
        return Err(SimError::Unrepeatable { owner, control });
    }
    let routes = plan.routes();
    let mut bulk = plan.flows.iter().filter(|f| f.traffic == Traffic::Bulk);
    if let Some(flow) = bulk.find(|f| !plan.takes_time(&routes, f)) {
        return Err(SimError::Timeless {
            flow: flow.name.clone(),
        });
    }
    let legs = plan
        .proxies
        .iter()
        .flat_map(|p| [(p, "near", &p.near), (p, "far", &p.far)]);
    for (proxy, which, leg) in legs {
        if leg.cc.simulated().is_none() {
            return Err(SimError::KernelAtProxy {
                proxy: proxy.name.clone(),
                leg: which,
                control: leg.cc.to_string(),
            });
        }
    }
    let mut streams = plan
        .transports()
        .filter_map(|(owner, transport)| Some((owner, &transport.tcp()?.cc)));
    match streams.find(|(_, control)| control.simulated().is_none()) {
        None => Ok(()),
        Some((owner, control)) => Err(SimError::Kernel {
            owner,
            control: control.to_string(),
        }),
    }
}

/// The hosts and routers of a plan, with the plan's signals where packets leave and
/// arrive.
fn nodes(plan: &Plan, names: &NameTable) -> Vec<Node> {
    let node = |h: &narrows_scenario::HostPlan| {
        let entity = names.id(&format!("host/{}", h.name)).unwrap_or_default();
        Node::new(entity, h.router, h.ipv4, h.ipv6)
    };
    let mut nodes: Vec<_> = plan.hosts.iter().map(node).collect();
    for mark in &plan.marks {
        for HostIndex(host) in &mark.hosts {
            let marker = SignalHook::new(&mark.signals).only(mark.flows.clone());
            nodes[*host].signal_hooks.push((mark.name.clone(), marker));
        }
    }
    nodes
}
