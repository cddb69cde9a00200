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
/// 552 and lets packets be fragmented then (`net.ipv4.route.min_pmtu`, `__ip_rt_update_pmtu`), which
/// nothing here does.
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
            self.drop_packet(net, entity, packet, DropCause::NoSocket);
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
                let error = of_datagram(error, remote, reporter);
                believed = error.is_some_and(|error| note_error(socket, error, payload_of(quote)));
                if believed {
                    self.call_of_error(net, s);
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

impl Hosts {
    /// A machine's own stack says of a datagram from `local` at `node` what the network reports:
    /// it goes to the socket. `quote` is what of the datagram's payload the report has.
    pub fn datagram_error(
        &mut self,
        net: &mut Net<'_>,
        node: usize,
        local: SocketAddr,
        error: DatagramError,
        quote: &[u8],
    ) {
        let table = &self.nodes[node].table;
        let Some(Found::Connected(s) | Found::Bound(s)) =
            table.find(ip::UDP, local.port(), error.to)
        else {
            return;
        };
        let socket = self.sockets[s as usize].as_mut();
        if socket.is_some_and(|socket| note_error(socket, error, quote)) {
            self.call_of_error(net, s);
            self.settle(net);
        }
    }

    fn call_of_error(&mut self, net: &mut Net<'_>, s: u32) {
        let socket = self.sockets[s as usize].as_ref();
        if let Some(app) = socket.and_then(|socket| socket.app) {
            self.call(net, app, |app, host| {
                app.on_event(SocketId(s), SocketEvent::Error, host);
            });
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

/// What an ICMP error says of a datagram to `to`, if anything that can be.
fn of_datagram(error: Icmp, to: SocketAddr, reporter: IpAddr) -> Option<DatagramError> {
    let why = match error {
        Icmp::TooBig { mtu } if is_possible(mtu, to.ip()) => Undelivered::TooBig { mtu },
        Icmp::PortUnreachable => Undelivered::PortUnreachable,
        Icmp::NoRoute | Icmp::Prohibited | Icmp::TimeExceeded => Undelivered::Unreachable,
        _ => return None,
    };
    Some(DatagramError { to, reporter, why })
}

/// What a quoted datagram has behind its headers.
fn payload_of(quote: &[u8]) -> &[u8] {
    let payload = Ip::parse(quote).map_or(quote.len(), |ip| ip.header_len + udp::HEADER_LEN);
    quote.get(payload..).unwrap_or_default()
}

/// Puts an error into the queue of a datagram socket; whether there was room.
fn note_error(socket: &mut Socket, error: DatagramError, payload: &[u8]) -> bool {
    match &mut socket.kind {
        Kind::Datagrams { errors, .. } if errors.len() < MOST_ERRORS => {
            errors.push_back((error, payload.to_vec()));
            true
        }
        _ => false,
    }
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
