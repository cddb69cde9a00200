//! The program, run as a process.

use std::path::Path;
use std::process::{Command, Output};

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

pub fn narrows(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows"))
        .current_dir(folder)
        .args(arguments)
        // Cells of the user's own store would hide what a change does.
        .env("NARROWS_STORE", "")
        .output()
        .expect("the program starts")
}
