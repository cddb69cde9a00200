//! The folders of topologies, as others read them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use narrows_linux::OtherProcess;
use narrows_linux::machine::{NamedFolder, named_folders, present_folders};
use narrows_results::Error;
use narrows_scenario::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::figures::Figures;
use super::record::{Holder, HostRecord, Record};
use super::refused;

/// The file of who holds it.
pub(super) const HOLDER: &str = "holder.json";
/// The file of how it is built, which is there when it is up.
pub(super) const RECORD: &str = "topology.json";
/// The file that hosts see as `/etc/hosts`.
pub(super) const HOSTS_FILE: &str = "hosts";
/// Messages of the process that holds it, once it has no terminal.
pub(super) const LOG: &str = "log";
/// The socket that answers with figures.
const SOCKET: &str = "socket";

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes `value` to `file` of `folder`, whole or not at all.
pub(super) fn write(folder: &Path, file: &str, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::other)?;
    let part = folder.join(format!("{file}.part"));
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    options.open(&part)?.write_all(&text)?;
    fs::rename(part, folder.join(file))
}

fn read<T: DeserializeOwned>(folder: &Path, file: &str) -> Option<T> {
    serde_json::from_slice(&fs::read(folder.join(file)).ok()?).ok()
}

/// The socket of `folder` by a name that fits its address, however long the folder's is
/// (`sun_path` of unix(7) has 108 bytes).
fn socket(folder: &Path) -> io::Result<(File, PathBuf)> {
    let folder = File::open(folder)?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
    Ok((folder, path.into()))
}

/// Answers those who ask in `folder`, once they are accepted.
pub(super) fn listen(folder: &Path) -> io::Result<UnixListener> {
    let (_open, path) = socket(folder)?;
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers all who have asked by now. One who does not read is not waited for.
pub(super) fn answer(listener: &UnixListener, figures: &mut dyn FnMut() -> Figures) {
    /// The longest that an answer may take to be written.
    const LONGEST: Duration = Duration::from_millis(200);
    while let Ok((mut stream, _)) = listener.accept() {
        let text = serde_json::to_vec(&figures()).unwrap_or_default();
        let sent = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_write_timeout(Some(LONGEST)))
            .and_then(|()| stream.write_all(&text));
        if let Err(error) = sent {
            tracing::debug!(%error, "who asked for figures did not read them");
        }
    }
}

/// How it is with a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// It is being built, or taken down.
    Changing,
    /// It is up.
    Up,
    /// The process that held it was killed; its folder and names are left.
    Killed,
    /// A process holds it whose folder somebody has removed: it can be taken down, and not be
    /// entered.
    Lost,
}

/// A topology of this user.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// How it is with it.
    pub condition: Condition,
    /// The process that holds it, if that could say so.
    pub holder: Option<Holder>,
    /// How it is built, once it is.
    pub record: Option<Record>,
    /// What passed, if that was asked for.
    pub figures: Option<Figures>,
    pub(super) folder: NamedFolder,
}

impl Found {
    fn of(folder: NamedFolder) -> Self {
        let record: Option<Record> = read(&folder.path, RECORD);
        Self {
            name: folder.name.clone(),
            condition: match (folder.alive, record.is_some()) {
                (false, _) => Condition::Killed,
                (true, true) => Condition::Up,
                (true, false) if folder.process.is_some() => Condition::Lost,
                (true, false) => Condition::Changing,
            },
            holder: read(&folder.path, HOLDER).or_else(|| Holder::of(folder.process?)),
            record,
            figures: None,
            folder,
        }
    }

    /// The process that holds it; `None` if that has ended.
    pub(super) fn process(&self) -> io::Result<Option<OtherProcess>> {
        match &self.holder {
            Some(holder) => OtherProcess::open(holder.pid, holder.start),
            None => Ok(None),
        }
    }

    fn ask(&self) -> io::Result<Figures> {
        let (_open, path) = socket(&self.folder.path)?;
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    }
}

/// The topologies of this user, by name, without what passed.
pub fn all() -> Vec<Found> {
    named_folders().into_iter().map(Found::of).collect()
}

/// Those that are up and whose folders are there: all that can be entered.
pub fn enterable() -> Vec<Found> {
    let all = present_folders().into_iter().map(Found::of);
    all.filter(|found| found.condition == Condition::Up)
        .collect()
}

/// The topology `name`; without a name, the only one that there is.
pub(super) fn one(name: Option<&str>) -> Result<Found, Refusal> {
    let mut all = all();
    let known: Vec<_> = all.iter().map(|t| t.name.clone()).collect();
    match name {
        Some(name) => {
            let found = all.into_iter().find(|t| t.name == name);
            found.ok_or_else(|| no_such("NAME", name, &known))
        }
        None if all.len() == 1 => Ok(all.remove(0)),
        None => {
            let found = match known.len() {
                0 => "no topology that is up".to_owned(),
                n => format!("no name, where there are {n} topologies"),
            };
            Err(Refusal::new("NAME", found, listed(&known)))
        }
    }
}

fn listed(known: &[String]) -> String {
    match known {
        [] => "one that `narrows up FILE` has made as this user".to_owned(),
        known => known.join(", "),
    }
}

fn no_such(key: &str, name: &str, known: &[String]) -> Refusal {
    Refusal::new(key, format!("`{name}`"), listed(known))
}

/// How it is with the topology `name`, or with all of this user's.
///
/// # Errors
/// When there is none of that name.
pub fn status(name: Option<&str>) -> Result<Vec<Found>, Error> {
    let mut found = match name {
        Some(name) => vec![one(Some(name)).map_err(refused)?],
        None => all(),
    };
    for topology in found.iter_mut().filter(|t| t.condition == Condition::Up) {
        match topology.ask() {
            Ok(figures) => topology.figures = Some(figures),
            Err(error) => tracing::debug!(%error, "{} does not answer", topology.name),
        }
    }
    Ok(found)
}

/// The topology and the host that `word` names: by its full name, or by the name in its scenario
/// where one topology alone has such a host.
pub(super) fn host(word: &str) -> Result<(Found, HostRecord), Refusal> {
    let mut fully = Vec::new();
    let mut shortly = Vec::new();
    let mut known = Vec::new();
    for topology in all() {
        let hosts = topology.record.iter().flat_map(|r| r.hosts.clone());
        for host in hosts.collect::<Vec<_>>() {
            known.push(host.full_name.clone());
            if host.full_name == word {
                fully.push((topology.clone(), host));
            } else if host.name == word {
                shortly.push((topology.clone(), host));
            }
        }
    }
    let mut found = if fully.is_empty() { shortly } else { fully };
    match found.len() {
        0 => Err(no_such("HOST", word, &known)),
        1 => Ok(found.remove(0)),
        n => {
            let names: Vec<_> = found.iter().map(|(_, h)| h.full_name.clone()).collect();
            let found = format!("`{word}`, which {n} topologies have");
            Err(Refusal::new("HOST", found, names.join(", ")))
        }
    }
}

/// The names of this user's topologies.
pub fn names() -> Vec<String> {
    all().into_iter().map(|t| t.name).collect()
}

/// The names by which hosts of this user's topologies can be entered: full ones, and those in
/// their scenarios that one alone has.
pub fn full_names() -> Vec<String> {
    let records = all().into_iter().filter_map(|t| t.record);
    let hosts: Vec<HostRecord> = records.flat_map(|record| record.hosts).collect();
    let alone = |name: &String| hosts.iter().filter(|h| h.name == *name).count() == 1;
    let short = hosts.iter().map(|h| &h.name).filter(|name| alone(name));
    let full = hosts.iter().map(|h| &h.full_name);
    short.chain(full).cloned().collect()
}
