//! The arguments of `narrows mmb`.

use std::net::IpAddr;

use clap::Args;

use super::{Format, completing};
use crate::completion;

#[derive(Args, Debug)]
#[command(after_help = "For instance: narrows mmb -f box.mmb explain file.pcapng
              narrows mmb -f snat --address 192.0.2.1 'replay in.pcap out.pcap; list'
              narrows mmb add tcp-dprt 80 drop
              narrows mmb attach eth0 mss-clamp
              narrows mmb respond 192.0.2.1 to 198.51.100.0/24
              narrows mmb detect 192.0.2.1

Commands are mmb's (add, add-stateless, add-stateful, insert, del, flush, list, show tables, show \
connections, enable, disable) and load FILE, explain CAPTURE, replay IN OUT, fields and boxes; \
several have `;` between them. Without any they are read from standard input, at a prompt where \
it is a terminal.

attach DEV [NAME|FILE|add …; add …] puts the box at a device of this machine, as programs of the \
kernel, until Ctrl-C; list DEV shows from elsewhere what it has counted, show connections DEV and \
show tables DEV the rest, detach DEV ends it. reload DEV NAME|FILE|add …, insert DEV N add … and \
del DEV N change its rules without a gap.

detect HOST[:PORT] [from PORT] finds out which ready boxes stand on the path to a host, together \
with respond ADDRESS[:PORT] to NETWORK… [call HOST…] there. Both need root.")]
pub struct Mmb {
    /// Apply the commands of a file first, or those of a ready box; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE|NAME", add = completing(completion::boxes))]
    pub files: Vec<String>,
    /// An address of the box, `self` in rules: one of each version of IP
    #[arg(long = "address", value_name = "ADDRESS")]
    pub addresses: Vec<IpAddr>,
    /// The seed of what is drawn [default: 1; with attach one that nobody can guess]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// With attach: a bundle of segments (GSO, GRO) is one packet, also to rules about what
    /// differs between them
    #[arg(long)]
    pub whole_bundles: bool,
    /// With attach: wait for the device, and attach again when it returns after it was gone
    #[arg(long)]
    pub wait: bool,
    /// How to print answers
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Commands
    #[arg(
        value_name = "COMMAND",
        add = completing(completion::commands_of_boxes),
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<String>,
}
