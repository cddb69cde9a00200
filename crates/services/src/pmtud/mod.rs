//! The size that a path carries: the server and the client of [`narrows_pmtud`] on this machine's
//! sockets, and what they say.

mod arena;
mod probe;
mod report;
mod serve;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use narrows_linux::tcp_options::OptionError;
use narrows_results::Error;
use narrows_scenario::Refusal;

pub use arena::Arena;
pub use narrows_pmtud::{SEARCHES, Search, ServerCounts, ServerSettings};
pub use probe::{ProbeRequest, Progress, probe};
pub use report::{PathMtu, ProbeStep, SearchResult};
pub use serve::{ServeRequest, serve};

/// The port of a server, unless another is named: the number of the RFC.
pub const PORT: u16 = 8899;

/// The first port that is tried where there is no server (traceroute(8)).
pub const PORT_ALONE: u16 = 33_434;

/// An address with a port, or with `port`. A name is looked up, of which the addresses that
/// `wanted` takes are used.
pub(crate) fn socket_address(
    key: &str,
    word: &str,
    port: u16,
    wanted: impl Fn(&SocketAddr) -> bool,
) -> Result<SocketAddr, Error> {
    let allowed =
        "a host, or one with a port: 192.0.2.1, [2001:db8::1]:8899, fe80::1%eth0, host.example";
    let refused = |found: String| Error::Refused(Refusal::new(key, found, allowed).to_string());
    let inside = word
        .strip_prefix('[')
        .and_then(|rest| rest.rsplit_once(']'));
    // An address of IPv6 without brackets has no port, and one with a zone is known to the resolver.
    let is_bare = inside.is_none() && word.matches(':').count() > 1;
    let (name, port) = match (inside, word.rsplit_once(':')) {
        (Some((name, "")), _) => (name, port),
        (Some((name, rest)), _) => {
            let number = rest.strip_prefix(':').and_then(port_number);
            (name, number.ok_or_else(|| refused(format!("`{word}`")))?)
        }
        (None, Some((name, rest))) if !is_bare => {
            let number = port_number(rest);
            (name, number.ok_or_else(|| refused(format!("`{word}`")))?)
        }
        (None, _) => (word, port),
    };
    let literal = name.parse::<IpAddr>().ok();
    if is_bare && literal.is_none() && !name.contains('%') || name.contains(['[', ']']) {
        return Err(refused(format!("`{word}`")));
    }
    if let Some(IpAddr::V6(address)) = literal {
        if address.is_unicast_link_local() {
            let found = format!("`{word}`, which every link has: its interface follows a %");
            return Err(refused(found));
        }
    }
    // Names that nobody knows now may be known later: nothing is wrong in their spelling.
    let found = (name, port).to_socket_addrs();
    let mut found = found.map_err(|e| system(&format!("{name} could not be looked up"), e))?;
    found.find(wanted).ok_or_else(|| {
        refused(format!(
            "`{word}`, which has no address of this version of IP"
        ))
    })
}

fn port_number(word: &str) -> Option<u16> {
    word.parse().ok().filter(|port| *port > 0)
}

fn failed(error: &OptionError) -> Error {
    Error::Engine(error.to_string())
}

fn system(what: &str, error: impl std::fmt::Display) -> Error {
    Error::Engine(format!("{what}: {error}"))
}
