//! The kernel's own make, in a copy of its tree.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::error::BuildError;
use crate::process::{answer, failed, last_lines};

/// How often a build is asked whether it is to stop.
const ASKED: Duration = Duration::from_millis(200);

/// What a variable of the user's would change in a build.
const NOT_PASSED_ON: [&str; 12] = [
    "ARCH",
    "CROSS_COMPILE",
    "KBUILD_OUTPUT",
    "KCONFIG_CONFIG",
    "KCFLAGS",
    "LLVM",
    "LOCALVERSION",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "O",
    "SUBARCH",
];

/// `make` in `tree`, of which the same source makes the same kernel whenever, wherever
/// and by whomever it is built.
fn make(tree: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("make");
    for name in NOT_PASSED_ON {
        command.env_remove(name);
    }
    command
        .current_dir(tree)
        .env("LC_ALL", "C")
        .env("KBUILD_BUILD_TIMESTAMP", "1970-01-01 00:00 UTC")
        .env("KBUILD_BUILD_USER", "narrows")
        .env("KBUILD_BUILD_HOST", "narrows")
        .env("KBUILD_BUILD_VERSION", "1")
        .arg("ARCH=um")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Configures `tree` as the lines of `wanted` say, and with nothing else.
///
/// # Errors
/// When make fails, or the file of those lines cannot be written.
pub(crate) fn configure(tree: &Path, wanted: &str) -> Result<String, BuildError> {
    let list = tree.join("narrows.config");
    fs::write(&list, wanted).map_err(BuildError::io("write", &list))?;
    let mut command = make(tree, &["allnoconfig"]);
    answer(command.env("KCONFIG_ALLCONFIG", &list))?;
    let config = tree.join(".config");
    fs::read_to_string(&config).map_err(BuildError::io("read", &config))
}

/// What the kernel will call itself.
///
/// # Errors
/// When make fails.
pub(crate) fn release(tree: &Path) -> Result<String, BuildError> {
    let printed = answer(&mut make(tree, &["--silent", "kernelrelease"]))?;
    Ok(printed.trim().to_owned())
}

/// Makes each of `targets` in turn with `jobs` compilers at a time, and calls `compiled` for
/// every step that make names. All that it prints goes to the file `log`.
///
/// # Errors
/// What make prints where it fails, or that `stopped` asked for the end.
pub(crate) fn build(
    tree: &Path,
    targets: &[&str],
    jobs: usize,
    log: &Path,
    compiled: &mut dyn FnMut(),
    stopped: &dyn Fn() -> bool,
) -> Result<(), BuildError> {
    let mut file = narrows_files::create(log).map_err(BuildError::io("write", log))?;
    for target in targets {
        build_target(tree, target, jobs, (&mut file, log), compiled, stopped)?;
    }
    Ok(())
}

fn build_target(
    tree: &Path,
    target: &str,
    jobs: usize,
    (file, log): (&mut File, &Path),
    compiled: &mut dyn FnMut(),
    stopped: &dyn Fn() -> bool,
) -> Result<(), BuildError> {
    let errors = file.try_clone().map_err(BuildError::io("write", log))?;
    let mut command = make(tree, &[&format!("-j{jobs}"), target]);
    command.stdout(Stdio::piped()).stderr(errors);
    own_group(&mut command);
    let child = command.spawn();
    let mut child = child.map_err(|e| failed(&command, &e.to_string()))?;
    let output = child.stdout.take().expect("it was asked for");
    let (sender, lines) = channel();
    // It ends with make, whose output it reads.
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    loop {
        match lines.recv_timeout(ASKED) {
            Ok(line) => {
                // A log that cannot be written fails no build.
                let _ = file.write_all(&line).and_then(|()| file.write_all(b"\n"));
                // `  CC      net/ipv4/tcp.o`
                if line.starts_with(b"  ") {
                    compiled();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stopped() {
            end(&mut child);
            let _ = reader.join();
            return Err(BuildError::Interrupted);
        }
    }
    let _ = reader.join();
    let status = child.wait().map_err(|e| failed(&command, &e.to_string()))?;
    if status.success() {
        return Ok(());
    }
    let output = fs::read(log).unwrap_or_default();
    let errors = last_lines(&String::from_utf8_lossy(&output));
    Err(failed(
        &command,
        &format!("{errors}\n(all of it: {})", log.display()),
    ))
}

/// The version of pahole, `1.24`; empty where it does not say.
pub(crate) fn pahole() -> String {
    let said = answer(Command::new("pahole").arg("--version")).unwrap_or_default();
    said.trim().trim_start_matches('v').to_owned()
}

/// Takes the debugging information out of a built kernel, from which its types (BTF) have
/// been made: some 130 of 144 MB.
///
/// # Errors
/// What strip says where it fails.
pub(crate) fn strip(binary: &Path) -> Result<(), BuildError> {
    answer(Command::new("strip").arg("--strip-debug").arg(binary)).map(drop)
}

/// Compilers that make has started end with it, and Ctrl-C is not theirs.
#[cfg(unix)]
pub(crate) fn own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

#[cfg(not(unix))]
pub(crate) fn own_group(_: &mut Command) {}

#[cfg(target_os = "linux")]
fn end(child: &mut Child) {
    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;
    if let Ok(group) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGTERM);
    }
    let _ = child.wait();
}

#[cfg(not(target_os = "linux"))]
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree whose Makefile stands in for a kernel's.
    fn tree(makefile: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("Makefile"), makefile).unwrap();
        tree
    }

    fn has_make() -> bool {
        let there = Command::new("make").arg("--version").output().is_ok();
        if !there {
            eprintln!("skipped: make: there is none");
        }
        there
    }

    #[test]
    fn steps_are_counted_and_the_first_error_ends_the_build() {
        if !has_make() {
            return;
        }
        let good = tree(
            "linux:\n\t@echo '  CC      a.o'\n\t@echo '  LD      linux'\n\t@echo note\n\
             kernelrelease:\n\t@echo 7.3.4$(LOCALVERSION)\n",
        );
        let log = good.path().join("log");
        let mut steps = 0;
        build(
            good.path(),
            &["linux"],
            1,
            &log,
            &mut || steps += 1,
            &|| false,
        )
        .unwrap();
        assert_eq!(steps, 2);
        assert!(fs::read_to_string(&log).unwrap().contains("note"));
        assert_eq!(release(good.path()).unwrap(), "7.3.4");

        let bad = tree(
            "first:\n\t@echo 'a.c:1: error: no such thing' >&2\n\t@false\n\
             linux:\n\t@echo '  LD      vmlinux'\n",
        );
        let log = bad.path().join("log");
        let said = build(
            bad.path(),
            &["first", "linux"],
            1,
            &log,
            &mut || (),
            &|| false,
        )
        .unwrap_err();
        let said = said.to_string();
        assert!(
            said.contains("make first failed: a.c:1: error: no such thing"),
            "{said}"
        );
        let made = fs::read_to_string(&log).unwrap();
        assert!(!made.contains("vmlinux"), "{made}");
    }

    #[test]
    fn a_build_that_is_stopped_ends_with_its_processes() {
        if !has_make() {
            return;
        }
        let tree = tree("linux:\n\t@echo $$$$ > pid; echo '  CC a.o'; exec sleep 1000\n");
        let log = tree.path().join("log");
        let pid = tree.path().join("pid");
        let ended = build(tree.path(), &["linux"], 1, &log, &mut || (), &|| {
            pid.exists()
        });
        assert!(matches!(ended, Err(BuildError::Interrupted)));
        let pid = fs::read_to_string(pid).unwrap();
        if cfg!(target_os = "linux") {
            let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            assert!(state.map_or(true, |s| s.contains(") Z ")), "it still runs");
        }
    }

    #[test]
    fn the_configuration_is_what_was_asked_for() {
        if !has_make() {
            return;
        }
        let tree = tree("allnoconfig:\n\tgrep TUN $(KCONFIG_ALLCONFIG) > .config\n");
        let config = configure(tree.path(), "CONFIG_TUN=y\nCONFIG_X=y\n").unwrap();
        assert_eq!(config, "CONFIG_TUN=y\n");
    }
}
