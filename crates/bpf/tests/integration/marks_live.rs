//! Connections of this machine, marked and recorded at both ends: what the
//! programs in the kernel decided about each packet, the native state machines
//! decide as well.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path as Folder;
use std::time::Duration;

use narrows_bpf::{BpfError, EcnFlags, SignalOptions, SignalProgram, Trace};
use narrows_efm::SignalSpec;
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

use crate::recorded::marks::{SignalRecord, SignalTrace};
use crate::rig::path::Rig;
use crate::rig::transfer::{Chosen, Transfer};
use crate::rig::{Namespace, Path, control, skipped};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2));
const BYTES: usize = 250_000;

/// One connection: what is recorded of it.
struct Scene {
    name: &'static str,
    words: &'static str,
    server: IpAddr,
    path: Path,
    /// Both ends run CUBIC with classic ECN.
    ecn: bool,
}

fn scenes() -> Vec<Scene> {
    let ms = Duration::from_millis;
    let path = || Path {
        rate: 10_000_000,
        delay: ms(8),
        queue: ms(60),
        ..Path::default()
    };
    let scene = |name, words| Scene {
        name,
        words,
        server: V4,
        path: path(),
        ecn: false,
    };
    let losses: Vec<u64> = (1..9).map(|i| 19 * i + i % 3).collect();
    vec![
        Scene {
            server: V6,
            path: Path {
                late: (1..12).map(|i| (14 * i, ms(2 + i % 7))).collect(),
                ..path()
            },
            ..scene("spin-delay-square-reordered", "s+d+q")
        },
        scene("edge-counter", "s+vec"),
        Scene {
            path: Path {
                lose: losses.clone(),
                ..path()
            },
            ..scene("delay-thesis-losses", "d delay thesis")
        },
        scene("reflection", "d+q+r hold off"),
        Scene {
            path: Path {
                lose: losses,
                ..path()
            },
            ..scene("loss", "d+q+l")
        },
        scene("round-trip-loss", "s+t"),
        Scene {
            path: Path {
                mark: Some(ms(3)),
                ..path()
            },
            ecn: true,
            ..scene("ecn-echo", "d+q+e")
        },
        scene("negotiated", "s+d+q announce negotiate"),
    ]
}

fn attach(test: &str, host: &Namespace, words: &str) -> Option<SignalProgram> {
    let spec = SignalSpec::parse(words).expect("the words name signals");
    let options = SignalOptions {
        trace: true,
        ..SignalOptions::default()
    };
    let index = host.index("tun0");
    match host.run(|| SignalProgram::attach_with(index, &spec, &options)) {
        Ok(mark) => Some(mark),
        Err(e @ (BpfError::NotBuilt(_) | BpfError::Kernel { .. })) => {
            skipped(test, &e);
            None
        }
        Err(e) => panic!("{words}: {e}"),
    }
}

/// Keeps this thread, and all that it starts, on one CPU: a record is written
/// after the decision, and with two CPUs in one connection the order of records
/// need not be that of decisions.
fn on_one_cpu() {
    let mut one = CpuSet::new();
    let here = sched_getcpu().unwrap_or(0);
    one.set(here).expect("a CPU's number");
    sched_setaffinity(Pid::from_raw(0), &one).expect("a CPU that it runs on");
}

/// Runs the transfer; the traces of initiator and responder. `None` where the
/// machine cannot record it.
fn record(test: &str, scene: &Scene) -> Option<[SignalTrace; 2]> {
    let rig = match Rig::start(scene.path.clone()) {
        Ok(rig) => rig,
        Err(why) => {
            skipped(test, &why);
            return None;
        }
    };
    let cubic = match scene.ecn {
        true => Some(control(test, "cubic", EcnFlags::Classic, Trace::Off)?),
        false => None,
    };
    let cc = cubic.as_ref().map_or("reno", |c| c.name());
    for host in [&rig.client, &rig.server] {
        host.ip("link set tun0 gso_max_segs 1")
            .expect("a device takes gso_max_segs");
    }
    let mut near = attach(test, &rig.client, scene.words)?;
    let mut far = attach(test, &rig.server, scene.words)?;
    let transfer = Transfer {
        server: scene.server,
        bytes: BYTES,
        pause: None,
        client_cc: cc,
        server_cc: cc,
        chosen: Chosen::BeforeListen,
    };
    assert_eq!(transfer.run(&rig).received, BYTES);
    // What is still under way is recorded too.
    std::thread::sleep(scene.path.delay * 4);
    let uname = nix::sys::utsname::uname().expect("the kernel has a name");
    let kernel = uname.release().to_string_lossy().into_owned();
    Some([&mut near, &mut far].map(|mark| {
        let mut records = Vec::new();
        mark.poll(|r| records.push(SignalRecord::from_bytes(&r)))
            .expect("the ring buffer");
        assert_eq!(mark.untraced().expect("counters"), 0);
        SignalTrace {
            spec: SignalSpec::parse(scene.words).expect("words"),
            kernel: kernel.clone(),
            records,
        }
    }))
}

/// With `NARROWS_KEEP_TRACES` set to a folder what was recorded is written
/// there: this is how tests/marks came to be.
#[test]
fn what_the_kernel_marks_the_native_state_machines_mark() {
    let test = "what_the_kernel_marks_the_native_state_machines_mark";
    on_one_cpu();
    let keep = std::env::var_os("NARROWS_KEEP_TRACES");
    for scene in scenes() {
        let Some(traces) = record(test, &scene) else {
            return;
        };
        for (trace, end) in traces.iter().zip(["initiator", "responder"]) {
            let name = format!("{}.{end}", scene.name);
            if let Some(folder) = &keep {
                let file = Folder::new(folder).join(format!("{name}.gz"));
                let file = File::create(file).expect("the folder is there");
                trace.write(file).expect("written");
            }
            let done = trace.replay().unwrap_or_else(|d| panic!("{name}: {d}"));
            println!("{name}: {done:?}");
            assert_eq!(done.flows, 1, "{name}");
            assert!(done.left > 50 && done.arrived > 50, "{name}: {done:?}");
        }
    }
}
