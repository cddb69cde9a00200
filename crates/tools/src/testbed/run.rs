//! Four machines from their start to what came of a run.

use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use hyper::{Method, StatusCode};
use narrows_results::Error;
use narrows_results::folder::Folder;
use narrows_scenario::Refusal;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use serde_json::Value;
use tempfile::TempDir;

use super::client::ask;
use super::hypervisor::{Hypervisor, Running, Start, seed_file};
use super::image::Image;
use super::line::{Line, Role};
use super::orders::{Machine, longest_s};
use super::packaged::Program;
use super::report::{Report, RoleReport};
use super::seed::{SeedFile, seed, volume};
use super::state::{Phase, RunState};
use crate::secret::Secret;

/// How long a machine has for an answer.
const ANSWER: Duration = Duration::from_secs(20);

/// How often a machine is asked whether it is ready, or has ended.
const LOOK: Duration = Duration::from_millis(500);

/// How long a machine has to begin, and to end what it was asked to.
const PATIENCE: Duration = Duration::from_secs(120);

/// What folders of testbeds begin with.
const FOLDERS: &str = "narrows-testbed-";

/// What a testbed is to be.
#[derive(Clone, Debug)]
pub struct TestbedOptions {
    /// What machines start from.
    pub image: Image,
    /// The program that they get.
    pub program: Program,
    /// What runs their instructions.
    pub hypervisor: Hypervisor,
    /// Memory of each, in MiB.
    pub memory_mib: u32,
    /// How long they have to be ready.
    pub patience: Duration,
}

/// Four machines that are ready. Dropping it ends them, and so does the end of this process.
pub struct Testbed {
    line: Line,
    options: TestbedOptions,
    left_out: Vec<String>,
    longest: Duration,
    webhook: Secret,
    machines: Vec<Ready>,
    ready_s: f64,
    // Removed last.
    folder: TempDir,
    _lock: Flock<File>,
}

struct Ready {
    running: Running,
    ready_s: f64,
    version: String,
}

fn engine(what: &str) -> impl Fn(io::Error) -> Error + '_ {
    move |error| Error::Engine(format!("{what}: {error}"))
}

fn refused(why: Refusal) -> Error {
    Error::Refused(why.to_line())
}

/// Removes what testbeds that were killed have left: folders of this user that nobody holds.
fn remove_left(parent: &Path) {
    let own = geteuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let ours = entry.file_name().to_string_lossy().starts_with(FOLDERS)
            && fs::symlink_metadata(entry.path()).is_ok_and(|m| m.is_dir() && m.uid() == own);
        if !ours {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join("lock")) else {
            continue;
        };
        if Flock::lock(lock, FlockArg::LockExclusiveNonblock).is_ok() {
            // The next one tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Writes a file that this user alone may read: seeds hold tokens.
fn write_own(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

/// The files of each machine's seed.
pub type Seeds = Vec<(Role, Vec<SeedFile>)>;

/// The seeds of all machines of a line, with tokens that are drawn or given.
///
/// # Errors
/// When no flow of the scenario can be run.
pub fn seeds(
    line: &Line,
    program: &Program,
    webhook: &Secret,
    traffic: &Secret,
) -> Result<(Seeds, Vec<String>), Refusal> {
    let (machines, left_out) = Machine::all(line)?;
    let seeds = machines.iter().map(|machine| {
        let files = seed(line, machine, program, webhook, traffic);
        (machine.role(), files)
    });
    Ok((seeds.collect(), left_out))
}

impl Testbed {
    /// Starts the machines of a line and waits until all are ready; `None` when `cancel` was set
    /// before. To be called by the thread that lives longest: machines end with it.
    ///
    /// # Errors
    /// When no flow can be run, a machine cannot be started or ends, or one is not ready in time.
    pub fn start(
        line: Line,
        options: TestbedOptions,
        cancel: &AtomicBool,
        say: &dyn Fn(&str),
    ) -> Result<Option<Self>, Error> {
        let drawn = || Secret::draw().map_err(engine("a token"));
        let (webhook, traffic) = (drawn()?, drawn()?);
        let (seeds, left_out) =
            seeds(&line, &options.program, &webhook, &traffic).map_err(refused)?;
        let parent = std::env::temp_dir();
        remove_left(&parent);
        // Of mode 0700: sockets between machines have no other lock.
        let folder = tempfile::Builder::new().prefix(FOLDERS).tempdir_in(&parent);
        let folder = folder.map_err(engine("a folder for the machines"))?;
        let lock = File::create(folder.path().join("lock")).map_err(engine("a lock"))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|(_, error)| Error::Engine(format!("a lock: {error}")))?;
        for (role, files) in &seeds {
            let path = seed_file(folder.path(), *role);
            let written = volume(files).and_then(|disk| write_own(&path, &disk));
            written.map_err(engine("a seed"))?;
        }
        say(&format!(
            "starting four machines ({})",
            options.hypervisor.word()
        ));
        let begun = Instant::now();
        let start = Start {
            line: &line,
            image: &options.image,
            hypervisor: options.hypervisor,
            memory_mib: options.memory_mib,
            folder: folder.path(),
        };
        let mut starting = Vec::new();
        for place in 0..line.places.len() {
            starting.push(start.machine(place)?);
        }
        let Some(machines) = ready(starting, &webhook, begun, options.patience, cancel, say)?
        else {
            return Ok(None);
        };
        Ok(Some(Self {
            longest: Duration::from_secs(longest_s(&line)),
            ready_s: begun.elapsed().as_secs_f64(),
            line,
            options,
            left_out,
            webhook,
            machines,
            folder,
            _lock: lock,
        }))
    }

    /// Where each machine's webhook is asked.
    pub fn addresses(&self) -> Vec<(Role, SocketAddr)> {
        let machines = self.machines.iter();
        machines
            .map(|machine| (machine.running.role, machine.running.address))
            .collect()
    }

    /// The token of the webhooks.
    pub fn token(&self) -> &str {
        self.webhook.text()
    }

    /// Starts a run by the webhooks, waits until it is over, and fetches what came of it. Where
    /// `cancel` is set meanwhile, the run is stopped and what there is, is fetched.
    ///
    /// # Errors
    /// When a machine ends or does not answer.
    pub fn run(&mut self, cancel: &AtomicBool, say: &dyn Fn(&str)) -> Result<Report, Error> {
        let begun = Instant::now();
        let mut ids = Vec::new();
        for role in [Role::Observer, Role::Box] {
            ids.push((role, self.post(role)?));
        }
        // Packets that pass before it observes are lost for it.
        let (observer, id) = ids[0];
        self.until(observer, id, cancel, PATIENCE, |run| {
            run.programs
                .iter()
                .any(|program| !program.errors.is_empty())
        })?;
        let sink = self.post(Role::Sink)?;
        say("the run has begun");
        ids.push((Role::Sink, sink));
        self.until(Role::Sink, sink, cancel, self.longest + PATIENCE, |_| false)?;
        let mut runs = Vec::new();
        for (role, id) in ids.into_iter().rev() {
            self.asked(role, Method::POST, &format!("/api/v1/runs/{id}/stop"))?;
            let run = self.until(role, id, &AtomicBool::new(false), PATIENCE, |_| false)?;
            runs.push((role, run));
        }
        let state_of = |role| {
            let run = runs.iter().find(|(of, _)| *of == role);
            run.map(|(_, run)| run.clone())
        };
        let machines = self.machines.iter().map(|machine| RoleReport {
            role: machine.running.role,
            ready_s: machine.ready_s,
            version: machine.version.clone(),
            run: state_of(machine.running.role),
        });
        let elements = self.line.plan.elements();
        // Of an acknowledgement: 20 bytes of IP, 20 of TCP, 12 of timestamps.
        let base = elements
            .map(|element| element.spec.base_delay(0, 52).as_nanos())
            .sum::<u64>();
        Ok(Report {
            name: self.line.name().to_owned(),
            hypervisor: self.options.hypervisor.word().to_owned(),
            program_sha256: self.options.program.sha256.clone(),
            base_rtt_ms: base as f64 / 1e6,
            ready_s: self.ready_s,
            run_s: begun.elapsed().as_secs_f64(),
            complete: runs.iter().all(|(_, run)| run.state == Phase::Done),
            left_out: self.left_out.clone(),
            machines: machines.collect(),
        })
    }

    /// Writes a report, what programs wrote, and the machines' consoles.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, report: &Report, folder: &Folder) -> Result<(), Error> {
        folder.write_json("testbed.json", report)?;
        folder.write_file("scenario.toml", self.line.plan.to_toml().as_bytes())?;
        for (name, text) in report.files() {
            folder.write_file(&name, text.as_bytes())?;
        }
        for machine in &self.machines {
            let console = fs::read(&machine.running.console).unwrap_or_default();
            folder.write_file(&format!("{}.console", machine.running.role), &console)?;
        }
        Ok(())
    }

    /// The folder of the machines' sockets, seeds and consoles.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// An error when a machine has ended.
    ///
    /// # Errors
    /// That one.
    pub fn check(&mut self) -> Result<(), Error> {
        let mut ended = self
            .machines
            .iter_mut()
            .filter_map(|machine| machine.running.ended());
        ended.next().map_or(Ok(()), Err)
    }

    fn asked(&self, role: Role, method: Method, path: &str) -> Result<Value, Error> {
        let at = self.line.index(role);
        let address = self.machines[at].running.address;
        let failed = |why: String| Error::Engine(format!("{role}: {method} {path}: {why}"));
        let asked = ask(address, &self.webhook, (method.clone(), path), ANSWER);
        let (status, value) = asked.map_err(|e| failed(e.to_string()))?;
        match status.is_success() {
            true => Ok(value),
            false => Err(failed(format!("{status} {value}"))),
        }
    }

    /// Starts the run of a machine.
    fn post(&self, role: Role) -> Result<u64, Error> {
        let value = self.asked(role, Method::POST, "/api/v1/runs")?;
        let id = value["id"].as_u64();
        id.ok_or_else(|| Error::Engine(format!("{role}: {value} is no number of a run")))
    }

    /// Waits until the run of a machine is over, or `enough` of it is there; stops it when `cancel`
    /// is set.
    fn until(
        &mut self,
        role: Role,
        id: u64,
        cancel: &AtomicBool,
        patience: Duration,
        enough: impl Fn(&RunState) -> bool,
    ) -> Result<RunState, Error> {
        let begun = Instant::now();
        let path = format!("/api/v1/runs/{id}");
        let mut stopped = false;
        loop {
            let value = self.asked(role, Method::GET, &path)?;
            let run: RunState = serde_json::from_value(value)
                .map_err(|error| Error::Engine(format!("{role}: an answer: {error}")))?;
            if run.state != Phase::Running || enough(&run) {
                return Ok(run);
            }
            self.check()?;
            if begun.elapsed() > patience {
                let s = patience.as_secs();
                return Err(Error::Engine(format!(
                    "{role}: its run was not over after {s} s"
                )));
            }
            if cancel.load(Ordering::SeqCst) && !stopped {
                stopped = true;
                self.asked(role, Method::POST, &format!("{path}/stop"))?;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Waits until each machine answers; `None` when `cancel` is set.
fn ready(
    starting: Vec<Running>,
    token: &Secret,
    begun: Instant,
    patience: Duration,
    cancel: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<Option<Vec<Ready>>, Error> {
    let mut waiting: Vec<(usize, Running)> = starting.into_iter().enumerate().collect();
    let mut all: Vec<(usize, Ready)> = Vec::new();
    while !waiting.is_empty() {
        let mut still = Vec::new();
        for (at, mut running) in waiting {
            if cancel.load(Ordering::SeqCst) {
                return Ok(None);
            }
            if let Some(error) = running.ended() {
                return Err(error);
            }
            let path = (Method::GET, "/api/v1/state");
            let answer = ask(running.address, token, path, Duration::from_secs(2));
            match answer {
                Ok((StatusCode::OK, state)) => {
                    let role = state["role"].as_str().unwrap_or_default();
                    if role != running.role.word() {
                        let why = format!("the machine {} says that it is {role}", running.role);
                        return Err(Error::Engine(why));
                    }
                    let ready_s = begun.elapsed().as_secs_f64();
                    say(&format!("{role} is ready after {ready_s:.0} s"));
                    let version = state["version"].as_str().unwrap_or_default().to_owned();
                    all.push((
                        at,
                        Ready {
                            running,
                            ready_s,
                            version,
                        },
                    ));
                }
                // Nothing listens there yet.
                _ => still.push((at, running)),
            }
        }
        if let Some((_, late)) = still.first().filter(|_| begun.elapsed() > patience) {
            return Err(Error::Engine(format!(
                "the machine {} is not ready after {} s; its console ends with: {}",
                late.role,
                patience.as_secs(),
                late.last_lines()
            )));
        }
        waiting = still;
        thread::sleep(LOOK);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(Some(all.into_iter().map(|(_, ready)| ready).collect()))
}
