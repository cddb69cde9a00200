//! One host of a live run: its applications and their sockets, served by one thread in
//! its namespace. A thread for each flow would cost more wake-ups than the sockets need,
//! and take them from the path.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use narrows_host::{AppOn, Maker, Options, Transport};
use narrows_packet::{App, FlowId, PacketPool, SocketError, SocketEvent, SocketId};
use narrows_path::wakes::{Slot, Wakes};
use narrows_run::{Carrier as Planned, SocketPlan};
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::api::Api;
use super::ecn_switch::EcnSwitch;
use super::error::FlowError;
use super::facts::EndFacts;
use super::options::{Owner, StreamOptions};
use super::socket::{Kind, Socket};
use super::stop::{Stop, wake_sharply};
use super::tcp::Stack;
use super::udp::{LARGEST, Port};
use crate::sample::Watch;
use crate::{Clock, Reporter};

/// How often sockets are read whose readers are in no hurry: flows' receivers, which
/// have memory for longer.
const TICK: Duration = Duration::from_millis(5);

/// Timers served in a row, before sockets have their turn.
const TIMERS: usize = 64;

/// Slots of wakes: the tick, the sampler, then applications, then sockets.
const TICK_SLOT: Slot = 0;
const SAMPLE_SLOT: Slot = 1;
const FIRST_APP: Slot = 2;

/// Tokens of what is no socket; UDP ports have theirs from [`PORTS`] on.
const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
pub(super) const PORTS: u64 = 1 << 32;

/// What is to be done in one host.
pub struct Work {
    /// Its applications.
    pub apps: Vec<AppOn>,
    /// The run's sets of socket options.
    pub sockets: Vec<SocketPlan>,
    /// What the kernel calls the congestion control of each of these, if it has one.
    pub controls: Vec<String>,
    /// Its addresses.
    pub addresses: [IpAddr; 2],
    /// What was seen of each flow's sender.
    pub watches: Vec<Arc<Mutex<Watch>>>,
    /// Seeds what connections draw.
    pub seed: u64,
    /// Time between looks at senders that the kernel does not know.
    pub sample_interval: Duration,
    /// The run's clock.
    pub clock: Clock,
    /// Who is told what happens.
    pub reporter: Reporter,
    /// Says when all ends.
    pub stop: Stop,
}

/// What sockets with the same options are made with.
pub(super) struct Profile {
    pub owner: String,
    pub flow: Option<FlowId>,
    pub sends: bool,
    pub class: u8,
    pub mtu: u32,
    pub made_by: MadeBy,
}

/// Who makes what carries a socket's data.
pub(super) enum MadeBy {
    /// The kernel's TCP.
    Kernel(StreamOptions),
    /// The kernel's UDP.
    Datagrams,
    /// Ours, over UDP.
    Us(Box<Maker>),
}

impl Profile {
    fn new(plan: SocketPlan, control: String) -> Self {
        let name = plan.name();
        let made_by = match &plan.carrier {
            Planned::Tcp(tcp) => MadeBy::Kernel(StreamOptions::new(&plan, tcp, control)),
            Planned::Shared(Transport::Datagrams) => MadeBy::Datagrams,
            Planned::Shared(transport) => MadeBy::Us(Box::new(Maker::new(Options {
                transport: transport.clone(),
                traffic_class: plan.traffic_class,
                flow: plan.flow,
                sends: plan.sends,
                name,
                rng: plan.rng,
            }))),
        };
        Self {
            owner: plan.owner,
            flow: plan.flow,
            sends: plan.sends,
            class: plan.traffic_class,
            mtu: plan.mtu,
            made_by,
        }
    }
}

/// An application in its place; `None` while it is called.
struct AppSlot {
    name: String,
    app: Option<Box<dyn App>>,
}

/// A host at work.
pub struct Host {
    pub(super) clock: Clock,
    pub(super) reporter: Reporter,
    pub(super) seed: u64,
    pub(super) addresses: [IpAddr; 2],
    pub(super) profiles: Vec<Profile>,
    pub(super) stack: Option<Stack>,
    apps: Vec<AppSlot>,
    pub(super) sockets: Vec<Option<Socket>>,
    pub(super) free: Vec<u32>,
    pub(super) ports: Vec<Option<Port>>,
    pub(super) pool: PacketPool,
    pub(super) buffer: Vec<u8>,
    pub(super) wakes: Wakes,
    /// Sockets that are to be served before anything is waited for.
    pub(super) dirty: VecDeque<u32>,
    /// The socket that is being served, and whether its application changed it.
    pub(super) current: Option<u32>,
    pub(super) changed: bool,
    /// Sockets whose readers are in no hurry.
    pub(super) lazy: BTreeSet<u32>,
    /// What is known of flows' ends, by profile.
    pub(super) ends: BTreeMap<usize, EndFacts>,
    pub(super) watches: Vec<Arc<Mutex<Watch>>>,
    /// Why a socket was refused last.
    pub(super) refusal: Option<FlowError>,
    pub(super) epoll: Epoll,
    timer: TimerFd,
    sample_interval: Duration,
    stop: Stop,
}

impl Host {
    /// Starts the applications of `work`: to be called on a thread in the host.
    ///
    /// # Errors
    /// If a socket cannot be had as planned.
    pub fn new(work: Work) -> Result<Self, FlowError> {
        let plans = work.sockets.into_iter().zip(work.controls);
        let profiles: Vec<_> = plans.map(|(plan, c)| Profile::new(plan, c)).collect();
        let mut checked = BTreeSet::new();
        for profile in &profiles {
            if let MadeBy::Kernel(options) = &profile.made_by {
                if checked.insert(&options.control) {
                    options.check()?;
                }
            }
        }
        let owner = Owner("*");
        let stack = if checked.is_empty() {
            None
        } else {
            let ecn = EcnSwitch::grant_when_asked();
            Some(Stack::new(
                ecn.map_err(owner.cannot("choose who is granted ECN"))?,
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
        let of_ours = |p: &Profile| p.sends && matches!(p.made_by, MadeBy::Us(_));
        let samples = profiles.iter().any(of_ours);
        let mut host = Self {
            clock: work.clock,
            reporter: work.reporter,
            seed: work.seed,
            addresses: work.addresses,
            profiles,
            stack,
            apps: Vec::new(),
            sockets: Vec::new(),
            free: Vec::new(),
            ports: Vec::new(),
            pool: PacketPool::new(),
            buffer: vec![0; LARGEST],
            wakes: Wakes::new(FIRST_APP as usize + work.apps.len()),
            dirty: VecDeque::new(),
            current: None,
            changed: false,
            lazy: BTreeSet::new(),
            ends: BTreeMap::new(),
            watches: work.watches,
            refusal: None,
            epoll,
            timer,
            sample_interval: work.sample_interval,
            stop: work.stop,
        };
        if samples {
            let first = Instant::ZERO + host.sample_interval;
            host.wakes.set(SAMPLE_SLOT, Some(first));
        }
        host.start(work.apps)?;
        Ok(host)
    }

    fn start(&mut self, apps: Vec<AppOn>) -> Result<(), FlowError> {
        self.apps.extend(apps.into_iter().map(|a| AppSlot {
            name: a.name,
            app: Some(a.app),
        }));
        for i in 0..self.apps.len() {
            let mut started = Ok(());
            self.call(i, |app, host| started = app.start(host));
            if let Err(error) = started {
                let name = &self.apps[i].name;
                return Err(self.refusal.take().unwrap_or_else(|| refused(name, &error)));
            }
        }
        Ok(())
    }

    /// Serves all until it is stopped.
    pub fn run(mut self) -> Vec<EndFacts> {
        wake_sharply();
        let mut ready = vec![EpollEvent::empty(); 256];
        let mut set = None;
        self.settle();
        while !self.stop.told() {
            self.serve_timers();
            let next = self.wakes.peek().map(|(at, _)| at);
            if next != set {
                self.set_timer(next);
                set = next;
            }
            let patience = if self.dirty.is_empty() {
                EpollTimeout::NONE
            } else {
                EpollTimeout::ZERO
            };
            let count = match self.epoll.wait(&mut ready, patience) {
                Ok(count) => count,
                Err(Errno::EINTR) => continue,
                // Nothing that was opened here can fail to be waited for.
                Err(_) => break,
            };
            for event in &ready[..count] {
                match event.data() {
                    STOP => {}
                    TIMER => {
                        // Read, lest it stays ready; that it is not any more
                        // does not matter.
                        let _ = self.timer.wait();
                        set = None;
                    }
                    token if token >= PORTS => {
                        self.port_ready((token - PORTS) as usize, event.events());
                    }
                    token => self.ready(token as u32, event.events()),
                }
                // No timer waits for more than one socket.
                self.serve_timers();
            }
            self.settle();
        }
        self.end()
    }

    fn serve_timers(&mut self) {
        for _ in 0..TIMERS {
            let Some((_, slot)) = self.wakes.peek().filter(|(at, _)| *at <= self.clock.now())
            else {
                return;
            };
            self.wake(slot);
            self.settle();
        }
    }

    fn wake(&mut self, slot: Slot) {
        let now = self.clock.now();
        match slot {
            TICK_SLOT => {
                self.read_lazily();
                let next = (!self.lazy.is_empty()).then(|| self.clock.now() + TICK);
                self.wakes.serve(slot, next);
            }
            SAMPLE_SLOT => {
                self.sample(now);
                self.wakes.serve(slot, Some(now + self.sample_interval));
            }
            _ => match (slot - FIRST_APP).checked_sub(self.apps.len() as Slot) {
                None => {
                    self.wakes.serve(slot, None);
                    let app = (slot - FIRST_APP) as usize;
                    self.call(app, |app, host| app.on_timer(host));
                }
                Some(socket) => self.socket_timeout(now, socket, slot),
            },
        }
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

    /// Lets those read who are in no hurry.
    fn read_lazily(&mut self) {
        for s in self.lazy.clone() {
            self.offer_data(s);
        }
    }

    /// Lets the application of socket `s` read what may have arrived.
    pub(super) fn offer_data(&mut self, s: u32) {
        let Some(socket) = &mut self.sockets[s as usize] else {
            return;
        };
        match (&mut socket.kind, socket.app) {
            (Kind::Datagrams(_), Some(app)) => self.call(app, |app, host| {
                app.on_event(SocketId(s), SocketEvent::Readable, host);
            }),
            (Kind::Stream(stream), Some(_)) => {
                if let Some(tcp) = stream.kernel() {
                    tcp.poll_readable();
                    self.touch(s);
                }
            }
            _ => {}
        }
    }

    pub(super) fn app_slot(app: usize) -> Slot {
        FIRST_APP + app as Slot
    }

    pub(super) fn socket_slot(&self, socket: u32) -> Slot {
        FIRST_APP + self.apps.len() as Slot + socket
    }

    /// Has socket `s` read now and then from now on.
    pub(super) fn read_now_and_then(&mut self, s: u32) {
        self.lazy.insert(s);
        self.wakes
            .at_latest(TICK_SLOT, Some(self.clock.now() + TICK));
    }

    /// Calls application `app`. What it does to sockets is served later.
    pub(super) fn call(&mut self, app: usize, what: impl FnOnce(&mut dyn App, &mut Api<'_>)) {
        let Some(mut taken) = self.apps[app].app.take() else {
            return;
        };
        what(&mut *taken, &mut Api { host: self, app });
        self.apps[app].app = Some(taken);
    }

    /// The end of the run: takes what is there, and gives connections up at once, as
    /// sockets that are closed now are reset. What is known of flows' ends.
    fn end(mut self) -> Vec<EndFacts> {
        for s in 0..self.sockets.len() as u32 {
            self.offer_data(s);
        }
        for app in 0..self.apps.len() {
            self.call(app, |app, host| app.end(host));
        }
        for s in 0..self.sockets.len() as u32 {
            self.look(s, true);
            let Some(socket) = &self.sockets[s as usize] else {
                continue;
            };
            if let Kind::Datagrams(datagrams) = &socket.kind {
                let note = datagrams.note();
                if let Some(end) = self.end_of(socket.profile) {
                    end.notes.extend(note);
                }
            }
        }
        self.ends.into_values().collect()
    }

    /// What is known of the end of a flow that has the options `profile`.
    pub(super) fn end_of(&mut self, profile: usize) -> Option<&mut EndFacts> {
        let options = &self.profiles[profile];
        let (FlowId(flow), sends) = (options.flow?, options.sends);
        let new = || EndFacts {
            flow: flow as usize,
            sends,
            ..EndFacts::default()
        };
        Some(self.ends.entry(profile).or_insert_with(new))
    }

    /// Looks at the socket of a flow over TCP, for the `last` time or not.
    pub(super) fn look(&mut self, s: u32, last: bool) {
        let now = self.clock.now();
        let Some(socket) = &mut self.sockets[s as usize] else {
            return;
        };
        let profile = socket.profile;
        let tcp = socket.stream().and_then(|stream| stream.kernel());
        let Some((info, control)) = tcp.and_then(|tcp| tcp.look()) else {
            return;
        };
        let Some(end) = self.end_of(profile) else {
            return;
        };
        // Nothing is known of a connection that never was.
        if last && (end.looked || end.congestion_control.is_empty()) {
            return;
        }
        end.looked = last;
        end.info = info.or(end.info);
        end.congestion_control = control;
        let (flow, sends, info) = (end.flow, end.sends, end.info);
        if let (true, true, Some(info)) = (last, sends, info) {
            let mut watch = self.watches[flow]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            watch.look(now, &info, &mut |r| self.reporter.report(now, r));
        }
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
