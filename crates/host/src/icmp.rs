//! ICMP at hosts and routers: which errors they send, and what becomes of those that
//! they receive.

use std::net::{IpAddr, SocketAddr};

use narrows_core::{
    DatagramError, DropCause, Endpoint, Packet, Role, SocketEvent, SocketId, Undelivered,
};
use narrows_units::{Duration, Instant};
use narrows_wire::{FlowKey, Icmp, Ip, ip, udp};

use crate::address::{self, Addressing};
use crate::hosts::{Hosts, Net};
use crate::socket::{Kind, Socket};
use crate::table::Found;

/// One error a second to each address, and so many at once after a pause
/// (`net.ipv4.icmp_ratelimit`, `net.ipv6.icmp.ratelimit`, `XRLIM_BURST_FACTOR`;
/// `inet_peer_xrlim_allow`, net/ipv4/inetpeer.c, Linux 6.12). Linux's limit for all
/// addresses together (`icmp_msgs_per_sec` 1000) is not modelled.
const ERROR_EVERY: Duration = Duration::from_secs(1);
const BURST: u64 = 6;

/// How long a path MTU is kept (RFC 1191 §6.3; `net.ipv4.route.mtu_expires`).
const MTU_EXPIRES: Duration = Duration::from_secs(600);

/// The least MTU of a link: RFC 791 §3.2, and RFC 8200 §5. Reports below are not
/// believed (RFC 1191 §3, RFC 8201 §4). Linux takes less than 552 bytes over IPv4 for
/// 552 and lets packets be fragmented then (`ip_rt_update_pmtu`), which nothing here does.
const LEAST_MTU_V4: u32 = 68;
const LEAST_MTU_V6: u32 = 1280;

/// Errors that wait to be read at a datagram socket; more are lost, as without room in
/// Linux's receive buffer.
const MOST_ERRORS: usize = 64;

/// Errors that may be sent to one address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorLimit {
    tokens: Duration,
    last: Instant,
}

impl ErrorLimit {
    /// Whether another may be sent at `now`.
    fn allows(limit: &mut Option<Self>, now: Instant) -> bool {
        let most = Duration::from_nanos(BURST * ERROR_EVERY.as_nanos());
        let old = limit.map_or(most, |l| (l.tokens + now.since(l.last)).min(most));
        let allowed = old >= ERROR_EVERY;
        let tokens = if allowed {
            old.saturating_sub(ERROR_EVERY)
        } else {
            old
        };
        *limit = Some(Self { tokens, last: now });
        allowed
    }
}

impl Hosts {
    /// Reports `error` to the sender of `packet`, which `node` does not pass on or take.
    pub(crate) fn report_error(
        &mut self,
        net: &mut Net<'_>,
        node: usize,
        error: Icmp,
        packet: &Packet,
    ) {
        // A machine's own stack reports by itself.
        let Some(to) = address::source(&packet.bytes).filter(|_| net.system.is_none()) else {
            return;
        };
        let Some(hop) = self.hop(node, to) else {
            return;
        };
        let here = &mut self.nodes[node];
        // Path MTU discovery is never limited (`icmpv4_xrlim_allow`,
        // `icmpv6_mask_allow`).
        let limited = !matches!(error, Icmp::TooBig { .. });
        if limited && !ErrorLimit::allows(here.errors.entry(to).or_default(), net.now) {
            return;
        }
        let from = here.address(to, 0).ip();
        let mut report = net.paths.pool.take(net.now, None);
        report.parent = Some(packet.id);
        match error.report(&mut report.bytes, from, &packet.bytes, packet.zero_tail) {
            Some(zeros) => {
                report.zero_tail = zeros;
                self.send(net, node, hop, Role::Responder, report, None);
            }
            None => net.paths.pool.give(report),
        }
    }

    /// An ICMP message reaches `node`: what it says goes to the socket whose packet it
    /// quotes.
    pub(crate) fn receive_icmp(
        &mut self,
        net: &mut Net<'_>,
        node: usize,
        addressing: &Addressing,
        packet: Box<Packet>,
    ) {
        let above = packet.bytes.get(addressing.above..).unwrap_or_default();
        let found = Icmp::quoted(addressing.protocol, above).and_then(|(error, quote)| {
            let key = FlowKey::of(quote)?;
            let remote = SocketAddr::from((key.destination, key.destination_port));
            let own = self.nodes[node].address(key.source, 0).ip() == key.source;
            let table = &self.nodes[node].table;
            let found = table.find(key.protocol, key.source_port, remote);
            Some((error, quote, remote, found.filter(|_| own)?))
        });
        let Some((error, quote, remote, socket)) = found else {
            let entity = self.nodes[node].entity;
            self.drop_packet(net, entity, packet, DropCause::Unreachable);
            return;
        };
        let (Found::Connected(s) | Found::Bound(s)) = socket;
        let mut believed = false;
        match self.sockets[s as usize].as_mut() {
            Some(socket) if matches!(socket.kind, Kind::Stream(_)) => {
                if let (Icmp::TooBig { mtu }, Some(stream)) = (error, socket.stream()) {
                    believed = is_possible(mtu, remote.ip())
                        && stream.endpoint.packet_too_big(net.now, mtu, quote);
                }
            }
            Some(socket) => {
                let reporter = addressing.source.ip();
                believed = note_error(socket, error, remote, reporter, quote);
                if let Some(app) = socket.app.filter(|_| believed) {
                    self.call(net, app, |app, host| {
                        app.on_event(SocketId(s), SocketEvent::Error, host);
                    });
                }
            }
            None => {}
        }
        if let (true, Icmp::TooBig { mtu }) = (believed, error) {
            self.nodes[node].learn_mtu(net.now, remote.ip(), mtu);
        }
        self.consume(net, packet);
        if self.endpoint(s).is_some_and(|e| !Endpoint::is_closed(e)) {
            self.touch(net, s);
        }
    }
}

/// Whether a link may have this MTU.
fn is_possible(mtu: u32, remote: IpAddr) -> bool {
    mtu >= if remote.is_ipv4() {
        LEAST_MTU_V4
    } else {
        LEAST_MTU_V6
    }
}

/// Puts an error into the queue of a datagram socket; whether there was one to put.
fn note_error(
    socket: &mut Socket,
    error: Icmp,
    to: SocketAddr,
    reporter: IpAddr,
    quote: &[u8],
) -> bool {
    let Kind::Datagrams { errors, .. } = &mut socket.kind else {
        return false;
    };
    let why = match error {
        Icmp::TooBig { mtu } if is_possible(mtu, to.ip()) => Undelivered::TooBig { mtu },
        Icmp::PortUnreachable => Undelivered::PortUnreachable,
        Icmp::NoRoute | Icmp::Prohibited | Icmp::TimeExceeded => Undelivered::Unreachable,
        _ => return false,
    };
    if errors.len() >= MOST_ERRORS {
        return false;
    }
    let payload = Ip::parse(quote).map_or(quote.len(), |ip| ip.header_len + udp::HEADER_LEN);
    let payload = quote.get(payload..).unwrap_or_default().to_vec();
    let error = DatagramError { to, reporter, why };
    errors.push_back((error, payload));
    true
}

/// Whether a packet of `protocol` is ICMP's.
pub(crate) fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, ip::ICMP | ip::ICMPV6)
}

impl crate::Node {
    fn learn_mtu(&mut self, now: Instant, to: IpAddr, mtu: u32) {
        let known = self.path_mtu(now, to).unwrap_or(u32::MAX);
        if mtu < known {
            self.mtus.insert(to, (mtu, now + MTU_EXPIRES));
        }
    }

    /// The MTU of the path to `to`, if a link on it has reported one lately.
    pub(crate) fn path_mtu(&self, now: Instant, to: IpAddr) -> Option<u32> {
        let known = self.mtus.get(&to).filter(|(_, until)| now < *until);
        known.map(|(mtu, _)| *mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_errors_may_be_sent_at_once_and_one_a_second_after() {
        let mut limit = None;
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut count = |ms, tries| {
            (0..tries)
                .filter(|_| ErrorLimit::allows(&mut limit, at(ms)))
                .count()
        };
        assert_eq!(count(0, 10), 6);
        assert_eq!(count(999, 10), 0);
        assert_eq!(count(1000, 10), 1);
        assert_eq!(count(3500, 10), 2);
        assert_eq!(count(60_000, 10), 6);
    }
}
