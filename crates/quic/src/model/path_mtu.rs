//! The size of a modelled flow's packets, where it searches for it (RFC 9000 §14.3): the discovery
//! is that of [`narrows_pmtud`].

use narrows_pmtud::{Discovery, Probe, Reports, Search, Settings, State, Timers};
use narrows_units::{Duration, Instant};

use super::frame::Ack;

/// UDP payload that a QUIC path must carry (RFC 9000 §14), which the handshake has shown.
const BASE: u16 = 1_200;

/// One end's discovery.
#[derive(Clone, Debug)]
pub(super) struct PathMtu {
    discovery: Discovery,
    /// Probes on their way: the number of the packet, and the discovery's own.
    probes: Vec<(u32, u64)>,
}

impl PathMtu {
    /// A discovery up to what a link of `mtu` bytes carries. Acknowledgements of data confirm what
    /// is found, and ICMP is ignored, as by the stacks of QUIC.
    pub fn new(search: Search, ipv4: bool, mtu: u32) -> Self {
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let of = match ipv4 {
            true => Settings::ipv4(mtu),
            false => Settings::ipv6(mtu),
        };
        let settings = Settings {
            min: BASE,
            base: BASE,
            max: of.max.max(BASE),
            timers: Timers {
                confirmation: None,
                ..Timers::ADAPTIVE
            },
            reports: Reports::Ignored,
            ..of
        };
        Self {
            discovery: Discovery::new(settings, search),
            probes: Vec::new(),
        }
    }

    /// The UDP payload of a full packet.
    pub fn size(&self) -> u32 {
        u32::from(self.discovery.plpmtu().max(BASE))
    }

    /// A round trip was measured: probes that are lost are known to be so by these.
    pub fn measured(&mut self, rtt: Duration) {
        self.discovery.round_trip_measured(rtt);
    }

    /// This end has data to send on a path that carries packets of the base, and knows a round
    /// trip.
    pub fn begin(&mut self, now: Instant) {
        if self.discovery.state() == State::Disabled {
            self.discovery.connected_at_base(now);
        }
    }

    /// The probe to send now, if one is due.
    pub fn poll(&mut self, now: Instant) -> Option<Probe> {
        self.discovery.poll_probe(now)
    }

    /// A probe has left as packet `number`.
    pub fn sent(&mut self, number: u32, probe: Probe) {
        /// More are never on their way at once: a burst of seven, and what came late before it.
        const MOST: usize = 64;
        if self.probes.len() == MOST {
            self.probes.remove(0);
        }
        self.probes.push((number, probe.number));
    }

    /// An acknowledgement arrives.
    pub fn acked(&mut self, now: Instant, ack: &Ack) {
        let discovery = &mut self.discovery;
        self.probes.retain(|(number, probe)| {
            let arrived = ack.has(*number);
            if arrived {
                discovery.acknowledged(now, *probe);
            }
            !arrived
        });
    }

    /// A packet of data with a payload of `size` bytes arrived, or was lost: in the order of sending.
    pub fn data(&mut self, size: u16, arrived: bool) {
        match arrived {
            true => self.discovery.data_arrived(size),
            false => self.discovery.data_lost(size),
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called.
    pub fn timeout(&self) -> Option<Instant> {
        self.discovery.timeout()
    }

    /// A timer may have expired.
    pub fn on_timeout(&mut self, now: Instant) {
        self.discovery.on_timeout(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_kept_until_it_is_acknowledged_and_never_more_than_a_few() {
        let mut mtu = PathMtu::new(Search::Adaptive, true, 1_500);
        mtu.measured(Duration::from_millis(20));
        mtu.begin(Instant::ZERO);
        let probe = mtu.poll(Instant::ZERO).expect("the first size");
        mtu.sent(7, probe);
        let ack = |largest| Ack {
            largest,
            ranges: Default::default(),
            held: Duration::ZERO,
        };
        mtu.acked(Instant::ZERO, &ack(6));
        assert_eq!(mtu.probes.len(), 1);
        mtu.acked(Instant::ZERO, &ack(7));
        assert_eq!(mtu.probes.len(), 0);
        assert_eq!(mtu.size(), u32::from(probe.size), "the largest first");
        for number in 0..1_000 {
            mtu.sent(number, probe);
        }
        assert_eq!(mtu.probes.len(), 64);
        assert_eq!(mtu.probes[63].0, 999, "the oldest go");
    }
}
