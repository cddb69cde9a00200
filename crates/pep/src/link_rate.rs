//! The rate of a link that somebody knows, shared among the connections that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use narrows_core::{SocketId, Sockets};
use narrows_units::{Duration, Instant, Rate};

use crate::hints::{RATE_OPTION, is_busy};
use crate::proxy::Proxy;
use crate::tunnel::{Leg, Stage};

/// How often parts are worked out anew (our choice: a few round trips, so that a transfer of a
/// second gains by them).
const EVERY: Duration = Duration::from_millis(250);

/// How long a tunnel without an event is taken to use its link still (our choice: longer
/// than a round trip by a geostationary satellite).
const STALE: Duration = Duration::from_secs(1);

/// The rate of a link, which every connection that uses it has an equal part of: of all the
/// proxies of a process that have this one, whatever their threads.
#[derive(Debug)]
pub struct LinkRate {
    /// Bytes/s.
    rate: AtomicU64,
    /// Connections that fill their windows, of all proxies.
    busy: AtomicUsize,
}

impl LinkRate {
    /// A link of `rate`, headers of IP and TCP included.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate: AtomicU64::new(rate.as_bytes()),
            busy: AtomicUsize::new(0),
        }
    }

    /// The link carries `rate` from now on.
    pub fn set(&self, rate: Rate) {
        self.rate.store(rate.as_bytes(), Ordering::Relaxed);
    }

    /// The part of each connection, in bytes/s, when a proxy that had `before` busy ones
    /// has `now`. Never 0, which would be no rate.
    fn part(&self, before: usize, now: usize) -> u64 {
        // Proxies add and take back what is their own, so that the sum is never below 0.
        let others = self.busy.fetch_add(now, Ordering::Relaxed) - before;
        self.busy.fetch_sub(before, Ordering::Relaxed);
        let all = (others + now).max(1) as u64;
        (self.rate.load(Ordering::Relaxed) / all).max(1)
    }
}

/// What a proxy has counted for a link.
#[derive(Debug)]
struct Count {
    link: Arc<LinkRate>,
    /// Its connections that fill their windows, by their tunnels.
    busy: Vec<(u64, Leg, SocketId)>,
    /// How many they were before.
    before: usize,
}

/// When parts are worked out next, and the counts of last time.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    next: Option<Instant>,
    counts: Vec<Count>,
}

impl Proxy {
    /// When parts are worked out next, if there are links with rates and somebody to have them.
    pub(crate) fn next_parts(&mut self, now: Instant) -> Option<Instant> {
        let mut links = self
            .listeners
            .iter()
            .flat_map(|l| [&l.near_rate, &l.far_rate]);
        let nobody = self.tunnels.is_empty() || links.all(Option::is_none);
        // Who was counted has to be taken back.
        if nobody && self.parts.counts.is_empty() {
            self.parts.next = None;
        } else {
            self.parts.next.get_or_insert(now + EVERY);
        }
        self.parts.next
    }

    /// Gives each connection that uses a link whose rate is known its part, if it is time.
    pub(crate) fn give_parts(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        if self.parts.next.take_if(|at| *at <= now).is_none() {
            return;
        }
        let mut counts = std::mem::take(&mut self.parts.counts);
        for count in &mut counts {
            count.before = count.busy.len();
            count.busy.clear();
        }
        for (id, tunnel) in &self.tunnels {
            if !matches!(tunnel.stage, Stage::Open) || now.since(tunnel.active) > STALE {
                continue;
            }
            for leg in [Leg::Near, Leg::Far] {
                let Some(link) = tunnel.listener.link_rate(leg) else {
                    continue;
                };
                let Some(socket) = tunnel.socket(leg).filter(|s| is_busy(host, *s)) else {
                    continue;
                };
                let known = counts.iter().position(|c| Arc::ptr_eq(&c.link, link));
                let at = known.unwrap_or_else(|| {
                    counts.push(Count {
                        link: Arc::clone(link),
                        busy: Vec::new(),
                        before: 0,
                    });
                    counts.len() - 1
                });
                counts[at].busy.push((*id, leg, socket));
            }
        }
        for count in &counts {
            let part = count.link.part(count.before, count.busy.len());
            for (id, leg, socket) in &count.busy {
                let tunnel = self.tunnels.get_mut(id);
                let given = tunnel.map(|t| std::mem::replace(&mut t.given[*leg as usize], part));
                if given != Some(part) {
                    // One that has broken meanwhile is given nothing, nor is one that came
                    // when its listener had another control.
                    let _ = host.set_option(*socket, RATE_OPTION, part);
                }
            }
        }
        counts.retain(|count| !count.busy.is_empty());
        self.parts.counts = counts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_all_proxies_connections() {
        let link = LinkRate::new(Rate::from_mbit(80));
        // Two proxies: one has a connection, then the other two.
        assert_eq!(link.part(0, 1), 10_000_000);
        assert_eq!(link.part(0, 2), 3_333_333);
        assert_eq!(link.part(1, 1), 3_333_333);
        assert_eq!(link.part(2, 0), 10_000_000);
        link.set(Rate::from_mbit(8));
        assert_eq!(link.part(1, 1), 1_000_000);
        assert_eq!(link.part(1, 0), 1_000_000, "nobody has it");
        assert_eq!(LinkRate::new(Rate::from_bits(1)).part(0, 1), 1);
    }
}
