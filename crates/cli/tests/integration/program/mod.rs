//! The program, run as a process.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A short run without a file, which is trusted.
pub const SHORT: &[&str] = &[
    "run",
    "--link",
    "netem delay 5ms",
    "--link",
    "rate 10Mbit queue dualpi2",
    "--flow",
    "prague",
    "--flow",
    "cubic ecn",
    "--set",
    "duration=6s",
];

/// The program with these arguments, in `folder`, whose output is captured.
pub fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_narrows"));
    program
        .current_dir(folder)
        .args(arguments)
        // Cells of the user's own store would hide what a change does.
        .env("NARROWS_STORE", "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    program
}

pub fn narrows(folder: &Path, arguments: &[&str]) -> Output {
    program(folder, arguments)
        .output()
        .expect("the program starts")
}

/// What was printed on standard error, where it ended with `code`.
pub fn ended(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// The file of a campaign whose cells are one CUBIC flow over a link of 5 Mbit/s, for so long;
/// `cell` names them, and `rest` has axes, what they set, metrics and checks.
pub fn campaign(name: &str, cell: &str, duration: &str, rest: &str) -> String {
    format!(
        r#"
version = 1
kind = "campaign"
name = "{name}"
cell = "{cell}"
[scenario]
duration = "{duration}"
[[scenario.link]]
name = "access"
ends = ["client", "server"]
up = ["netem delay 5ms", "bottleneck: rate 5Mbit queue fq_codel"]
down = ["netem delay 5ms"]
[[scenario.flow]]
name = "bulk"
from = "client"
to = "server"
cc = "cubic"
{rest}"#
    )
}
