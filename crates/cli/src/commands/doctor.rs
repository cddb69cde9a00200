//! `narrows doctor`: what this machine can run.

use std::path::Path;
use std::process::Command;

use clap::Args;
use narrows::kernel::{self, BuiltKernel, survey};

use serde_json::{Value, json};

use crate::args::Format;
use crate::output::{message, print, print_json};
use crate::status::{Outcome, Status};

/// The options of `narrows doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Remove what live runs that were killed have left behind
    #[arg(long)]
    pub clean: bool,
    /// How it is printed
    #[arg(long, value_enum, default_value_t, conflicts_with = "clean")]
    pub format: Format,
}

/// One thing that the machine has or lacks.
struct Line {
    name: &'static str,
    what_for: &'static str,
    /// What was found, if it is there.
    found: Option<String>,
    /// The command that adds it, if one does.
    add: Option<String>,
}

pub fn doctor(args: &Doctor) -> Outcome {
    if args.clean {
        return clean();
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let built_in = |what: &str| Some(format!("built in, {what}"));
    let lines = [
        Line {
            name: "simulator",
            what_for: "narrows run, narrows campaign",
            found: built_in(&format!("{processors} cells at a time")),
            add: None,
        },
        Line {
            name: "report",
            what_for: "report.html, narrows plot",
            found: built_in("no network needed"),
            add: None,
        },
        Line {
            name: "tshark",
            what_for: "reads captures; a test holds ours against it",
            found: version("tshark", &["--version"]),
            add: Some("apt-get install tshark".to_owned()),
        },
        Line {
            name: "clang for BPF",
            what_for: "a test compiles the congestion controls for the kernel",
            found: clang_for_bpf(),
            add: Some("apt-get install clang llvm".to_owned()),
        },
        Line {
            name: "ns-3",
            what_for: "make bench runs the same network in both",
            found: ns3(),
            add: Some("apt-get install libns3-dev".to_owned()),
        },
        kernel_tools(),
        built_kernels(),
    ];
    match args.format {
        Format::Text => {
            let text: String = lines.iter().map(Line::print).collect();
            print(&format!("{text}\n{}", live_engine()));
        }
        Format::Json => {
            let tools: Vec<Value> = lines.iter().map(Line::json).collect();
            print_json(&json!({ "tools": tools, "live": live_engine_json() }));
        }
    }
    Ok(Status::Done)
}

/// What the live engine finds here, a line each; what is missing says how to
/// add it.
#[cfg(target_os = "linux")]
fn live_engine() -> String {
    let machine = narrows::machine::survey();
    let able = if machine.runs_live() { "yes" } else { "no " };
    let mut text = format!(
        "{able}  live engine    --engine live, narrows compare (Linux {})\n",
        machine.release
    );
    for finding in &machine.findings {
        let (mark, found) = match &finding.outcome {
            Ok(found) => ("yes", found),
            Err(lack) => ("no ", lack),
        };
        text.push_str(&format!(
            "  {mark}  {:<22} {:<28} {found}\n",
            finding.name, finding.purpose
        ));
    }
    text
}

/// The same, each finding with whether it is there and what was found or is missing.
#[cfg(target_os = "linux")]
fn live_engine_json() -> Value {
    let machine = narrows::machine::survey();
    let findings = machine.findings.iter().map(|finding| {
        let (Ok(detail) | Err(detail)) = &finding.outcome;
        json!({
            "name": finding.name,
            "purpose": finding.purpose,
            "present": finding.outcome.is_ok(),
            "detail": detail,
        })
    });
    json!({
        "runs": machine.runs_live(),
        "kernel": machine.release,
        "findings": findings.collect::<Vec<_>>(),
    })
}

#[cfg(not(target_os = "linux"))]
fn live_engine_json() -> Value {
    json!({ "runs": false })
}

#[cfg(not(target_os = "linux"))]
fn live_engine() -> String {
    "no   live engine    it measures Linux's stacks\n".to_owned()
}

/// Removes what dead runs have left, and topologies that lost their folders.
#[cfg(target_os = "linux")]
fn clean() -> Outcome {
    let (down, failed) = narrows::up::down_lost();
    let mut swept = narrows::machine::sweep();
    let down = down
        .iter()
        .map(|name| format!("took down {name}, whose folder was removed"));
    swept.removed.extend(down);
    swept.failed.extend(failed.iter().map(ToString::to_string));
    for line in &swept.removed {
        print(line);
    }
    if swept.removed.is_empty() && swept.failed.is_empty() {
        print("nothing was left behind");
    }
    for line in &swept.failed {
        message!("narrows: {line}");
    }
    Ok(if swept.failed.is_empty() {
        Status::Done
    } else {
        Status::Failed
    })
}

#[cfg(not(target_os = "linux"))]
fn clean() -> Outcome {
    print("nothing was left behind");
    Ok(Status::Done)
}

impl Line {
    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "purpose": self.what_for,
            "present": self.found.is_some(),
            "detail": self.found,
            "add": self.add,
        })
    }

    fn print(&self) -> String {
        let (mark, rest) = match (&self.found, &self.add) {
            (Some(found), _) => ("yes", format!("({found})")),
            (None, Some(command)) => ("no ", format!("(add it: {command})")),
            (None, None) => ("no ", "(not in this version)".to_owned()),
        };
        format!("{mark}  {:<14} {:<52} {rest}\n", self.name, self.what_for)
    }
}

/// The first line of what a program says about itself.
fn version(program: &str, arguments: &[&str]) -> Option<String> {
    let said = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&said.stdout);
    let line = text.lines().next()?.trim();
    (said.status.success() && !line.is_empty()).then(|| line.to_owned())
}

fn clang_for_bpf() -> Option<String> {
    let said = Command::new("clang").arg("--print-targets").output().ok()?;
    let has_bpf = String::from_utf8_lossy(&said.stdout)
        .lines()
        .any(|line| line.trim_start().starts_with("bpf "));
    has_bpf.then(|| version("clang", &["--version"]))?
}

/// What builds kernels in virtual time.
fn kernel_tools() -> Line {
    let missing = survey::missing();
    Line {
        name: "kernel build",
        what_for: "narrows kernel build",
        found: missing.is_empty().then(|| "all its tools".to_owned()),
        add: Some(survey::remedy(&missing)),
    }
}

/// Those that were built.
fn built_kernels() -> Line {
    let found = kernel::list().ok().filter(|kernels| !kernels.is_empty());
    let ids = |kernels: Vec<BuiltKernel>| {
        let ids: Vec<_> = kernels.into_iter().map(|kernel| kernel.made.id).collect();
        ids.join(", ")
    };
    Line {
        name: "kernel",
        what_for: "a real stack in virtual time",
        found: found.map(ids),
        add: Some("narrows kernel build".to_owned()),
    }
}

/// Where Debian puts ns-3's headers.
fn ns3() -> Option<String> {
    let header = "/usr/include/ns3/core-module.h";
    Path::new(header).is_file().then(|| header.to_owned())
}
