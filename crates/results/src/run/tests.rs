//! What becomes of the events of a run and of how it ended.

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use narrows_core::{Event, Packet};
use narrows_engine::Rig;
use narrows_scenario::NameTable;
use narrows_wire::capture::CaptureReader;

use super::*;
use crate::metric::lookup;
use crate::open_run;
use crate::scripted::{Scripted, kernel, packet, plan, silent};
use crate::summary::DisciplineFacts;
use crate::verdict::Verdict;

/// Half of what 10 Mbit/s carry in the steady window of two seconds.
fn half_used(names: &NameTable, report: &mut dyn FnMut(u64, Event<'_>)) {
    let flow = narrows_core::FlowId(0);
    let (ecn, accecn) = (false, false);
    report(20, Event::Established { flow, ecn, accecn });
    let host = names.id("host/client").unwrap();
    let packet = Packet {
        bytes: vec![0x45; 20],
        ..packet(1)
    };
    report(
        1500,
        Event::Sent {
            host,
            packet: &packet,
        },
    );
    let bytes = 1_250_000;
    report(2000, Event::Delivered { flow, bytes });
}

fn engine() -> Scripted<'static> {
    let mut engine = Scripted::new(&half_used);
    engine.ended.events = 70;
    engine.ended.packets = 30;
    engine
}

fn into(dir: &std::path::Path) -> RunOptions {
    RunOptions {
        output: Output::Folder(dir.to_owned()),
        origin: Origin {
            command: vec!["narrows".to_owned()],
            commit: Some("f2ad165c9d3e".to_owned()),
        },
        ..RunOptions::default()
    }
}

#[test]
fn every_event_reaches_the_captures_and_the_reduction_and_the_folder_holds_both() {
    let (dir, plan) = (tempfile::tempdir().unwrap(), plan());
    let made = run_scenario(&engine(), &plan, &into(dir.path()), &Watch::default()).unwrap();
    assert_eq!(lookup(&made.summary, "rate1_mbit"), Some(5.0));
    let record = &made.record;
    assert!(record.complete);
    assert_eq!(
        (record.virtual_s, record.events, record.packets),
        (4.0, 70, 30)
    );
    assert_eq!(record.verdict, verdict::judge(&plan, &made.summary, false));
    assert_eq!((&*record.seeds, made.summary.seed), (&[5][..], 5));
    assert_eq!(record.version().split(' ').nth(1), Some("(f2ad165c9d3e)"));
    assert_eq!(record.scenario, serde_json::to_value(&plan).unwrap());
    let read = open_run(dir.path()).unwrap();
    assert_eq!(read, made);
    let capture = File::open(dir.path().join("captures/near-end.pcapng")).unwrap();
    let mut capture = CaptureReader::new(capture).unwrap();
    assert_eq!(capture.read().unwrap().and_then(|r| r.id), Some(1));
    assert!(capture.read().unwrap().is_none());
    let names: Vec<_> = record.files.iter().map(|f| f.name.as_str()).collect();
    assert!(names.contains(&"captures/near-end.pcapng"), "{names:?}");
}

#[test]
fn a_run_that_is_kept_nowhere_comes_to_the_same_with_the_seed_that_is_asked_for() {
    let options = RunOptions {
        seed: Some(9),
        ..RunOptions::default()
    };
    let made = run_scenario(&engine(), &plan(), &options, &Watch::default()).unwrap();
    assert_eq!(lookup(&made.summary, "rate1_mbit"), Some(5.0));
    assert_eq!((&*made.record.seeds, made.summary.seed), (&[9][..], 9));
    assert_eq!(made.dir, None);
}

#[test]
fn a_run_that_is_cancelled_is_no_error_and_is_not_complete() {
    let cancel = AtomicBool::new(true);
    let watch = Watch {
        cancel: &cancel,
        ..Watch::default()
    };
    let made = run_scenario(&engine(), &plan(), &RunOptions::default(), &watch).unwrap();
    assert!(!made.record.complete);
    assert_eq!(made.record.verdict, Verdict::interrupted());
    assert_eq!(lookup(&made.summary, "rate1_mbit"), None);
}

#[test]
fn what_a_rig_says_of_its_machine_is_in_the_record_and_the_summary() {
    let plan = plan();
    let rig = Rig {
        kernel: "6.18.0-elsewhere".to_owned(),
        disciplines: vec![DisciplineFacts {
            element: "link/access/up/bottleneck".to_owned(),
            packets: 7,
            ..DisciplineFacts::default()
        }],
        notes: vec!["something went otherwise".to_owned()],
        ..Rig::default()
    };
    let mut engine = engine();
    engine.ended.rig = Some(rig.clone());
    let made = run_scenario(&engine, &plan, &RunOptions::default(), &Watch::default()).unwrap();
    assert_eq!(made.record.kernel, "6.18.0-elsewhere");
    assert_eq!(made.summary.disciplines, rig.disciplines);
    assert_eq!(
        made.record.verdict,
        verdict::judge_live(&plan, &made.summary, &rig, false)
    );
    assert_eq!(made.record.rig, Some(rig));
    engine.ended.rig = None;
    let own = run_scenario(&engine, &plan, &RunOptions::default(), &Watch::default()).unwrap();
    let begun = crate::folder::begin(&engine, &plan, 5);
    assert_eq!((own.record.kernel, own.record.rig), (begun.kernel, None));
}

#[test]
fn a_run_that_was_changed_while_it_went_on_is_recorded_with_the_plan_that_it_ended_with() {
    let dir = tempfile::tempdir().unwrap();
    let mut changed = plan();
    changed.name = "changed".to_owned();
    let mut engine = engine();
    engine.ended.amended = Some(Arc::new(changed.clone()));
    let made = run_scenario(&engine, &plan(), &into(dir.path()), &Watch::default()).unwrap();
    assert_eq!(
        made.record.scenario,
        serde_json::to_value(&changed).unwrap()
    );
    assert_eq!(made.record.command, [""; 0]);
}

#[test]
fn the_machine_is_taken_and_left_by_engines_that_change_it_alone() {
    let steps = |engine: &Scripted<'_>| {
        let steps = Mutex::new(Vec::new());
        let progress = |progress: Progress<'_>| {
            steps.lock().unwrap().push(match progress {
                Progress::MachineTaken => "taken",
                Progress::MachineLeft => "left",
                Progress::Run { .. } => "runs",
                other => panic!("{other:?}"),
            });
        };
        let watch = Watch {
            progress: &progress,
            ..Watch::default()
        };
        run_scenario(engine, &plan(), &RunOptions::default(), &watch).unwrap();
        steps.into_inner().unwrap()
    };
    let ran = ["runs"; 3];
    let changed = ["taken", "runs", "runs", "runs", "left"];
    assert_eq!(steps(&engine()), ran);
    let live = Scripted {
        alone: true,
        ..engine()
    };
    assert_eq!(steps(&live), changed);
    let virtual_time = Scripted {
        kernel: Some(kernel()),
        ..engine()
    };
    assert_eq!(steps(&virtual_time), changed);
    assert_eq!(steps(&silent()), [""; 0]);
}
