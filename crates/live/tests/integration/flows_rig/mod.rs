//! A run of a plan's flows over a wire that can be read and cut.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::world_rig::{PATIENCE, world};
pub use crate::world_rig::{plan, soon};
use narrows_core::FlowId;
use narrows_engine::{Setup, SocketPlan};
use narrows_linux::Clock;
use narrows_live::flows::{Commands, FlowError, Flows};
use narrows_live::{CommandFacts, FlowFacts, Report, Reporter, Reports, World, reports};
use narrows_scenario::{Control, HostIndex, LinkIndex, Plan};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What a packet on the wire was.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Source and destination.
    pub ports: (u16, u16),
    /// Traffic class: DSCP and ECN field.
    pub class: u8,
    /// Bytes above TCP or UDP.
    pub payload: usize,
    pub syn: bool,
    pub ack: bool,
    /// AE, CWR and ECE of TCP's header.
    pub ecn_flags: u8,
}

impl Seen {
    /// Reads an IPv4 or IPv6 packet without IP options or extension headers.
    fn parse(packet: &[u8]) -> Option<Self> {
        let (protocol, class, above) = match packet.first()? >> 4 {
            4 => (packet[9], packet[1], 20),
            6 => (packet[6], packet[0] << 4 | packet[1] >> 4, 40),
            _ => return None,
        };
        let segment = packet.get(above..)?;
        let port = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
        let (header, flags, ae) = match protocol {
            6 => (
                (segment[12] >> 4) as usize * 4,
                segment[13],
                segment[12] & 1,
            ),
            17 => (8, 0, 0),
            _ => return None,
        };
        Some(Self {
            ports: (port(0), port(2)),
            class,
            payload: segment.len() - header,
            syn: flags & 2 != 0,
            ack: flags & 16 != 0,
            ecn_flags: ae << 2 | flags >> 6,
        })
    }
}

const LINK: &str = r#"
version = 1
name = "flows"
duration = "20s"
[[link]]
name = "wire"
ends = ["client", "server"]
up = ["rate 100Mbit queue pfifo"]
down = ["rate 100Mbit queue pfifo"]
"#;

/// Two hosts with a link between them, and `tables`.
pub fn with(tables: &str) -> String {
    format!("{LINK}{tables}")
}

/// The first flow.
pub const ONE: FlowId = FlowId(0);

/// The bytes of a flow that its receiver had.
pub fn delivered(reports: &[Report], of: FlowId) -> u64 {
    let bytes = |r: &Report| match r {
        Report::Delivered { flow, bytes } if *flow == of => Some(*bytes),
        _ => None,
    };
    reports.iter().filter_map(bytes).sum()
}

/// What a flow came to, and whether that was all of it; once, if it has ended.
pub fn finished(reports: &[Report], of: FlowId) -> Option<(u64, bool)> {
    let mut ends = reports.iter().filter_map(|r| match r {
        Report::Finished {
            flow,
            bytes,
            complete,
        } if *flow == of => Some((*bytes, *complete)),
        _ => None,
    });
    let end = ends.next();
    assert_eq!(ends.next(), None, "a flow finishes once");
    end
}

/// What a flow negotiated: ECN and accurate ECN.
pub fn established(reports: &[Report], of: FlowId) -> Option<(bool, bool)> {
    reports.iter().find_map(|r| match r {
        Report::Established { flow, ecn, accecn } if *flow == of => Some((*ecn, *accecn)),
        _ => None,
    })
}

/// The packets of a TCP connection, both ways.
pub fn tcp_between(seen: &[Seen], a: u16, b: u16) -> Vec<Seen> {
    let ours = |p: &&Seen| p.ports == (a, b) || p.ports == (b, a);
    seen.iter().filter(ours).copied().collect()
}

/// Flows and commands at work over a wire.
pub struct Run {
    flows: Flows,
    commands: Commands,
    wire: Wire,
    reports: Reports,
    reporter: Option<Reporter>,
    seen: Vec<Report>,
    inodes: Vec<u64>,
    clock: Clock,
}

struct Wire {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Seen>>>,
    thread: Option<JoinHandle<()>>,
}

/// From a run's start to its epoch.
const SOON: narrows_units::Duration = narrows_units::Duration::from_millis(20);

/// The control that the plan asks for.
fn asked(plan: &Plan, flow: FlowId) -> String {
    plan.flows[flow.0 as usize]
        .transport
        .control_name()
        .to_owned()
}

impl Run {
    /// Over a wire that loses nothing. `None` where this machine has none.
    pub fn start(test: &str, text: &str) -> Option<Self> {
        Self::losing(test, text, |_| false)
    }

    /// The same, with `control` for every flow's congestion control, by the
    /// kernel's name.
    pub fn with_control(test: &str, text: &str, control: &str) -> Option<Self> {
        let control = |_: &Plan, _: FlowId| control.to_owned();
        Self::with(test, text, |_| false, None, &control, SOON, &|_, _| {})
    }

    /// The same, with an epoch that is so far away.
    pub fn starting_in(test: &str, text: &str, after: narrows_units::Duration) -> Option<Self> {
        Self::with(test, text, |_| false, None, &asked, after, &|_, _| {})
    }

    /// Over a wire that loses what `lose` says.
    pub fn losing(
        test: &str,
        text: &str,
        lose: impl Fn(&Seen) -> bool + Send + 'static,
    ) -> Option<Self> {
        Self::with(test, text, lose, None, &asked, SOON, &|_, _| {})
    }

    /// The same, with further applications.
    pub fn with_apps(
        test: &str,
        text: &str,
        lose: impl Fn(&Seen) -> bool + Send + 'static,
        apps: &dyn Fn(&Plan, &mut Setup),
    ) -> Option<Self> {
        Self::with(test, text, lose, None, &asked, SOON, apps)
    }

    /// With a folder for what commands write.
    pub fn keeping(test: &str, text: &str, keep: &Path) -> Option<Self> {
        Self::with(test, text, |_| false, Some(keep), &asked, SOON, &|_, _| {})
    }

    fn with(
        test: &str,
        text: &str,
        lose: impl Fn(&Seen) -> bool + Send + 'static,
        keep: Option<&Path>,
        control: &dyn Fn(&Plan, FlowId) -> String,
        after: narrows_units::Duration,
        apps: &dyn Fn(&Plan, &mut Setup),
    ) -> Option<Self> {
        let plan = plan(text);
        let world = world(test, &plan)?;
        let (reporter, reports) = reports(0);
        let clock = Clock::starting_in(after);
        let host = |h: HostIndex| world.namespace(h).clone();
        let control = |socket: &SocketPlan, of_leg: &Control| match socket.end_of() {
            Some(flow) => control(&plan, flow),
            None => of_leg.name().to_owned(),
        };
        let flows = Flows::set_up(&plan, 1, &clock).and_then(|mut setup| {
            apps(&plan, &mut setup);
            Flows::start(&plan, setup, &host, &control, &[], clock, &reporter)
        });
        let flows = flows.unwrap_or_else(|e| panic!("{e}"));
        let commands = Commands::start(&plan, &host, clock, keep);
        let commands = commands.unwrap_or_else(|e| panic!("{e}"));
        let inodes = (0..plan.hosts.len()).map(|h| host(HostIndex(h)).inode());
        Some(Self {
            flows,
            commands,
            inodes: inodes.collect(),
            clock,
            wire: Wire::start(world, lose),
            reports,
            reporter: Some(reporter),
            seen: Vec::new(),
        })
    }

    /// Why the flows of a plan are refused, and the threads that are left in
    /// their hosts.
    pub fn refused(test: &str, text: &str) -> Option<(FlowError, Vec<String>)> {
        let plan = plan(text);
        let world = world(test, &plan)?;
        let (reporter, _reports) = reports(0);
        let host = |h: HostIndex| world.namespace(h).clone();
        let control = |_: &SocketPlan, control: &Control| control.name().to_owned();
        let clock = Clock::starting_now();
        let started = Flows::set_up(&plan, 1, &clock)
            .and_then(|setup| Flows::start(&plan, setup, &host, &control, &[], clock, &reporter));
        let error = started.unwrap_err();
        let inodes: Vec<_> = (0..plan.hosts.len())
            .map(|h| host(HostIndex(h)).inode())
            .collect();
        // A joined thread is listed until the kernel has put it away.
        soon(|| threads_in(&inodes).is_empty());
        Some((error, threads_in(&inodes)))
    }

    /// Waits until the reports so far are as `enough` says.
    pub fn until(&mut self, enough: impl Fn(&[Report]) -> bool) {
        let patience = Instant::now();
        loop {
            if enough(self.reports()) {
                return;
            }
            let last = &self.seen[self.seen.len().saturating_sub(5)..];
            assert!(patience.elapsed() < PATIENCE, "it never was: {last:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// The reports so far.
    pub fn reports(&mut self) -> &[Report] {
        while let Some((_, report)) = self.reports.next() {
            self.seen.push(report);
        }
        &self.seen
    }

    /// Whether the run's epoch is yet to come.
    pub fn is_early(&self) -> bool {
        !self.clock.until_epoch().is_zero()
    }

    /// The time of the run.
    pub fn now(&self) -> narrows_units::Instant {
        self.clock.now()
    }

    /// The packets on the wire so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.wire.seen.lock().unwrap().clone()
    }

    /// The inodes of the hosts' namespaces.
    pub fn namespaces(&self) -> Vec<u64> {
        self.inodes.clone()
    }

    /// Ends it; what became of the flows, and all reports.
    pub fn stop(mut self) -> (Vec<FlowFacts>, Vec<Report>) {
        let facts = self.flows.stop();
        drop(self.reporter.take());
        self.reports();
        (facts, self.seen)
    }

    /// Ends the commands; what became of them.
    pub fn stop_commands(self) -> Vec<CommandFacts> {
        self.commands.stop()
    }
}

impl Wire {
    fn start(world: World, lose: impl Fn(&Seen) -> bool + Send + 'static) -> Self {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (stopped, record) = (Arc::clone(&stop), Arc::clone(&seen));
        let body = move || {
            while !stopped.load(Ordering::Relaxed) {
                carry(&world, &lose, &record);
            }
        };
        Self {
            stop,
            seen,
            thread: Some(std::thread::spawn(body)),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn carry(world: &World, lose: &impl Fn(&Seen) -> bool, record: &Mutex<Vec<Seen>>) {
    let (a, b) = world.tun(LinkIndex(0));
    let mut waits = [a, b].map(|t| PollFd::new(t.as_fd(), PollFlags::POLLIN));
    poll(&mut waits, PollTimeout::from(20_u8)).expect("devices can be waited for");
    let mut packet = vec![0; 65_536];
    for (from, to) in [(a, b), (b, a)] {
        // A burst each, so that neither direction waits for the other.
        for _ in 0..16 {
            let Ok(length) = nix::unistd::read(from, &mut packet) else {
                break;
            };
            let seen = Seen::parse(&packet[..length]);
            record.lock().unwrap().extend(seen);
            if !seen.is_some_and(|s| lose(&s)) {
                let _ = nix::unistd::write(to, &packet[..length]);
            }
        }
    }
}

/// The names of this process's threads that are in these namespaces, in
/// order.
pub fn threads_in(inodes: &[u64]) -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("/proc is mounted");
    let inside = |t: &fs::DirEntry| {
        fs::metadata(t.path().join("ns/net")).is_ok_and(|n| inodes.contains(&n.ino()))
    };
    let name = |t: fs::DirEntry| fs::read_to_string(t.path().join("comm")).ok();
    let inside = tasks.flatten().filter(inside).filter_map(name);
    let mut names: Vec<_> = inside.map(|n| n.trim_end().to_owned()).collect();
    names.sort();
    names
}

/// How many other processes are in these namespaces.
pub fn processes_in(inodes: &[u64]) -> usize {
    let own = std::process::id().to_string();
    let all = fs::read_dir("/proc").expect("/proc is mounted");
    all.flatten()
        .filter(|p| p.file_name().to_string_lossy() != own)
        .filter_map(|p| fs::metadata(p.path().join("ns/net")).ok())
        .filter(|n| inodes.contains(&n.ino()))
        .count()
}
