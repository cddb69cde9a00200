//! The options of `narrows pep`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Format;

/// What is done with a split proxy.
#[derive(Args, Debug)]
pub struct Pep {
    #[command(subcommand)]
    pub command: PepCommand,
}

#[derive(Subcommand, Debug)]
pub enum PepCommand {
    /// Serve one until SIGTERM
    Serve(PepServe),
    /// Run a command whose connections go by one
    Run(PepRun),
    /// Say how one that is served is doing
    Status(PepStatus),
}

#[derive(Args, Debug)]
#[command(
    override_usage = "narrows pep serve CONFIG.toml [OPTIONS]\n       \
        narrows pep serve --listen ADDR --clients NETWORK --to NETWORK [OPTIONS]",
    after_help = "For instance: narrows pep serve --listen 10.0.0.1 --clients 10.0.0.0/24 \
    --to '0.0.0.0/0 ports 80-443'

SIGTERM: no more clients, and those that are there are served to their end, or for as long as \
`drain` says. SIGHUP reads CONFIG.toml again. All keys: docs/pep.md."
)]
pub struct PepServe {
    /// Its configuration
    #[arg(value_name = "CONFIG.toml", required_unless_present = "listen",
        conflicts_with_all = ["listen", "clients", "to", "status", "user"])]
    pub config: Option<PathBuf>,
    /// Where clients come to, at the port 8803 unless one is named; may be repeated
    #[arg(long, value_name = "ADDR", requires = "clients", requires = "to")]
    pub listen: Vec<String>,
    /// Who may come; may be repeated
    #[arg(long, value_name = "NETWORK", requires = "listen")]
    pub clients: Vec<String>,
    /// Where to, with `port N` or `ports N-M` behind it; may be repeated
    #[arg(long, value_name = "NETWORK", requires = "listen")]
    pub to: Vec<String>,
    /// Whom the process becomes once its sockets are open
    #[arg(long, value_name = "USER", requires = "listen")]
    pub user: Option<String>,
    /// The socket for `narrows pep status`
    #[arg(
        long = "socket",
        alias = "status",
        value_name = "PATH",
        requires = "listen"
    )]
    pub status: Option<PathBuf>,
    /// Check CONFIG.toml and serve nothing
    #[arg(long, conflicts_with = "listen")]
    pub check: bool,
    /// How the log on standard error is written
    #[arg(long, value_enum, default_value_t)]
    pub log: LogFormat,
    /// Log each tunnel
    #[arg(long)]
    pub details: bool,
}

/// How a log is written.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object in each line.
    Json,
}

#[derive(Args, Debug)]
pub struct PepStatus {
    /// The socket of the daemon
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/run/narrows-pep/status.sock"
    )]
    pub socket: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// What leads a command's connections to a proxy.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PepWay {
    /// Programs in the kernel, of every program that the command starts; needs root
    Kernel,
    /// A library that is loaded into programs which are linked dynamically and connect by it
    Preload,
}

#[derive(Args, Debug)]
#[command(
    after_help = "For instance: narrows pep run --via 10.0.0.1 -- curl -O http://store.example/file

TCP alone goes by the proxy, and not what goes to loopback or to link-local addresses. Nothing \
that the command sends is passed on before the proxy has answered, so that without it \
connections go directly and lose nothing.

As root programs in the kernel lead the connections of all that the command starts, and it runs as \
the user behind sudo. Otherwise a library does, which is loaded by LD_PRELOAD: programs that are \
static, set-user-ID or call the kernel by themselves then go directly.

Exit status: that of the command, 128+N if signal N ended it; 126 if it cannot be run, 127 if \
there is no such command, 125 if its connections cannot be led, 77 if this user may not lead \
them, 2 refused input."
)]
pub struct PepRun {
    /// Where the proxy listens, at the port 8803 unless one is named
    #[arg(long, value_name = "ADDR")]
    pub via: String,
    /// How long it may take to answer, with what it connects to
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub patience: String,
    /// Open no connection without it
    #[arg(long)]
    pub only: bool,
    /// What leads connections to it [default: kernel where it can, or else preload]
    #[arg(long, value_name = "WAY")]
    pub by: Option<PepWay>,
    /// The command and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}
