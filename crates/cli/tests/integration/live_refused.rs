//! What a machine lacks is said in one line, and nothing is left behind. The
//! machine is made to lack it: files are hidden in a mount namespace, rights
//! are dropped, an older release is shown. Root only, but for the last.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use crate::machine_rig::{Stage, has, refusal, soon, text, things};
use narrows_linux::machine::Need;

/// One flow, over IPv4, with the kernel's own control.
const PLAIN: &str = r#"
version  = 1
name     = "plain"
duration = "300ms"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["rate 20Mbit queue fq_codel"]

[[flow]]
name = "first"
from = "client"
to   = "server"
cc   = "kernel:cubic"
"#;

const RUN: &str = "./narrows run plan.toml --engine live --out out";

/// Runs `script` where `plan.toml` is `plan`, and sees that it leaves nothing.
/// `None` where `test` cannot be run.
fn run(test: &str, plan: &str, script: &str) -> Option<Output> {
    if !has(test, &[Need::Live, Need::Bpf]) {
        return None;
    }
    let stage = Stage::set();
    stage.write("plan.toml", plan);
    let before = things();
    let tools = ["unshare", "mount", "setarch", "setpriv", "sh"];
    let output = stage.run_or_skip(test, script, &tools)?;
    let said = text(&output.stderr);
    let came: BTreeSet<_> = things().difference(&before).cloned().collect();
    let left = || -> Vec<String> { things().intersection(&came).cloned().collect() };
    assert!(soon(|| left().is_empty()), "left behind: {:#?}", left());
    assert_eq!(stage.left(&["plan.toml"]), Vec::<String>::new(), "{said}");
    Some(output)
}

/// Expects that `script` is refused as bad input, in a line that has all `words`.
fn refused(test: &str, plan: &str, script: &str, words: &[&str]) {
    refused_with(2, test, plan, script, words);
}

/// Expects that `script` is refused with `status` in a line that has all `words`.
fn refused_with(status: i32, test: &str, plan: &str, script: &str, words: &[&str]) {
    let Some(output) = run(test, plan, script) else {
        return;
    };
    let line = refusal(&output);
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
    assert_eq!(output.status.code(), Some(status), "{line}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_machine_without_tun_is_told_how_to_have_it() {
    let script = format!("mount -t tmpfs none /dev/net; exec {RUN}");
    let words = ["there is no /dev/net/tun", "mknod"];
    refused("without TUN", PLAIN, &script, &words);
}

#[test]
fn a_kernel_that_is_too_old_is_named() {
    let script = format!("exec setarch --uname-2.6 {RUN}");
    let words = ["Linux 2.6.", "too old", "5.4"];
    refused("an old kernel", PLAIN, &script, &words);
}

#[test]
fn a_kernel_without_types_runs_its_own_controls_only() {
    let hide = "mount -t tmpfs none /sys/kernel/btf";
    let script = format!("{hide}; exec {RUN}");
    let prague = PLAIN.replace("kernel:cubic", "prague");
    let words = ["flow/first", "prague", "/sys/kernel/btf/vmlinux", "kernel:"];
    refused("without BTF", &prague, &script, &words);
    let script =
        format!("{hide}; {RUN} || test $? = 3; grep -c '\"cubic\"' out/run.json; rm -r out");
    let cubic = PLAIN.replace("kernel:cubic", "cubic");
    let Some(output) = run("without BTF", &cubic, &script) else {
        return;
    };
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains("ran the kernel's own cubic"), "{said}");
}

#[test]
fn a_user_who_may_make_no_namespace_is_told_which_switch_allows_it() {
    // Root of a user namespace that may have none within, and without rights
    // itself: the switch is each user namespace's own.
    let inner = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces; \
         exec setpriv --bounding-set=-all --inh-caps=-all {RUN}"
    );
    let script = format!("exec unshare --user --map-root-user -- sh -ec '{inner}'");
    let words = ["/proc/sys/user/max_user_namespaces", "sudo"];
    // A right that is missing (docs/exit-status.md).
    refused_with(77, "without user namespaces", PLAIN, &script, &words);
}

#[test]
fn a_control_that_the_kernel_does_not_have_is_refused_before_anything_is_made() {
    let plan = PLAIN.replace("kernel:cubic", "kernel:no_such_one");
    let words = ["flow/first", "no_such_one"];
    refused("a missing control", &plan, &format!("exec {RUN}"), &words);
}

#[test]
fn an_address_that_two_have_or_that_nobody_can_have_is_refused() {
    let hosts = |client: &str, server: &str| {
        format!(
            "{PLAIN}\n[[host]]\nname = \"client\"\nipv4 = \"{client}\"\n\
             [[host]]\nname = \"server\"\nipv4 = \"{server}\"\n"
        )
    };
    let script = format!("exec {RUN}");
    let twice = hosts("10.1.0.1", "10.1.0.1");
    refused("a clash", &twice, &script, &["10.1.0.1", "host/"]);
    let local = hosts("127.0.0.5", "10.1.0.2");
    let words = ["host/client", "127.0.0.5", "loopback"];
    refused("a loopback address", &local, &script, &words);
}

#[test]
fn a_shell_whose_addresses_are_all_taken_asks_for_others() {
    let inner = "ip link set lo up; ip address add 198.18.0.1/15 dev lo; \
                 exec ./narrows shell --link \"netem delay 1ms\" -- true";
    let script = format!("exec unshare --net -- sh -ec '{inner}'");
    let Some(output) = run("a taken network", PLAIN, &script) else {
        return;
    };
    let line = refusal(&output);
    assert!(
        line.contains("198.18.0.0/15") && line.contains("--subnet"),
        "{line}"
    );
    assert_eq!(output.status.code(), Some(125), "{line}");
}

#[test]
fn a_command_or_a_trace_that_is_not_there_is_refused() {
    let command = "\n[[command]]\nname = \"c\"\nhost = \"client\"\nrun = [\"no-such-program\"]\n";
    let plan = format!("{PLAIN}{command}");
    let script = format!("exec {RUN}");
    let words = ["command/c", "no-such-program"];
    refused("a missing command", &plan, &script, &words);
    let plan = PLAIN.replace("rate 20Mbit queue fq_codel", "rate trace gone.trace");
    let words = ["link/access/up", "gone.trace"];
    refused("a lost trace", &plan, &script, &words);
}

#[test]
fn what_is_wrong_with_a_file_is_said_by_any_user() {
    let dir = tempfile::tempdir().expect("a folder");
    let plan = PLAIN.replace("rate 20Mbit queue fq_codel", "rate trace gone.trace");
    std::fs::write(dir.path().join("plan.toml"), plan).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["run", "plan.toml", "--out", "out"])
        .current_dir(dir.path())
        .output()
        .expect("narrows starts");
    assert!(refusal(&output).contains("gone.trace"));
    assert!(!dir.path().join("out").exists());
}
