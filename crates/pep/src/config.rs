//! Where a proxy listens, and how much it bears.

use std::net::SocketAddr;
use std::sync::Arc;

use narrows_core::{FlowId, Profile};
use narrows_units::Duration;

use crate::link_rate::LinkRate;
use crate::request::Terms;
use crate::tunnel::Leg;

/// Where clients come to, and what becomes of them.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Options of the connections to clients.
    pub near: Profile,
    /// The address that clients connect to.
    pub local: SocketAddr,
    /// Options of the connections to destinations.
    pub far: Profile,
    /// The address that these come from; a free port where it is `None`.
    pub onward_from: Option<SocketAddr>,
    /// What requests must be like.
    pub terms: Terms,
    /// The proxy that connections go by in turn, if they do.
    pub parent: Option<Parent>,
    /// The flow of the plan that uses it, which samples are reported for.
    pub flow: Option<FlowId>,
    /// The rate of the link towards clients, if it is known. The connections' control has
    /// the option [`RATE_OPTION`](crate::RATE_OPTION) then.
    pub near_rate: Option<Arc<LinkRate>>,
    /// That of the link towards destinations.
    pub far_rate: Option<Arc<LinkRate>>,
}

impl Listener {
    /// The rate of the link of `leg`, if it is known.
    pub(crate) fn link_rate(&self, leg: Leg) -> Option<&Arc<LinkRate>> {
        match leg {
            Leg::Near => self.near_rate.as_ref(),
            Leg::Far => self.far_rate.as_ref(),
        }
    }
}

/// How a listener learns where its clients want to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intake {
    /// They say so first.
    #[default]
    Request,
    /// They say so by SOCKS version 5 (RFC 1928), also by a name.
    Socks,
    /// They do not know of the proxy: their connections were led here, and the host knows
    /// where to they were opened
    /// ([`Sockets::destination_of`](narrows_core::Sockets::destination_of)).
    Transparent,
}

/// Another proxy, by which connections go: it is asked as RFC 8803 says, and nothing is
/// sent before it has answered, so that what it does not do can be done without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Where it listens.
    pub proxy: SocketAddr,
    /// How long its host may take to answer, and where connections may go directly also the proxy.
    pub patience: Duration,
    /// Whether connections go directly where it is missing or refuses.
    pub or_directly: bool,
}

/// How much a proxy bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that wait in each direction of a tunnel at most.
    pub backlog: u64,
    /// Bytes that wait in all tunnels together at most.
    pub budget: u64,
    /// Tunnels at most.
    pub tunnels: usize,
    /// Tunnels of one client at most.
    pub tunnels_per_client: usize,
    /// How many first bits an IPv6 client is known by, from 1 to 128.
    pub ipv6_prefix: u8,
    /// How long a client may take for its request.
    pub request: Duration,
    /// How long the addresses of a name may take to be found.
    pub resolve: Duration,
    /// How long a connection to a destination may take to open.
    pub connect: Duration,
    /// How long nothing moves in a tunnel in which bytes wait, or of which one end has ended,
    /// before both ends are probed, and how often they are then.
    pub probe: Duration,
    /// How long a tunnel may be silent.
    pub idle: Duration,
}

impl Limits {
    /// Bytes that wait in each direction, unless configured otherwise: the socket
    /// buffers of Bayer's thesis.
    pub const BACKLOG: u64 = 128 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            backlog: Self::BACKLOG,
            // Room for thirty-two such tunnels that all stand full (our choice).
            budget: 32 * Self::BACKLOG,
            // As many as a connection each way to one port can have.
            tunnels: 65_535,
            tunnels_per_client: 65_535,
            // The smallest network that is given to a site (RFC 6177 §2, RFC 7421).
            ipv6_prefix: 64,
            // Our choice; as HAProxy's documentation advises for HTTP requests.
            request: Duration::from_secs(10),
            // Our choice: as long as resolv.conf(5) has a silent server asked twice.
            resolve: Duration::from_secs(10),
            // Our choice: a SYN and its repetitions after 1, 3, 7 and 15 seconds.
            connect: Duration::from_secs(30),
            // As long as Linux keeps a connection that its process has closed
            // (include/net/tcp.h, TCP_FIN_TIMEOUT): it answers a probe with a reset after that.
            probe: Duration::from_secs(60),
            // RFC 5382 §5: no established connection is given up before 2 h 4 min.
            idle: Duration::from_secs(7_440),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_budget_has_room_for_thirty_two_directions_that_stand_full() {
        let limits = Limits::default();
        assert_eq!((limits.backlog, limits.budget), (128 << 20, 4 << 30));
    }
}
