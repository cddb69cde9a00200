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
    let allowed = "a host, or one with a port: 192.0.2.1, [2001:db8::1]:8899, host.example";
    let refused = |found: String| Error::Refused(Refusal::new(key, found, allowed).to_string());
    if let Ok(address) = word.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let (name, port) = match word.rsplit_once(':') {
        Some((name, port)) => {
            let number = port.parse::<u16>().ok().filter(|port| *port > 0);
            (name, number.ok_or_else(|| refused(format!("`{word}`")))?)
        }
        None => (word, port),
    };
    let found = (name.trim_matches(['[', ']']), port).to_socket_addrs();
    let mut found = found.map_err(|e| refused(format!("`{word}`: {e}")))?;
    found
        .find(wanted)
        .ok_or_else(|| refused(format!("`{word}`, which has no such address")))
}

fn failed(error: &OptionError) -> Error {
    Error::Engine(error.to_string())
}

fn system(what: &str, error: impl std::fmt::Display) -> Error {
    Error::Engine(format!("{what}: {error}"))
}
