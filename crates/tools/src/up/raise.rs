//! Building a topology, and holding it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration as RealDuration, Instant};
use std::{fs, io};

use narrows_engine::RunHandle;
use narrows_linux::machine::{NAMED_NAMESPACES, State, TakeNameError, Undo, processes};
use narrows_linux::{
    Clock, MountNamespace, Namespace, RunId, gain_rights_in_own_user_namespace, has_rights, sysctl,
};
use narrows_live::datapath::{Datapath, PathError};
use narrows_live::{LiveError, World, check_network, reports};
use narrows_results::Error;
use narrows_scenario::{HostIndex, LinkIndex, NameTable, Plan, Refusal, TimedChange};
use narrows_units::Duration;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use super::counters::{Counters, Counting};
use super::figures::{self, Figures};
use super::folder::{self, HOLDER, HOSTS_FILE, LOG, RECORD};
use super::hosts::{self, HOSTS};
use super::name;
use super::record::{self, Holder, HostRecord, Record};
use super::refused;
use narrows_linux::foreground::Signals;

/// How long a topology may stay: until it is taken down. A hundred years fit a clock of
/// nanoseconds.
const WITHOUT_END: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How often queues are sampled, which nobody reads here.
const RARELY: Duration = Duration::from_secs(3600);

/// How long programs in hosts have to end after they were asked to.
const PATIENCE: RealDuration = RealDuration::from_secs(2);

/// The smallest MTU over which Linux runs IPv6, in bytes (RFC 8200, section 5).
const IPV6_MIN_MTU: u32 = 1280;

/// What a topology is to be.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// Its hosts and links; its flows are not started.
    pub plan: Plan,
    /// What its plan comes from, as it was typed.
    pub scenario: String,
    /// Its name, if not that of the plan.
    pub name: Option<String>,
}

/// A topology that is up. Dropping it takes it down.
#[derive(Debug)]
pub struct Raised {
    /// How it is built.
    pub record: Record,
    /// What is not as one might expect, a sentence each.
    pub notes: Vec<String>,
    folder: PathBuf,
    since: Instant,
    changes: Vec<TimedChange>,
    listener: UnixListener,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    path: Option<JoinHandle<Result<(), PathError>>>,
    _mounts: Vec<MountNamespace>,
    // What has names goes last, with the world's state.
    world: Option<Arc<World>>,
    namespaces: Vec<Namespace>,
    run: RunId,
    signals: Signals,
}

/// Leaves the terminal and its signals, for who goes on in the background.
///
/// # Errors
/// When this process leads a group already.
pub fn detach() -> io::Result<()> {
    setsid().map(drop).map_err(io::Error::from)
}

/// Builds a topology. SIGINT, SIGQUIT, SIGTERM and SIGHUP are held back from now on until it is
/// dropped; `None` if one of them asked to stop while it was built. Takes rights that the user
/// has not got from a user namespace, so that the process must have one thread yet.
///
/// # Errors
/// Where the plan cannot be had, its name is taken, or the machine refuses a step; then nothing
/// is left of it.
pub fn raise(options: &UpOptions) -> Result<Option<Raised>, Error> {
    let name = name::of(options.name.as_deref(), &options.plan.name).map_err(refused)?;
    let full_names = full_names(&name, &options.plan).map_err(refused)?;
    not_of_others(&name, &full_names).map_err(refused)?;
    build(options, &name, &full_names)
}

/// `<topology>-<host>` of each host.
fn full_names(name: &str, plan: &Plan) -> Result<Vec<String>, Refusal> {
    let mut full: Vec<String> = Vec::new();
    for host in &plan.hosts {
        let plain = name::plain(&host.name);
        if plain.is_empty() {
            let found = format!("`{}`, which has no letter or digit of ASCII", host.name);
            let allowed = "a name that files can have: `ip netns` shows a host by it";
            return Err(Refusal::new(format!("host/{}", host.name), found, allowed));
        }
        let one = format!("{name}-{plain}");
        if full.contains(&one) {
            let found = format!("`{}`", host.name);
            let allowed = format!("hosts that differ by letters and digits: two would be `{one}`");
            return Err(Refusal::new(format!("host/{}", host.name), found, allowed));
        }
        full.push(one);
    }
    Ok(full)
}

/// Refuses full names that hosts of another topology of this user have: `a-b` of `c`, and `a` of
/// `b-c`.
fn not_of_others(name: &str, full_names: &[String]) -> Result<(), Refusal> {
    for other in folder::all().into_iter().filter(|t| t.name != name) {
        let hosts = other.record.iter().flat_map(|record| &record.hosts);
        let same = hosts.map(|host| &host.full_name);
        if let Some(same) = same.into_iter().find(|host| full_names.contains(host)) {
            let found = format!("the host `{same}`, which {} has too", other.name);
            let allowed = "a name (`--name`) that leaves each host a name of its own";
            return Err(Refusal::new("NAME", found, allowed));
        }
    }
    Ok(())
}

fn failed(what: &str) -> impl Fn(io::Error) -> Error {
    let what = what.to_owned();
    move |e| Error::Engine(format!("{what}: {e}"))
}

fn of_the_machine(plan: &Plan, error: LiveError) -> Error {
    match error.about().is_empty() {
        false => narrows_live::refused(plan, error).into(),
        true if error.is_of_rights() => Error::NoPermission(error.to_string()),
        true if error.is_of_the_machine() => Error::Refused(error.to_string()),
        true => Error::Engine(error.to_string()),
    }
}

fn build(options: &UpOptions, name: &str, full_names: &[String]) -> Result<Option<Raised>, Error> {
    let plan = &plan_without_end(&options.plan);
    let is_machines_root = has_rights();
    if !is_machines_root {
        gain_rights_in_own_user_namespace().map_err(|e| Error::NoPermission(e.to_string()))?;
    }
    let of_live = |e: LiveError| of_the_machine(plan, e);
    check_network(plan).map_err(of_live)?;
    let signals = Signals::hold().map_err(failed("holding signals"))?;
    let run = RunId::random();
    let state = State::open(&run).map_err(|e| of_live(e.into()))?;
    let folder = state.take_name(name).map_err(|e| taken(name, e))?;
    let holder = Holder::of(nix::unistd::getpid().as_raw());
    folder::write(&folder, HOLDER, &holder).map_err(failed("writing who holds the topology"))?;
    let world = World::build_in(plan, state).map_err(of_live)?;
    if signals.asked().map_err(failed("reading signals"))? {
        return Ok(None);
    }

    let namespaces = (0..plan.hosts.len()).map(|i| world.namespace(HostIndex(i)).clone());
    let namespaces: Vec<Namespace> = namespaces.collect();
    let ends = |i| {
        world
            .ends(LinkIndex(i))
            .map(|(device, _)| device.to_owned())
    };
    let mut record = Record {
        name: name.to_owned(),
        run: run.to_string(),
        scenario: options.scenario.clone(),
        // It may be gone; then nobody finds the file by it.
        folder: std::env::current_dir().unwrap_or_default(),
        seed: plan.seed,
        hosts: host_records(plan, full_names, &namespaces),
        links: record::links(plan, ends),
    };
    let mut notes = Vec::new();
    if options.name.is_none() && name::is_cut(&options.plan.name) {
        notes.push(format!(
            "the scenario's name is too long for a topology, which is called {name}"
        ));
    }
    let mounts = files_of_hosts(&folder, &mut record.hosts, &mut notes)?;
    if is_machines_root {
        put_names(world.state(), &mut record.hosts, &namespaces, &mut notes);
    }
    let listener = folder::listen(&folder).map_err(failed("the topology's socket"))?;

    let counters = Arc::new(Counters::new(NameTable::of(plan)));
    let stop = Arc::new(AtomicBool::new(false));
    let world = Arc::new(world);
    let path = drive(plan.clone(), &world, &counters, &stop)?;
    let raised = Raised {
        record,
        notes,
        since: Instant::now(),
        changes: plan.changes.clone(),
        listener,
        counters,
        stop,
        path: Some(path),
        _mounts: mounts,
        world: Some(world),
        namespaces,
        run,
        folder,
        signals,
    };
    // From now on it is up for others.
    let written = folder::write(&raised.folder, RECORD, &raised.record);
    written.map_err(failed("writing how the topology is built"))?;
    if raised.signals.asked().map_err(failed("reading signals"))? {
        return Ok(None);
    }
    Ok(Some(raised))
}

fn plan_without_end(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.duration = WITHOUT_END;
    plan.sample_interval = RARELY;
    plan
}

fn taken(name: &str, error: TakeNameError) -> Error {
    match error {
        TakeNameError::Taken { .. } => Error::Refused(format!(
            "the topology {name} is up already: `narrows status {name}` shows it, `narrows down \
             {name}` takes it down, and `--name NAME` calls this one by another name"
        )),
        TakeNameError::Linux(error) if error.is_of_rights() => {
            Error::NoPermission(error.to_string())
        }
        other => Error::Engine(other.to_string()),
    }
}

fn host_records(plan: &Plan, full_names: &[String], namespaces: &[Namespace]) -> Vec<HostRecord> {
    use std::os::fd::AsRawFd;
    let ipv6 = sysctl::has_ipv6() && plan.links.iter().all(|link| link.mtu >= IPV6_MIN_MTU);
    let hosts = plan.hosts.iter().zip(full_names).zip(namespaces);
    let record = |((host, full_name), namespace): ((&narrows_scenario::HostPlan, &String), _)| {
        let namespace: &Namespace = namespace;
        HostRecord {
            name: host.name.clone(),
            full_name: full_name.clone(),
            router: host.router,
            ipv4: host.ipv4,
            ipv6: ipv6.then_some(host.ipv6),
            network: namespace.descriptor().as_raw_fd(),
            inode: namespace.inode(),
            mounts: None,
            named: false,
        }
    };
    hosts.map(record).collect()
}

/// A mount namespace for each host, in which it finds the others by name.
fn files_of_hosts(
    folder: &Path,
    hosts: &mut [HostRecord],
    notes: &mut Vec<String>,
) -> Result<Vec<MountNamespace>, Error> {
    let file = folder.join(HOSTS_FILE);
    let machines = fs::read_to_string(HOSTS).unwrap_or_default();
    // Programs in hosts may be other users'.
    fs::write(&file, hosts::file(hosts, &machines))
        .and_then(|()| fs::set_permissions(&file, Permissions::from_mode(0o644)))
        .map_err(failed("writing the names of hosts"))?;
    let mut mounts = Vec::new();
    for host in hosts {
        match MountNamespace::seeing(&host.full_name, &file, Path::new(HOSTS)) {
            Ok(made) => {
                host.mounts = Some(made.number());
                mounts.push(made);
            }
            Err(error) => {
                notes.push(format!("hosts do not find each other by name: {error}"));
                break;
            }
        }
    }
    Ok(mounts)
}

/// Gives the hosts their names in `/run/netns`.
fn put_names(
    state: &State,
    hosts: &mut [HostRecord],
    namespaces: &[Namespace],
    notes: &mut Vec<String>,
) {
    let mut without: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (host, namespace) in hosts.iter_mut().zip(namespaces) {
        let name = &host.full_name;
        let put = || -> io::Result<()> {
            // What another has put there is not ours to remove.
            if fs::symlink_metadata(Path::new(NAMED_NAMESPACES).join(name)).is_ok() {
                let why = "another namespace has the name";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            let undo = Undo::NamespaceName(name.clone());
            state.record(&undo).map_err(io::Error::other)?;
            namespace.put_name(name)
        };
        match put() {
            Ok(()) => host.named = true,
            Err(error) => without.entry(error.to_string()).or_default().push(name),
        }
    }
    let note = |(why, names): (String, Vec<&str>)| {
        format!("`ip netns` does not show {}: {why}", names.join(", "))
    };
    notes.extend(without.into_iter().map(note));
}

/// Starts the thread that drives the elements.
fn drive(
    plan: Plan,
    world: &Arc<World>,
    counters: &Arc<Counters>,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<Result<(), PathError>>, Error> {
    let (world, stop) = (Arc::clone(world), Arc::clone(stop));
    let mut counting = Counting(Arc::clone(counters));
    let work = move || {
        let devices: Vec<_> = (0..plan.links.len())
            .map(|i| world.own(LinkIndex(i)))
            .map(|own| own.map(|(first, second)| (first.as_fd(), second.as_fd())))
            .collect();
        let mut path = Datapath::of_own_links(&plan, plan.seed, &devices)?;
        path.count_in(Arc::clone(&counting.0.tally));
        let handle = RunHandle {
            cancel: Some(&stop),
            ..RunHandle::default()
        };
        let (_, nobody) = reports(0);
        let clock = Clock::starting_now();
        path.drive(&clock, &nobody, &mut counting, &handle)?;
        Ok(())
    };
    let thread = Builder::new().name("path".to_owned()).spawn(work);
    thread.map_err(failed("the path's thread"))
}

/// Gives up the standard streams and the current folder: messages go to a file in the folder of
/// `raised`, the output ends, and the folder can be unmounted.
///
/// # Errors
/// When the file cannot be made.
pub fn into_background(raised: &Raised) -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    let mut options = OpenOptions::new();
    let options = options.append(true).create(true).mode(0o600);
    std::env::set_current_dir("/")?;
    let log = options.open(raised.folder.join(LOG))?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&log)?;
    Ok(())
}

impl Raised {
    /// What passed, and who runs in the hosts.
    pub fn figures(&self) -> Figures {
        let Some(world) = &self.world else {
            return Figures::default();
        };
        let built = (&self.record.hosts[..], &self.record.links[..]);
        let up_s = self.since.elapsed().as_secs_f64();
        Figures {
            changes: figures::made(&self.changes, up_s),
            ..figures::read(built, &self.namespaces, (&self.counters, world), up_s)
        }
    }

    /// Holds it, and sends its figures to clients of its socket, until a signal asks it to end or
    /// its elements fail; then takes it down.
    ///
    /// # Errors
    /// When the elements failed.
    pub fn hold(mut self) -> Result<(), Error> {
        let running = || self.path.as_ref().is_some_and(|path| !path.is_finished());
        let mut answer = || folder::answer(&self.listener, &mut || self.figures());
        let held = self
            .signals
            .until_asked(self.listener.as_fd(), &mut answer, &mut || running());
        let driven = self.take_down();
        held.map_err(failed("waiting for signals"))?;
        driven
    }

    fn take_down(&mut self) -> Result<(), Error> {
        let inodes: Vec<u64> = self.namespaces.iter().map(Namespace::inode).collect();
        // While what they send still arrives.
        processes::ask_all_in(&inodes, PATIENCE);
        processes::end_all_in(&inodes);
        processes::end_all_of(&self.run);
        self.stop.store(true, Ordering::Relaxed);
        let driven = match self.path.take().map(JoinHandle::join) {
            Some(Ok(driven)) => driven.map_err(|e| Error::Engine(e.to_string())),
            Some(Err(_)) => Err(Error::Engine("the path's thread ended early".to_owned())),
            None => Ok(()),
        };
        self.world = None;
        driven
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if self.path.is_some() {
            // Who could use its result has left with an error already.
            let _ = self.take_down();
        }
    }
}
