//! From a checked plan to everything that a run keeps.

use std::collections::BTreeMap;
use std::net::IpAddr;

use narrows_efm::Marker;
use narrows_packet::{FlowId, Role};
use narrows_path::paths::Paths;
use narrows_path::routes::{Hop, Routes};
use narrows_scenario::endpoints::{Ends, MAX_FLOWS, MAX_PROBES};
use narrows_scenario::{FlowPlan, HostIndex, NameTable, Plan, ProbePlan, Transport, assemble};
use narrows_tcp::{Config, Connection};
use narrows_traffic::Generator;
use narrows_traffic::probe::{Asker, PAYLOAD_LEN};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{ip, udp};

use crate::control::SimError;
use crate::engine::Simulation;
use crate::flow::{Carrier, Envelope, Flow, Phase, Socket};
use crate::host::{Node, Owner};
use crate::model::{self, ModelEnd};
use crate::probe::ProbeState;
use crate::quic::{self, QuicEnd};

impl Simulation {
    /// Builds everything that `plan` names; randomness comes from `seed` and
    /// the names.
    ///
    /// # Errors
    /// When the plan cannot be run: see [`SimError`].
    pub fn new(plan: &Plan, seed: u64) -> Result<Self, SimError> {
        accepts(plan)?;
        for (what, count, most) in [
            ("flows", plan.flows.len(), MAX_FLOWS),
            ("probes", plan.probes.len(), MAX_PROBES),
        ] {
            if count > most {
                return Err(SimError::TooMany { what, count, most });
            }
        }
        let names = NameTable::of(plan);
        let assembled = assemble(plan, &names, seed)?;
        let mut build = Builder {
            plan,
            seed,
            names: &names,
            routes: plan.routes(),
            nodes: nodes(plan, &names),
        };
        build.marks();
        let (mut ends, mut flows) = (FlowEnds::default(), Vec::new());
        for (i, flow) in plan.flows.iter().enumerate() {
            flows.push(build.flow(i, flow, &mut ends)?);
        }
        let FlowEnds {
            sockets,
            quics,
            models,
        } = ends;
        let mut probes = Vec::new();
        for (i, probe) in plan.probes.iter().enumerate() {
            probes.push(build.probe(i, probe)?);
        }
        let addresses = plan
            .hosts
            .iter()
            .enumerate()
            .flat_map(|(i, h)| [(IpAddr::V4(h.ipv4), i), (IpAddr::V6(h.ipv6), i)])
            .collect::<BTreeMap<_, _>>();
        let ends = sockets.len() + quics.len() + models.len();
        let slots = ends + flows.len() + probes.len();
        let mut sim = Self {
            end: Instant::ZERO + plan.duration,
            // A sampler that never advances would hang the run.
            sample_interval: plan.sample_interval.max(Duration::from_micros(1)),
            paths: Paths::new(assembled.stages, slots + 1 + assembled.changes.len()),
            nodes: build.nodes,
            routes: build.routes,
            names,
            links: assembled.links,
            addresses,
            sockets,
            flows,
            probes,
            quics,
            models,
            changes: assembled.changes,
            ..Self::empty()
        };
        sim.first_wakes();
        Ok(sim)
    }
}

/// Whether there is anything in a checked plan that needs real hosts.
///
/// # Errors
/// [`SimError::Kernel`], [`SimError::Unrepeatable`] and [`SimError::Command`].
pub fn accepts(plan: &Plan) -> Result<(), SimError> {
    if let Some(command) = plan.commands.first() {
        return Err(SimError::Command {
            command: command.name.clone(),
        });
    }
    let mut quic = plan.flows.iter().filter_map(|f| Some((f, f.cc.quic()?)));
    if let Some((flow, control)) = quic.find(|(_, control)| !control.repeats()) {
        return Err(SimError::Unrepeatable {
            flow: flow.name.clone(),
            control: control.to_string(),
        });
    }
    let streams = plan.flows.iter().filter(|f| f.is_tcp());
    match streams.into_iter().find(|f| f.cc.simulated().is_none()) {
        None => Ok(()),
        Some(flow) => Err(SimError::Kernel {
            flow: flow.name.clone(),
            control: flow.cc.to_string(),
        }),
    }
}

/// Ends of all flows' connections.
#[derive(Default)]
struct FlowEnds {
    sockets: Vec<Socket>,
    quics: Vec<QuicEnd>,
    models: Vec<ModelEnd>,
}

struct Builder<'p> {
    plan: &'p Plan,
    seed: u64,
    names: &'p NameTable,
    routes: Routes,
    nodes: Vec<Node>,
}

fn nodes(plan: &Plan, names: &NameTable) -> Vec<Node> {
    let node = |h: &narrows_scenario::HostPlan| Node {
        entity: names.id(&format!("host/{}", h.name)).unwrap_or_default(),
        forwards: h.router,
        ipv4: h.ipv4.octets(),
        ipv6: h.ipv6.octets(),
        ..Node::default()
    };
    plan.hosts.iter().map(node).collect()
}

impl Builder<'_> {
    /// Puts the markers of each host where its packets leave and arrive.
    fn marks(&mut self) {
        for mark in &self.plan.marks {
            for HostIndex(host) in &mark.hosts {
                let marker = Marker::new(&mark.signals).only(mark.flows.clone());
                self.nodes[*host].markers.push((mark.name.clone(), marker));
            }
        }
    }

    /// The first hops from `a` to `b` and back, and the smallest MTU between
    /// them.
    fn path(&self, what: &str, a: HostIndex, b: HostIndex) -> Result<(Hop, Hop, u32), SimError> {
        let refuse = || SimError::NoPath {
            what: what.to_owned(),
            from: self.plan.hosts[a.0].name.clone(),
            to: self.plan.hosts[b.0].name.clone(),
        };
        let there = self.routes.path(a.0, b.0).map_err(|_| refuse())?;
        let back = self.routes.path(b.0, a.0).map_err(|_| refuse())?;
        let (Some(first), Some(second)) = (there.first(), back.first()) else {
            return Err(refuse());
        };
        let mtus = there
            .iter()
            .chain(&back)
            .map(|h| self.plan.links[h.link].mtu);
        Ok((*first, *second, mtus.min().unwrap_or(1500)))
    }

    fn flow(&mut self, i: usize, plan: &FlowPlan, ends: &mut FlowEnds) -> Result<Flow, SimError> {
        let sockets = &mut ends.sockets;
        let name = format!("flow/{}", plan.name);
        let Ends {
            opener: (_, near),
            answerer: (answers, far),
        } = self.plan.flow_ends(i);
        let (hop, hop_back, mtu) = self.path(&name, plan.opens, answers)?;
        let carrier = if plan.transport == Transport::Quic {
            let [opener, answerer] = quic::ends(self.plan, i, self.seed, mtu, [hop, hop_back]);
            let number = ends.quics.len() as u32;
            for (at, end) in [(number, &opener), (number + 1, &answerer)] {
                self.nodes[end.node as usize].ports.listen(
                    ip::UDP,
                    end.connection.config().local.port(),
                    Owner::Quic(at),
                );
            }
            ends.quics.extend([opener, answerer]);
            Carrier::Quic {
                opener: number,
                sender: number + u32::from(plan.opens != plan.from),
            }
        } else if let Some(spec) = plan.transport.modelled() {
            let [opener, answerer] = model::ends(self.plan, i, self.seed, spec, [hop, hop_back]);
            let number = ends.models.len() as u32;
            for (at, end) in [(number, &opener), (number + 1, &answerer)] {
                self.nodes[end.envelope.node as usize].ports.listen(
                    ip::UDP,
                    end.envelope.source.port(),
                    Owner::Model(at),
                );
            }
            ends.models.extend([opener, answerer]);
            Carrier::Model {
                opener: number,
                sender: number + u32::from(plan.opens != plan.from),
            }
        } else if plan.traffic.is_datagram() {
            let from_opener = plan.from == plan.opens;
            let (source, destination) = if from_opener {
                (near, far)
            } else {
                (far, near)
            };
            self.nodes[plan.to.0].ports.listen(
                ip::UDP,
                destination.port(),
                Owner::Datagrams(i as u32),
            );
            Carrier::Datagrams(Envelope {
                node: plan.from.0 as u32,
                hop: if from_opener { hop } else { hop_back },
                source,
                destination,
                traffic_class: plan.dscp << 2,
                ident: 0,
            })
        } else {
            let cc = plan.cc.simulated().ok_or_else(|| SimError::Kernel {
                flow: plan.name.clone(),
                control: plan.cc.to_string(),
            })?;
            let opener = sockets.len() as u32;
            for (role, host, hop, local, remote) in [
                (Role::Initiator, plan.opens, hop, near, far),
                (Role::Responder, answers, hop_back, far, near),
            ] {
                let end = if role == Role::Initiator {
                    "opener"
                } else {
                    "answerer"
                };
                let rng = Rng::for_name(self.seed, &format!("{name}/{end}"));
                let config = Config {
                    ecn: plan.ecn,
                    dscp: plan.dscp,
                    mtu,
                    fast_open: plan.fast_open,
                    host: plan.host,
                    flow: Some(FlowId(i as u32)),
                    ..Config::new(local, remote, cc.clone())
                };
                let owner = Owner::Socket(sockets.len() as u32);
                self.nodes[host.0]
                    .ports
                    .listen(ip::TCP, local.port(), owner);
                sockets.push(Socket {
                    connection: match role {
                        Role::Initiator => Connection::client(config, rng),
                        Role::Responder => Connection::server(config, rng),
                    },
                    node: host.0 as u32,
                    hop,
                    flow: i as u32,
                    role,
                    sends: host == plan.from,
                    remote,
                    closing: false,
                });
            }
            let sender = opener + u32::from(plan.opens != plan.from);
            Carrier::Connection { opener, sender }
        };
        Ok(Flow {
            id: FlowId(i as u32),
            start: plan.start,
            stop: plan.stop,
            generator: Generator::new(plan.traffic),
            carrier,
            phase: Phase::Waiting,
            delivered: 0,
            established: false,
            ecn: false,
            accecn: false,
            complete: false,
            broken: false,
            limited: Default::default(),
        })
    }

    fn probe(&mut self, i: usize, plan: &ProbePlan) -> Result<ProbeState, SimError> {
        let name = format!("probe/{}", plan.name);
        let (hop, hop_back, _) = self.path(&name, plan.from, plan.to)?;
        let ends = self.plan.probe_ends(i);
        let (near, far) = (ends.opener.1, ends.answerer.1);
        let owner = Owner::Asker(i as u32);
        self.nodes[plan.from.0]
            .ports
            .listen(ip::UDP, near.port(), owner);
        let owner = Owner::Answerer(i as u32);
        self.nodes[plan.to.0]
            .ports
            .listen(ip::UDP, far.port(), owner);
        let envelope = |node: HostIndex, hop, source, destination| Envelope {
            node: node.0 as u32,
            hop,
            source,
            destination,
            traffic_class: plan.dscp << 2 | plan.ecn as u8,
            ident: 0,
        };
        let headers = 20 + udp::HEADER_LEN as u32;
        let end = Instant::ZERO + self.plan.duration;
        let stop = plan.stop.unwrap_or(end).min(end);
        Ok(ProbeState {
            entity: self.names.id(&name).unwrap_or_default(),
            asker: Asker::new(plan.interval, plan.start, stop),
            payload_len: plan.size.saturating_sub(headers).max(PAYLOAD_LEN as u32),
            question: envelope(plan.from, hop, near, far),
            answer: envelope(plan.to, hop_back, far, near),
        })
    }
}
