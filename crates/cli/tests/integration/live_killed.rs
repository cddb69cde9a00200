//! Whole live runs, some of them killed, interrupted or ended at any moment:
//! after the clean-up the machine is as it was.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::machine_rig::{bearers, cleaning, has, soon, text, things};
use narrows_linux::machine::Need;
use narrows_units::Rng;
use serde_json::Value;

/// The number of runs, where it is not [`RUNS`].
const COUNT: &str = "NARROWS_TEST_RUNS";
/// One of each way to end, and two that nobody disturbs.
const RUNS: u32 = 5;
/// What every process of a run inherits, so that none is missed.
const MARK: &str = "NARROWS_TEST_KILLED";

/// Everything that reaches out of a run's namespaces: congestion controls and
/// marks in the kernel, programs with children.
const SCENARIO: &str = r#"
version  = 1
name     = "to be killed"
duration = "600ms"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 5ms", "bottleneck: rate 50Mbit queue dualpi2"]
down = ["netem delay 5ms"]

[[flow]]
name = "prague"
from = "client"
to   = "server"
cc   = "prague"

[[flow]]
name = "cubic"
from = "client"
to   = "server"
cc   = "cubic"

[[mark]]
name    = "efm"
signals = "s+d+q"

[[command]]
name = "sleeper"
host = "server"
run  = ["sh", "-c", "sleep 1000 & exec sleep 1000"]
"#;

/// How a run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Kill,
    Signal(&'static str),
    Itself,
}

/// Of five runs in a row.
const WAYS: [By; 5] = [
    By::Kill,
    By::Signal("INT"),
    By::Itself,
    By::Signal("TERM"),
    By::Itself,
];

fn start(folder: &Path, i: u32, mark: &str) -> Child {
    let out = format!("out-{i}");
    Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["run", "kill.toml", "--engine", "live", "--out", &out])
        .current_dir(folder)
        .env(MARK, mark)
        .env("TMPDIR", folder.join("tmp"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("narrows starts")
}

fn end(child: &mut Child, by: By) {
    match by {
        By::Kill => child.kill().expect("it is ours"),
        By::Signal(name) => {
            // One that has ended meanwhile gets none.
            let line = format!("kill -{name} {}", child.id());
            let _ = Command::new("sh")
                .args(["-c", &line])
                .stderr(Stdio::null())
                .status();
        }
        By::Itself => {}
    }
}

/// Whether a run that was ended so may have this status.
fn is_right(by: By, status: ExitStatus) -> bool {
    // Whether this machine kept up is for the verdict, not for the test.
    let finished = matches!(status.code(), Some(0 | 3));
    match by {
        By::Itself => finished,
        By::Kill => finished || status.signal() == Some(9),
        // Interrupted in order, or before its handler was installed.
        By::Signal(_) => {
            finished || status.code() == Some(130) || matches!(status.signal(), Some(2 | 15))
        }
    }
}

/// A folder says by itself whether its run came to its end.
fn folder_is_honest(out: &Path, status: ExitStatus) {
    let Ok(record) = fs::read_to_string(out.join("run.json")) else {
        return;
    };
    let record: Value = serde_json::from_str(&record).expect("run.json is JSON");
    let finished = matches!(status.code(), Some(0 | 3));
    // One that was killed after its last word had come to its end all the same.
    assert!(!finished || record["complete"] == true, "{record}");
    assert!(
        status.code() != Some(130) || record["complete"] == false,
        "{record}"
    );
}

#[test]
fn nothing_is_left_of_whole_runs_however_they_end() {
    let test = "nothing_is_left_of_whole_runs_however_they_end";
    if !has(test, &[Need::Live, Need::Bpf]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("kill.toml"), SCENARIO).expect("a file");
    fs::create_dir(folder.path().join("tmp")).expect("a folder");
    let runs = env::var(COUNT).map_or(RUNS, |n| n.parse().expect("a number of runs"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = now.expect("the clock is set").as_secs();
    let mut rng = Rng::for_name(seed, "moments");
    let mark = format!("{seed}-{}", std::process::id());

    let before = things();
    let mut ended: BTreeSet<String> = BTreeSet::new();
    let mut loaded = 0;
    for i in 0..runs {
        let by = WAYS[i as usize % WAYS.len()];
        let mut child = start(folder.path(), i, &mark);
        if by != By::Itself {
            // Building takes some tenths of a second, the run six, the report
            // one more: any moment of them, and some after.
            sleep(Duration::from_micros(u64::from(rng.below(1_500_000))));
            end(&mut child, by);
        }
        let output = child.wait_with_output().expect("it ends");
        let said = text(&output.stderr);
        assert!(
            is_right(by, output.status),
            "{i} {by:?}: {} {said}",
            output.status
        );
        let out = folder.path().join(format!("out-{i}"));
        folder_is_honest(&out, output.status);
        if by == By::Itself {
            let record = fs::read_to_string(out.join("run.json")).expect("run.json");
            loaded += u32::from(record.contains("_prague\""));
        }
        ended.insert(format!("{by:?} {}", output.status));
    }
    assert!(loaded > 0, "no run had a congestion control of ours");
    let _cleaning = cleaning();
    let cleaned = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["doctor", "--clean"])
        .output()
        .expect("narrows starts");
    let said = text(&cleaned.stdout);
    eprintln!("{runs} runs, seed {seed}: {ended:?}; cleaned: {said}");
    assert!(cleaned.status.success(), "{}", text(&cleaned.stderr));

    // What came since the beginning goes away, though the kernel takes some of
    // it apart a moment later; what others make meanwhile is theirs.
    let came: BTreeSet<_> = things().difference(&before).cloned().collect();
    let left = || -> Vec<String> { things().intersection(&came).cloned().collect() };
    assert!(soon(|| left().is_empty()), "left behind: {:#?}", left());
    assert_eq!(bearers(&format!("{MARK}={mark}")), Vec::<String>::new());
    let files: Vec<_> = fs::read_dir(folder.path().join("tmp"))
        .expect("it is there")
        .flatten()
        .map(|e| e.path())
        .collect();
    assert_eq!(files, Vec::<std::path::PathBuf>::new());
}
