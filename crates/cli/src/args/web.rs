//! The options of `narrows web`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows web experiments

Who has the address with its token may do what you may in the folder, and start runs. Nobody else is \
answered. From another machine: ssh -L 8080:127.0.0.1:8080 HOST narrows web --port 8080 --no-open")]
pub struct Web {
    /// A folder of scenarios and campaigns, or a file [default: the current folder]
    #[arg(value_name = "FILE|DIR", value_hint = clap::ValueHint::AnyPath)]
    pub what: Option<PathBuf>,
    /// Where to listen; other machines reach what is not loopback, and nothing is encrypted
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub listen: IpAddr,
    /// The port [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub port: u16,
    /// Another name by which browsers ask for it, HOST or HOST:PORT; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Open no browser
    #[arg(long)]
    pub no_open: bool,
}
