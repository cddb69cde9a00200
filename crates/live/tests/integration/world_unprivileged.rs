//! A user without root builds the same world in a user namespace of its own,
//! or says in a line why not.
//!
//! Uses the example `world`, because a process must enter its user namespace
//! before it has threads, and a test has some. As root, it is run as another
//! user, in a mount namespace with a TUN file of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::world_rig::{THROUGH_A_ROUTER, skipped};
use tempfile::TempDir;

/// A user that owns nothing: `nobody`.
const USER: &str = "65534";

/// The example and a scenario where any user may read them.
struct Stage {
    folder: TempDir,
}

impl Stage {
    /// `None` where the example was not built with the test.
    fn set(test: &str) -> Option<Self> {
        // target/debug/deps/<test> and target/debug/examples/world.
        let test_file = std::env::current_exe().unwrap();
        let example = test_file.ancestors().nth(2).unwrap().join("examples/world");
        if !example.exists() {
            skipped(test, &format!("no {}", example.display()));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let all_may = |path: &std::path::Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        all_may(folder.path());
        fs::copy(example, folder.path().join("world")).unwrap();
        all_may(&folder.path().join("world"));
        fs::write(folder.path().join("plan.toml"), THROUGH_A_ROUTER).unwrap();
        let stage = Self { folder };
        fs::create_dir(stage.temporary()).unwrap();
        fs::set_permissions(stage.temporary(), fs::Permissions::from_mode(0o1777)).unwrap();
        Some(stage)
    }

    /// Where the example keeps its state. Each test has its own: others run at the same
    /// time as the same user.
    fn temporary(&self) -> PathBuf {
        self.path("tmp")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the example as a user without root, after `before` as root of a
    /// mount namespace, and `inside` as the user.
    fn run(&self, before: &str, inside: &str) -> Output {
        let world = format!(
            "{inside} exec {} --own-user-namespace {}",
            self.path("world").display(),
            self.path("plan.toml").display()
        );
        let mut command = Command::new("unshare");
        if nix::unistd::geteuid().is_root() {
            let user = format!("setpriv --reuid {USER} --regid {USER} --clear-groups");
            let script = format!("set -e; {before}\nexec {user} sh -c '{world}'");
            command.args(["--mount", "--", "sh", "-c", &script]);
        } else {
            let script = format!("set -e; {before}\n{world}");
            command.args([
                "--user",
                "--map-root-user",
                "--mount",
                "--",
                "sh",
                "-c",
                &script,
            ]);
        }
        command.env_remove("XDG_RUNTIME_DIR");
        command.env("TMPDIR", self.temporary());
        command.output().expect("unshare can be run")
    }
}

/// What the machine itself lacks, if the example did not even begin.
fn cannot(output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let ours = said.starts_with("error: ") || output.status.success();
    (!ours).then(|| said.trim_end().to_owned())
}

/// The line that it was refused with.
fn refusal(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it was refused: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}

#[test]
fn a_user_builds_a_world_in_a_namespace_of_its_own() {
    let name = "a_user_builds_a_world";
    let Some(stage) = Stage::set(name) else {
        return;
    };
    let tun = stage.path("tun");
    let before = format!(
        "mknod {0} c 10 200; chmod 666 {0}; mount --bind {0} /dev/net/tun",
        tun.display()
    );
    // Where this user is not root it cannot make a TUN file, and has to do
    // with the machine's.
    let before = if nix::unistd::geteuid().is_root() {
        before
    } else {
        String::new()
    };
    let output = stage.run(&before, "");
    if let Some(reason) = cannot(&output) {
        return skipped(name, &reason);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("no TUN device") && !nix::unistd::geteuid().is_root() {
        return skipped(name, &errors.trim_end());
    }
    assert!(output.status.success(), "{errors}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("set-up"), "{said}");
    let left: Vec<_> = fs::read_dir(stage.temporary()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn without_tun_a_line_says_how_to_get_it() {
    let name = "without_tun";
    let Some(stage) = Stage::set(name) else {
        return;
    };
    let cases = [
        (
            "mount -t tmpfs none /dev/net",
            "there is no /dev/net/tun",
            "mknod",
        ),
        (
            "mount -t tmpfs none /dev/net; : > /dev/net/tun; chmod 600 /dev/net/tun",
            "is closed to this user",
            "chmod 666 /dev/net/tun",
        ),
    ];
    for (before, reason, remedy) in cases {
        let output = stage.run(before, "");
        if let Some(reason) = cannot(&output) {
            return skipped(name, &reason);
        }
        let line = refusal(&output);
        // Root of a user namespace may still open a file that is its own.
        if nix::unistd::geteuid().is_root() || remedy == "mknod" {
            assert!(line.contains(reason) && line.contains(remedy), "{line}");
        }
    }
}

#[test]
fn without_user_namespaces_a_line_says_which_switch_allows_them() {
    let name = "without_user_namespaces";
    let Some(stage) = Stage::set(name) else {
        return;
    };
    // The switch is each user namespace's own.
    let mut command = Command::new("unshare");
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces; exec {} --own-user-namespace {}",
        stage.path("world").display(),
        stage.path("plan.toml").display()
    );
    command.args(["--user", "--map-root-user", "--", "sh", "-c", &script]);
    let output = command.output().expect("unshare can be run");
    if let Some(reason) = cannot(&output) {
        return skipped(name, &reason);
    }
    let line = refusal(&output);
    assert!(
        line.contains("/proc/sys/user/max_user_namespaces"),
        "{line}"
    );
    assert!(line.contains("sudo"), "{line}");
}

#[test]
fn without_any_rights_a_line_says_what_to_do() {
    let name = "without_any_rights";
    let Some(stage) = Stage::set(name) else {
        return;
    };
    let mut command = if nix::unistd::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        command.arg(stage.path("world"));
        command
    } else {
        Command::new(stage.path("world"))
    };
    command.arg(stage.path("plan.toml"));
    let output = command
        .env_remove("XDG_RUNTIME_DIR")
        .env("TMPDIR", stage.temporary())
        .output();
    let output = output.expect("setpriv can be run");
    if let Some(reason) = cannot(&output) {
        return skipped(name, &reason);
    }
    let line = refusal(&output);
    assert!(
        line.contains("needs root") && line.contains("sudo"),
        "{line}"
    );
}
