//! Every object is loaded as each clang of this machine builds it: what a compiler makes of our
//! C does not decide whether the kernel takes it. Needs root.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use narrows_bpf::testkit::{BoxRuns, SignalRuns, Tap, signal_cost, with_objects_in};
use narrows_bpf::{
    BpfError, Bursts, ControlLoader, EcnFlags, Ect1, Lead, SignalOptions, Trace, TransferGoal,
};
use narrows_cc::ControlSpec;
use narrows_efm::SignalSpec;
use narrows_mmb::{READY, commands};
use nix::sched::{CloneFlags, unshare};

use crate::kernel_box::boxed;
use crate::rig::{skipped, unique};

const TEST: &str = "each_object_is_loaded_as_every_clang_builds_it";
/// Boxes of which each keeps another part of the program; loading one takes a second.
const BOXES: [&str; 3] = ["option-allow-list", "snat", "sequence-shuffle"];
const HOOKS: [&str; 7] = ["burst", "ect1", "lead", "mark", "mmb", "signal_cost", "tap"];
/// The loopback of a namespace that is new.
const LOOPBACK: u32 = 1;

/// A control group with no process in it, as long as this is there.
struct Group(PathBuf);

impl Group {
    fn new() -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mut rows = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>());
        let row = rows.find(|r| r.get(2) == Some(&"cgroup2"));
        let row = row.ok_or("there are no control groups of the second hierarchy")?;
        let path = Path::new(row[1]).join(unique("nwtest"));
        fs::create_dir(&path).map_err(|e| format!("no control group can be made: {e}"))?;
        Ok(Self(path))
    }

    fn open(&self) -> File {
        File::open(&self.0).expect("it is there")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The controls that ship; what only tests nest (`prague_scale`) may be too large for a
/// verifier.
const SHIPPED: &str = include_str!("../../../cc/kernel/controls.list");

/// Loads everything; what was refused, by name.
fn refusals() -> Vec<(String, BpfError)> {
    let mut refused = Vec::new();
    let mut keep = |name: &str, result: Result<(), BpfError>| {
        if let Err(error) = result {
            refused.push((name.to_owned(), error));
        }
    };
    let controls = SHIPPED.lines().filter(|line| !line.starts_with('#'));
    for name in controls.filter(|line| !line.is_empty()) {
        let spec = ControlSpec::parse(name).expect("the list has names of controls");
        let loaded = ControlLoader::load(&spec, &unique("nwt"), EcnFlags::None, Trace::Full);
        keep(name, loaded.map(drop));
    }
    for ready in READY.iter().filter(|ready| BOXES.contains(&ready.name)) {
        let commands = commands(ready.rules).expect("a ready box has rules");
        let program = boxed(&commands).program().expect(ready.name);
        keep(ready.name, BoxRuns::load(&program).map(drop));
    }
    for words in ["s announce never", "d hold off"] {
        let spec = SignalSpec::parse(words).expect("the words name signals");
        let options = SignalOptions {
            trace: true,
            ..SignalOptions::default()
        };
        keep(words, SignalRuns::load(&spec, &options).map(drop));
    }
    keep("burst", Bursts::load().map(drop));
    keep("ect1", Ect1::attach(LOOPBACK).map(drop));
    keep("tap", Tap::attach(LOOPBACK).map(drop));
    keep("signal_cost", signal_cost(&[0; 100], 1).map(drop));
    match Group::new() {
        Err(why) => skipped(&format!("{TEST}: lead, transfer"), &why),
        Ok(group) => {
            let spared = SocketAddr::from(([127, 0, 0, 1], 1));
            keep(
                "lead",
                Lead::attach(group.open().as_fd(), 1, spared).map(drop),
            );
            let spec = ControlSpec::parse("dalbe").expect("it is on the list");
            let transfer = ControlLoader::load(&spec, &unique("nwt"), EcnFlags::None, Trace::Off)
                .and_then(|dalbe| {
                    let goal = TransferGoal {
                        deadline_ns: u64::MAX / 2,
                        size: None,
                        first_weight: 1000,
                    };
                    dalbe.attach_transfer(group.open().as_fd(), &goal).map(drop)
                });
            keep("transfer", transfer);
        }
    }
    refused
}

#[test]
fn each_object_is_loaded_as_every_clang_builds_it() {
    if let Some(why) = narrows_bpf::not_built() {
        return skipped(TEST, &why);
    }
    if !nix::unistd::geteuid().is_root() {
        return skipped(TEST, &"loading programs needs root");
    }
    if let Err(e) = unshare(CloneFlags::CLONE_NEWNET) {
        return skipped(TEST, &format!("no network namespace: {e}"));
    }
    let crate_at = Path::new(env!("CARGO_MANIFEST_DIR"));
    // One compiler may have two names.
    let mut versions = BTreeSet::new();
    // What it has built for this program is not built again.
    if let Some(own) = option_env!("NARROWS_BPF_COMPILER") {
        versions.insert(own.to_owned());
        judge(own, refusals());
    }
    for clang in narrows_cbuild::clangs() {
        if !versions.insert(narrows_cbuild::version(&clang).expect("it is installed")) {
            continue;
        }
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(unique("objects"));
        fs::create_dir_all(&out).expect("a folder");
        let big_endian = cfg!(target_endian = "big");
        narrows_cbuild::bpf_objects(&clang, big_endian, crate_at, &out, false, &HOOKS);
        let refused = with_objects_in(&out, refusals);
        fs::remove_dir_all(&out).expect("it can be removed");
        judge(&clang, refused);
    }
}

/// What this kernel lacks is the same for every compiler; anything else fails.
fn judge(clang: &str, refused: Vec<(String, BpfError)>) {
    for (name, error) in refused {
        match error {
            BpfError::Kernel { .. } => skipped(&format!("{TEST}: {name}"), &error),
            _ => panic!("{name} as {clang} builds it: {error}"),
        }
    }
}
