//! From a checked plan to everything that a run keeps.

use std::sync::Arc;

use narrows_app::probe::{Asker, PAYLOAD_LEN};
use narrows_app::{
    DatagramSink, DatagramSource, End, Generator, Ledger, Prober, Responder, Sink, Source,
};
use narrows_efm::Marker;
use narrows_host::{AppOn, Hosts, Node, Options, Topology, Transport};
use narrows_packet::{App, FlowId, Profile, Role};
use narrows_path::paths::Paths;
use narrows_path::routes::Routes;
use narrows_path::wakes::Slot;
use narrows_quic::{Epoch, spin};
use narrows_scenario::endpoints::{MAX_FLOWS, MAX_PROBES};
use narrows_scenario::{EcnMode, HostIndex, NameTable, Plan, SpinUse, Traffic, assemble};
use narrows_tcp::Config;
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::udp;

use crate::control::SimError;
use crate::engine::Simulation;

impl Simulation {
    /// Builds everything that `plan` names; randomness comes from `seed` and
    /// the names.
    ///
    /// # Errors
    /// When the plan cannot be run: see [`SimError`].
    pub fn new(plan: &Plan, seed: u64) -> Result<Self, SimError> {
        accepts(plan)?;
        let plan = &plan.for_seed(seed);
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
        let routes = plan.routes();
        let mut build = Builder {
            plan,
            seed,
            names: &names,
            routes: &routes,
            epoch: Epoch::at(std::time::Instant::now()),
            profiles: Vec::new(),
            apps: Vec::new(),
            ledgers: Vec::new(),
        };
        for i in 0..plan.flows.len() {
            build.flow(i)?;
        }
        for i in 0..plan.probes.len() {
            build.probe(i)?;
        }
        let Builder {
            profiles,
            apps,
            ledgers,
            ..
        } = build;
        let own_slots = 1 + assembled.changes.len();
        let first_slot = (assembled.stages.len() + own_slots) as Slot;
        let topology = Topology {
            nodes: nodes(plan, &names),
            links: assembled.links,
            routes,
        };
        Ok(Self {
            end: Instant::ZERO + plan.duration,
            // A sampler that never advances would hang the run.
            sample_interval: plan.sample_interval.max(Duration::from_micros(1)),
            paths: Paths::new(assembled.stages, own_slots),
            hosts: Hosts::new(topology, profiles, seed, first_slot),
            apps,
            ledgers,
            names,
            changes: assembled.changes,
            now: Instant::ZERO,
            events: 0,
            packet_hops: 0,
        })
    }
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
    let mut quic = plan.flows.iter().filter_map(|f| Some((f, f.cc.quic()?)));
    if let Some((flow, control)) = quic.find(|(_, control)| !control.repeats()) {
        return Err(SimError::Unrepeatable {
            flow: flow.name.clone(),
            control: control.to_string(),
        });
    }
    let routes = plan.routes();
    let mut bulk = plan.flows.iter().filter(|f| f.traffic == Traffic::Bulk);
    if let Some(flow) = bulk.find(|f| !plan.takes_time(&routes, f)) {
        return Err(SimError::Timeless {
            flow: flow.name.clone(),
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

struct Builder<'p> {
    plan: &'p Plan,
    seed: u64,
    names: &'p NameTable,
    routes: &'p Routes,
    epoch: Epoch,
    profiles: Vec<Options>,
    apps: Vec<AppOn>,
    ledgers: Vec<Arc<Ledger>>,
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
            let marker = Marker::new(&mark.signals).only(mark.flows.clone());
            nodes[*host].markers.push((mark.name.clone(), marker));
        }
    }
    nodes
}

impl Builder<'_> {
    /// The smallest MTU between two hosts, there and back.
    fn mtu(&self, what: &str, a: HostIndex, b: HostIndex) -> Result<u32, SimError> {
        let refuse = |_| SimError::NoPath {
            what: what.to_owned(),
            from: self.plan.hosts[a.0].name.clone(),
            to: self.plan.hosts[b.0].name.clone(),
        };
        let there = self.routes.path(a.0, b.0).map_err(refuse)?;
        let back = self.routes.path(b.0, a.0).map_err(refuse)?;
        let hops = there.iter().chain(&back);
        let mtus = hops.map(|h| self.plan.links[h.link].mtu);
        Ok(mtus.min().unwrap_or(1500))
    }

    fn profile(&mut self, options: Options) -> Profile {
        self.profiles.push(options);
        Profile(self.profiles.len() as u32 - 1)
    }

    fn app(&mut self, HostIndex(node): HostIndex, name: &str, app: impl App + 'static) {
        self.apps.push(AppOn {
            node,
            name: name.to_owned(),
            app: Box::new(app),
        });
    }

    /// Puts both applications of flow `i` on their hosts.
    fn flow(&mut self, i: usize) -> Result<(), SimError> {
        let plan = &self.plan.flows[i];
        let name = format!("flow/{}", plan.name);
        let ends = self.plan.flow_ends(i);
        let mtu = self.mtu(&name, plan.opens, ends.answerer.0)?;
        let ledger = Arc::new(Ledger::new(FlowId(i as u32)));
        self.ledgers.push(Arc::clone(&ledger));
        let [opener, answerer] = self.transports(i, mtu)?;
        for (role, (transport, rng), (host, local), (_, remote)) in [
            (Role::Initiator, opener, ends.opener, ends.answerer),
            (Role::Responder, answerer, ends.answerer, ends.opener),
        ] {
            let opens = role == Role::Initiator;
            let sends = host == plan.from;
            let profile = self.profile(Options {
                transport,
                traffic_class: plan.dscp << 2,
                flow: Some(FlowId(i as u32)),
                sends,
                name: format!("{name}/{}", if opens { "opener" } else { "answerer" }),
                rng,
            });
            let end = End {
                profile,
                local,
                remote,
                opens,
                start: plan.start,
                ledger: Arc::clone(&ledger),
            };
            let generator = Generator::new(plan.traffic);
            match (sends, plan.traffic.is_datagram()) {
                (true, false) => self.app(host, &name, Source::new(end, generator, plan.stop)),
                (false, false) => self.app(host, &name, Sink::new(end)),
                (true, true) => {
                    self.app(host, &name, DatagramSource::new(end, generator, plan.stop));
                }
                (false, true) => self.app(host, &name, DatagramSink::new(end)),
            }
        }
        Ok(())
    }

    /// What carries flow `i` at the end that opens it and at the other, over links that
    /// carry packets of `mtu` bytes.
    fn transports(&self, i: usize, mtu: u32) -> Result<[(Transport, Option<Rng>); 2], SimError> {
        let plan = &self.plan.flows[i];
        let ends = self.plan.flow_ends(i);
        let (near, far) = (ends.opener.1, ends.answerer.1);
        if plan.transport == narrows_scenario::Transport::Quic {
            let config = |local, remote| narrows_quic::Config {
                local,
                remote,
                control: plan.cc.quic().unwrap_or_default(),
                ecn: plan.ecn != EcnMode::Off,
                dscp: plan.dscp,
                mtu,
                spin: plan.spin != SpinUse::Greased,
                flow: Some(FlowId(i as u32)),
            };
            let (client, server) = (config(near, far), config(far, near));
            let on = plan.spin == SpinUse::On;
            let epoch = self.epoch;
            let (ours, theirs) =
                spin::generators(epoch, self.seed, &plan.name, on, &client, &server);
            return Ok([
                (Transport::Quic(client, epoch), Some(ours)),
                (Transport::Quic(server, epoch), Some(theirs)),
            ]);
        }
        if let Some(spec) = plan.transport.modelled() {
            let model = || (Transport::Model(*spec), None);
            return Ok([model(), model()]);
        }
        if plan.traffic.is_datagram() {
            let datagrams = || (Transport::Datagrams, None);
            return Ok([datagrams(), datagrams()]);
        }
        let cc = plan.cc.simulated().ok_or_else(|| SimError::Kernel {
            flow: plan.name.clone(),
            control: plan.cc.to_string(),
        })?;
        let config = |local, remote| Config {
            ecn: plan.ecn,
            dscp: plan.dscp,
            fast_open: plan.fast_open,
            host: plan.host,
            flow: Some(FlowId(i as u32)),
            ..Config::new(local, remote, cc.clone())
        };
        let tcp = |local, remote| (Transport::Tcp(Box::new(config(local, remote))), None);
        Ok([tcp(near, far), tcp(far, near)])
    }

    fn probe(&mut self, i: usize) -> Result<(), SimError> {
        let plan = &self.plan.probes[i];
        let name = format!("probe/{}", plan.name);
        self.mtu(&name, plan.from, plan.to)?;
        let ends = self.plan.probe_ends(i);
        let (near, far) = (ends.opener.1, ends.answerer.1);
        let profile = self.profile(Options {
            transport: Transport::Datagrams,
            traffic_class: plan.dscp << 2 | plan.ecn as u8,
            flow: None,
            sends: false,
            name: name.clone(),
            rng: None,
        });
        let headers = 20 + udp::HEADER_LEN as u32;
        let payload_len = plan.size.saturating_sub(headers).max(PAYLOAD_LEN as u32);
        let end = Instant::ZERO + self.plan.duration;
        let stop = plan.stop.unwrap_or(end).min(end);
        let asker = Asker::new(plan.interval, plan.start, stop);
        let entity = self.names.id(&name).unwrap_or_default();
        let prober = Prober::new(entity, profile, near, far, asker, payload_len);
        self.app(plan.from, &name, prober);
        self.app(plan.to, &name, Responder::new(profile, far, payload_len));
        Ok(())
    }
}
