//! The program as scripts see it: what it prints where, and how it ends.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{SHORT, campaign, narrows};

fn status(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stdout(output)))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn the_catalogue_is_listed_and_shown() {
    let at = folder();
    let list = narrows(at.path(), &["list"]);
    assert_eq!(status(&list), 0);
    assert!(stdout(&list).contains("l4s-tests/s1"));
    let list = json(&narrows(at.path(), &["list", "--format", "json"]));
    let names: Vec<&str> = list
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|e| e["name"].as_str())
        .collect();
    assert!(names.contains(&"l4s-tests/s6") && names.contains(&"lone-prague"));
    for name in names {
        let shown = narrows(at.path(), &["show", name]);
        let part = match name {
            "l4s-tests/risk" => "campaign l4s-tests/s6\n",
            _ => "link ",
        };
        assert!(stdout(&shown).contains(part), "{name}");
        // It shows what it is either way, and says as `campaign` does which engine has its controls.
        match status(&shown) {
            2 if name == "kernel/controls" => assert!(stderr(&shown).contains("--engine")),
            other => assert_eq!(other, 0, "{name}: {}", stderr(&shown)),
        }
    }
    let set = "link/access/up/bottleneck=rate 20Mbit queue pie";
    let args = ["show", "lone-prague", "--set", set, "--format", "json"];
    let shown = json(&narrows(at.path(), &args));
    assert_eq!(shown["kind"], "scenario");
    assert!(
        shown["plan"].to_string().contains("rate 20Mbit queue pie"),
        "{shown}"
    );
    let shown = json(&narrows(
        at.path(),
        &["show", "l4s-tests/s6", "--format", "json"],
    ));
    assert_eq!(shown["cells"].as_array().map(Vec::len), Some(24));
}

/// What the check takes and the simulator does not, of a scenario and of a campaign's cell.
#[test]
fn what_run_refuses_show_refuses_alike_with_file_and_line() {
    let at = folder();
    let scenario = |elements: &str, cc: &str| {
        format!(
            "version = 1\nname = \"x\"\nduration = \"1s\"\n[[link]]\nends = [\"a\", \"b\"]\n\
             up = [{elements}]\n[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"{cc}\"\n"
        )
    };
    for (text, place) in [
        (
            scenario("", "cubic"),
            "x.toml:7:1: flow/f: nothing on its way",
        ),
        (
            scenario("\"rate 1Mbit\"", "kernel:bbr"),
            "x.toml:11:6: flow/f: `kernel:bbr`",
        ),
    ] {
        std::fs::write(at.path().join("x.toml"), text).expect("written");
        let [ran, shown] = ["run", "show"].map(|word| narrows(at.path(), &[word, "x.toml"]));
        assert_eq!((status(&ran), status(&shown)), (2, 2));
        assert!(stderr(&ran).contains(place), "{}", stderr(&ran));
        assert_eq!(stderr(&ran), stderr(&shown));
        // What the file says is shown all the same: another engine may run it.
        assert!(stdout(&shown).contains("flow f"));
    }
    let campaign = "version = 1\nkind = \"campaign\"\nname = \"c\"\ncell = \"{of}\"\nbase = \"x.toml\"\n\
        [axis.of]\nours = { cc = \"cubic\" }\ntheirs = { cc = \"kernel:bbr\" }\n\
        [set]\n\"flow/f/cc\" = \"{cc}\"\n";
    std::fs::write(at.path().join("c.toml"), campaign).expect("written");
    let [ran, shown] = ["campaign", "show"].map(|word| narrows(at.path(), &[word, "c.toml"]));
    assert_eq!((status(&ran), status(&shown)), (2, 2));
    assert_eq!(stderr(&ran), stderr(&shown));
    assert!(
        stderr(&ran).contains("the cell theirs: c.toml:"),
        "{}",
        stderr(&ran)
    );
}

#[test]
fn a_run_prints_a_table_and_leaves_a_folder() {
    let at = folder();
    let run = narrows(at.path(), &[SHORT, &["--out", "first"]].concat());
    assert_eq!(status(&run), 0, "{}{}", stdout(&run), stderr(&run));
    assert!(stdout(&run).contains("goodput_mbit"));
    assert!(stdout(&run).contains("trust: yes"));
    assert!(!stdout(&run).contains("results in"), "notes go to stderr");
    for file in [
        "run.json",
        "summary.json",
        "summary.csv",
        "series.csv.gz",
        "report.html",
    ] {
        assert!(at.path().join("first").join(file).is_file(), "{file}");
    }
    // The same again is the same, byte for byte, and says so.
    let run = narrows(at.path(), &[SHORT, &["--out", "second"]].concat());
    assert_eq!(status(&run), 0);
    let diff = narrows(at.path(), &["diff", "first", "second", "--format", "json"]);
    assert_eq!(json(&diff)["identical"], true);
    // Another seed is another run.
    narrows(
        at.path(),
        &[SHORT, &["--seed", "2", "--out", "third"]].concat(),
    );
    let diff = narrows(at.path(), &["diff", "first", "third", "--format", "json"]);
    assert_eq!(json(&diff)["identical"], false);
}

#[test]
fn results_go_below_results_unless_told_otherwise() {
    let at = folder();
    let run = narrows(at.path(), &[SHORT, &["--format", "json"]].concat());
    assert_eq!(status(&run), 0);
    assert!(json(&run).is_object());
    assert!(at.path().join("results/latest/run.json").is_file());
}

#[test]
fn a_saved_line_runs_as_the_line_did() {
    let at = folder();
    let run = narrows(
        at.path(),
        &[SHORT, &["--save", "mine.toml", "--out", "line"]].concat(),
    );
    assert_eq!(status(&run), 0);
    let run = narrows(at.path(), &["run", "mine.toml", "--out", "file"]);
    assert_eq!(status(&run), 0);
    let diff = narrows(at.path(), &["diff", "line", "file", "--format", "json"]);
    assert_eq!(json(&diff)["identical"], true);
    // A file that is there already is not written over.
    let again = narrows(at.path(), &[SHORT, &["--save", "mine.toml"]].concat());
    assert_eq!(status(&again), 2);
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    let at = folder();
    std::fs::write(at.path().join("bad.toml"), "version = 1\nnme = \"x\"\n").expect("a file");
    std::fs::create_dir(at.path().join("full")).expect("a folder");
    std::fs::write(at.path().join("full/file"), "x").expect("a file");
    let noise: Vec<u8> = (0..10u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    std::fs::write(at.path().join("noise.toml"), noise).expect("a file");
    let refused: &[(&[&str], &str)] = &[
        (
            &["run", "bad.toml"],
            "bad.toml:2:1: nme: found the unknown key `nme`",
        ),
        (
            &["run", "noise.toml"],
            "noise.toml:1:1: file: found 10485760 bytes",
        ),
        (
            &["run", "prague-beside-cubik"],
            "did you mean `prague-beside-cubic`?",
        ),
        (&["run", "l4s-tests/s1"], "narrows campaign l4s-tests/s1"),
        (&["campaign", "lone-prague"], "narrows run lone-prague"),
        (
            &["run", "lone-prague", "--set", "flow/prague/cc=bbr2"],
            "--set:1:16: flow/prague/cc",
        ),
        (
            &["run", "lone-prague", "--out", "full"],
            "full is not empty",
        ),
        (&["run", "lone-prague", "--engine", "real"], "--engine"),
        (
            &["run", "--link", "rate 0Mbit", "--flow", "cubic"],
            "--link:1:6: link/access/up/bottleneck: found `0Mbit`",
        ),
        (&["run"], "required"),
        (
            &["campaign", "l4s-tests/s1", "--only", "100Mbit/*"],
            "--only: found `100Mbit/*`",
        ),
        (&["campaign", "l4s-tests/s1", "--seeds", "0"], "--seeds"),
        (&["campaign", "nothing/*"], "fits no campaign"),
        (&["diff", "full", "full"], "full"),
        (&["report", "full"], "full"),
        (&["plot", "full", "--as", "bmp"], "bmp"),
    ];
    for (arguments, message) in refused {
        let output = narrows(at.path(), arguments);
        assert_eq!(status(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(message),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(stdout(&output).is_empty(), "{arguments:?}");
    }
    assert!(!at.path().join("results").exists(), "nothing ran");
}

#[test]
fn a_campaign_sets_published_beside_measured_and_check_judges() {
    let at = folder();
    std::fs::write(
        at.path().join("table.csv"),
        "cc,rate\ncubic,4.55\nreno,50\n",
    )
    .expect("a file");
    let rest = r#"
[axis]
cc = ["cubic", "reno"]
[set]
"flow/bulk/cc" = "{cc}"
[metric]
rate_mbit = "goodput_mbit of flow/bulk"
[published]
file = "table.csv"
row = { cc = "{cc}" }
metric = { rate_mbit = "rate" }
[[tolerance]]
cells = "*"
metric = "rate_mbit"
within = "1 points"
at_least = "NEEDED of 2"
"#;
    let campaign = campaign("mine", "{cc}", "6s", rest);
    let file = at.path().join("mine.toml");
    std::fs::write(&file, campaign.replace("NEEDED", "1")).expect("a file");
    let run = narrows(
        at.path(),
        &["campaign", "mine.toml", "--check", "--out", "good"],
    );
    assert_eq!(status(&run), 0, "{}{}", stdout(&run), stderr(&run));
    let cells = std::fs::read_to_string(at.path().join("good/cells.csv")).expect("cells");
    assert!(
        cells.starts_with("cell,cc,seed,metric,unit,value,median,spread,published,difference,")
    );

    std::fs::write(&file, campaign.replace("NEEDED", "2")).expect("a file");
    let run = narrows(
        at.path(),
        &["campaign", "mine.toml", "--check", "--out", "bad"],
    );
    assert_eq!(status(&run), 4, "{}", stdout(&run));
    let run = narrows(
        at.path(),
        &[
            "campaign",
            "mine.toml",
            "--out",
            "unchecked",
            "--seeds",
            "2",
        ],
    );
    assert_eq!(status(&run), 0);
    assert!(at.path().join("unchecked/report.html").is_file());

    let one = narrows(
        at.path(),
        &[
            "campaign",
            "mine.toml",
            "--only",
            "cu*",
            "--format",
            "json",
            "--out",
            "one",
        ],
    );
    assert_eq!(status(&one), 0);
    assert!(json(&one).to_string().contains("cubic"));
    let again = narrows(at.path(), &["report", "one"]);
    assert_eq!(status(&again), 0, "{}", stderr(&again));
    let plot = narrows(
        at.path(),
        &["plot", "one/cells/cubic", "--as", "svg", "--out", "drawn"],
    );
    assert_eq!(status(&plot), 0, "{}", stderr(&plot));
    assert!(stdout(&plot).lines().count() > 1);
    assert!(stdout(&plot).lines().all(|f| at.path().join(f).is_file()));
}

#[test]
fn a_run_that_cannot_be_trusted_says_so_with_its_status() {
    // The steady window spans too few round trips to be steady.
    let at = folder();
    let run = narrows(
        at.path(),
        &[
            "run",
            "--link",
            "netem delay 10ms",
            "--link",
            "rate 100Mbit queue fq_codel",
            "--flow",
            "cubic",
            "--set",
            "duration=300ms",
        ],
    );
    assert_eq!(status(&run), 3, "{}{}", stdout(&run), stderr(&run));
    assert!(stdout(&run).contains("trust: no, because"));
}

#[test]
fn the_schema_is_one_json_document_and_doctor_always_has_the_simulator() {
    let at = folder();
    assert!(json(&narrows(at.path(), &["schema"])).is_object());
    let doctor = narrows(at.path(), &["doctor"]);
    assert_eq!(status(&doctor), 0);
    assert!(stdout(&doctor).contains("yes  simulator"));
    assert!(stdout(&doctor).contains("live engine"));
    let survey = json(&narrows(at.path(), &["doctor", "--format", "json"]));
    let tools = survey["tools"].as_array().expect("tools");
    let simulator = tools.iter().find(|tool| tool["name"] == "simulator");
    assert_eq!(simulator.expect("a row")["present"], true);
    assert!(survey["live"]["runs"].is_boolean());
    #[cfg(target_os = "linux")]
    let _cleaning = crate::machine_rig::cleaning();
    let clean = narrows(at.path(), &["doctor", "--clean"]);
    assert_eq!(status(&clean), 0);
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_a_readable_folder_that_is_marked_incomplete() {
    let at = folder();
    /// Ends the endless run, whatever the test finds.
    struct Ended(Child);
    impl Drop for Ended {
        fn drop(&mut self) {
            // It fails if the child has ended, which is what is wanted.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let child = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .current_dir(at.path())
        .args([
            "run",
            "prague-beside-cubic",
            "--set",
            "duration=100h",
            "--set",
            "sample_interval=1h",
            "--out",
            "cut",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut child = Ended(child);
    let record = at.path().join("cut/run.json");
    let patience = Instant::now() + Duration::from_secs(60);
    while !record.is_file() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The handler is set before the engine runs; give it that moment.
    std::thread::sleep(Duration::from_millis(300));
    // The shell's own kill: a minimal system has no program of that name.
    let killed = Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.0.id())])
        .status();
    assert!(killed.is_ok_and(|s| s.success()));
    let ended = child.0.wait().expect("it ends");
    assert_eq!(ended.code(), Some(130));
    let record = std::fs::read_to_string(record).expect("run.json");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["complete"], false);
    // What was seen until then can be read.
    let report = narrows(at.path(), &["report", "cut"]);
    assert_eq!(status(&report), 0, "{}", stderr(&report));
}

/// A short run's arguments and those of commands that print much or little.
#[cfg(target_os = "linux")]
fn printers() -> Vec<Vec<String>> {
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../wire/tests/corpus/capture/micros-little.pcap"
    );
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
    vec![
        words(SHORT),
        words(&["list"]),
        words(&["schema"]),
        words(&["--help"]),
        words(&["observe", "-r", capture]),
        words(&["observe", "-r", capture, "--format", "csv"]),
        words(&["observe", "-r", capture, "--rows", "none"]),
    ]
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure_and_says_so() {
    for words in printers() {
        let at = folder();
        let full = std::fs::File::create("/dev/full").expect("a device of every Linux");
        let ended = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .current_dir(at.path())
            .args(&words)
            .stdout(full)
            .output()
            .expect("the program starts");
        let said = stderr(&ended);
        assert_eq!(status(&ended), 1, "{words:?}: {said}");
        assert!(said.contains("standard output cannot be written"), "{said}");
        assert!(said.contains("No space left"), "{said}");
        if words[0] == "run" {
            assert!(at.path().join("results/latest/report.html").is_file());
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_has_gone_ends_it_without_a_word_as_sigpipe_would() {
    for words in printers() {
        let at = folder();
        let reader = Command::new("true").stdin(Stdio::piped()).spawn();
        let mut reader = reader.expect("a program that reads nothing");
        let pipe = reader.stdin.take().expect("its standard input");
        reader.wait().expect("it ends");
        let ended = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .current_dir(at.path())
            .args(&words)
            .stdout(pipe)
            .output()
            .expect("the program starts");
        let said = stderr(&ended);
        assert_eq!(status(&ended), 141, "{words:?}: {said}");
        assert!(words[0] == "run" || said.is_empty(), "{words:?}: {said}");
        assert!(!said.contains("standard output"), "{said}");
    }
}

#[test]
fn a_scenario_in_which_no_time_would_pass_is_refused() {
    let at = folder();
    let run = narrows(
        at.path(),
        &["run", "--link", "netem delay 0ms", "--flow", "cubic"],
    );
    assert_eq!(status(&run), 2);
    assert!(
        stderr(&run).contains("nothing on its way takes time"),
        "{}",
        stderr(&run)
    );
}

/// A round trip of two nanoseconds: the run would take years.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_a_run_whose_time_hardly_moves() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let at = folder();
        let arguments = [
            "run",
            "--link",
            "netem delay 1ns",
            "--flow",
            "cubic",
            "--out",
            "out",
        ];
        let child = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .current_dir(at.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // The folder is there when the run begins; the handler was set before.
        wait_for("the run", || at.path().join("out/run.json").exists());
        std::thread::sleep(Duration::from_millis(300));
        kill(Pid::from_raw(child.id() as i32), signal).expect("it lives");
        let mut child = child;
        wait_for("its end", || child.try_wait().expect("a child").is_some());
        let output = child.wait_with_output().expect("a child");
        assert_eq!(status(&output), 130, "{}", stderr(&output));
    }
}

/// Waits for `what`; half a minute is ever enough.
#[cfg(unix)]
fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{what} does not come"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
