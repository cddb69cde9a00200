//! What this machine can run, and what is missing.

use std::fmt;
use std::fs;
use std::io;

use nix::sys::utsname::uname;

use super::group;
use super::program::find_program;
use super::qdiscs;
use crate::LinuxError;
use crate::user_namespace::forbidding_switch;
use crate::{Namespace, RunId, Tun, has_rights, sysctl::has_ipv6};

/// The oldest kernel that the live engine starts on: the oldest with which
/// distributions are still maintained, and the first whose `tcp_info` has all
/// that is sampled.
const OLDEST: (u32, u32) = (5, 4);
/// The first kernel with congestion controls in BPF (`struct_ops`).
const STRUCT_OPS: (u32, u32) = (5, 6);
/// The programs that give a user namespace a way to the outside, the one that is taken
/// first.
pub const USER_NAT_PROGRAMS: [&str; 2] = ["slirp4netns", "pasta"];
/// Kernel type information: what BPF programs are fitted to the kernel by.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// For what something is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Without it nothing runs live.
    Live,
    /// Without it live runs are late, or lack a part.
    Full,
    /// Congestion controls and marking of Narrows' own in the kernel.
    Bpf,
    /// The same for the connections of one command.
    Command,
    /// `narrows shell` with a way to the outside.
    Shell,
    /// The same without root.
    UserShell,
    /// Nothing of Narrows' own: comparisons with the kernel's.
    Comparison,
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub name: &'static str,
    /// What for, in a few words.
    pub purpose: &'static str,
    /// For which part of Narrows.
    pub need: Need,
    /// What is there; or what is not, with the command that adds it.
    pub outcome: Result<String, String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, text) = match &self.outcome {
            Ok(found) => ("yes", found),
            Err(lack) => ("no", lack),
        };
        write!(f, "{:<24} {mark:<4} {text} ({})", self.name, self.purpose)
    }
}

/// What this machine has and lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The kernel's release, as `uname -r` shows it.
    pub release: String,
    /// Everything that was checked, the most needed first.
    pub findings: Vec<Finding>,
}

impl Machine {
    /// Whether a live run without BPF starts.
    pub fn runs_live(&self) -> bool {
        self.has(Need::Live)
    }

    /// Whether it has everything of one kind.
    pub fn has(&self, need: Need) -> bool {
        let mut these = self.findings.iter().filter(|f| f.need == need);
        these.all(|f| f.outcome.is_ok())
    }

    /// What it lacks.
    pub fn lacks(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.outcome.is_err())
    }
}

/// Surveys this machine. A network namespace is made for it and is gone
/// afterwards; asking for queueing disciplines there may load their modules.
pub fn survey() -> Machine {
    let release = release();
    let trial = Namespace::new(&RunId::random(), "a trial");
    let find = |name, need, purpose, outcome| Finding {
        name,
        purpose,
        need,
        outcome,
    };
    let mut findings = vec![
        find("kernel", Need::Live, "the live engine", kernel(&release)),
        find("rights", Need::Live, "making hosts", rights(&trial)),
        find("TUN devices", Need::Live, "links", tun(&trial)),
        find(
            "processors",
            Need::Full,
            "the path in real time",
            processors(),
        ),
        find("IPv6", Need::Full, "flows with ip = 6", ipv6()),
        find("root", Need::Bpf, "loading BPF programs", root()),
        find("BTF", Need::Bpf, "fitting BPF to the kernel", btf()),
        find(
            "struct_ops",
            Need::Bpf,
            "congestion control in BPF",
            struct_ops(&release),
        ),
        find("tcx", Need::Bpf, "marking in hosts", tcx()),
        find("AccECN", Need::Bpf, "L4S feedback", accecn()),
        find(
            "control groups",
            Need::Command,
            "narrows by, narrows pep run",
            group::root()
                .map(|at| at.display().to_string())
                .map_err(|e| e.to_string()),
        ),
        find("nft", Need::Shell, "a shell's way outside", nft()),
        find(
            "user-space NAT",
            Need::UserShell,
            "the same without root",
            user_nat(),
        ),
        find(
            "congestion controls",
            Need::Comparison,
            "cc = \"kernel:NAME\"",
            controls(),
        ),
    ];
    let purpose = "datapath = \"kernel\"";
    findings.push(find(
        "queueing disciplines",
        Need::Comparison,
        purpose,
        disciplines(&trial),
    ));
    findings.push(find(
        "iperf3",
        Need::Comparison,
        "measuring beside",
        program("iperf3"),
    ));
    findings.sort_by_key(|f| f.need);
    Machine { release, findings }
}

fn release() -> String {
    uname().map_or_else(
        |_| "unknown".to_owned(),
        |names| names.release().to_string_lossy().into_owned(),
    )
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

/// Whether BPF may be tried at all: by root of the machine, on a kernel that
/// describes its types.
pub fn loads_bpf() -> bool {
    root().is_ok() && btf().is_ok()
}

/// Refuses a kernel on which nothing would run.
pub fn check_kernel() -> Result<(), LinuxError> {
    check_release(&release())
}

/// A release that does not begin with a version gets the chance.
fn check_release(release: &str) -> Result<(), LinuxError> {
    match version(release) {
        Some(version) if version < OLDEST => Err(LinuxError::KernelTooOld {
            release: release.to_owned(),
            needed: format!("{}.{}", OLDEST.0, OLDEST.1),
        }),
        _ => Ok(()),
    }
}

fn kernel(release: &str) -> Result<String, String> {
    check_release(release).map_err(|e| e.to_string())?;
    Ok(format!("Linux {release}"))
}

fn rights(trial: &Result<Namespace, LinuxError>) -> Result<String, String> {
    if trial.is_ok() {
        return Ok("root, or root of a user namespace".to_owned());
    }
    match forbidding_switch() {
        Some((file, command)) if !has_rights() => Err(format!(
            "this user may make no user namespace ({file}): `{command}`, or run with sudo"
        )),
        _ if !has_rights() => Ok("in a user namespace of its own".to_owned()),
        _ => Err("the kernel has no network namespaces (CONFIG_NET_NS)".to_owned()),
    }
}

fn tun(trial: &Result<Namespace, LinuxError>) -> Result<String, String> {
    let made = match trial {
        Ok(namespace) => Tun::new(namespace, "tun0", 1500).map(drop),
        Err(_) => crate::try_tun_file(),
    };
    made.map(|()| "they can be made".to_owned())
        .map_err(|e| match e {
            LinuxError::NoTun { reason } => reason,
            other => other.to_string(),
        })
}

fn processors() -> Result<String, String> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    if count < 2 {
        return Err(
            "1 processor: the path and the hosts take it from each other; give the machine two"
                .to_owned(),
        );
    }
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let clock = fs::read_to_string(clock).unwrap_or_default();
    Ok(format!("{count}, clock {}", clock.trim_end()))
}

fn ipv6() -> Result<String, String> {
    if has_ipv6() {
        Ok("yes".to_owned())
    } else {
        Err("none: CONFIG_IPV6, or `ipv6.disable=1` taken off the kernel's command line".to_owned())
    }
}

fn root() -> Result<String, String> {
    // Uid 0 of a user namespace is not what the kernel asks for here.
    let outer = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = outer.split_whitespace().eq(["0", "0", "4294967295"]);
    if nix::unistd::geteuid().is_root() && whole {
        Ok("yes".to_owned())
    } else {
        Err("not root: run with sudo".to_owned())
    }
}

fn btf() -> Result<String, String> {
    fs::metadata(BTF)
        .map(|_| BTF.to_owned())
        .map_err(|_| format!("no {BTF}: a kernel with CONFIG_DEBUG_INFO_BTF=y"))
}

/// Whether the kernel's type information has a name.
fn kernel_knows(name: &str) -> io::Result<bool> {
    let types = fs::read(BTF)?;
    let name = [&[0], name.as_bytes(), &[0]].concat();
    // The string section has each name between two zeros.
    Ok(types.windows(name.len()).any(|w| w == name))
}

fn struct_ops(release: &str) -> Result<String, String> {
    if let Some(why) = narrows_bpf::not_built() {
        return Err(why.to_owned());
    }
    match kernel_knows("bpf_struct_ops_tcp_congestion_ops") {
        Ok(true) => Ok("tcp_congestion_ops".to_owned()),
        Ok(false) => {
            let (major, minor) = STRUCT_OPS;
            Err(format!(
                "Linux {release} has none: {major}.{minor} or newer with CONFIG_BPF_JIT=y"
            ))
        }
        Err(_) => Err("cannot be determined without BTF".to_owned()),
    }
}

fn tcx() -> Result<String, String> {
    match kernel_knows("BPF_TCX_EGRESS") {
        Ok(true) => Ok("yes".to_owned()),
        Ok(false) => {
            Ok("clsact instead, and no `narrows mmb attach` (before Linux 6.6)".to_owned())
        }
        Err(_) => Err("cannot be determined without BTF".to_owned()),
    }
}

fn accecn() -> Result<String, String> {
    match kernel_knows("received_ce") {
        Ok(true) => Ok("the kernel counts received_ce".to_owned()),
        Ok(false) => {
            Ok("DCTCP-style feedback instead: the kernel is from before AccECN".to_owned())
        }
        Err(_) => Err("cannot be determined without BTF".to_owned()),
    }
}

fn program(name: &str) -> Result<String, String> {
    find_program(name)
        .map(|path| path.display().to_string())
        .map_err(|_| format!("not installed: `apt install {name}` or `dnf install {name}`"))
}

fn nft() -> Result<String, String> {
    program("nft")
        .map_err(|_| "not installed: `apt install nftables` or `dnf install nftables`".to_owned())
}

fn user_nat() -> Result<String, String> {
    let found = USER_NAT_PROGRAMS
        .into_iter()
        .find_map(|name| program(name).ok());
    found.ok_or_else(|| {
        let [first, second] = USER_NAT_PROGRAMS;
        format!(
            "neither {first} nor {second} is installed: `apt install {first}` or \
             `dnf install {first}`"
        )
    })
}

fn controls() -> Result<String, String> {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let list = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    Ok(list.trim_end().to_owned())
}

fn disciplines(trial: &Result<Namespace, LinuxError>) -> Result<String, String> {
    let namespace = trial
        .as_ref()
        .map_err(|_| "cannot be determined without a namespace to try in".to_owned())?;
    let (has, lacks) = qdiscs::of(namespace).map_err(|e| e.to_string())?;
    let (has, lacks) = (has.join(" "), lacks.join(" "));
    if lacks.is_empty() {
        Ok(has)
    } else {
        Err(format!(
            "{has}, but not {lacks}: `modprobe sch_NAME`, or a kernel with CONFIG_NET_SCH_…"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_first_two_numbers_of_a_release() {
        assert_eq!(version("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(version("5.4-rc1"), Some((5, 4)));
        assert_eq!(version("4.19.0+"), Some((4, 19)));
        assert_eq!(version("next"), None);
    }

    #[test]
    fn an_old_kernel_is_refused_in_a_line() {
        let line = check_release("4.19.0-27-amd64").unwrap_err().to_string();
        assert!(
            line.contains("4.19.0-27-amd64") && line.contains("5.4"),
            "{line}"
        );
        assert!(check_release("5.4.0").is_ok());
        assert!(check_release("6.18.44").is_ok());
    }
}
