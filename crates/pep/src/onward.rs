//! From a request to a connection onward: directly or by another proxy, to an address or to a
//! name's.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use narrows_core::{ConnectionError, Data, SocketError, SocketEvent, SocketId, Sockets};
use narrows_units::{Duration, Instant};
use tracing::{info, warn};

use crate::config::Parent;
use crate::convert::{Fault, Reader, Tlv};
use crate::proxy::Proxy;
use crate::proxy_header::header;
use crate::request::{Asked, Layout, request, supported};
use crate::socks;
use crate::tunnel::{Leg, Stage};

/// How long a proxy whose host did not answer is not asked again (our choice: as long as one
/// that has too much to do asks for, RFC 8803 §4.2.8).
const LEFT_ALONE: Duration = Duration::from_secs(30);

/// A request to a parent proxy that is not answered yet.
#[derive(Debug)]
pub(crate) struct ParentRequest {
    parent: Parent,
    answer: Reader,
    /// Whether the connection to it is established: from then on it may be the destination that is
    /// slow.
    established: bool,
}

/// What is known of other proxies.
#[derive(Debug, Default)]
pub(crate) struct Parents {
    /// Until when those that did not answer are left alone.
    missing: BTreeMap<SocketAddr, Instant>,
    /// The cookies that they want to see.
    cookies: BTreeMap<SocketAddr, Vec<u8>>,
}

impl Parents {
    /// Whether `cookie` is the one that `proxy` wants to see, as far as is known.
    fn have(&self, proxy: SocketAddr, cookie: &[u8]) -> bool {
        let known = self.cookies.get(&proxy);
        known.is_some_and(|known| known == cookie)
    }
}

/// What becomes of a connection that another proxy was asked for.
enum Answer {
    Granted,
    /// It wants this cookie.
    Cookie(Vec<u8>),
    Refused(Fault),
}

impl Proxy {
    /// Does what the client asked for.
    pub(crate) fn grant(&mut self, host: &mut dyn Sockets, id: u64, asked: Asked) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let terms = &tunnel.listener.terms;
        let (destination, layout) = match asked {
            Asked::Connect {
                destination,
                layout,
            } => (destination, layout),
            Asked::ConnectByName { name, port } => {
                tunnel.stage = Stage::Naming(port);
                return self.ask_for_name(host, id, name);
            }
            Asked::Info => {
                let answer = supported(terms.fast_open);
                return self.answer_last(host, id, &answer.encode().unwrap_or_default());
            }
            Asked::Greeting(_) => return self.answer_last(host, id, &socks::NO_METHOD),
        };
        tunnel.stage = Stage::Connecting(layout);
        tunnel.destination = Some(destination);
        let onward = canonical(destination);
        if !terms.policy.leads_to(onward, host.is_own(onward.ip())) {
            return self.refuse(host, id, Some(Fault::NotAuthorized));
        }
        self.go_onward(host, id, onward);
    }

    /// Connects to a destination that is allowed, by the way that is configured.
    fn go_onward(&mut self, host: &mut dyn Sockets, id: u64, onward: SocketAddr) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let announced = tunnel.listener.terms.announce;
        let announced = announced.map(|version| header(version, tunnel.client, onward));
        tunnel.preface = announced.unwrap_or_default();
        match tunnel.listener.parent {
            Some(parent) => self.ask_parent(host, id, onward, parent),
            None => self.connect(host, id, onward),
        }
    }

    /// The name with that number has these addresses; none, if they could not be found. Each is
    /// held against the policy, and what is allowed of them is what is connected to: nobody is
    /// asked for the name again.
    pub fn resolved(&mut self, host: &mut dyn Sockets, id: u64, addresses: &[IpAddr]) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let Stage::Naming(port) = tunnel.stage else {
            return;
        };
        let policy = &tunnel.listener.terms.policy;
        let all = addresses.iter().map(|ip| canonical((*ip, port).into()));
        let mut allowed: Vec<_> = all
            .filter(|to| policy.leads_to(*to, host.is_own(to.ip())))
            .collect();
        tunnel.stage = Stage::Connecting(Layout::Socks);
        // The last is taken first.
        allowed.reverse();
        tunnel.fallback_addresses = allowed;
        let fault = match addresses {
            // ICMP's code for an unreachable host (RFC 792).
            [] => Fault::DestinationUnreachable { icmp_code: 1 },
            _ => Fault::NotAuthorized,
        };
        self.not_opened(host, id, fault);
        self.settle(host);
    }

    /// The destination cannot be connected to: tries the next address of its name, if there is
    /// another and nothing was sent to the one before. All of them together have the time of
    /// one.
    pub(crate) fn not_opened(&mut self, host: &mut dyn Sockets, id: u64, fault: Fault) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let untouched = tunnel.up.bytes == tunnel.up.queue.len();
        match tunnel.fallback_addresses.pop().filter(|_| untouched) {
            Some(next) => {
                tunnel.destination = Some(next);
                self.again(host, id, |proxy, host, to| proxy.go_onward(host, id, to));
            }
            None => self.refuse(host, id, Some(fault)),
        }
    }

    /// Connects to the destination itself.
    fn connect(&mut self, host: &mut dyn Sockets, id: u64, destination: SocketAddr) {
        match self.open_far(host, id, destination) {
            Ok(()) => {
                let tries = self
                    .tunnels
                    .get(&id)
                    .map_or(0, |t| t.fallback_addresses.len()) as u64
                    + 1;
                self.set_deadline(id, host.now() + self.limits.connect / tries);
                // What came with the request may go with the SYN; but not where only the
                // request to another proxy was to.
                let early = self.tunnels.get(&id).is_some_and(|tunnel| {
                    tunnel.listener.parent.is_none() || tunnel.listener.terms.fast_open
                });
                if early {
                    self.relay(host, id, Leg::Near);
                }
            }
            Err(error) => self.not_opened(host, id, fault(&error)),
        }
    }

    /// Opens the far leg.
    fn open_far(
        &mut self,
        host: &mut dyn Sockets,
        id: u64,
        to: SocketAddr,
    ) -> Result<(), SocketError> {
        let tunnel = self.tunnels.get_mut(&id).ok_or(SocketError::Closed)?;
        let listener = &tunnel.listener;
        let from = if listener.terms.keep_source {
            Some(SocketAddr::new(tunnel.client.ip().to_canonical(), 0))
        } else {
            listener.onward_from
        };
        let far = host.connect(listener.far, from, to)?;
        tunnel.far = Some(far);
        self.legs.insert(far, (id, Leg::Far));
        Ok(())
    }

    /// Gives the far leg up.
    pub(crate) fn close_far(&mut self, host: &mut dyn Sockets, id: u64) {
        let far = self.tunnels.get_mut(&id).and_then(|t| t.far.take());
        if let Some(far) = far {
            self.legs.remove(&far);
            host.reset(far);
            host.close(far);
        }
    }

    /// Asks another proxy for the connection, unless it did not answer a while ago.
    fn ask_parent(
        &mut self,
        host: &mut dyn Sockets,
        id: u64,
        destination: SocketAddr,
        parent: Parent,
    ) {
        let (now, proxy) = (host.now(), parent.proxy);
        let left_alone = |until: &Instant| *until > now;
        let left_alone = self
            .shared
            .parents()
            .missing
            .get(&proxy)
            .is_some_and(left_alone);
        if left_alone && parent.or_directly {
            self.count_direct(id);
            return self.connect(host, id, destination);
        }
        let cookie = self.shared.parents().cookies.get(&proxy).cloned();
        let asks = request(Layout::Convert, destination, cookie.as_deref());
        let opened = self.open_far(host, id, proxy);
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        tunnel.parent_request = Some(ParentRequest {
            parent,
            answer: Reader::default(),
            established: false,
        });
        match (opened, tunnel.far, asks) {
            (Ok(()), Some(far), Some(asks)) => {
                tunnel.request_tail = asks;
                self.set_deadline(id, now + parent.patience);
                self.ask(host, id, far);
            }
            _ => self.without_parent(host, id, ConnectionError::Reset),
        }
    }

    /// Handles an event of the connection to another proxy, until that has answered.
    pub(crate) fn on_parent_event(
        &mut self,
        host: &mut dyn Sockets,
        id: u64,
        far: SocketId,
        event: SocketEvent,
    ) {
        match event {
            SocketEvent::Established { .. } => self.parent_established(host, id),
            SocketEvent::Writable => self.ask(host, id, far),
            SocketEvent::Readable | SocketEvent::PeerClosed => self.read_answer(host, id),
            _ => {}
        }
    }

    /// The other proxy's host has answered. Where connections may go directly, what it connects to
    /// has as long again; elsewhere as long as any destination has.
    fn parent_established(&mut self, host: &mut dyn Sockets, id: u64) {
        let tunnel = self.tunnels.get_mut(&id);
        if let Some(pending) = tunnel.and_then(|t| t.parent_request.as_mut()) {
            pending.established = true;
            let Parent {
                proxy,
                patience,
                or_directly,
            } = pending.parent;
            self.shared.parents().missing.remove(&proxy);
            let longest = if or_directly {
                patience
            } else {
                patience.max(self.limits.connect)
            };
            self.set_deadline(id, host.now() + longest);
        }
    }

    fn count_direct(&mut self, id: u64) {
        if let Some(book) = self.tunnels.get(&id).map(|t| t.book) {
            self.count(book).direct += 1;
        }
    }

    /// Writes the request to the other proxy, as far as it is not written yet.
    fn ask(&mut self, host: &mut dyn Sockets, id: u64, far: SocketId) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            let written = host.write(far, Data::Bytes(&tunnel.request_tail)) as usize;
            tunnel.request_tail.drain(..written);
            host.want_room(far, !tunnel.request_tail.is_empty());
        }
    }

    /// Reads the other proxy's answer, as far as it is here.
    fn read_answer(&mut self, host: &mut dyn Sockets, id: u64) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let (Some(pending), Some(far)) = (&mut tunnel.parent_request, tunnel.far) else {
            return;
        };
        let answer = loop {
            let mut bytes = Vec::new();
            let wanted = pending.answer.wanted() as u64;
            if host.read(far, wanted, Some(&mut bytes)) == 0 {
                // One that ends its stream without an answer is none.
                if tunnel.down.peer_closed {
                    self.without_parent(host, id, ConnectionError::Reset);
                }
                return;
            }
            match pending.answer.take(&bytes) {
                Ok(None) => {}
                Ok(Some((message, _))) => {
                    let fault = message.tlvs.into_iter().find_map(|tlv| match tlv {
                        Tlv::Error(fault) => Some(fault),
                        _ => None,
                    });
                    break match fault {
                        None => Answer::Granted,
                        Some(Fault::MissingCookie(cookie)) => Answer::Cookie(cookie),
                        Some(fault) => Answer::Refused(fault),
                    };
                }
                Err(_) => return self.without_parent(host, id, ConnectionError::Reset),
            }
        };
        let parent = pending.parent;
        match answer {
            Answer::Granted => {
                tunnel.parent_request = None;
                self.open(host, id);
            }
            Answer::Cookie(cookie) if !self.shared.parents().have(parent.proxy, &cookie) => {
                self.shared.parents().cookies.insert(parent.proxy, cookie);
                self.again(host, id, |proxy, host, to| {
                    proxy.ask_parent(host, id, to, parent)
                });
            }
            Answer::Cookie(cookie) => {
                self.refused_by_parent(host, id, parent, Fault::MissingCookie(cookie));
            }
            Answer::Refused(fault) => self.refused_by_parent(host, id, parent, fault),
        }
    }

    fn refused_by_parent(&mut self, host: &mut dyn Sockets, id: u64, parent: Parent, fault: Fault) {
        let book = self.tunnels.get(&id).map_or(0, |t| t.book);
        if self.logs(host.now(), book) {
            info!(proxy = %parent.proxy, why = %fault, "the other proxy refuses");
        }
        self.instead_of_parent(host, id, parent, fault);
    }

    /// The other proxy has not answered. Its host is left alone where that is missing; a host that
    /// is there says by itself, and at once, that nobody listens, and what takes long beyond it is
    /// not its fault.
    pub(crate) fn without_parent(&mut self, host: &mut dyn Sockets, id: u64, why: ConnectionError) {
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        let (book, Some(pending)) = (tunnel.book, &tunnel.parent_request) else {
            return;
        };
        let (parent, established) = (pending.parent, pending.established);
        if why == ConnectionError::TimedOut && established {
            self.count(book).connect_timeouts += 1;
        } else {
            if self.logs(host.now(), book) {
                warn!(proxy = %parent.proxy, %why, "the other proxy does not answer");
            }
            if why == ConnectionError::TimedOut {
                let until = host.now() + LEFT_ALONE;
                self.shared.parents().missing.insert(parent.proxy, until);
            }
        }
        self.instead_of_parent(host, id, parent, Fault::NetworkFailure { retry_s: 0 });
    }

    /// Goes directly if it may, and refuses otherwise.
    fn instead_of_parent(&mut self, host: &mut dyn Sockets, id: u64, parent: Parent, fault: Fault) {
        if parent.or_directly {
            self.count_direct(id);
            self.again(host, id, |proxy, host, to| proxy.connect(host, id, to));
        } else {
            self.refuse(host, id, Some(fault));
        }
    }

    /// Gives up what was asked of another proxy, and tries what `next` does.
    fn again(
        &mut self,
        host: &mut dyn Sockets,
        id: u64,
        next: impl FnOnce(&mut Self, &mut dyn Sockets, SocketAddr),
    ) {
        self.close_far(host, id);
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        tunnel.parent_request = None;
        tunnel.request_tail.clear();
        // Its end was that of the leg which is no more.
        tunnel.down.peer_closed = false;
        let destination = tunnel.destination;
        if let Some(destination) = destination {
            next(self, host, canonical(destination));
        }
    }
}

/// Of the one address that IPv4 in IPv6 is, all ask alike.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The fault that a client receives where its destination cannot be connected to.
fn fault(error: &SocketError) -> Fault {
    /// `EPERM`, `EACCES`: a rule of the machine forbids it.
    const FORBIDDEN: [i32; 2] = [1, 13];
    /// `ENOMEM`, `ENFILE`, `EMFILE`, `ENOBUFS`.
    const EXHAUSTED: [i32; 4] = [12, 23, 24, 105];
    match error {
        // ICMP's code for an unreachable network (RFC 792).
        SocketError::Unreachable(_) => Fault::DestinationUnreachable { icmp_code: 0 },
        SocketError::NoPort | SocketError::AddressInUse(_) => {
            Fault::ResourceExceeded { retry_s: 0 }
        }
        SocketError::System(errno) if EXHAUSTED.contains(errno) => {
            Fault::ResourceExceeded { retry_s: 0 }
        }
        SocketError::System(errno) if FORBIDDEN.contains(errno) => Fault::NotAuthorized,
        _ => Fault::NetworkFailure { retry_s: 0 },
    }
}
