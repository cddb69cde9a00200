//! Measurement signals in the packets of a device of this machine.

use std::net::IpAddr;
use std::str::FromStr;

use narrows_scenario::Refusal;

#[cfg(target_os = "linux")]
pub use crate::device_signals::{DeviceSignals, SignalError};
#[cfg(target_os = "linux")]
pub use narrows_bpf::{SignalCounters, SignalOptions};

/// Which connections are marked: those of a host, of a port, or of both; else all.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SignalFilter {
    /// One of their two addresses.
    pub host: Option<IpAddr>,
    /// One of their two ports.
    pub port: Option<u16>,
}

impl FromStr for SignalFilter {
    type Err = Refusal;

    /// Reads `host ADDRESS`, `port NUMBER`, or both with `and` between.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let mut words = text.split_whitespace();
        let mut filter = Self::default();
        let allowed = "host ADDRESS, port NUMBER, or both with `and` between them, each once";
        let refused = |found: &str| Refusal::new("filter", format!("`{found}`"), allowed);
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or_default();
            match word {
                "host" if filter.host.is_none() => {
                    filter.host = Some(value.parse().map_err(|_| refused(value))?);
                }
                "port" if filter.port.is_none() => {
                    let port = value.parse().ok().filter(|port| *port > 0);
                    filter.port = Some(port.ok_or_else(|| refused(value))?);
                }
                _ => return Err(refused(word)),
            }
            match words.next() {
                None => break,
                Some("and") if words.clone().next().is_some() => {}
                Some(other) => return Err(refused(other)),
            }
        }
        Ok(filter)
    }
}

#[cfg(target_os = "linux")]
impl SignalFilter {
    /// The same for a [`DeviceSignals`].
    pub fn options(&self) -> SignalOptions {
        SignalOptions {
            host: self.host,
            ports: self.port.into_iter().collect(),
            ..SignalOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<SignalFilter, Refusal> {
        words.parse()
    }

    #[test]
    fn a_filter_names_a_host_a_port_or_both_once() {
        let both = SignalFilter {
            host: Some([10, 0, 0, 1].into()),
            port: Some(443),
        };
        assert_eq!(read("host 10.0.0.1 and port 443").unwrap(), both);
        assert_eq!(read("port 443 and host 10.0.0.1").unwrap(), both);
        assert_eq!(read("").unwrap(), SignalFilter::default());
        for bad in [
            "host",
            "host x",
            "port 0",
            "port 70000",
            "port 1 port 2",
            "port 1 and port 2",
            "port 1 and",
            "udp",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
