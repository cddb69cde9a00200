//! The options of `narrows by`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::completing;
use crate::completion;

#[derive(Args, Debug)]
#[command(
    override_usage = "narrows by TIME [OPTIONS] -- CMD...\n       narrows by TIME [OPTIONS] --attach PID",
    after_help = "For instance: narrows by 06:00 --size-of backup.tar -- curl -T backup.tar \
    http://store.example/

What is controlled is what the command sends. For a download, run it at the other end.

Exit status: that of the command, 128+N if signal N ended it; 126 if it cannot be run, 127 if \
there is no such command, 125 if its connections cannot be controlled, 77 if this user may not \
control any, 2 refused input."
)]
pub struct By {
    /// When all is to be delivered: 06:00 (the next one), +2h, +90s, or ISO 8601
    #[arg(value_name = "TIME")]
    pub time: String,
    /// How many bytes the command sends: 20gb, 1500000b; without, its connections yield until
    /// the time and are best effort from then on
    #[arg(long, value_name = "BYTES", conflicts_with = "size_of")]
    pub size: Option<String>,
    /// As many bytes as a file or the files below a folder have
    #[arg(long, value_name = "PATH")]
    pub size_of: Option<PathBuf>,
    /// How the weight is found: pid (from the error) or mbc (by a model) [default: mbc]
    #[arg(long, value_name = "POLICY", add = completing(completion::policies))]
    pub policy: Option<String>,
    /// The control that decides the window: vegas, cubic, reno, ledbat or dctcp
    /// [default: cubic]
    #[arg(long, value_name = "CONTROL", add = completing(completion::windows))]
    pub over: Option<String>,
    /// Set another option of the control: kp=600, interval=5s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// Control the connections of a process that runs, until it ends or Ctrl-C
    #[arg(
        long,
        value_name = "PID",
        conflicts_with = "command",
        required_unless_present = "command"
    )]
    pub attach: Option<u32>,
    /// Show no running figures
    #[arg(long)]
    pub no_gauge: bool,
    /// The command and its arguments
    #[arg(value_name = "CMD", last = true)]
    pub command: Vec<OsString>,
}
