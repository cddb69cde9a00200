//! The rates of links beside a proxy that it is given, and gives on to those connections
//! that use it.

use std::collections::VecDeque;

use narrows_core::{SocketId, Sockets};
use narrows_units::{Instant, Rate};

use crate::proxy::Proxy;
use crate::tunnel::Leg;

/// The option of a congestion control that is given a rate, in bytes/s.
pub const RATE_OPTION: &str = "rate";

/// The rates that the links beside a proxy have, each from its time on; times rise.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// Towards clients.
    pub near: Vec<(Instant, Rate)>,
    /// Towards destinations.
    pub far: Vec<(Instant, Rate)>,
}

/// Rates that are still to be given, in order of time.
#[derive(Debug, Default)]
pub(crate) struct RatesToGive(VecDeque<(Instant, Leg, Rate)>);

impl RatesToGive {
    fn new(hints: &Hints) -> Self {
        let of = |leg, rates: &[(Instant, Rate)]| {
            let steps = rates.iter().map(move |(at, rate)| (*at, leg, *rate));
            steps.collect::<Vec<_>>()
        };
        let mut all = [of(Leg::Near, &hints.near), of(Leg::Far, &hints.far)].concat();
        all.sort_by_key(|(at, ..)| *at);
        Self(all.into())
    }

    /// When one is given next.
    pub fn next(&self) -> Option<Instant> {
        self.0.front().map(|(at, ..)| *at)
    }

    /// One that is to be given by `now`.
    fn due(&mut self, now: Instant) -> Option<(Leg, Rate)> {
        let is_due = self.next().is_some_and(|at| at <= now);
        let (_, leg, rate) = is_due.then(|| self.0.pop_front())??;
        Some((leg, rate))
    }
}

impl Proxy {
    /// The same, given at these times what the links beside it carry. The controls of the legs
    /// that are given rates have the option [`RATE_OPTION`].
    #[must_use]
    pub fn with_hints(mut self, hints: &Hints) -> Self {
        self.rates_to_give = RatesToGive::new(hints);
        self
    }

    /// Gives the rates that are due.
    pub(crate) fn give_rates(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        while let Some((leg, rate)) = self.rates_to_give.due(now) {
            self.share(host, leg, rate);
        }
    }

    /// Shares `rate` in equal parts among the [busy](is_busy) connections of `leg`.
    fn share(&mut self, host: &mut dyn Sockets, leg: Leg, rate: Rate) {
        let sockets = self.tunnels.values().filter_map(|t| t.socket(leg));
        let mut busy: Vec<SocketId> = sockets.collect();
        busy.retain(|socket| is_busy(host, *socket));
        // Where there is none for a while the smallest: no rate would be no hint.
        let part = (rate.as_bits() / 8 / busy.len().max(1) as u64).max(1);
        for socket in busy {
            // A connection that has broken meanwhile, or is no TCP of ours, is given none.
            let _ = host.set_option(socket, RATE_OPTION, part);
        }
    }
}

/// Whether a connection fills its window by half at least: others ask for less than they have,
/// and what is in use says nothing of the rate that they would need (RFC 7661 section 4.3).
pub(crate) fn is_busy(host: &mut dyn Sockets, socket: SocketId) -> bool {
    let sample = host.sample(socket);
    sample.is_some_and(|s| s.in_flight > 0 && s.in_flight >= s.cwnd / 2)
}
