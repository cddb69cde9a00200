//! The ways in which a run may change a machine, each with the way back.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

use nix::mount::{MntFlags, umount2};

/// The file of a control group that lists its processes, and lets one in that is written
/// to it.
pub(crate) const GROUP_PROCESSES: &str = "cgroup.procs";

/// How often a group is tried to be removed while programs in it are just ending, and how
/// long it is waited in between.
const GROUP_TRIES: u32 = 200;
const GROUP_PAUSE: Duration = Duration::from_millis(10);

/// How to undo one change. In a state file it is one line of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Set a switch back to what it was.
    Sysctl {
        /// As `net/ipv4/ip_forward`.
        name: String,
        /// What it was before any run changed it.
        value: String,
    },
    /// Let a device take packets of several segments again (`gso_max_segs`).
    Segments {
        /// Its name.
        device: String,
        /// How many, before any run changed it.
        value: u32,
    },
    /// Remove the filters that mark packets at a device: those of clsact stay
    /// when their process is killed.
    SignalFilters(String),
    /// Remove a network device.
    Device(String),
    /// Remove a table of nftables.
    NftTable {
        /// `ip`, `ip6` or `inet`.
        family: String,
        /// Its name.
        table: String,
    },
    /// Remove a control group; programs that are still in it go to the one above it.
    Cgroup(PathBuf),
    /// Remove a file.
    File(PathBuf),
    /// Remove a folder and the files in it; folders in it keep it.
    Folder(PathBuf),
    /// Take a name from a network namespace: `ip netns` shows those in
    /// [`NAMED_NAMESPACES`].
    NamespaceName(String),
}

/// Where network namespaces have names, as iproute2 has it (ip-netns(8)).
pub const NAMED_NAMESPACES: &str = "/run/netns";

impl Undo {
    /// What it sets back, if runs that overlap share it: the last of them sets
    /// back what was before the first.
    pub(super) fn shared(&self) -> Option<String> {
        match self {
            Self::Sysctl { name, .. } => Some(format!("sysctl {name}")),
            Self::Segments { device, .. } => Some(format!("segments {device}")),
            Self::SignalFilters(device) => Some(format!("mark_filters {device}")),
            _ => None,
        }
    }

    /// Whether what it undoes belongs to a network namespace; control groups and files do not.
    pub(super) fn is_of_a_network(&self) -> bool {
        !matches!(
            self,
            Self::Cgroup(_) | Self::File(_) | Self::Folder(_) | Self::NamespaceName(_)
        )
    }

    /// Does it; what was done, or `None` where it had been undone before.
    ///
    /// # Errors
    /// In a line, when it cannot be done.
    pub fn apply(&self) -> Result<Option<String>, String> {
        let done = match self {
            Self::Sysctl { name, value } => set_back(name, value),
            Self::Segments { device, value } => set_segments_back(device, *value),
            Self::SignalFilters(device) => remove_mark_filters(device),
            Self::Device(name) => remove_device(name),
            Self::NftTable { family, table } => delete_table(family, table),
            Self::Cgroup(path) => remove_group(path),
            Self::File(path) => gone(fs::remove_file(path)),
            Self::Folder(path) => remove_folder(path),
            Self::NamespaceName(name) => remove_namespace_name(name),
        };
        match done {
            Ok(true) => Ok(Some(self.deed())),
            Ok(false) => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    fn deed(&self) -> String {
        match self {
            Self::Sysctl { name, value } => format!("set {name} back to {value}"),
            Self::Segments { device, value } => {
                format!("set gso_max_segs of {device} back to {value}")
            }
            Self::SignalFilters(device) => format!("removed the marks of {device}"),
            Self::Device(name) => format!("removed the device {name}"),
            Self::NftTable { family, table } => {
                format!("removed the nftables table {family} {table}")
            }
            Self::Cgroup(path) => format!("removed the control group {}", path.display()),
            Self::File(path) | Self::Folder(path) => format!("removed {}", path.display()),
            Self::NamespaceName(name) => {
                format!("removed the name {name} of a network namespace")
            }
        }
    }
}

/// Whether it was there to be removed.
fn gone(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether `name` is that of a file in a folder, and leads nowhere else.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains('/')
}

/// Removes the files in `path` without following links, and then `path`.
fn remove_folder(path: &Path) -> io::Result<bool> {
    let files = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        files => files?,
    };
    for file in files {
        let file = file?;
        if !file.file_type()?.is_dir() {
            gone(fs::remove_file(file.path()))?;
        }
    }
    gone(fs::remove_dir(path))
}

fn remove_namespace_name(name: &str) -> io::Result<bool> {
    let path = Path::new(NAMED_NAMESPACES).join(name);
    // Where nothing is mounted on it, here or any longer, it is a file.
    let _ = umount2(&path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW);
    let removed = gone(fs::remove_file(&path));
    // Stays where others have names, or something is mounted there.
    let _ = fs::remove_dir(NAMED_NAMESPACES);
    removed
}

fn remove_group(path: &Path) -> io::Result<bool> {
    let above = path.parent().unwrap_or(path).join(GROUP_PROCESSES);
    for _ in 0..GROUP_TRIES {
        let inside = fs::read_to_string(path.join(GROUP_PROCESSES)).unwrap_or_default();
        for pid in inside.lines() {
            // One that is just ending goes nowhere, and keeps the group until it has.
            let _ = fs::write(&above, pid);
        }
        match fs::remove_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => sleep(GROUP_PAUSE),
            removed => return gone(removed),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

fn set_back(name: &str, value: &str) -> io::Result<bool> {
    let path = Path::new("/proc/sys").join(name);
    match fs::read_to_string(&path) {
        Ok(now) if now.trim_end() != value => {}
        Ok(_) => return Ok(false),
        // The device that it belonged to has gone.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    }
    fs::write(path, value)?;
    Ok(true)
}

fn set_segments_back(device: &str, value: u32) -> io::Result<bool> {
    match crate::own_segments(device) {
        Ok((_, now)) if now != value => {}
        Ok(_) => return Ok(false),
        // The device has gone.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) if e.raw_os_error() == Some(nix::libc::ENODEV) => return Ok(false),
        Err(e) => return Err(e),
    }
    crate::set_own_segments(device, value)?;
    Ok(true)
}

fn remove_mark_filters(device: &str) -> io::Result<bool> {
    let place = narrows_bpf::SIGNAL_PRIORITY.to_string();
    let tc = |what: &str, side: &str, more: &[&str]| {
        let words = ["filter", what, "dev", device, side, "pref", &place];
        let mut command = Command::new("tc");
        command.args(words).args(more).stdin(Stdio::null()).output()
    };
    let mut removed = false;
    for side in ["egress", "ingress"] {
        let shown = match tc("show", side, &[]) {
            Ok(shown) => shown.stdout,
            // Without iproute2 they cannot be distinguished from others.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(removed),
            Err(e) => return Err(e),
        };
        // Others may have a filter in the same place.
        if !String::from_utf8_lossy(&shown).contains(narrows_bpf::SIGNAL_PROGRAM) {
            continue;
        }
        let deleted = tc("del", side, &["handle", &place, "bpf"])?;
        if !deleted.status.success() {
            let said = String::from_utf8_lossy(&deleted.stderr);
            let first = said.lines().next().unwrap_or("tc failed");
            return Err(io::Error::other(first.to_owned()));
        }
        removed = true;
    }
    Ok(removed)
}

fn remove_device(name: &str) -> io::Result<bool> {
    crate::remove_own_device(name)
}

fn delete_table(family: &str, table: &str) -> io::Result<bool> {
    let nft = |what: &str| {
        Command::new("nft")
            .args([what, "table", family, table])
            .stdin(Stdio::null())
            .output()
    };
    match nft("list") {
        Ok(listed) if listed.status.success() => {}
        Ok(_) => return Ok(false),
        // Where there is no nft, nothing has put a table there.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    }
    let deleted = nft("delete")?;
    if deleted.status.success() {
        return Ok(true);
    }
    let said = String::from_utf8_lossy(&deleted.stderr);
    let first = said.lines().next().unwrap_or("nft failed");
    Err(io::Error::other(first.to_owned()))
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { name, value } => write!(f, "sysctl {name} {value}"),
            Self::Segments { device, value } => write!(f, "segments {device} {value}"),
            Self::SignalFilters(device) => write!(f, "mark_filters {device}"),
            Self::Device(name) => write!(f, "device {name}"),
            Self::NftTable { family, table } => write!(f, "nft {family} {table}"),
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Folder(path) => write!(f, "folder {}", path.display()),
            Self::NamespaceName(name) => write!(f, "namespace_name {name}"),
        }
    }
}

/// A line of a state file that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` says nothing that can be undone")]
pub struct NoUndo(String);

impl FromStr for Undo {
    type Err = NoUndo;

    fn from_str(line: &str) -> Result<Self, NoUndo> {
        let read = || {
            let (kind, rest) = line.split_once(' ').filter(|(_, rest)| !rest.is_empty())?;
            // Only what a run may name: nothing outside of /proc/sys/net.
            let switch = |name: &str| name.starts_with("net/") && !name.contains("..");
            Some(match kind {
                "sysctl" => {
                    let (name, value) = rest.split_once(' ').filter(|(n, _)| switch(n))?;
                    Self::Sysctl {
                        name: name.to_owned(),
                        value: value.to_owned(),
                    }
                }
                "segments" => {
                    let (device, value) = rest.rsplit_once(' ')?;
                    Self::Segments {
                        device: device.to_owned(),
                        value: value.parse().ok()?,
                    }
                }
                "mark_filters" => Self::SignalFilters(rest.to_owned()),
                "device" => Self::Device(rest.to_owned()),
                "nft" => {
                    let (family, table) = rest.split_once(' ')?;
                    Self::NftTable {
                        family: family.to_owned(),
                        table: table.to_owned(),
                    }
                }
                "cgroup" => Self::Cgroup(rest.into()),
                "file" => Self::File(rest.into()),
                "folder" => Self::Folder(rest.into()),
                "namespace_name" if is_file_name(rest) => Self::NamespaceName(rest.to_owned()),
                _ => return None,
            })
        };
        read().ok_or_else(|| NoUndo(line.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_back_is_read_as_it_was_written() {
        let all = [
            Undo::Sysctl {
                name: "net/ipv4/ip_local_port_range".to_owned(),
                value: "32768\t60999".to_owned(),
            },
            Undo::Segments {
                device: "eth0".to_owned(),
                value: 65_535,
            },
            Undo::SignalFilters("eth0".to_owned()),
            Undo::Device("nwabcde-out".to_owned()),
            Undo::NftTable {
                family: "inet".to_owned(),
                table: "narrows_nwabcde".to_owned(),
            },
            Undo::Cgroup("/sys/fs/cgroup/narrows nwabcde".into()),
            Undo::File("/a b".into()),
            Undo::Folder("/a b.topology".into()),
            Undo::NamespaceName("lab-client".to_owned()),
        ];
        for undo in all {
            assert_eq!(undo.to_string().parse(), Ok(undo));
        }
    }

    #[test]
    fn filters_that_mark_are_removed_and_those_of_others_are_not() {
        use narrows_bpf::{SignalOptions, SignalProgram};
        let signals = "s"
            .parse::<narrows_scenario::SignalSpec>()
            .expect("a profile");
        let options = SignalOptions {
            clsact: true,
            ..SignalOptions::default()
        };
        let inside = move || -> Result<(), String> {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).map_err(|e| e.to_string())?;
            let lo = nix::net::if_::if_nametoindex("lo").map_err(|e| e.to_string())?;
            let tc = |words: &str| {
                let ran = Command::new("tc").args(words.split(' ')).output();
                ran.map_err(|e| e.to_string())
                    .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
            };
            let mark =
                SignalProgram::attach_with(lo, &signals, &options).map_err(|e| e.to_string())?;
            tc("filter add dev lo egress pref 7 protocol ip matchall action pass")?;
            let undo = Undo::SignalFilters("lo".to_owned());
            assert_eq!(undo.apply(), Ok(Some("removed the marks of lo".to_owned())));
            let left = tc("filter show dev lo egress")?;
            assert!(!left.contains("nw_mark"), "{left}");
            assert_eq!(undo.apply(), Ok(None));
            // What it would detach is gone; that is no error.
            drop(mark);
            Ok(())
        };
        if let Err(why) = std::thread::spawn(inside)
            .join()
            .expect("the thread ended well")
        {
            eprintln!("skipped: filters_that_mark_are_removed_and_those_of_others_are_not: {why}");
        }
    }

    #[test]
    fn lines_cut_short_and_switches_of_others_are_not_read() {
        for line in [
            "",
            "sysctl",
            "sysctl net/ipv4/ip_forward",
            "sysctl kernel/panic 1",
            "sysctl net/../kernel/panic 1",
            "device",
            "device ",
            "segments eth0",
            "segments eth0 many",
            "nft inet",
            "reboot now",
            "namespace_name ../x",
            "namespace_name ..",
        ] {
            assert!(line.parse::<Undo>().is_err(), "{line}");
        }
    }
}
