//! How tunnels end: by either end, by time, and what they give back.

use narrows_core::{ConnectionError, Sockets};
use narrows_units::{Duration, Instant};
use tracing::debug;

use crate::convert::Fault;
use crate::proxy::Proxy;
use crate::tunnel::{Leg, Stage, Tunnel};

impl Proxy {
    /// One end of a tunnel is gone.
    pub(crate) fn break_off(
        &mut self,
        host: &mut dyn Sockets,
        id: u64,
        leg: Leg,
        why: ConnectionError,
    ) {
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        let words = match (leg, why) {
            (Leg::Near, ConnectionError::Reset) => "reset by the client",
            (Leg::Near, ConnectionError::TimedOut) => "the client is gone",
            (Leg::Far, ConnectionError::Reset) => "reset by the destination",
            (Leg::Far, ConnectionError::TimedOut) => "the destination is gone",
        };
        match (&tunnel.stage, leg) {
            (Stage::Connecting(_), Leg::Far) if tunnel.parent_request.is_some() => {
                self.without_parent(host, id, why);
            }
            (Stage::Connecting(_), Leg::Far) => {
                let fault = match why {
                    ConnectionError::Reset => Fault::ConnectionReset,
                    ConnectionError::TimedOut => Fault::NetworkFailure { retry_s: 0 },
                };
                self.not_opened(host, id, fault);
            }
            (Stage::Header(_) | Stage::Request(_) | Stage::Naming(_) | Stage::Refused, _) => {
                self.forget(host, id, words);
            }
            (Stage::Connecting(_) | Stage::Open, _) => {
                let book = tunnel.book;
                self.count(book).broken += 1;
                self.reset(host, id, words);
            }
        }
    }

    /// Gives both ends up at once.
    pub(crate) fn reset(&mut self, host: &mut dyn Sockets, id: u64, why: &'static str) {
        if let Some(tunnel) = self.tunnels.get(&id) {
            for socket in [Some(tunnel.near), tunnel.far].into_iter().flatten() {
                host.reset(socket);
            }
        }
        self.forget(host, id, why);
    }

    /// What waits in a tunnel is thrown away.
    pub(crate) fn release(&mut self, id: u64) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            let backlog = tunnel.backlog();
            self.budget.give(&tunnel.account, backlog);
            tunnel.up.queue = Default::default();
            tunnel.down.queue = Default::default();
        }
    }

    /// The tunnel is over.
    pub(crate) fn forget(&mut self, host: &mut dyn Sockets, id: u64, why: &'static str) {
        self.release(id);
        let Some(tunnel) = self.tunnels.remove(&id) else {
            return;
        };
        self.shared.leave(&tunnel.account);
        if matches!(tunnel.stage, Stage::Naming(_)) {
            self.unwanted.push(id);
        }
        let now = host.now();
        if let Some(opened) = tunnel.opened {
            let lasted = now.since(opened).as_millis();
            self.books[tunnel.book].1.lasting.note(lasted);
        }
        debug!(
            client = %tunnel.client,
            listener = %tunnel.listener.local,
            destination = tunnel.destination.map(tracing::field::display),
            lasted_ms = now.since(tunnel.since).as_millis(),
            bytes_up = tunnel.up.bytes,
            bytes_down = tunnel.down.bytes,
            why,
            "over"
        );
        self.deadlines.remove(&(tunnel.deadline, id));
        for socket in [Some(tunnel.near), tunnel.far].into_iter().flatten() {
            self.legs.remove(&socket);
            host.close(socket);
        }
    }

    pub(crate) fn set_deadline(&mut self, id: u64, at: Instant) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            self.deadlines.remove(&(tunnel.deadline, id));
            tunnel.deadline = at;
            self.deadlines.insert((at, id));
        }
    }

    /// The time of tunnel `id` is over.
    pub(crate) fn expire(&mut self, host: &mut dyn Sockets, id: u64) {
        let now = host.now();
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        let (book, quiet_until) = (tunnel.book, tunnel.active + self.limits.idle);
        match tunnel.stage {
            Stage::Header(_) | Stage::Request(_) => {
                self.count(book).request_timeouts += 1;
                self.reset(host, id, "no request in time");
            }
            Stage::Connecting(_) if tunnel.parent_request.is_some() => {
                self.without_parent(host, id, ConnectionError::TimedOut);
            }
            Stage::Connecting(_) => {
                self.count(book).connect_timeouts += 1;
                self.not_opened(host, id, Fault::NetworkFailure { retry_s: 0 });
            }
            Stage::Naming(_) => {
                self.count(book).name_timeouts += 1;
                self.unwanted.push(id);
                self.resolved(host, id, &[]);
            }
            Stage::Open if quiet_until > now => {
                let next = match tunnel.is_suspect() {
                    true => probe(host, tunnel, self.limits.probe),
                    false => quiet_until,
                };
                self.set_deadline(id, next.min(quiet_until));
            }
            Stage::Open => {
                self.count(book).idle_timeouts += 1;
                self.reset(host, id, "nothing moved in time");
            }
            Stage::Refused => self.reset(host, id, "answered, and stayed"),
        }
    }
}

/// Has the ends of `tunnel` probed if nothing has moved in it for `every`; when that is due again.
fn probe(host: &mut dyn Sockets, tunnel: &Tunnel, every: Duration) -> Instant {
    let (now, due) = (host.now(), tunnel.active + every);
    if due > now {
        return due;
    }
    for socket in [Some(tunnel.near), tunnel.far].into_iter().flatten() {
        host.probe(socket, every);
    }
    now + every
}
