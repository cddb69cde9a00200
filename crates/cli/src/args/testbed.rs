//! The options of `narrows testbed`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use narrows::units::{Duration, Value};

use super::{Format, completing};
use crate::completion;

#[derive(Args, Debug)]
pub struct Testbed {
    #[command(subcommand)]
    pub command: TestbedCommand,
}

#[derive(Subcommand, Debug)]
pub enum TestbedCommand {
    /// Start four virtual machines, run a scenario's flows between them, and fetch the results
    Run(TestbedRun),
    /// Write the seeds of the machines, for a cloud or a hypervisor of your own
    Seed(TestbedSeed),
    /// Make a disk of Debian that machines start from
    Image(TestbedImage),
    /// Be one of the machines: what their seeds start
    Serve(TestbedServe),
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows testbed run testbed.nemo
              narrows testbed run testbed.toml --image debian-12-genericcloud-amd64.qcow2

Nothing is left of the machines when it ends, however it does. Exit status: 0 the run was complete, 1 it \
was not, or a machine was not ready in time, 2 refused, 130 interrupted.")]
pub struct TestbedRun {
    /// Intents of NEMO, a topology of containerlab, a scenario's file, or its name in the catalogue:
    /// source, box, observer and sink in a line
    #[arg(value_name = "FILE|NAME", add = completing(completion::scenarios))]
    pub scenario: String,
    /// The disk: a file (qcow2 or raw) with cloud-init, or a folder that `narrows testbed image` has
    /// made [default: one of Debian 12, made the first time, as root]
    #[arg(long, value_name = "FILE|DIR")]
    pub image: Option<PathBuf>,
    /// What machines get: a package (`make deb`) or an executable [default: this program]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Set a value of a scenario by name: link/wire/up/bottleneck='rate 20Mbit queue fq_codel'
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// How long the machines have to be ready
    #[arg(long, value_name = "TIME", default_value = "15min", value_parser = time)]
    pub wait: Duration,
    /// Memory of each machine, in MiB
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(256..=65_536))]
    pub memory: u32,
    /// Have QEMU run the machines' instructions itself, without KVM
    #[arg(long)]
    pub without_kvm: bool,
    /// Leave the machines up after the run until Ctrl-C, and say where they are asked
    #[arg(long)]
    pub keep: bool,
    /// The results folder, which must be empty or new [default: results/<time>-<name>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How to print the results
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
#[command(
    after_help = "For instance: narrows testbed seed testbed.nemo --out seeds

Each machine has a folder with the files of its seed, and a volume of them (`source.img` and so on) to be given to it \
as a disk. They hold tokens: keep them as you keep a password. The same file, program and tokens \
give the same bytes."
)]
pub struct TestbedSeed {
    /// As of `narrows testbed run`
    #[arg(value_name = "FILE|NAME", add = completing(completion::scenarios))]
    pub scenario: String,
    /// A new folder for them
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// What machines get: a package (`make deb`) or an executable [default: this program]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Set a value of a scenario by name
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// A file with two lines, the tokens of webhooks and of traffic: 32 letters and digits or more
    /// each [default: drawn]
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: sudo narrows testbed image /var/lib/narrows/bookworm")]
pub struct TestbedImage {
    /// A new folder for the disk, its kernel and its initial RAM disk
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The release of Debian
    #[arg(long, value_name = "NAME", default_value = "bookworm")]
    pub release: String,
}

#[derive(Args, Debug)]
#[command(after_help = "With `Authorization: Bearer TOKEN` it answers
  GET  /api/v1/state         its role, once it is ready
  POST /api/v1/runs          starts a run
  GET  /api/v1/runs/N        whether it goes on, and what its programs have written
  POST /api/v1/runs/N/stop   asks it to end

It runs the programs that the orders name, as the user that it runs as: it is meant for machines that are \
nothing else.")]
pub struct TestbedServe {
    /// The orders of the machine's role, as its seed has them
    #[arg(value_name = "ORDERS")]
    pub orders: PathBuf,
    /// Where it is asked
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8899")]
    pub listen: SocketAddr,
    /// A file with the token
    #[arg(long, value_name = "FILE")]
    pub token: PathBuf,
}

fn time(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(24 * 3_600);
    let time = Duration::parse(text).filter(|time| *time <= MOST);
    time.ok_or_else(|| format!("allowed: {}, up to a day", Duration::ALLOWED))
}
