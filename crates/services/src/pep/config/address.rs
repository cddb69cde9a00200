//! Addresses, networks and ports, as a configuration and a command line write them.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use narrows_pep::Destinations;

/// What stands for destinations.
pub(super) const DESTINATIONS: &str = "a network such as 192.0.2.0/24, and behind it `port 443` or \
     `ports 80-443` if not all";

/// A network, and ports of it.
pub(super) fn read_destinations(words: &str) -> Option<Destinations> {
    let mut words = words.split_whitespace();
    let network = words.next()?.parse().ok()?;
    let ports: RangeInclusive<u16> = match (words.next(), words.next()) {
        (None, _) => 1..=u16::MAX,
        (Some("port"), Some(port)) => {
            let port = port.parse().ok()?;
            port..=port
        }
        (Some("ports"), Some(ports)) => {
            let (first, last) = ports.split_once('-')?;
            first.parse().ok()?..=last.parse().ok()?
        }
        _ => return None,
    };
    let sound = words.next().is_none() && !ports.is_empty() && *ports.start() > 0;
    sound.then_some(Destinations { network, ports })
}

/// An address with its port, which is `port` where none is written.
pub fn read_socket(word: &str, port: Option<u16>) -> Option<SocketAddr> {
    let without = || {
        let ip: IpAddr = word.trim_matches(['[', ']']).parse().ok()?;
        Some(SocketAddr::new(ip, port?))
    };
    let read: Option<SocketAddr> = word.parse().ok().or_else(without);
    read.filter(|at| at.port() != 0)
}
