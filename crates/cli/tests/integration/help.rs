//! What the program says where people slip, and what it can be asked for.

use std::path::Path;
use std::process::Command;

use crate::program::{SHORT, narrows};

/// What it prints, where it succeeds.
fn printed(arguments: &[&str]) -> String {
    let at = tempfile::tempdir().expect("a folder");
    let output = narrows(at.path(), arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What it says, where it refuses.
fn refused(arguments: &[&str]) -> String {
    let at = tempfile::tempdir().expect("a folder");
    let output = narrows(at.path(), arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    said
}

#[test]
fn the_guide_s_page_of_metrics_is_the_program_s_list() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(page).expect("docs/metrics.md");
    let listed = printed(&["list", "metrics", "--format", "markdown"]);
    assert_eq!(
        page, listed,
        "write it anew: narrows list metrics --format markdown > docs/metrics.md"
    );
    let text = printed(&["list", "metrics"]);
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["list", "metrics", "--format", "json"])).expect("JSON");
    let kinds = json["kinds"].as_array().expect("kinds");
    let metrics = kinds
        .iter()
        .flat_map(|k| k["metrics"].as_array().expect("metrics"));
    let mut count = 0;
    for metric in metrics {
        let name = metric["name"].as_str().expect("a name");
        assert!(text.contains(name) && page.contains(name), "{name}");
        count += 1;
    }
    assert!(count > 50, "{count}");
}

#[test]
fn the_guide_s_page_of_events_is_the_program_s_list() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    let page = std::fs::read_to_string(page).expect("docs/events.md");
    let listed = printed(&["list", "events", "--format", "markdown"]);
    assert_eq!(
        page, listed,
        "write it anew: narrows list events --format markdown > docs/events.md"
    );
    let text = printed(&["list", "events"]);
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["list", "events", "--format", "json"])).expect("JSON");
    for event in json.as_array().expect("events") {
        let name = event["name"].as_str().expect("a name");
        assert!(text.contains(name) && page.contains(name), "{name}");
    }
}

#[test]
fn the_guide_s_tables_of_queues_and_elements_are_the_program_s_lists() {
    for (all, one, page, known) in [
        ("queues", "queue", "queues.md", "fq_codel"),
        ("elements", "element", "elements.md", "rate trace"),
        ("apps", "app", "applications.md", "request"),
        ("tests", "test", "flent.md", "rrul"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(page);
        let guide = std::fs::read_to_string(path).expect(page);
        let listed = printed(&["list", all, "--format", "markdown"]);
        assert!(
            guide.ends_with(&listed),
            "the last section of docs/{page} is what `narrows list {all} --format markdown` prints"
        );
        let text = printed(&["list", all]);
        let shown = printed(&["show", one, known]);
        assert!(shown.starts_with(known) && text.contains(&shown), "{shown}");
        let json = |arguments: &[&str]| -> serde_json::Value {
            serde_json::from_str(&printed(arguments)).expect("JSON")
        };
        let kinds = json(&["list", all, "--format", "json"]);
        let kinds = kinds.as_array().expect("kinds");
        let of_one = json(&["show", one, known, "--format", "json"]);
        assert!(kinds.contains(&of_one), "{of_one}");
        let said = refused(&["show", one, "nosuch"]);
        assert!(said.contains(&format!("`{known}`")), "{said}");
    }
    let said = refused(&["show", "lone-prague", "fq_codel"]);
    assert!(said.contains("`element`, `queue` or `test`"), "{said}");
}

#[test]
fn a_list_may_be_of_names_that_begin_alike() {
    let listed = printed(&["list", "efm/"]);
    assert!(listed.lines().count() > 5);
    assert!(listed.lines().all(|l| l.starts_with("efm/")), "{listed}");
    let said = refused(&["list", "nosuch"]);
    assert!(
        said.contains("`nosuch`") && said.contains("narrows list"),
        "{said}"
    );
}

#[test]
fn a_word_of_tc_that_is_not_here_is_refused_with_what_comes_nearest() {
    let link = |words: &str| refused(&["run", "--link", words, "--flow", "cubic"]);
    let said = link("rate 10Mbit queue choke");
    assert!(said.contains("the nearest is `red`"), "{said}");
    let said = link("tc qdisc add dev eth0 root cake autorate-ingress");
    assert!(said.contains("a run states its rate"), "{said}");
    let said = link("tc qdisc del dev eth0 root");
    assert!(said.contains("leave its words out"), "{said}");
    let said = link("tc qdisc add dev eth0 root handle 1: fq_codel limit 100");
    assert!(
        said.contains("`rate 50Mbit queue fq_codel limit 100`"),
        "{said}"
    );
}

#[test]
fn a_congestion_control_that_is_not_simulated_is_refused_with_where_it_runs() {
    for (name, offered) in [
        ("BBR", ["`kernel:bbr`", "`quic:bbr`"]),
        ("bbr2", ["`kernel:bbr2`", "`bbr variant draft-06`"]),
        ("bbr3", ["`kernel:bbr3`", "`bbr variant linux-v3`"]),
    ] {
        let said = refused(&["run", "--link", "rate 10Mbit", "--flow", name]);
        for offer in offered {
            assert!(said.contains(offer), "{name}: {said}");
        }
    }
}

#[test]
fn an_option_that_another_command_has_or_none_is_refused_with_what_to_write() {
    for (arguments, advice) in [
        (
            &["run", "lone-prague", "--duration", "5s"][..],
            "--set duration=10s",
        ),
        (
            &["campaign", "l4s-tests/s1", "--duration", "5s"],
            "--set duration=10s",
        ),
        (&["run", "lone-prague", "--seeds", "3"], "--seed N"),
        (
            &["run", "--delay", "10ms"],
            "--link 'netem delay 10ms loss 1%'",
        ),
    ] {
        let said = refused(arguments);
        assert!(said.contains(advice), "{arguments:?}: {said}");
    }
    let said = refused(&["run", "lone-prague", "--nonsense"]);
    assert!(
        said.contains("--nonsense") && said.trim_end().ends_with("'--help'."),
        "{said}"
    );
}

#[test]
fn dots_in_place_of_slashes_are_understood() {
    let said = refused(&["show", "efm.base"]);
    assert!(said.contains("did you mean `efm/base`?"), "{said}");
    let said = refused(&["run", "lone-prague", "--set", "flow.prague.cc=cubic"]);
    assert!(said.contains("did you mean `flow/prague/cc`?"), "{said}");
}

#[test]
fn the_name_of_no_figure_is_refused_with_the_figures_that_there_are() {
    let at = tempfile::tempdir().expect("a folder");
    let ran = narrows(at.path(), &[SHORT, &["--out", "out"]].concat());
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stdout)
    );
    let plot = narrows(at.path(), &["plot", "out", "--figure", "rrt"]);
    assert_eq!(plot.status.code(), Some(2));
    let said = String::from_utf8_lossy(&plot.stderr);
    assert!(
        said.contains("\"rrt\"") && said.contains("sojourn"),
        "{said}"
    );
}

#[test]
fn what_tc_reads_otherwise_than_many_think_is_noted_and_read_as_tc_reads_it() {
    let at = tempfile::tempdir().expect("a folder");
    let run = |link: &str| {
        let link = format!("netem delay 2ms {link}");
        let words = [
            "run",
            "--link",
            &link,
            "--link",
            "rate 1MBps",
            "--flow",
            "cubic",
        ];
        let ran = narrows(at.path(), &[&words[..], &["--set", "duration=2s"]].concat());
        (
            String::from_utf8_lossy(&ran.stdout).into_owned(),
            String::from_utf8_lossy(&ran.stderr).into_owned(),
        )
    };
    let (printed, said) = run("loss 0.01");
    assert!(
        said.contains("`1MBps` is bytes per second, as tc reads it: 8Mbit"),
        "{said}"
    );
    assert!(
        said.contains("`loss 0.01` is 0.01 percent, as tc reads it"),
        "{said}"
    );
    // One in a hundred of some 1300 packets would have been lost.
    assert!(
        printed.contains("cubic") && !printed.contains("(loss)"),
        "{printed}"
    );
    let (_, said) = run("loss 0.01%");
    assert!(!said.contains("percent, as tc"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_may_not_be_written_is_named_with_the_option_that_chooses_another() {
    let at = tempfile::tempdir().expect("a folder");
    let words = [
        "run",
        "lone-prague",
        "--set",
        "duration=1s",
        "--out",
        "/sys/narrows/x",
    ];
    let ran = narrows(at.path(), &words);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(
        ran.status.code(),
        Some(if said.contains("--out") { 77 } else { 1 }),
        "{said}"
    );
    assert!(said.contains("/sys/narrows"), "{said}");
    // Some kernels say that there is no such file.
    assert!(
        said.contains("--out") || said.contains("No such file"),
        "{said}"
    );
}

#[test]
fn the_help_says_how_a_download_is_written() {
    assert!(printed(&["run", "--help"]).contains("from server to client"));
}

/// A panic has the status 101, whatever it is about; `eprintln!` panics where standard error
/// cannot be written.
#[cfg(unix)]
#[test]
fn notes_that_nobody_can_read_do_not_change_how_a_command_ends() {
    use std::fs::OpenOptions;
    use std::process::Stdio;

    let at = tempfile::tempdir().expect("a folder");
    let start = |out: Stdio, err: Stdio| {
        Command::new(env!("CARGO_BIN_EXE_narrows"))
            .current_dir(at.path())
            .args(SHORT)
            .stdout(out)
            .stderr(err)
            .spawn()
            .expect("the program starts")
    };
    // The reader of the notes has gone before the first one.
    let mut child = start(Stdio::null(), Stdio::piped());
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    // `2>&1 | head`: the reader of both.
    let mut child = start(Stdio::piped(), Stdio::piped());
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().expect("it ends").code(), Some(141));
    if let Ok(full) = OpenOptions::new().write(true).open("/dev/full") {
        let mut child = start(Stdio::null(), full.into());
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn a_command_that_is_spelled_wrongly_is_refused_with_the_one_that_comes_nearest() {
    for (arguments, meant) in [
        (&["rnu", "lone-prague"][..], "narrows run"),
        (&["cmapaign", "l4s-tests/s1"], "narrows campaign"),
        (&["obsrve", "-r", "x"], "narrows observe"),
        (&["kernel", "bulid"], "narrows kernel build"),
        (&["pep", "srve"], "narrows pep serve"),
    ] {
        let said = refused(arguments);
        let word = meant.rsplit(' ').next().unwrap_or_default();
        // The parser has a word for some of them itself.
        let tip = format!("'{word}'");
        assert!(said.contains(meant) || said.contains(&tip), "{said}");
    }
    assert!(!refused(&["nonsense"]).contains("Did you mean"));
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let at = tempfile::tempdir().expect("a folder");
    let written = narrows(at.path(), &["man", "pages/man1"]);
    assert!(written.status.success());
    let page = |name: &str| {
        std::fs::read_to_string(at.path().join("pages/man1").join(name))
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    assert!(page("narrows.1").contains("Exit status"));
    let commands = String::from_utf8(narrows(at.path(), &["--help"]).stdout).expect("UTF-8");
    let (_, commands) = commands.split_once("Commands:\n").expect("commands");
    let commands = commands.lines().take_while(|l| !l.is_empty());
    let mut count = 0;
    for command in commands.filter_map(|l| l.split_whitespace().next()) {
        if command != "help" {
            let page = page(&format!("narrows-{command}.1"));
            assert!(
                page.starts_with(".ie") && page.contains(".SH SYNOPSIS"),
                "{command}"
            );
            count += 1;
        }
    }
    assert!(count >= 13, "{count}");
    let run = page("narrows-run.1");
    assert!(
        run.contains("dualpi2") && run.contains("\\-\\-flow"),
        "{run}"
    );
}
