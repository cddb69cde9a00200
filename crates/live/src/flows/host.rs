//! One host of a live run: its applications and their sockets, served by one thread in
//! its namespace. A thread for each flow would cost more wake-ups than the sockets need,
//! and take them from the path.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use narrows_bpf::SocketOptions;
use narrows_core::{Event, EventSink, SocketError};
use narrows_engine::{Carrier, SocketPlan};
use narrows_host::{AppOn, Hosts, Net, Options, Topology, Transport};
use narrows_linux::{Stop, is_virtual_time, wake_sharply};
use narrows_path::paths::Paths;
use narrows_path::wakes::Slot;
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::ecn_switch::EcnSwitch;
use super::error::FlowError;
use super::facts::EndFacts;
use super::kernel::{self, Kernel, PORTS};
use super::options::Owner;
use super::tcp::{EndTable, Stack};
use crate::sample::SenderWatch;
use crate::{Clock, Reporter};

/// How often sockets are read whose readers are in no hurry: flows' receivers, which
/// have memory for longer.
const TICK: Duration = Duration::from_millis(5);

/// Timers served in a row, before sockets have their turn.
const TIMERS: usize = 64;

/// Slots of wakes: the tick, the sampler, then those of the host.
const TICK_SLOT: Slot = 0;
const SAMPLE_SLOT: Slot = 1;
const FIRST_SLOT: Slot = 2;

/// Tokens of what is no socket.
const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// What is to be done in one host.
pub struct Work {
    /// The host among those of the topology.
    pub node: usize,
    /// Hosts and links, as the plan has them.
    pub topology: Topology,
    /// How many flows the plan has.
    pub flows: usize,
    /// Its applications.
    pub apps: Vec<AppOn>,
    /// The run's sets of socket options.
    pub sockets: Vec<SocketPlan>,
    /// What the kernel calls the congestion control of each of these, if it has one.
    pub controls: Vec<String>,
    /// What sets options of sockets with controls of ours.
    pub options: Vec<SocketOptions>,
    /// What was seen of each flow's sender.
    pub watches: Vec<Arc<Mutex<SenderWatch>>>,
    /// Seeds what connections draw.
    pub seed: u64,
    /// Time between samples of senders that are no TCP sockets of the kernel.
    pub sample_interval: Duration,
    /// The run's clock.
    pub clock: Clock,
    /// Receives what happens.
    pub reporter: Reporter,
    /// Says when all ends.
    pub stop: Stop,
}

/// A host at work.
pub struct Host {
    hosts: Hosts,
    node: usize,
    paths: Paths,
    kernel: Kernel,
    ends: EndTable,
    clock: Clock,
    /// Where time is virtual, what the clock showed when this thread woke: time stands still
    /// until it sleeps again, and a reading is a call.
    still: Option<Instant>,
    reporter: Reporter,
    timer: TimerFd,
    sample_interval: Duration,
    sockets: Vec<SocketPlan>,
    stop: Stop,
}

/// Hands on what needs no packet: of packets, the path knows.
struct Sink<'r>(&'r Reporter);

impl EventSink for Sink<'_> {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if let Some(event) = event.of_itself() {
            self.0.report(now, event);
        }
    }
}

impl Host {
    /// Starts the applications of `work`: to be called on a thread in the host.
    ///
    /// # Errors
    /// If a socket cannot be had as planned.
    pub fn new(work: Work) -> Result<Self, FlowError> {
        let owner = Owner("*");
        let plans = work.sockets.iter().zip(work.controls);
        let options: Vec<_> = plans.map(|(s, c)| kernel::Options::new(s, c)).collect();
        let mut tcp: Vec<_> = options.iter().filter_map(|o| o.tcp.as_ref()).collect();
        tcp.sort_by(|a, b| a.control().cmp(b.control()));
        tcp.dedup_by(|a, b| a.control() == b.control());
        tcp.iter().try_for_each(|options| options.check())?;
        let ends = Rc::new(RefCell::new(BTreeMap::new()));
        let stack = if tcp.is_empty() {
            None
        } else {
            let ecn = EcnSwitch::grant_when_asked();
            let ecn = ecn.map_err(owner.cannot("choose who is granted ECN"))?;
            let ends = Rc::clone(&ends);
            Some(Stack::new(
                ecn,
                work.clock,
                &work.reporter,
                work.watches,
                ends,
                work.options,
            ))
        };
        let wait = |e: Errno| owner.cannot("wait for sockets")(e.into());
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(wait)?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(wait)?;
        for (fd, token) in [(work.stop.as_fd(), STOP), (timer.as_fd(), TIMER)] {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
            epoll.add(fd, event).map_err(wait)?;
        }
        let profiles = work.sockets.iter().map(options_of).collect();
        let flows = work.flows;
        let mut host = Self {
            hosts: Hosts::new(work.topology, profiles, work.seed, FIRST_SLOT).with_flows(flows),
            node: work.node,
            paths: Paths::new(Vec::new(), FIRST_SLOT as usize),
            kernel: Kernel::new(epoll, options, stack),
            ends,
            clock: work.clock,
            still: None,
            reporter: work.reporter,
            timer,
            sample_interval: work.sample_interval,
            sockets: work.sockets,
            stop: work.stop,
        };
        let first = Instant::ZERO + host.sample_interval;
        host.paths.wakes.set(SAMPLE_SLOT, Some(first));
        let mut started = Ok(());
        host.with_hosts(|hosts, net| started = hosts.start(net, work.apps));
        match started {
            Ok(()) => Ok(host),
            Err((name, error)) => {
                let refusal = host.kernel.refusal.take();
                Err(refusal.unwrap_or_else(|| refused(&name, &error)))
            }
        }
    }

    /// The time of the run.
    fn now(&self) -> Instant {
        self.still.unwrap_or_else(|| self.clock.now())
    }

    /// Serves all until it is stopped; what is known of flows' ends.
    pub fn run(mut self) -> Vec<EndFacts> {
        wake_sharply();
        let mut ready = vec![EpollEvent::empty(); 256];
        let mut set = None;
        let stands_still = is_virtual_time();
        while !self.stop.requested() {
            self.serve_timers();
            for s in self.kernel.take_waiting() {
                self.with_hosts(|hosts, net| hosts.serve(net, s));
            }
            self.accept();
            if self.kernel.has_lazy() {
                let tick = self.now() + TICK;
                self.paths.wakes.at_latest(TICK_SLOT, Some(tick));
            }
            let next = self.paths.wakes.peek().map(|(at, _)| at);
            if next != set {
                self.set_timer(next);
                set = next;
            }
            let patience = if self.kernel.has_waiting() {
                EpollTimeout::ZERO
            } else {
                EpollTimeout::NONE
            };
            let count = match self.kernel.epoll.wait(&mut ready, patience) {
                Ok(count) => count,
                Err(Errno::EINTR) => continue,
                // Nothing that was opened here can fail to be waited for.
                Err(_) => break,
            };
            self.still = stands_still.then(|| self.clock.now());
            for event in &ready[..count] {
                match event.data() {
                    STOP => {}
                    TIMER => {
                        // Read, lest it stays ready; that it is not any more
                        // does not matter.
                        let _ = self.timer.wait();
                        set = None;
                    }
                    token => self.ready(token, event.events()),
                }
                // No timer waits for more than one socket.
                self.serve_timers();
            }
        }
        self.end()
    }

    /// What has `token` is ready for `flags`.
    fn ready(&mut self, token: u64, flags: EpollFlags) {
        if let Some(port) = token.checked_sub(PORTS) {
            self.serve_port(port, flags);
            return;
        }
        let s = token as u32;
        if let Some(listener) = self.kernel.listeners.get_mut(&s) {
            listener.ready = true;
            return;
        }
        self.kernel.ready(s, flags);
        self.with_hosts(|hosts, net| hosts.serve(net, s));
    }

    /// Accepts connections of the kernel's, as many as listeners have room for.
    fn accept(&mut self) {
        let ready = self.kernel.listeners.iter().filter(|(_, l)| l.ready);
        let ready: Vec<u32> = ready.map(|(s, _)| *s).collect();
        for s in ready {
            while self.hosts.has_room(s) {
                let Some((remote, endpoint)) = self.kernel.accept(s, self.hosts.next_socket())
                else {
                    break;
                };
                self.with_hosts(|hosts, net| hosts.accepted(net, s, remote, endpoint));
            }
        }
    }

    fn serve_port(&mut self, port: u64, mut flags: EpollFlags) {
        let node = self.node;
        if let Some(port) = self.kernel.ports.get(&port) {
            let local = port.local;
            for (error, quote) in port.path_reports() {
                self.with_hosts(|hosts, net| {
                    hosts.datagram_error(net, node, local, error, &quote);
                });
            }
        }
        loop {
            let pool = &mut self.paths.pool;
            let received = self.kernel.serve_port(port, flags, &self.clock, pool);
            if received.is_empty() {
                return;
            }
            for (at, packet) in received {
                self.with_hosts(|hosts, net| hosts.arrive_at(net, node, packet, at));
            }
            flags = EpollFlags::EPOLLIN;
        }
    }

    fn serve_timers(&mut self) {
        for _ in 0..TIMERS {
            let now = self.now();
            let Some((_, slot)) = self.paths.wakes.peek().filter(|(at, _)| *at <= now) else {
                return;
            };
            match slot {
                TICK_SLOT => {
                    self.paths.wakes.serve(slot, None);
                    self.read_lazily();
                }
                SAMPLE_SLOT => {
                    self.with_hosts(Hosts::sample);
                    let next = now + self.sample_interval;
                    self.paths.wakes.serve(slot, Some(next));
                }
                slot => self.with_hosts(|hosts, net| hosts.wake(net, slot)),
            }
        }
    }

    /// Lets those read who are in no hurry.
    fn read_lazily(&mut self) {
        for s in self.kernel.lazy.clone() {
            self.ready(u64::from(s), EpollFlags::EPOLLIN);
        }
        for port in self.kernel.lazy_ports() {
            self.serve_port(port, EpollFlags::EPOLLIN);
        }
    }

    /// Calls the host, and sends the packets that it sends.
    fn with_hosts<T>(&mut self, act: impl FnOnce(&mut Hosts, &mut Net<'_>) -> T) -> T {
        let mut net = Net {
            now: self.now(),
            paths: &mut self.paths,
            sink: &mut Sink(&self.reporter),
            system: Some(&mut self.kernel),
        };
        let done = act(&mut self.hosts, &mut net);
        while let Some((_, packet)) = self.paths.take() {
            self.kernel.send(packet, &mut self.paths.pool);
        }
        done
    }

    /// Sets the timer to an absolute time; no wait adds to the next.
    fn set_timer(&self, next: Option<Instant>) {
        let set = match next {
            None => self.timer.unset(),
            Some(at) => {
                // Zero would switch it off.
                let ns = self.clock.monotonic_ns_at(at).max(1);
                let at = std::time::Duration::from_nanos(ns);
                let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
                self.timer.set(Expiration::OneShot(at.into()), flags)
            }
        };
        // Times are valid and the descriptor is a timer.
        debug_assert!(set.is_ok(), "{set:?}");
    }

    /// The end of the run: takes what is there, and gives connections up at once, as
    /// sockets that are closed now are reset. What is known of flows' ends.
    fn end(mut self) -> Vec<EndFacts> {
        self.read_lazily();
        self.with_hosts(Hosts::end);
        // Connections take their last sample as they go.
        drop(self.hosts);
        let mut ends = self.ends.take();
        for port in self.kernel.ports.values() {
            let socket = &self.sockets[port.profile];
            if let Some((flow, note)) = socket.flow.zip(port.note()) {
                let new = || EndFacts::of(flow, socket.sends());
                let end = ends.entry(port.profile).or_insert_with(new);
                end.notes.push(note);
            }
        }
        ends.into_values().collect()
    }
}

/// The options of `socket` for the host: the kernel knows its TCP, and what of it is
/// measured is seen from outside.
fn options_of(socket: &SocketPlan) -> Options {
    let (transport, flow) = match &socket.carrier {
        Carrier::Tcp(_) => (Transport::System, None),
        Carrier::Shared(transport) => (transport.clone(), socket.flow),
    };
    Options {
        transport,
        traffic_class: socket.traffic_class,
        flow,
        part: socket.part,
        name: socket.name(),
        rng: socket.rng.clone(),
    }
}

/// An application cannot begin.
fn refused(name: &str, error: &SocketError) -> FlowError {
    FlowError::Socket {
        what: name.to_owned(),
        action: "begin".to_owned(),
        reason: std::io::Error::other(error.to_string()),
    }
}
