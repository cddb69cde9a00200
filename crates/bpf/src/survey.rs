//! What this machine can load, found out by loading.

use std::path::Path;

use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use narrows_cc::ControlSpec;

use crate::ect1::Ect1;
use crate::{ControlLoader, EcnFlags, Survey, Trace};

/// Tries what the live engine needs: loads and unloads a congestion control
/// and, on the loopback device of the current namespace, the host hook.
pub fn survey() -> Survey {
    let mut found = Survey {
        btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
        ..Survey::default()
    };
    // Unlike any run's name, and unlike another survey's.
    let name = format!("nws{:x}", std::process::id());
    let prague = ControlSpec::parse("prague");
    match prague.map(|spec| ControlLoader::load(&spec, &name, EcnFlags::AccEcn, Trace::Off)) {
        Ok(Ok(loaded)) => {
            found.struct_ops = true;
            found.accecn = loaded.ecn() == EcnFlags::AccEcn;
            if !found.accecn {
                found.lacks.push(
                    "this kernel has no Accurate ECN for a congestion control (Linux 6.18 has): DCTCP-style feedback is used"
                        .to_owned(),
                );
            }
        }
        Ok(Err(e)) => found.lacks.push(e.to_string()),
        Err(e) => found.lacks.push(e.to_string()),
    }
    // Loopback is device 1 of every namespace.
    match Ect1::attach(1) {
        Ok(hook) => {
            found.tcx = hook.is_tcx();
            if !found.tcx {
                found
                    .lacks
                    .push("this kernel has no tcx (Linux 6.6 has): clsact is used".to_owned());
            }
        }
        Err(e) => found.lacks.push(e.to_string()),
    }
    found
}

/// The BPF objects that are in the kernel now, whoever loaded them, a line each:
/// `program 12 nw_burst`, `map 7 nw_records`, `link 3`. The numbers are the
/// kernel's and not given twice, so two lists show what came and what went.
/// Only root receives it; the list of others is empty.
pub fn held_by_kernel() -> Vec<String> {
    let named = |kind: &str, id: u32, name: &std::ffi::OsStr| {
        let line = format!("{kind} {id} {}", name.to_string_lossy());
        line.trim_end().to_owned()
    };
    let programs = ProgInfoIter::default().map(|p| named("program", p.id, &p.name));
    let maps = MapInfoIter::default().map(|m| named("map", m.id, &m.name));
    let links = LinkInfoIter::default().map(|l| format!("link {}", l.id));
    programs.chain(maps).chain(links).collect()
}
