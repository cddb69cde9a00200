//! Rules of nftables that last as long as their shell.

use std::io::{self, Write};
use std::net::Ipv6Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use narrows_linux::LinuxError;
use narrows_linux::machine::{State, Undo};
use narrows_linux::{Namespace, RunId};

use super::Subnet;

/// The longest that rules may take to be there.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two checks whether they are.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// The beginning of the names of runs' devices, as nft matches it.
const RUNS_DEVICES: &str = "nw*";

/// What the rules are about.
pub(super) struct Rules<'a> {
    pub run: &'a RunId,
    /// The device that the path ends in.
    pub device: &'a str,
    pub inside: Subnet,
    /// The 64 bits of the inside's IPv6 network.
    pub inside_ipv6: Option<Ipv6Addr>,
    /// Devices that forward because of the shell, and did not before.
    pub opened: &'a [String],
}

impl Rules<'_> {
    fn table(&self) -> String {
        format!("narrows_{}", self.run)
    }

    /// In the words of nft(8). `owner`: the kernel removes the table when the
    /// program that made it ends.
    fn words(&self, owner: bool) -> String {
        let (table, device) = (self.table(), self.device);
        let flags = if owner { "{ flags owner; }" } else { "" };
        let mut lines = vec![
            format!("add table inet {table} {flags}"),
            // 100 is `srcnat`, 0 is `filter` (nft(8), chains).
            format!("add chain inet {table} leave {{ type nat hook postrouting priority 100; }}"),
            format!("add chain inet {table} pass {{ type filter hook forward priority 0; }}"),
            format!(
                "add rule inet {table} leave ip saddr {} oifname != \"{device}\" masquerade",
                self.inside
            ),
        ];
        if let Some(network) = self.inside_ipv6 {
            lines.push(format!(
                "add rule inet {table} leave ip6 saddr {network}/64 oifname != \"{device}\" masquerade"
            ));
        }
        // Nobody comes in from the outside who was not asked; this machine may.
        lines.push(format!(
            "add rule inet {table} pass oifname \"{device}\" ct state new drop"
        ));
        // A machine that was no router does not become one for others.
        if !self.opened.is_empty() {
            let opened: Vec<_> = self.opened.iter().map(|d| format!("\"{d}\"")).collect();
            lines.push(format!(
                "add rule inet {table} pass iifname {{ {} }} oifname != \"{RUNS_DEVICES}\" drop",
                opened.join(", ")
            ));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// Rules in force. Dropping it takes them away, and so does the kernel when
/// the process ends, if it can.
#[derive(Debug)]
pub(super) struct Table {
    /// The program that owns the table, and the pipe whose end is its end.
    owner: Option<(Child, Option<ChildStdin>)>,
}

impl Table {
    /// Puts `rules` in force in `here`.
    ///
    /// # Errors
    /// Where there is no nft, or the kernel does not take the rules.
    pub(super) fn new(
        here: &Namespace,
        rules: &Rules<'_>,
        state: &State,
    ) -> Result<Self, LinuxError> {
        let refused = |e: io::Error| LinuxError::refused("network address translation by nft", e);
        let owned = rules.words(true);
        match nft(here, &["-c", "-f", "-"], &owned) {
            Ok(_) => match own(here, &owned, &rules.table()) {
                Ok(owner) => return Ok(Self { owner: Some(owner) }),
                Err(e) => tracing::debug!("nft keeps no table of its own: {e}"),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(refused(e)),
            Err(e) => tracing::debug!("tables have no owners here: {e}"),
        }
        // Before Linux 5.12 and nft 1.0 tables have no owners.
        let plain = rules.words(false);
        nft(here, &["-c", "-f", "-"], &plain).map_err(refused)?;
        state.record(&Undo::NftTable {
            family: "inet".to_owned(),
            table: rules.table(),
        })?;
        nft(here, &["-f", "-"], &plain).map_err(refused)?;
        Ok(Self { owner: None })
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some((child, pipe)) = &mut self.owner {
            drop(pipe.take());
            let _ = child.wait();
        }
    }
}

/// Runs nft once with `words` as its input.
fn nft(here: &Namespace, arguments: &[&str], words: &str) -> io::Result<Output> {
    let mut child = here
        .command("nft")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // If it stops reading, its exit status says why.
        let _ = pipe.write_all(words.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().next().unwrap_or("nft failed without a word");
    Err(io::Error::other(line.to_owned()))
}

/// Starts an nft that makes the table and stays, as its owner.
fn own(here: &Namespace, words: &str, table: &str) -> io::Result<(Child, Option<ChildStdin>)> {
    let mut command: Command = here.command("nft");
    let mut child = command
        .arg("-i")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Otherwise it would write a history file there.
        .env("HOME", "/dev/null")
        // Ctrl-C is for the command.
        .process_group(0)
        .spawn()?;
    let mut pipe = child.stdin.take();
    let asked = pipe
        .as_mut()
        .map_or(Ok(()), |p| p.write_all(words.as_bytes()));
    let started = Instant::now();
    let mut there = false;
    // The last rule is the one to wait for.
    let rules = words.matches("add rule").count();
    while asked.is_ok() && !there && started.elapsed() < PATIENCE && child.try_wait()?.is_none() {
        there = nft(here, &["-a", "list", "table", "inet", table], "").is_ok_and(|listed| {
            let text = String::from_utf8_lossy(&listed.stdout).into_owned();
            // Each chain and each rule has a handle.
            text.matches("# handle").count() >= rules + 3
        });
        if !there {
            sleep(POLL_EVERY);
        }
    }
    if there {
        return Ok((child, pipe));
    }
    drop(pipe);
    let _ = child.kill();
    let _ = child.wait();
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "the rules did not come into force",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_name_the_run_and_its_device_only() {
        let run: RunId = "nwabcde".parse().expect("an id");
        let rules = Rules {
            run: &run,
            device: "nwabcde-out",
            inside: "198.18.0.0/30".parse().expect("a network"),
            inside_ipv6: None,
            opened: &["eth0".to_owned()],
        };
        let words = rules.words(true);
        assert!(words.lines().all(|l| l.contains("inet narrows_nwabcde")));
        assert!(words.contains("ip saddr 198.18.0.0/30 oifname != \"nwabcde-out\" masquerade"));
        assert!(words.contains("iifname { \"eth0\" } oifname != \"nw*\" drop"));
        assert!(!rules.words(false).contains("owner"));
    }
}
