//! The options of `narrows pmtud`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Format;

/// What is done about the size that a path carries.
#[derive(Args, Debug)]
pub struct Pmtud {
    #[command(subcommand)]
    pub command: PmtudCommand,
}

#[derive(Subcommand, Debug)]
pub enum PmtudCommand {
    /// Find the MTU of the path to a host, there and back
    Probe(PmtudProbe),
    /// Answer those who probe, until Ctrl-C
    Serve(PmtudServe),
    /// Set searches and black-hole detectors of known stacks beside each other
    Arena(PmtudArena),
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows pmtud probe server.example
              narrows pmtud probe 192.0.2.1 --search all --format json
              narrows pmtud probe 2001:db8::1 --tracepath

Searches: step BYTES, table, binary, linear BYTES, bisect [floor BYTES] [within BYTES], sctp, \
adaptive, those of quinn, s2n-quic, neqo, msquic and picoquic, or all of them (all). What each does: docs/path-mtu.md.")]
pub struct PmtudProbe {
    /// The host, at which `narrows pmtud serve` runs; at the port 8899 unless one is named
    #[arg(value_name = "HOST[:PORT]")]
    pub host: String,
    /// Which sizes are tried
    #[arg(long, value_name = "SEARCH", default_value = "adaptive")]
    pub search: String,
    /// Search up to this MTU [default: that of the interface]
    #[arg(long, value_name = "MTU", value_parser = clap::value_parser!(u16).range(68..))]
    pub max: Option<u16>,
    /// Use no packet-too-big reports, as if all were filtered
    #[arg(long)]
    pub ignore_reports: bool,
    /// Wait 15 s for each probe, as RFC 8899 has it, instead of by the round trip
    #[arg(long)]
    pub rfc_timers: bool,
    /// Ask no server: high ports and ICMP errors, as tracepath(8) does it; sees less
    #[arg(long)]
    pub tracepath: bool,
    /// Over IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Over IPv6
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// Add the result to a file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows pmtud serve
              narrows pmtud serve 192.0.2.1 '[2001:db8::1]:8900' --per-client 200

It answers only who has a token, which is bound to the address and to five minutes, and with no \
more bytes than came. Started by root it becomes `nobody`.")]
pub struct PmtudServe {
    /// Where it is asked [default: all addresses, port 8899]; a machine with several addresses
    /// should name them
    #[arg(value_name = "ADDRESS[:PORT]")]
    pub addresses: Vec<String>,
    /// Probes a second that are answered of one IPv4 address, or one /64 of IPv6
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub per_client: u32,
    /// The same of all together
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub in_all: u32,
    /// Tokens a second that are given to who asks for one, in all
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub tokens: u32,
    /// Whom the process becomes once its sockets are open [default: nobody, of root]
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// How to print what it has counted
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows pmtud arena --check
              narrows pmtud arena --paths 100000 --packets 100000000")]
pub struct PmtudArena {
    /// Paths over which each search is run
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub paths: u32,
    /// Packets that each detector sees at each rate of loss
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub packets: u64,
    /// Seed of paths and losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// End with status 4 unless ours is never wrong and at least as good as the others
    #[arg(long)]
    pub check: bool,
    /// How to print the tables
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
