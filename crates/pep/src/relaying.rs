//! How bytes get from one leg of a tunnel to the other, within the budget.
//!
//! Nobody waits for memory. What the other leg takes at once is passed on whether there is any
//! left or not ([`Sockets::relay`]); memory holds what is read ahead of that, and whoever gets
//! none is not read ahead: its sender finds the window closed until the other leg has room. So
//! whoever reads is served, however much others hold.

use narrows_core::{Data, Sockets};
use narrows_units::Instant;
use tracing::debug;

use crate::proxy::Proxy;
use crate::tunnel::{Leg, Stage};

impl Proxy {
    /// The connection to the destination is open.
    pub(crate) fn open(&mut self, host: &mut dyn Sockets, id: u64) {
        let (idle, now) = (self.limits.idle, host.now());
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        if let Stage::Connecting(layout) = tunnel.stage {
            tunnel.stage = Stage::Open;
            tunnel.active = now;
            tunnel.opened = Some(now);
            let took = now.since(tunnel.since);
            let (_, book) = &mut self.books[tunnel.book];
            book.counters.opened += 1;
            book.opening.note(took.as_millis());
            if let Some(destination) = tunnel.destination {
                debug!(client = %tunnel.client, %destination, "opened");
            }
            if let Some(granted) = layout.answer(None) {
                tunnel.down.queue.append(&granted);
                self.budget.take(&tunnel.account, granted.len() as u64);
            }
            self.set_deadline(id, now + idle);
        }
        self.relay(host, id, Leg::Far);
        self.relay(host, id, Leg::Near);
    }

    /// Relays what comes from `leg` to the other, as far as that takes it and there is room for
    /// more; then passes on its end.
    pub(crate) fn relay(&mut self, host: &mut dyn Sockets, id: u64, leg: Leg) {
        let (limit, probe) = (self.limits.backlog, self.limits.probe);
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        if tunnel.parent_request.is_some() {
            // Nothing is for the destination before another proxy has answered.
            return;
        }
        let (Some(source), Some(sink)) = (tunnel.socket(leg), tunnel.socket(leg.other())) else {
            return;
        };
        if leg == Leg::Near && !tunnel.preface.is_empty() {
            let written = host.write(sink, Data::Bytes(&tunnel.preface));
            tunnel.preface.drain(..written as usize);
            if !tunnel.preface.is_empty() {
                return host.want_room(sink, true);
            }
        }
        let (now, account) = (host.now(), &tunnel.account);
        let counters = &mut self.books[tunnel.book].1.counters;
        let direction = match leg {
            Leg::Near => &mut tunnel.up,
            Leg::Far => &mut tunnel.down,
        };
        let left = loop {
            let held = direction.queue.len();
            let own = limit.saturating_sub(held);
            let room = self.budget.reserve(account, held, own);
            let relayed = host.relay(source, sink, room, &mut direction.queue);
            let written =
                relayed.written + direction.queue.write_with(|data| host.write(sink, data));
            let holds = direction.queue.len();
            self.budget.settle(account, room, held, holds);
            direction.bytes += relayed.read;
            match leg {
                Leg::Near => counters.bytes_up += relayed.read,
                Leg::Far => counters.bytes_down += relayed.read,
            }
            if relayed.read == 0 && written == 0 {
                counters.memory_short += u64::from(relayed.left && room == 0 && own > 0);
                break relayed.left;
            }
            tunnel.active = now;
        };
        direction.waits = left || !direction.queue.is_empty();
        host.want_room(sink, direction.waits);
        let over = direction.peer_closed && !left && direction.queue.is_empty();
        if over && !std::mem::replace(&mut direction.ended, true) {
            tunnel.active = now;
            host.shut_down(sink);
            if tunnel.up.ended && tunnel.down.ended {
                counters.closed += 1;
                return self.forget(host, id, "closed");
            }
        }
        if matches!(tunnel.stage, Stage::Open) && tunnel.is_suspect() {
            let due = tunnel.deadline.min(now + probe);
            if due != tunnel.deadline {
                self.set_deadline(id, due);
            }
        }
    }

    /// After an event: sets the timer to what is due first.
    pub(crate) fn settle(&mut self, host: &mut dyn Sockets) {
        let due = self.deadlines.first().map(|(at, _)| *at);
        let parts = self.next_parts(host.now());
        let times: [Option<Instant>; 3] = [due, self.rates_to_give.next(), parts];
        host.wake_at(times.into_iter().flatten().min());
    }
}
