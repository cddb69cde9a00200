//! The daemon: the proxy over the machine's sockets, in one thread or several. The first of them
//! serves tunnels as the others do, and signals and requests for its state as well.

use std::iter::once;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use narrows_bpf::SocketOptions;
use narrows_core::{App, Profile, SocketError};
use narrows_linux::random_bytes;
use narrows_linux::system_calls::given_sockets;
use narrows_pep::{Cookies, Limits, Listener, Proxy, Shared, Terms};
use narrows_units::{Duration, Instant};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tracing::{error, info, warn};

use super::config::Config;
use super::controls::{LegControls, Legs};
use super::descriptors::{limits, most_tunnels};
use super::error::PepError;
use super::memory::Memory;
use super::names::{Names, Resolver};
use super::peers::{Peers, Workers};
use super::server::Server;
use super::service;
use super::sockets::OsSockets;
use super::status::{Share, Status, StatusSocket};
use super::worker::{FREE, Worker, epoll};
use crate::rights;

/// How old metrics are at most, and what is known of the kernel's buffers while there are tunnels.
const METRICS: Duration = Duration::from_secs(1);

/// Tokens of what is no socket of the proxy's.
const SIGNALS: u64 = FREE;
const STATUS: u64 = FREE - 1;

/// A daemon that listens.
pub struct Daemon {
    config: Config,
    /// What the first thread works with.
    first: Worker,
    others: Others,
    cookies: Cookies,
    controls: LegControls,
    signals: SignalFd,
    status_socket: Option<StatusSocket>,
    /// The most tunnels for which there are descriptors.
    most_tunnels: usize,
    /// When those that are still there are reset.
    ends: Option<Instant>,
    next_metrics: Instant,
    /// How often the service manager wants to hear that all threads are at work.
    watchdog: Option<Duration>,
    next_watch: Instant,
    shared: Shared,
    resolver: Arc<Resolver>,
    memory: Memory,
    kernel_bytes: u64,
    next_memory: Instant,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// The threads beside the first one.
struct Others {
    workers: Arc<Workers>,
    /// Those that are not started yet.
    waiting: Vec<Worker>,
    running: Vec<JoinHandle<()>>,
}

impl Others {
    fn start(&mut self) -> Result<(), PepError> {
        for worker in self.waiting.drain(..) {
            let thread = thread::Builder::new().name("tunnels".to_owned());
            let thread = thread.spawn(|| worker.run());
            self.running
                .push(thread.map_err(PepError::setup("start a thread"))?);
        }
        Ok(())
    }

    /// Their numbers; the first thread is 0.
    fn all(&self) -> impl Iterator<Item = usize> {
        1..=self.running.len()
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.all().for_each(|at| self.workers.end(at));
        for thread in self.running.drain(..) {
            // One that has panicked has printed why.
            let _ = thread.join();
        }
    }
}

impl Daemon {
    /// Opens the sockets, takes those that a service manager has handed over, and gives up
    /// rights. SIGTERM, SIGINT and SIGHUP are held back from then on. To be called in the
    /// process's first thread, before others are started.
    ///
    /// # Errors
    /// If the machine refuses a step; nothing is served then.
    pub fn open(config: Config) -> Result<Self, PepError> {
        let user = config.user.as_deref().map(service::user).transpose()?;
        service::gain_no_rights()?;
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            mask.add(signal);
        }
        mask.thread_block()
            .map_err(PepError::setup("hold signals"))?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&mask, flags);
        let signals = signals.map_err(PepError::setup("read signals"))?;
        let status_socket = config.status.as_deref();
        let status_socket = status_socket
            .map(|path| StatusSocket::open(path, user.as_ref()))
            .transpose()?;
        let threads = config.threads();
        let most_tunnels = most_tunnels(rights::all_descriptors(), threads, config.listeners.len());
        // The key lasts as long as the process.
        let key = random_bytes().map_err(PepError::setup("read /dev/urandom"))?;
        let cookies = Cookies::new(key);
        let mut controls = LegControls::new();
        controls.load(&config)?;
        let (options, legs) = (controls.options()?, controls.all_legs(&config));
        let limits = limits(&config, most_tunnels);
        let workers = Workers::new(threads).map_err(PepError::setup("start threads"))?;
        let shared = Shared::new(threads, limits.budget);
        let machine = |at: usize, given: Vec<TcpListener>| {
            let machine = OsSockets::new(epoll()?, given, Box::new(origin));
            let mut machine = machine.map_err(PepError::setup("use the sockets handed over"))?;
            machine.read_ahead_from(config.read_ahead);
            machine.use_controls(options.clone());
            if threads > 1 {
                machine.share_clients(Peers::new(&workers, at));
            }
            Ok::<_, PepError>(machine)
        };
        let resolver = Resolver::new();
        let worker = |at: usize, mut machine: OsSockets| {
            let listeners = listeners(&mut machine, &config, &cookies, &legs);
            let mut proxy = Proxy::sharing(listeners, limits, &shared);
            proxy
                .start(&mut machine)
                .map_err(|e| not_listened(&machine, e))?;
            let names = Names::new(Arc::clone(&resolver));
            let names = names.map_err(PepError::setup("wait for names"))?;
            Worker::new(Server::new(machine, proxy), Peers::new(&workers, at), names)
        };
        let given = given_sockets().into_iter().map(TcpListener::from).collect();
        let mut first = machine(0, given)?;
        let opened = listeners(&mut first, &config, &cookies, &legs);
        let copies = first.open_ahead(&places(&opened), threads - 1);
        let copies = copies.map_err(|e| not_listened(&first, e))?;
        let first = worker(0, first)?;
        if let Some(address) = first.server.machine.not_taken().next() {
            return Err(PepError::NotTaken(address));
        }
        let others = (1..).zip(copies);
        let others = others.map(|(at, copies)| worker(at, machine(at, copies)?));
        let waiting = others.collect::<Result<_, _>>()?;
        if let Some(user) = &user {
            service::become_user(user)?;
            if let Some(file) = &config.file {
                if let Err(why) = std::fs::File::open(file) {
                    warn!(
                        file = %file.display(),
                        user = user.name,
                        "SIGHUP will be refused, as the configuration cannot be read by the user \
                         that the process has become: {why} (chgrp, chmod g+r)"
                    );
                }
            }
        }
        let switch = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").unwrap_or_default();
        for warning in warnings(&config, switch.trim().parse().unwrap_or(0)) {
            warn!("{warning}");
        }
        for listener in &config.listeners {
            info!(address = %listener.listen, "listening");
        }
        let state = status_socket.iter().map(|t| (t.listener.as_fd(), STATUS));
        for (fd, token) in state.chain([(signals.as_fd(), SIGNALS)]) {
            let watched = first.server.watch(fd, token);
            watched.map_err(PepError::setup("wait for signals"))?;
        }
        service::notify("READY=1");
        Ok(Self {
            first,
            others: Others {
                workers: Arc::clone(&workers),
                waiting,
                running: Vec::new(),
            },
            config,
            cookies,
            controls,
            signals,
            status_socket,
            most_tunnels,
            ends: None,
            next_metrics: Instant::ZERO,
            watchdog: service::watchdog(),
            next_watch: Instant::ZERO,
            shared,
            resolver,
            memory: Memory::of_process(),
            kernel_bytes: 0,
            next_memory: Instant::ZERO,
        })
    }

    /// Serves until a signal asks to end: no more clients are taken then, and those that
    /// are there have the time of `drain`, or until the next signal. `metrics` is called
    /// once a second if the configuration asks for such.
    ///
    /// # Errors
    /// If the kernel cannot be waited for, which it can on a working system, or a thread has
    /// ended.
    pub fn run(mut self, metrics: &mut dyn FnMut(&Status)) -> Result<Status, PepError> {
        self.others.start()?;
        loop {
            let longest = self.patience();
            let ready = self.first.turn(longest);
            let ready = ready.map_err(PepError::setup("wait for sockets"))?;
            for token in ready {
                match token {
                    STATUS => self.answer_status(),
                    _ => self.serve_signals(),
                }
            }
            if self.others.workers.has_ended() {
                return Err(PepError::Thread);
            }
            self.on_time(metrics);
            let now = self.first.server.now();
            if self.ends.is_some_and(|at| at <= now) {
                let tunnels = self.tunnels();
                warn!(tunnels, "reset at the end of the time to drain");
                self.abandon();
            }
            if self.is_drained() {
                info!("ended");
                return Ok(self.status());
            }
        }
    }

    /// Does what is due: measures the kernel's buffers, reports to the service manager, and hands
    /// `metrics` the state.
    fn on_time(&mut self, metrics: &mut dyn FnMut(&Status)) {
        let now = self.first.server.now();
        if now >= self.next_memory {
            self.next_memory = now + METRICS;
            self.measure_memory();
        }
        if let Some(every) = self.watchdog.filter(|_| now >= self.next_watch) {
            self.next_watch = now + every;
            // Each thread answers, or it is not said.
            self.tunnels();
            service::notify("WATCHDOG=1");
        }
        if self.config.metrics.is_some() && now >= self.next_metrics {
            self.next_metrics = now + METRICS;
            metrics(&self.status());
        }
    }

    /// Has each thread do `work` with its sockets and tunnels; what came of it, of the first
    /// thread first.
    fn each<T: Send + 'static>(
        &mut self,
        work: impl Fn(&mut Server) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let workers = &self.others.workers;
        let asked = self.others.all().map(|at| workers.ask(at, work.clone()));
        let asked: Vec<_> = asked.collect();
        let own = work(&mut self.first.server);
        let answers = asked.into_iter().filter_map(|answer| answer.recv().ok());
        once(own).chain(answers).collect()
    }

    fn tunnels(&mut self) -> usize {
        let tunnels = self.each(|server| server.proxy.tunnels());
        tunnels.into_iter().sum()
    }

    fn abandon(&mut self) {
        self.each(|Server { machine, proxy, .. }| proxy.abandon(machine));
    }

    fn is_drained(&self) -> bool {
        let drained = |at| self.others.workers.is_drained(at);
        self.first.server.proxy.is_drained() && self.others.all().all(drained)
    }

    /// Takes what the kernel's buffers hold off the budget.
    fn measure_memory(&mut self) {
        self.kernel_bytes = self.memory.in_sockets();
        let memory = self.config.memory(&self.memory);
        self.shared.host_holds(self.kernel_bytes, memory);
    }

    /// How long to wait for events.
    fn patience(&self) -> Option<Duration> {
        let now = self.first.server.now();
        let served = self.shared.clients() > 0;
        let memory = served.then(|| self.next_memory.since(now));
        let metrics = self.config.metrics.map(|_| self.next_metrics.since(now));
        let ends = self.ends.map(|at| at.since(now));
        let watch = self.watchdog.map(|_| self.next_watch.since(now));
        let times = [metrics, memory, watch, ends];
        times.into_iter().flatten().min()
    }

    fn serve_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGHUP) => self.reload(),
                _ if self.ends.is_some() => self.abandon(),
                _ => {
                    info!(tunnels = self.tunnels(), "draining");
                    service::notify("STOPPING=1");
                    self.ends = Some(self.first.server.now() + self.config.drain);
                    self.each(|Server { machine, proxy, .. }| proxy.drain(machine));
                }
            }
        }
    }

    /// Reads the configuration again. If it is refused, all stays as it is.
    fn reload(&mut self) {
        let Some(file) = self.config.file.clone() else {
            warn!("SIGHUP: there is no configuration file to read again");
            return;
        };
        if self.ends.is_some() {
            return;
        }
        let config = match Config::load(&file) {
            Ok(config) => config,
            Err(refusal) => {
                error!("not reloaded: {}", refusal.to_line());
                return;
            }
        };
        let fixed = |config: &Config| {
            let Config { user, threads, .. } = config;
            (
                user.clone(),
                *threads,
                config.status.clone(),
                config.metrics,
            )
        };
        if fixed(&config) != fixed(&self.config) {
            warn!("user, threads, status and metrics are changed by a restart alone");
        }
        let (user, threads, status, metrics) = fixed(&self.config);
        let config = Config {
            user,
            threads,
            status,
            metrics,
            ..config
        };
        match self.apply(&config) {
            Ok(()) => {
                self.config = config;
                info!(listeners = self.config.listeners.len(), "reloaded");
            }
            Err(refused) => error!("not reloaded: {refused}"),
        }
    }

    /// Goes on by another configuration, with all threads. New sockets are opened before
    /// anything changes.
    fn apply(&mut self, config: &Config) -> Result<(), PepError> {
        self.controls.load(config)?;
        let terms = NewTerms {
            config: config.clone(),
            cookies: self.cookies.clone(),
            controls: self.controls.options()?,
            legs: self.controls.all_legs(config),
            limits: limits(config, self.most_tunnels),
        };
        let machine = &mut self.first.server.machine;
        let opened = listeners(machine, config, &terms.cookies, &terms.legs);
        let copies = machine.open_ahead(&places(&opened), self.others.all().count());
        let copies = copies.map_err(|e| not_listened(machine, e))?;
        let done = terms.apply_to(&mut self.first.server);
        done.map_err(|e| not_listened(&self.first.server.machine, e))?;
        let asked = self.others.all().zip(copies).map(|(at, copies)| {
            let terms = terms.clone();
            self.others.workers.ask(at, move |server| {
                server.machine.give(copies);
                terms.apply_to(server)
            })
        });
        for answer in asked.collect::<Vec<_>>() {
            if let Ok(Err(why)) = answer.recv() {
                error!("one thread goes on by the configuration before: {why}");
            }
        }
        self.controls.set_rates(config);
        Ok(())
    }

    /// Answers requests for the state.
    fn answer_status(&mut self) {
        let status = self.status();
        if let Some(status_socket) = &self.status_socket {
            status_socket.answer(&status);
        }
    }

    /// Its state.
    fn status(&mut self) -> Status {
        let shares = self.each(|server| Share::of(server));
        self.measure_memory();
        let (names_waiting, names_running) = self.resolver.load();
        let listeners = self.config.listeners.iter();
        Status {
            uptime_s: self.first.server.now().as_secs_f64(),
            draining: self.ends.is_some(),
            listeners: listeners.map(|l| l.listen.to_string()).collect(),
            budget_bytes: self.shared.room(),
            kernel_bytes: self.kernel_bytes,
            memory_bytes: self.config.memory(&self.memory),
            clients: self.shared.clients() as u64,
            names_waiting: names_waiting as u64,
            names_running: names_running as u64,
            ..Status::of(shares)
        }
    }
}

/// Where to a connection had been opened that a rule of TPROXY led here: it has that address.
fn origin(socket: &OwnedFd, _: SocketAddr) -> Option<SocketAddr> {
    let socket = socket.try_clone().ok()?;
    TcpStream::from(socket).local_addr().ok()
}

/// Where these listen, and with which options.
fn places(listeners: &[Listener]) -> Vec<(Profile, SocketAddr)> {
    listeners.iter().map(|l| (l.near, l.local)).collect()
}

/// What all threads go on by after a reload.
#[derive(Clone)]
struct NewTerms {
    config: Config,
    cookies: Cookies,
    controls: Vec<SocketOptions>,
    legs: Vec<Legs>,
    limits: Limits,
}

impl NewTerms {
    /// Has one thread go on by them.
    fn apply_to(&self, Server { machine, proxy, .. }: &mut Server) -> Result<(), SocketError> {
        machine.use_controls(self.controls.clone());
        let listeners = listeners(machine, &self.config, &self.cookies, &self.legs);
        let done = proxy.reconfigure(machine, listeners, self.limits);
        machine.discard_given();
        if done.is_ok() {
            machine.read_ahead_from(self.config.read_ahead);
        }
        done
    }
}

/// The listeners of `config`, which have these `legs`, for the proxy.
fn listeners(
    machine: &mut OsSockets,
    config: &Config,
    cookies: &Cookies,
    legs: &[Legs],
) -> Vec<Listener> {
    let all = config.listeners.iter().zip(legs.iter().cloned());
    all.map(|(l, [(near, near_rate), (far, far_rate)])| Listener {
        near: machine.add_profile(near),
        local: l.listen,
        terms: Terms {
            thesis: l.thesis,
            cookies: l.cookies.then(|| cookies.clone()),
            fast_open: far.fast_open,
            intake: l.intake,
            policy: l.policy.clone(),
            balancers: l.balancers.clone(),
            announce: l.send_proxy,
            keep_source: l.keep_source,
        },
        far: machine.add_profile(far),
        onward_from: l.from.map(|from| (from, 0).into()),
        parent: l.parent,
        flow: None,
        near_rate,
        far_rate,
    })
    .collect()
}

/// What will not be as it might be, on a machine with this switch of Fast Open.
fn warnings(config: &Config, fast_open: u32) -> Vec<String> {
    let mut all = Vec::new();
    // 1: as a client, 2: as a server (Documentation/networking/ip-sysctl.rst).
    if fast_open & 2 == 0 {
        all.push(
            "clients' requests come a round trip later than need be, as this machine takes no \
             data with a SYN (sysctl -w net.ipv4.tcp_fastopen=3)"
                .to_owned(),
        );
    }
    for listener in &config.listeners {
        let nobody = listener.policy.clients.is_empty();
        if nobody || listener.policy.destinations.is_empty() {
            let what = if nobody { "clients" } else { "destinations" };
            all.push(format!("{} allows no {what}", listener.listen));
        }
    }
    all
}

fn not_listened(machine: &OsSockets, reason: SocketError) -> PepError {
    PepError::Listen {
        address: machine.refused().unwrap_or_else(|| ([0; 4], 0).into()),
        reason,
    }
}

#[cfg(test)]
mod tests;
