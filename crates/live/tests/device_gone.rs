//! A run whose device goes, in a process of its own: it deletes what other runs would need. Needs root.

#![cfg(target_os = "linux")]

use narrows_core::{Event, EventSink};
use narrows_live::RunHandle;
use narrows_scenario::Draft;
use narrows_units::Instant;

/// Deletes the TUN devices in all network namespaces that this process has made.
fn delete_tuns() {
    let own = std::process::id();
    let machine = std::fs::read_link("/proc/self/ns/net").expect("proc");
    for entry in std::fs::read_dir("/proc/self/fd").expect("proc").flatten() {
        let Ok(to) = std::fs::read_link(entry.path()) else {
            continue;
        };
        if !to.to_string_lossy().starts_with("net:[") || to == machine {
            continue;
        }
        let fd = entry.file_name().to_string_lossy().into_owned();
        let delete = "for d in $(ip -o link show type tun | cut -d: -f2); do ip link del $d; done";
        let mut command = std::process::Command::new("nsenter");
        command.arg(format!("--net=/proc/{own}/fd/{fd}"));
        // One that this user may not enter is none of the run's.
        let _ = command.args(["sh", "-c", delete]).status();
    }
}

#[derive(Default)]
struct Deletes {
    begun: bool,
}

impl EventSink for Deletes {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        if matches!(event, Event::Delivered { .. }) && !std::mem::replace(&mut self.begun, true) {
            delete_tuns();
        }
    }
}

#[test]
fn a_run_whose_device_is_deleted_ends_and_says_which() {
    let test = "a device that is deleted";
    let present = |tool: &str| std::process::Command::new(tool).arg("-V").output().is_ok();
    if !nix::unistd::geteuid().is_root() || !present("nsenter") || !present("ip") {
        eprintln!("skipped: {test}: it needs root, nsenter and ip");
        return;
    }
    let text = "version = 1\nname = \"test\"\nduration = \"20s\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
         up = [\"rate 10Mbit queue pfifo\"]\ndown = [\"netem delay 1ms\"]\n\
         [[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\ncc = \"kernel:reno\"\n";
    let draft = Draft::read("test.toml", text.as_bytes()).expect("a scenario");
    let plan = draft.check().expect("a plan");
    let begun = std::time::Instant::now();
    let ended = narrows_live::run(&plan, 1, &mut Deletes::default(), &RunHandle::default());
    match ended {
        Err(error) if error.is_of_the_machine() => eprintln!("skipped: {test}: {error}"),
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("on link access was deleted"), "{said}");
            assert!(begun.elapsed().as_secs() < 19, "it ends at once");
        }
        Ok(_) => panic!("a run without its device goes on"),
    }
}
