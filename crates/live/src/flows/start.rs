//! From a plan to threads that send, receive and look.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use narrows_packet::FlowId;
use narrows_scenario::endpoints::{MAX_FLOWS, MAX_PROBES};
use narrows_scenario::{FlowPlan, HostIndex, NameTable, Plan, Traffic, Transport};
use narrows_traffic::Generator;
use narrows_traffic::probe::{Asker, PAYLOAD_LEN};
use narrows_units::{Duration, Instant};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::HostOf;
use super::datagrams::{Datagrams, Task, TaskPlan};
use super::ecn_switch::{Ask, EcnSwitch};
use super::error::FlowError;
use super::facts::EndFacts;
use super::host_model;
use super::quic::{self, Certificate, Quic, QuicPlan};
use super::sockets::StreamOptions;
use super::stop::Stop;
use super::stream_end::{EndPlan, Shared, StreamEnd};
use super::streams::Streams;
use crate::sample::{EcnLayout, OtherSocket, Sampler};
use crate::{Clock, FlowFacts, Namespace, Reporter};

/// Bytes of the IPv4 and UDP headers of a probe.
const PROBE_HEADERS: u32 = 20 + 8;

/// File descriptors that a process needs for itself and what else a run
/// opens.
const OTHER_FILES: u64 = 256;

/// The plan's flows and probes, at work: each host has a thread for its
/// streams, one for its datagrams, one for QUIC and one that looks at its
/// sockets, as far as it has such.
///
/// They begin at the plan's times on the run's clock, and go on until
/// [`stop`](Self::stop) or until this is dropped; no thread is left half a
/// second later, whatever the other end of a connection does.
#[derive(Debug)]
pub struct Flows {
    stop: Stop,
    facts: Vec<FlowFacts>,
    threads: Vec<JoinHandle<Vec<EndFacts>>>,
    samplers: Vec<JoinHandle<io::Result<Vec<OtherSocket>>>>,
    others: Vec<OtherSocket>,
}

/// What is to be done in one host.
#[derive(Default)]
struct Work {
    streams: Vec<(EndPlan, usize)>,
    datagrams: Vec<TaskPlan>,
    quic: Vec<QuicPlan>,
    sampler: Option<Sampler>,
}

/// A thread's word that it has what it needs, and the word that it may begin.
struct Ready {
    tell: Sender<Result<(), FlowError>>,
    go: Receiver<()>,
}

impl Flows {
    /// Whether live runs have all that the plan's flows need, to be asked
    /// before anything is built.
    ///
    /// # Errors
    /// For the first application that they do not have.
    pub fn check(plan: &Plan) -> Result<(), FlowError> {
        let writes = |f: &&FlowPlan| matches!(f.traffic, Traffic::Writes(_));
        match plan.flows.iter().find(writes) {
            Some(flow) => Err(FlowError::Application {
                flow: flow.name.clone(),
                traffic: flow.traffic.to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Opens and binds every socket of `plan`'s flows and probes in their
    /// hosts, and starts the threads that use them. `control` says what the
    /// kernel calls a flow's congestion control.
    ///
    /// # Errors
    /// One line for the first thing that this machine cannot do. Nothing runs
    /// then.
    pub fn start(
        plan: &Plan,
        host: &HostOf<'_>,
        control: &dyn Fn(FlowId) -> String,
        clock: Clock,
        reporter: &Reporter,
    ) -> Result<Self, FlowError> {
        for (what, count, most) in [
            ("flows", plan.flows.len(), MAX_FLOWS),
            ("probes", plan.probes.len(), MAX_PROBES),
        ] {
            if count > most {
                return Err(FlowError::TooMany { what, count, most });
            }
        }
        open_files(2 * (plan.flows.len() + plan.probes.len()) as u64 + OTHER_FILES);
        let stop = Stop::new().map_err(|reason| FlowError::Host {
            host: "*".to_owned(),
            action: "tell threads when to end",
            reason,
        })?;
        let facts = plan.flows.iter().map(|f| FlowFacts {
            name: f.name.clone(),
            ..FlowFacts::default()
        });
        let mut flows = Self {
            stop,
            facts: facts.collect(),
            threads: Vec::new(),
            samplers: Vec::new(),
            others: Vec::new(),
        };
        let mut begin = Vec::new();
        for (index, work) in work(plan, control, clock, reporter)? {
            let namespace = host(index);
            let settings = host_model::settings(plan, index);
            namespace
                .set_sysctls(&settings)
                .map_err(|e| FlowError::Host {
                    host: plan.host(index).name.clone(),
                    action: "set the switches of its TCP",
                    reason: io::Error::other(e.to_string()),
                })?;
            // What was started before an error ends with `flows`.
            begin.extend(flows.start_in(plan, &namespace, index, work, clock, reporter)?);
        }
        // No flow opens before all that are to answer do listen.
        for go in begin {
            let _ = go.send(());
        }
        Ok(flows)
    }

    fn start_in(
        &mut self,
        plan: &Plan,
        namespace: &Namespace,
        index: HostIndex,
        work: Work,
        clock: Clock,
        reporter: &Reporter,
    ) -> Result<Vec<Sender<()>>, FlowError> {
        let name = || plan.host(index).name.clone();
        let refused = |e: crate::LiveError| FlowError::Host {
            host: name(),
            action: "have a thread",
            reason: io::Error::other(e.to_string()),
        };
        let mut begin = Vec::new();
        let mut wait = |thread: JoinHandle<_>, told: Receiver<Result<(), FlowError>>, go| {
            self.threads.push(thread);
            begin.push(go);
            // A thread that says nothing has panicked, and printed why.
            told.recv().unwrap_or_else(|_| {
                Err(FlowError::Host {
                    host: name(),
                    action: "have a thread",
                    reason: io::ErrorKind::BrokenPipe.into(),
                })
            })
        };
        if !work.streams.is_empty() {
            let (ready, told, go) = ready();
            let (reporter, stop) = (reporter.clone(), self.stop.clone());
            let (ends, host, plan) = (work.streams, name(), plan.clone());
            let body = move || {
                ready.run(
                    clock,
                    &stop.clone(),
                    || streams(ends, &plan, host, clock, reporter, stop),
                    Streams::run,
                )
            };
            wait(namespace.spawn("streams", body).map_err(refused)?, told, go)?;
        }
        if !work.datagrams.is_empty() {
            let (ready, told, go) = ready();
            let (reporter, stop) = (reporter.clone(), self.stop.clone());
            let body = move || {
                ready.run(
                    clock,
                    &stop.clone(),
                    || Datagrams::new(work.datagrams, clock, reporter, stop),
                    Datagrams::run,
                )
            };
            wait(
                namespace.spawn("datagrams", body).map_err(refused)?,
                told,
                go,
            )?;
        }
        if !work.quic.is_empty() {
            let (ready, told, go) = ready();
            let (reporter, stop) = (reporter.clone(), self.stop.clone());
            let body = move || {
                ready.run(
                    clock,
                    &stop.clone(),
                    || Quic::new(work.quic, clock, &reporter, stop),
                    Quic::run,
                )
            };
            wait(namespace.spawn("quic", body).map_err(refused)?, told, go)?;
        }
        if let Some(sampler) = work.sampler {
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
        self.stop.tell();
        let layout = EcnLayout::of_this_kernel();
        for thread in self.threads.drain(..) {
            // A panic there was printed there; the flows' facts stay empty.
            for end in thread.join().unwrap_or_default() {
                let facts = &mut self.facts[end.flow];
                end.add_to(facts, layout);
            }
        }
        for thread in self.samplers.drain(..) {
            match thread.join() {
                Ok(Ok(others)) => self.others.extend(others),
                Ok(Err(e)) => {
                    let note = format!("its socket could not be looked at while it ran: {e}");
                    let facts = self.facts.iter_mut();
                    facts.for_each(|f| f.notes.push(note.clone()));
                }
                Err(_) => {}
            }
        }
        self.facts.clone()
    }

    /// What was seen of TCP sockets that are not the plan's but its commands',
    /// once all is stopped.
    pub fn other_sockets(&mut self) -> Vec<OtherSocket> {
        std::mem::take(&mut self.others)
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.stop();
    }
}

fn ready() -> (Ready, Receiver<Result<(), FlowError>>, Sender<()>) {
    let (tell, told) = channel();
    let (may, go) = channel();
    (Ready { tell, go }, told, may)
}

impl Ready {
    /// Makes something, says whether it was made, and runs it from the epoch
    /// of `clock` on if all goes well everywhere. A flow that opened before
    /// would do so on a path that carries nothing yet.
    fn run<T>(
        self,
        clock: Clock,
        stop: &Stop,
        make: impl FnOnce() -> Result<T, FlowError>,
        run: impl FnOnce(T) -> Vec<EndFacts>,
    ) -> Vec<EndFacts> {
        match make() {
            Ok(made) => {
                let _ = self.tell.send(Ok(()));
                match self.go.recv() {
                    Ok(()) => {
                        // Who is told to stop before then sees it by itself.
                        stop.wait_until(&clock, Instant::ZERO);
                        run(made)
                    }
                    Err(_) => Vec::new(),
                }
            }
            Err(e) => {
                let _ = self.tell.send(Err(e));
                Vec::new()
            }
        }
    }
}

/// Opens a host's streams, on a thread in it.
fn streams(
    ends: Vec<(EndPlan, usize)>,
    plan: &Plan,
    host: String,
    clock: Clock,
    reporter: Reporter,
    stop: Stop,
) -> Result<Streams, FlowError> {
    let system = |action| {
        let host = host.clone();
        move |reason| FlowError::Host {
            host,
            action,
            reason,
        }
    };
    let ecn = EcnSwitch::grant_when_asked().map_err(system("choose who is granted ECN"))?;
    let ends = ends.into_iter().map(|(mut end, flow)| {
        let flow = &plan.flows[flow];
        if end.opens {
            let (ask, note) = ecn.ask(flow.ecn, flow.cc.needs());
            end.ask = ask;
            end.notes.extend(note.map(str::to_owned));
        }
        StreamEnd::new(end)
    });
    let ends = ends.collect::<Result<Vec<_>, _>>()?;
    Streams::new(ends, ecn, clock, reporter, stop).map_err(system("wait for its sockets"))
}

/// What is to be done in each host.
fn work(
    plan: &Plan,
    control: &dyn Fn(FlowId) -> String,
    clock: Clock,
    reporter: &Reporter,
) -> Result<BTreeMap<HostIndex, Work>, FlowError> {
    let mut hosts: BTreeMap<HostIndex, Work> = BTreeMap::new();
    let mut certificate = None;
    for (i, flow) in plan.flows.iter().enumerate() {
        if flow.transport == Transport::Quic {
            quic_flow(plan, i, &mut certificate, &mut hosts)?;
        } else if flow.traffic.is_datagram() {
            datagram_flow(plan, i, &mut hosts);
        } else {
            stream_flow(plan, i, control(FlowId(i as u32)), &mut hosts);
        }
    }
    let names = NameTable::of(plan);
    for i in 0..plan.probes.len() {
        probe(plan, i, &names, &mut hosts);
    }
    let programs = plan.commands.iter().map(|c| c.host);
    for host in programs {
        hosts.entry(host).or_default();
    }
    for (&host, work) in &mut hosts {
        let runs_programs = plan.commands.iter().any(|c| c.host == host);
        let ends = |(end, _): &(EndPlan, usize)| (end.local, end.remote);
        let (senders, receivers): (Vec<_>, Vec<_>) = work
            .streams
            .iter()
            .partition(|(end, _)| end.generator.is_some());
        if senders.is_empty() && !runs_programs {
            continue;
        }
        work.sampler = Some(Sampler {
            host,
            interval: plan.sample_interval,
            clock,
            reporter: reporter.clone(),
            senders: senders
                .into_iter()
                .map(|s| (ends(s), Arc::clone(&s.0.shared.watch)))
                .collect(),
            receivers: receivers.into_iter().map(ends).collect(),
            programs: runs_programs,
        });
    }
    Ok(hosts)
}

fn quic_flow(
    plan: &Plan,
    i: usize,
    certificate: &mut Option<Certificate>,
    hosts: &mut BTreeMap<HostIndex, Work>,
) -> Result<(), FlowError> {
    let made = match certificate.take() {
        Some(made) => made,
        None => Certificate::new().map_err(|reason| FlowError::Socket {
            what: format!("flow/{}", plan.flows[i].name),
            action: "make a certificate".to_owned(),
            reason,
        })?,
    };
    let ends = plan.flow_ends(i);
    let [opener, answerer] = quic::plans(plan, i, &made)?;
    *certificate = Some(made);
    for ((host, _), end) in [(ends.opener, opener), (ends.answerer, answerer)] {
        hosts.entry(host).or_default().quic.push(end);
    }
    Ok(())
}

fn stream_flow(plan: &Plan, i: usize, control: String, hosts: &mut BTreeMap<HostIndex, Work>) {
    let flow = &plan.flows[i];
    let ends = plan.flow_ends(i);
    let shared = Arc::new(Shared::new(FlowId(i as u32)));
    for (opens, (host, local), (_, remote)) in [
        (true, ends.opener, ends.answerer),
        (false, ends.answerer, ends.opener),
    ] {
        let sends = host == flow.from;
        let mut notes = Vec::new();
        if sends {
            notes.extend(host_model::notes(&flow.host));
        }
        if flow.fast_open && opens && !sends {
            notes.push(
                "no data goes with its SYN: the end that opens it has none to send".to_owned(),
            );
        }
        let end = EndPlan {
            flow: i,
            name: format!("flow/{}", flow.name),
            local,
            remote,
            opens,
            fast_open: flow.fast_open,
            ask: Ask::default(),
            generator: sends.then(|| Generator::new(flow.traffic)),
            start: flow.start,
            stop: flow.stop,
            options: StreamOptions {
                control: control.clone(),
                dscp: flow.dscp,
                pace: host_model::paces_always(&flow.host),
            },
            shared: Arc::clone(&shared),
            notes,
        };
        hosts.entry(host).or_default().streams.push((end, i));
    }
}

fn datagram_flow(plan: &Plan, i: usize, hosts: &mut BTreeMap<HostIndex, Work>) {
    let flow = &plan.flows[i];
    let ends = plan.flow_ends(i);
    let (near, far) = if flow.from == flow.opens {
        (ends.opener, ends.answerer)
    } else {
        (ends.answerer, ends.opener)
    };
    let send = Task::Send {
        flow: i,
        generator: Generator::new(flow.traffic),
        remote: far.1,
        start: flow.start,
        stop: flow.stop,
    };
    let receive = Task::Receive {
        flow: i,
        start: flow.start,
        stop: flow.stop,
    };
    for ((host, local), task) in [(near, send), (far, receive)] {
        let task = TaskPlan {
            name: format!("flow/{}", flow.name),
            local,
            class: flow.dscp << 2,
            task,
        };
        hosts.entry(host).or_default().datagrams.push(task);
    }
}

fn probe(plan: &Plan, i: usize, names: &NameTable, hosts: &mut BTreeMap<HostIndex, Work>) {
    let probe = &plan.probes[i];
    let ends = plan.probe_ends(i);
    let name = format!("probe/{}", probe.name);
    let end = Instant::ZERO + plan.duration;
    let stop = probe.stop.unwrap_or(end).min(end);
    let payload_len = probe.size.saturating_sub(PROBE_HEADERS) as usize;
    let payload_len = payload_len.max(PAYLOAD_LEN);
    let ask = Task::Ask {
        entity: names.id(&name).unwrap_or_default(),
        asker: Asker::new(
            probe.interval.max(Duration::from_nanos(1)),
            probe.start,
            stop,
        ),
        remote: ends.answerer.1,
        payload_len,
    };
    let answer = Task::Answer { payload_len };
    for ((host, local), task) in [(ends.opener, ask), (ends.answerer, answer)] {
        let task = TaskPlan {
            name: name.clone(),
            local,
            class: probe.dscp << 2 | probe.ecn as u8,
            task,
        };
        hosts.entry(host).or_default().datagrams.push(task);
    }
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
