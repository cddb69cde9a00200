//! From a plan to threads that send, receive and look.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use narrows_packet::FlowId;
use narrows_scenario::endpoints::{MAX_FLOWS, MAX_PROBES};
use narrows_scenario::{HostIndex, Plan};
use narrows_units::Instant;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::HostOf;
use super::datagrams::Datagrams;
use super::ecn_switch::EcnSwitch;
use super::error::FlowError;
use super::facts::EndFacts;
use super::host_model;
use super::quic::Quic;
use super::stop::Stop;
use super::stream_end::StreamEnd;
use super::stream_plan::EndPlan;
use super::streams::Streams;
use super::work::{Work, work};
use crate::sample::{EcnLayout, OtherSocket};
use crate::{Clock, FlowFacts, Namespace, Reporter};

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

/// A thread's word that it has what it needs, and the word that it may begin.
struct Ready {
    tell: Sender<Result<(), FlowError>>,
    go: Receiver<()>,
}

impl Flows {
    /// Opens and binds every socket of `plan`'s flows and probes in their
    /// hosts, and starts the threads that use them. `seed` decides which ends
    /// of QUIC spin, `control` says what the kernel calls a flow's congestion control.
    ///
    /// # Errors
    /// One line for the first thing that this machine cannot do. Nothing runs
    /// then.
    pub fn start(
        plan: &Plan,
        seed: u64,
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
        for (index, work) in work(plan, seed, control, clock, reporter)? {
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

/// Lets the process open `count` files, if it may; what it may not have shows
/// when a socket is opened.
fn open_files(count: u64) {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        if soft < count {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, count.min(hard), hard);
        }
    }
}
