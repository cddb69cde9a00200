//! The command line.

mod by;
mod campaign;
mod descriptors;
#[cfg(test)]
mod guide;
mod kernel;
mod link;
mod mmb;
#[cfg(test)]
mod names;
mod pep;
mod pmtud;
mod selftest;
mod shell;
mod store;
mod testbed;
mod traffic;
mod up;
mod web;

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::completion;

pub use by::By;
pub use campaign::{Campaign, CampaignRuns, Merge, ShardWord};
pub use descriptors::{Export, Import};
pub use kernel::{Kernel, KernelBuild, KernelCommand, KernelList, KernelRemove};
pub use link::PathElements;
pub use mmb::Mmb;
pub use pep::{LogFormat, Pep, PepCommand, PepRun, PepServe, PepStatus, PepWay};
pub use pmtud::{Pmtud, PmtudArena, PmtudCommand, PmtudProbe, PmtudServe};
pub use selftest::Selftest;
pub use shell::Shell;
pub use store::{Store, StoreCommand, StoreList, StorePrune, StoreUse, StoreVerify};
pub use testbed::{Testbed, TestbedCommand, TestbedImage, TestbedRun, TestbedSeed, TestbedServe};
pub use traffic::{Traffic, TrafficCommand, TrafficRun, TrafficServe, TrafficShow};
pub use up::{Down, Enter, TopologyStatus, Up};
pub use web::Web;

use crate::commands::Command;

/// A laboratory for what happens to transport protocols between two hosts.
#[derive(Parser, Debug)]
#[command(
    name = "narrows",
    version = crate::VERSION,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "Exit status: 0 done, 1 failed, 2 refused input, 3 not trustworthy, \
    4 out of tolerance with --check, 70 a mistake in narrows itself, 77 a right is missing (root, or to a file), \
    130 interrupted, 141 when the reader of the output has gone (| head)."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// Has a shell complete an argument by what `names` offers.
fn completing(names: fn(&OsStr) -> Vec<CompletionCandidate>) -> ArgValueCompleter {
    ArgValueCompleter::new(names)
}

/// How results are printed.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Tables.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// How a list is printed.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListFormat {
    /// A line for each.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// Of metrics, events, queues, elements, apps and tests: what the guide has of them.
    Markdown,
}

#[derive(Args, Debug)]
pub struct List {
    /// `metrics` for what campaigns can measure; `events` for what a run reports; `queues`,
    /// `elements`, `apps` or `tests` for their parameters; otherwise the beginning of names
    #[arg(value_name = "metrics|events|queues|elements|apps|tests|PREFIX", add = completing(completion::listed))]
    pub what: Option<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: ListFormat,
}

#[derive(Args, Debug)]
pub struct Show {
    /// An entry of the catalogue, or a file; or `queue`, `element`, `app` or `test` before a name
    #[arg(value_name = "NAME|FILE", add = completing(completion::shown))]
    pub name: String,
    /// Which queue, element, application or test: its parameters
    #[arg(value_name = "NAME", conflicts_with = "sets", add = completing(completion::kinds))]
    pub which: Option<String>,
    /// Set a value first, by name: link/access/up/bottleneck='rate 20Mbit queue dualpi2'
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineName {
    /// The simulator: deterministic, no root.
    #[default]
    Sim,
    /// Real stacks in network namespaces.
    Live,
    /// Real stacks of a kernel in virtual time: deterministic, no root.
    Kernel,
}

impl EngineName {
    /// As it is typed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Live => "live",
            Self::Kernel => "kernel",
        }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Without a file: narrows run --link 'netem delay 10ms' \
    --link 'rate 50Mbit queue dualpi2' --flow prague --flow 'cubic ecn start 1s'

A download beside an upload: --flow cubic --flow 'down: cubic from server to client'")]
pub struct Run {
    /// A scenario's file, or its name in the catalogue
    #[arg(value_name = "FILE|NAME", required_unless_present_any = ["link", "up", "down", "flows", "apps", "test", "mixes"],
        conflicts_with_all = ["link", "up", "down", "flows", "apps", "test", "mixes"], add = completing(completion::scenarios))]
    pub name: Option<String>,
    #[command(flatten)]
    pub links: PathElements,
    /// A flow: [NAME:] congestion control [from HOST to HOST] [ecn MODE] [start TIME]
    /// [bytes SIZE] …; from client to server unless `from server to client` turns it round
    #[arg(long = "flow", value_name = "FLOW", add = completing(completion::controls))]
    pub flows: Vec<String>,
    /// An application: [NAME:] kind [from HOST to HOST] [PARAMETER VALUE] [cc CONTROL] …
    /// (`narrows list apps`); from client to server
    #[arg(long = "app", value_name = "APP", add = completing(completion::apps))]
    pub apps: Vec<String>,
    /// One of Flent's tests: rrul, tcp_8up, … [cc CONTROL] [streams N] … (`narrows list tests`);
    /// the run lasts 70 s
    #[arg(long, value_name = "TEST", add = completing(completion::tests))]
    pub test: Option<String>,
    /// A traffic mix: [NAME:] FILE [bandwidth RATE] [cc CONTROL] …, from server to client
    /// (`narrows traffic show FILE` says what it is)
    #[arg(long = "mix", value_name = "MIX")]
    pub mixes: Vec<String>,
    /// Write the scenario to a file, as it is run
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// What runs it
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineName,
    /// Of `--engine kernel`, which: how its id begins [default: the one that was built last]
    #[arg(long, value_name = "ID", add = completing(completion::kernels))]
    pub kernel: Option<String>,
    /// The seed of all randomness
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Set a value by name: flow/cubic/cc=reno, duration=10s,
    /// link/access/up/bottleneck='rate 20Mbit queue dualpi2'
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// The results folder, which must be empty or new [default: results/<time>-<name>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How to print the results
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows completion bash \
    > ~/.local/share/bash-completion/completions/narrows

What it prints asks narrows itself at each completion, so that names of the catalogue, cells, devices \
and kernels are those of the moment.")]
pub struct Completion {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows man ~/.local/share/man/man1")]
pub struct Man {
    /// The folder, which is made if it is not there
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct Compare {
    /// A scenario's or a campaign's file, or its name in the catalogue
    #[arg(value_name = "FILE|NAME", add = completing(completion::entries))]
    pub name: String,
    /// Compare only cells whose names fit: '20-20/*'; may be repeated
    #[arg(long, value_name = "GLOB", add = completing(completion::cells))]
    pub only: Vec<String>,
    /// Seeds in the simulator and in virtual time, and repetitions live; of pairs, repetitions of each side
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub seeds: u64,
    /// What runs the side that is judged
    #[arg(long, value_enum, default_value_t = EngineName::Live)]
    pub engine: EngineName,
    /// What runs the side that it is held against; not `live`, as no two live runs are alike
    #[arg(long, value_enum, default_value_t)]
    pub against: EngineName,
    /// Of the side that is `kernel`, which: how its id begins [default: the one built last]
    #[arg(long, value_name = "ID", add = completing(completion::kernels))]
    pub kernel: Option<String>,
    /// How often a live repetition whose rig is not trusted is made again
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(..=25))]
    pub again: u64,
    /// Runs at a time [default: one for each processor]; live runs go one by one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Fail with status 4 if the sides differ by more than the file allows, or, where it says
    /// nothing, by more than the spread
    #[arg(long)]
    pub check: bool,
    /// Set a value by name, in every cell
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub sets: Vec<String>,
    /// The results folder, which must be empty or new [default: results/<time>-<name>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How to print the results
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
pub struct Diff {
    /// A results folder
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Another
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
pub struct Report {
    /// Results folders
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
}

/// What a figure is drawn as.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drawing {
    /// Scalable, for the web.
    #[default]
    Svg,
    /// Pixels.
    Png,
    /// Scalable, for print.
    Pdf,
    /// No drawing, but data that Flent opens: of a run, or of each cell.
    Flent,
}

/// How wide a figure is.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// One column of a two-column paper.
    #[default]
    Column,
    /// The full width of a two-column paper.
    Page,
    /// A page on a screen.
    Screen,
}

#[derive(Args, Debug)]
pub struct Plot {
    /// A results folder
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub dir: PathBuf,
    /// What to draw figures as
    #[arg(
        long = "format",
        visible_alias = "as",
        value_enum,
        value_name = "FORMAT",
        default_value_t
    )]
    pub drawing: Drawing,
    /// How wide figures are
    #[arg(long, value_enum, default_value_t)]
    pub width: Width,
    /// Only this figure, such as rtt or sojourn-cdf
    #[arg(long, value_name = "NAME")]
    pub figure: Option<String>,
    /// Of a campaign, this metric in place of what the campaign is about; several are lines of
    /// one figure
    #[arg(long = "metric", value_name = "METRIC", add = completing(completion::metrics))]
    pub metrics: Vec<String>,
    /// The axis of the campaign to draw it against [default: the one with most values]
    #[arg(long, value_name = "AXIS", requires = "metrics", add = completing(completion::axes))]
    pub against: Option<String>,
    /// An axis whose values are lines; may be repeated, the others have a figure for each value
    #[arg(long, value_name = "AXIS", requires = "metrics", add = completing(completion::axes))]
    pub by: Vec<String>,
    /// Where to put them [default: DIR/figures; for flent, DIR]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "For instance: narrows mark -i eth0 --profile d+q port 443

Connections that begin while it runs are marked, until Ctrl-C. A filter is host ADDRESS, \
port NUMBER, or both with `and` between them."
)]
pub struct Mark {
    /// The device where packets leave and arrive
    #[arg(short = 'i', long, alias = "interface", value_name = "DEV",
        add = completing(completion::devices))]
    pub dev: String,
    /// The signals and their rules: d, s, d+q, s+vec, 's+d+q', 'd delay thesis' …
    #[arg(long, value_name = "PROFILE")]
    pub profile: String,
    /// Which connections to mark [default: all]
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Stop after this time
    #[arg(long, visible_alias = "for", value_name = "TIME")]
    pub duration: Option<String>,
    /// Wait for the device, and go on when it returns after it was gone
    #[arg(long)]
    pub wait: bool,
    /// How to print the counters
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// How results of an observer are printed.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObserveFormat {
    /// One line for each flow, those with the most bytes first; all estimates with -v.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// The columns of a run's samples.csv.gz.
    Csv,
    /// qlog, as a JSON text sequence.
    Qlog,
    /// spindump's JSON records.
    Spindump,
}

/// What of an observer's results is printed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserveRows {
    /// Each sample, when it is complete.
    Samples,
    /// What a flow's samples amount to.
    Estimates,
    /// Both.
    All,
    /// Only what passed in all.
    None,
}

/// How strictly an observer reads.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObserveMode {
    /// As RFC 9506 says, with what the flow shows.
    #[default]
    Rfc,
    /// As the patched spindump of Guarna's thesis: every spin edge counts, 225 ms cut-off.
    Thesis,
}

#[derive(Args, Debug)]
#[command(
    after_help = "For instance: narrows observe file.pcapng tcp port 443 and not host 10.0.0.1

A filter is made of tcp, udp, icmp, icmp6, ip, ip6, vlan [NUMBER], host ADDRESS, \
net ADDRESS/LENGTH and port NUMBER[-NUMBER], the last three with src or dst before them and a \
protocol before that if need be, joined by and, or, not and brackets."
)]
pub struct Observe {
    /// A capture to read: pcap or pcapng, as it is or compressed with gzip or zstd; `-` for
    /// standard input; may be repeated
    #[arg(short = 'r', long = "read", value_name = "FILE")]
    pub read: Vec<PathBuf>,
    /// A device whose packets to observe as they pass, `any` for all (Linux); may be repeated
    #[arg(
        short = 'i',
        long = "dev",
        alias = "interface",
        value_name = "DEV",
        conflicts_with = "read",
        add = completing(completion::devices_and_any)
    )]
    pub interfaces: Vec<String>,
    /// Captures to read where neither -r nor -i names any, then which packets to observe
    /// [default: all]
    #[arg(value_name = "FILE… FILTER")]
    pub words: Vec<String>,
    /// Observe the packets inside tunnels: IP in IP, GRE, VXLAN, Geneve
    #[arg(long)]
    pub inner: bool,
    /// How to print results
    #[arg(long, value_enum, default_value_t)]
    pub format: ObserveFormat,
    /// Print all estimates of each flow, as text
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// What to print [default: estimates as text, else all]
    #[arg(long, value_enum)]
    pub rows: Option<ObserveRows>,
    /// Print what is known of networks in place of flows: prefixes of this length, and for
    /// IPv6 of the second [default of that: 48]
    #[arg(long, value_name = "LENGTH[,LENGTH]", conflicts_with_all = ["rows", "interval", "verbose"])]
    pub by_prefix: Option<String>,
    /// Answer with metrics for Prometheus at this port of loopback, or at this address
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub prometheus: Option<String>,
    /// Print estimates of flows that were seen since, each time this much of the capture has passed
    #[arg(long, value_name = "TIME")]
    pub interval: Option<String>,
    /// Show the flows with the most packets in a table in the terminal; q quits
    #[arg(long, conflicts_with_all = ["format", "rows", "interval"])]
    pub top: bool,
    /// End after this time [default: at Ctrl-C]
    #[arg(
        long,
        alias = "for",
        value_name = "TIME",
        requires = "interfaces",
        conflicts_with = "read"
    )]
    pub duration: Option<String>,
    /// End after this many packets that the filter takes
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// For those who are used to it: names of hosts and ports are never looked up
    #[arg(short = 'n')]
    pub numbers: bool,
    /// Write the packets that the filter takes to a pcapng file: of a capture as they are in
    /// it, of a device cut to their headers
    #[arg(short = 'w', long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// See frames for other hosts too
    #[arg(long, requires = "interfaces", conflicts_with = "read")]
    pub promiscuous: bool,
    /// Print pseudonyms in place of addresses
    #[arg(long)]
    pub anonymize: bool,
    /// Makes the same pseudonyms each time [default: other ones each time]
    #[arg(long, value_name = "WORD", requires = "anonymize")]
    pub anonymize_key: Option<String>,
    /// What all flows are marked with, whatever they announce: d, s, d+q, s+vec, s+t, q+l+e …
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Take the responder's answer for the profile, whatever the initiator asked for
    #[arg(long)]
    pub negotiated: bool,
    /// How strictly to read
    #[arg(long, value_enum, default_value_t)]
    pub mode: ObserveMode,
    /// The client's T_Max of the delay bit [default: learnt]
    #[arg(long, value_name = "TIME")]
    pub t_max: Option<String>,
    /// Packets in a block of the Q bit [default: learnt]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=32768))]
    pub block: Option<u32>,
    /// Packets of a new Q or R value that are believed [default: learnt]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16383))]
    pub reordering: Option<u32>,
    /// Flows at a time; with more, the one that was silent longest goes
    #[arg(long, value_name = "N", default_value_t = 1 << 20,
        value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    pub max_flows: u32,
    /// A flow that was silent for longer has ended
    #[arg(long, value_name = "TIME", default_value = "300s")]
    pub idle: String,
}
