//! From a plan to threads that serve hosts and sample their sockets.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use narrows_app::FlowAccount;
use narrows_bpf::SocketOptions;
use narrows_core::{EntityId, FlowId};
use narrows_engine::{Carrier, Setup, SocketPlan};
use narrows_host::{Node, Topology};
use narrows_linux::tcp_info::EcnLayout;
use narrows_linux::{LinuxError, Stop};
use narrows_path::paths::{Link, Next};
use narrows_quic::Tls;
use narrows_scenario::{HostIndex, HostPlan, LinkPlan, Plan};
use narrows_units::Instant;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::error::FlowError;
use super::facts::EndFacts;
use super::host::{Host, Work};
use super::host_model;
use super::options::Owner;
use super::{ControlOf, HostOf};
use crate::sample::{Sampler, SenderWatch};
use crate::{Clock, FlowFacts, Namespace, Reporter};

/// File descriptors that a process needs for itself and what else a run
/// opens.
const OTHER_FILES: u64 = 256;

/// File descriptors of the connections that an application has at once (our choice: far more
/// than those of a page or a household).
const FILES_OF_APP: u64 = 4_096;

/// The plan's applications, at work: each host has a thread that serves theirs, and
/// one that samples its TCP senders, if it has such.
///
/// They begin at the plan's times on the run's clock, and go on until
/// [`stop`](Self::stop) or until this is dropped; no thread is left half a
/// second later, whatever the other end of a connection does.
#[derive(Debug)]
pub struct Flows {
    stop: Stop,
    facts: Vec<FlowFacts>,
    accounts: Vec<Arc<FlowAccount>>,
    threads: Vec<JoinHandle<Vec<EndFacts>>>,
    samplers: Vec<JoinHandle<io::Result<()>>>,
}

/// A host's thread reports that it is set up, and waits for the start.
struct Ready {
    ready: Sender<Result<(), FlowError>>,
    start: Receiver<()>,
}

impl Flows {
    /// What both engines make of `plan`, with the cryptography of real QUIC; `seed`
    /// decides which ends of QUIC spin.
    ///
    /// # Errors
    /// One line for what cannot be had.
    pub fn set_up(plan: &Plan, seed: u64, clock: &Clock) -> Result<Setup, FlowError> {
        let tls = tls_for(plan)?;
        Ok(Setup::of(plan, seed, clock.epoch(), tls.as_ref())?)
    }

    /// Starts the applications of `setup` on a thread in each of the hosts of `plan` that
    /// have some. `control` says what the kernel calls a socket's congestion control,
    /// `options` set those of sockets with controls of ours.
    ///
    /// # Errors
    /// One line for the first thing that this machine cannot do. Nothing runs
    /// then.
    pub fn start(
        plan: &Plan,
        setup: Setup,
        host: &HostOf<'_>,
        control: &ControlOf<'_>,
        options: &[SocketOptions],
        clock: Clock,
        reporter: &Reporter,
    ) -> Result<Self, FlowError> {
        // A flow that goes by a proxy has two connections, each with two ends.
        let of_flows = 4 * (plan.flows.len() + plan.probes.len()) as u64;
        open_files(of_flows + FILES_OF_APP * plan.apps.len() as u64 + OTHER_FILES);
        let stop = Stop::new().map_err(|reason| FlowError::Host {
            host: "*".to_owned(),
            action: "stop threads",
            reason,
        })?;
        let mut flows = Self {
            stop: stop.clone(),
            facts: facts(plan),
            accounts: setup.accounts,
            threads: Vec::new(),
            samplers: Vec::new(),
        };
        let watches = (0..plan.flows.len()).map(|i| SenderWatch::new(FlowId(i as u32)));
        let watches: Vec<_> = watches.map(|w| Arc::new(Mutex::new(w))).collect();
        let mut hosts: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for app in setup.apps {
            hosts.entry(app.node).or_default().push(app);
        }
        for command in &plan.commands {
            hosts.entry(command.host.0).or_default();
        }
        let controls: Vec<_> = setup.sockets.iter().map(|s| name_of(s, control)).collect();
        let mut begin = Vec::new();
        for (index, apps) in hosts {
            let index = HostIndex(index);
            let (namespace, host) = (host(index), plan.host(index));
            let settings = host_model::settings(plan, index);
            let settings: Vec<_> = settings.iter().map(|(k, v)| (*k, v.as_str())).collect();
            namespace
                .set_sysctls(&settings)
                .map_err(|e| FlowError::Host {
                    host: host.name.clone(),
                    action: "set the switches of its TCP",
                    reason: io::Error::other(e.to_string()),
                })?;
            let sampler = sampler(plan, index, &watches, clock, reporter);
            let work = Work {
                node: index.0,
                topology: topology(plan),
                flows: plan.flows.len(),
                apps,
                sockets: setup.sockets.clone(),
                controls: controls.clone(),
                options: options.to_vec(),
                watches: watches.clone(),
                seed: setup.seed,
                sample_interval: plan.sample_interval,
                clock,
                reporter: reporter.clone(),
                stop: stop.clone(),
            };
            // What was started before an error ends with `flows`.
            begin.extend(flows.start_in(&namespace, &host.name, work, sampler)?);
        }
        // No flow opens before all that are to answer do listen.
        for go in begin {
            let _ = go.send(());
        }
        Ok(flows)
    }

    fn start_in(
        &mut self,
        namespace: &Namespace,
        name: &str,
        work: Work,
        sampler: Option<Sampler>,
    ) -> Result<Option<Sender<()>>, FlowError> {
        let failed = |reason| FlowError::Host {
            host: name.to_owned(),
            action: "have a thread",
            reason,
        };
        let refused = |e: LinuxError| failed(io::Error::other(e.to_string()));
        let mut begin = None;
        if !work.apps.is_empty() {
            let (ready, is_ready, may_start) = ready();
            let body = move || ready.run(work);
            self.threads
                .push(namespace.spawn("host", body).map_err(refused)?);
            // A thread that says nothing has panicked, and printed why.
            is_ready
                .recv()
                .unwrap_or_else(|_| Err(failed(io::ErrorKind::BrokenPipe.into())))?;
            begin = Some(may_start);
        }
        if let Some(sampler) = sampler {
            let stop = self.stop.clone();
            let body = move || sampler.run(&stop);
            self.samplers
                .push(namespace.spawn("samples", body).map_err(refused)?);
        }
        Ok(begin)
    }

    /// Ends all flows, and says what the kernel made of each, in the plan's
    /// order.
    pub fn stop(&mut self) -> Vec<FlowFacts> {
        self.stop.request();
        let layout = EcnLayout::of_this_kernel();
        let mut broken = BTreeMap::new();
        for thread in self.threads.drain(..) {
            // A panic there was printed there; the flows' facts stay empty.
            for mut end in thread.join().unwrap_or_default() {
                if let Some(why) = end.broken.take() {
                    broken.entry(end.flow).or_insert(why);
                }
                let facts = &mut self.facts[end.flow];
                end.add_to(facts, layout);
            }
        }
        for (i, account) in self.accounts.drain(..).enumerate() {
            // The kernel has no sockets of our own transports.
            let plain = || {
                account
                    .broken()
                    .then(|| "its connection was broken off".to_owned())
            };
            let why = broken.remove(&i).or_else(plain);
            self.facts[i]
                .notes
                .extend(why.filter(|_| !account.complete()));
        }
        for thread in self.samplers.drain(..) {
            if let Ok(Err(e)) = thread.join() {
                let note = format!("its socket could not be sampled while it ran: {e}");
                let facts = self.facts.iter_mut();
                facts.for_each(|f| f.notes.push(note.clone()));
            }
        }
        self.facts.clone()
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.stop();
    }
}

fn ready() -> (Ready, Receiver<Result<(), FlowError>>, Sender<()>) {
    let (ready, is_ready) = channel();
    let (may_start, start) = channel();
    (Ready { ready, start }, is_ready, may_start)
}

impl Ready {
    /// Starts a host's applications, says whether that went well, and serves them from
    /// the epoch on if it did everywhere. A flow that opened before would do so on a path
    /// that carries nothing yet.
    fn run(self, work: Work) -> Vec<EndFacts> {
        let (clock, stop) = (work.clock, work.stop.clone());
        let made = Host::new(work);
        let (outcome, host) = match made {
            Ok(host) => (Ok(()), Some(host)),
            Err(error) => (Err(error), None),
        };
        let _ = self.ready.send(outcome);
        match (host, self.start.recv()) {
            (Some(host), Ok(())) => {
                // A host that is stopped before then returns from `run` at once.
                stop.wait_until(&clock, Instant::ZERO);
                host.run()
            }
            _ => Vec::new(),
        }
    }
}

/// What is known of the flows before they begin.
fn facts(plan: &Plan) -> Vec<FlowFacts> {
    let of = |flow: &narrows_scenario::FlowPlan| {
        let mut notes = Vec::new();
        if let Some(tcp) = flow.transport.tcp() {
            notes.extend(host_model::notes(plan, flow.from, tcp));
            if tcp.fast_open && flow.opens != flow.from && flow.via.is_none() {
                notes.push(
                    "no data goes with its SYN: the end that opens it has none to send".to_owned(),
                );
            }
        }
        let control = flow.transport.quic().map(|quic| quic.cc.to_string());
        FlowFacts {
            name: flow.name.clone(),
            congestion_control: control.unwrap_or_default(),
            notes,
            ..FlowFacts::default()
        }
    };
    plan.flows.iter().map(of).collect()
}

/// The plan's hosts and links. What a packet meets on its way is none of a host's
/// business: it leaves by a socket.
fn topology(plan: &Plan) -> Topology {
    let node = |(i, h): (usize, &HostPlan)| Node::new(EntityId(i as u32), h.router, h.ipv4, h.ipv6);
    let link = |(i, l): (usize, &LinkPlan)| Link {
        entity: EntityId(i as u32),
        mtu: l.mtu,
        up: Next::Node(l.ends.1.0 as u32),
        down: Next::Node(l.ends.0.0 as u32),
    };
    Topology {
        nodes: plan.hosts.iter().enumerate().map(node).collect(),
        links: plan.links.iter().enumerate().map(link).collect(),
        routes: plan.routes(),
        routed: plan.routed(),
    }
}

/// TLS for what of `plan` runs over QUIC, if there is any.
fn tls_for(plan: &Plan) -> Result<Option<Arc<Tls>>, FlowError> {
    let mut quic = plan.transports().filter(|(_, t)| t.quic().is_some());
    let Some((owner, _)) = quic.next() else {
        return Ok(None);
    };
    let made = crate::tls::both().map_err(Owner(&owner).cannot("prepare TLS"))?;
    Ok(Some(Arc::new(made)))
}

/// What the kernel calls the congestion control of a socket, if it has one.
fn name_of(socket: &SocketPlan, control: &ControlOf<'_>) -> String {
    match &socket.carrier {
        Carrier::Tcp(tcp) => control(socket, &tcp.control),
        Carrier::Shared(_) => String::new(),
    }
}

/// What samples the TCP sockets of `host`, if there are endpoints.
fn sampler(
    plan: &Plan,
    host: HostIndex,
    watches: &[Arc<Mutex<SenderWatch>>],
    clock: Clock,
    reporter: &Reporter,
) -> Option<Sampler> {
    let mut sampler = Sampler {
        interval: plan.sample_interval,
        clock,
        reporter: reporter.clone(),
        senders: BTreeMap::new(),
    };
    let flows = plan.flows.iter().enumerate();
    for (i, flow) in flows.filter(|(_, f)| f.transport.tcp().is_some()) {
        let ends = plan.flow_ends(i);
        let proxy = plan.proxy_ends(i);
        let near = proxy.map_or(ends.answerer.1, |proxy| proxy.near);
        let far = proxy.map_or(ends.opener.1, |proxy| proxy.far);
        for (here, there) in [(ends.opener, near), (ends.answerer, far)] {
            if here.0 == host && flow.from == host {
                let addresses = (here.1, there);
                sampler.senders.insert(addresses, Arc::clone(&watches[i]));
            }
        }
    }
    (!sampler.senders.is_empty()).then_some(sampler)
}

/// Lets the process open `count` files, if it may; what it may not have shows
/// when a socket is opened.
fn open_files(count: u64) {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        if soft < count {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, count.min(hard), hard);
        }
    }
}
