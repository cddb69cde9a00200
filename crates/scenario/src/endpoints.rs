//! Addresses and ports of flows and probes: the same in both engines, so that
//! a packet's flow is known by its ports.

use std::net::SocketAddr;

use crate::plan::{HostIndex, IpVersion, Plan};

/// Ports of the ends that open flows; flow `i` has the `i`th. Linux's
/// ephemeral range starts here.
pub const OPENER_PORTS: u16 = 32_768;
/// Ports of the ends that answer; iperf's old port is the first.
pub const ANSWERER_PORTS: u16 = 5_001;
/// Most flows of a run, so that the ranges do not meet.
pub const MAX_FLOWS: usize = 27_000;
/// Ports of probes that ask.
pub const ASKER_PORTS: u16 = 60_000;
/// Ports of probes that answer; irtt's port is the first.
pub const PROBE_PORTS: u16 = 2_112;
/// Most probes of a run.
pub const MAX_PROBES: usize = 2_800;
/// Ports of the ends of applications that answer; application `i` has the `i`th. The first
/// that need no right (IP_UNPRIVILEGED_PORT_START of Linux).
pub const APP_PORTS: u16 = 1_024;
/// Ports of the ends of applications that begin, where they send datagrams; connections are
/// opened from free ones.
pub const APP_CALLER_PORTS: u16 = 63_000;
/// Most applications of a run, which have connections without number.
pub const MAX_APPS: usize = 1_000;

/// The two ends of a flow, probe or application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Who opens the flow, or asks.
    pub opener: (HostIndex, SocketAddr),
    /// The other.
    pub answerer: (HostIndex, SocketAddr),
}

/// The two ends that a flow has at the proxy that it goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyEnds {
    /// Where the proxy runs.
    pub host: HostIndex,
    /// To which the flow is opened.
    pub near: SocketAddr,
    /// From which the proxy connects onward.
    pub far: SocketAddr,
}

impl Plan {
    /// The ends of flow `i` at its proxy, if it goes by one. Either leg has the ports of
    /// the flow.
    ///
    /// # Panics
    /// If the plan has no such flow.
    pub fn proxy_ends(&self, i: usize) -> Option<ProxyEnds> {
        let flow = &self.flows[i];
        let host = self.proxies[flow.via?.proxy].host;
        Some(ProxyEnds {
            host,
            near: self.address(host, flow.ip, ANSWERER_PORTS + i as u16),
            far: self.address(host, flow.ip, OPENER_PORTS + i as u16),
        })
    }

    /// The ends of flow `i`, which is one of the first [`MAX_FLOWS`].
    ///
    /// # Panics
    /// If the plan has no such flow.
    pub fn flow_ends(&self, i: usize) -> Ends {
        let flow = &self.flows[i];
        let answers = if flow.opens == flow.from {
            flow.to
        } else {
            flow.from
        };
        Ends {
            opener: (
                flow.opens,
                self.address(flow.opens, flow.ip, OPENER_PORTS + i as u16),
            ),
            answerer: (
                answers,
                self.address(answers, flow.ip, ANSWERER_PORTS + i as u16),
            ),
        }
    }

    /// The ends of probe `i`, which is one of the first [`MAX_PROBES`].
    /// Probes go over IPv4.
    ///
    /// # Panics
    /// If the plan has no such probe.
    pub fn probe_ends(&self, i: usize) -> Ends {
        let probe = &self.probes[i];
        let end = |host, port| (host, self.address(host, IpVersion::V4, port));
        Ends {
            opener: end(probe.from, ASKER_PORTS + i as u16),
            answerer: end(probe.to, PROBE_PORTS + i as u16),
        }
    }

    /// The ends of application `i`, which is one of the first [`MAX_APPS`].
    ///
    /// # Panics
    /// If the plan has no such application.
    pub fn app_ends(&self, i: usize) -> Ends {
        let app = &self.apps[i];
        let end = |host, port| (host, self.address(host, app.ip, port));
        Ends {
            opener: end(app.from, APP_CALLER_PORTS + i as u16),
            answerer: end(app.to, APP_PORTS + i as u16),
        }
    }

    fn address(&self, host: HostIndex, version: IpVersion, port: u16) -> SocketAddr {
        let host = self.host(host);
        match version {
            IpVersion::V4 => SocketAddr::from((host.ipv4, port)),
            IpVersion::V6 => SocketAddr::from((host.ipv6, port)),
        }
    }
}
