//! Paths drawn from rates that were measured in the field, and searches over them.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant, Rng};

use crate::discovery::{Discovery, State};
use crate::report::Report;
use crate::search::Search;
use crate::settings::Settings;

/// A path: what it carries, and what it does to datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub largest: u16,
    /// Whether packet-too-big reports arrive.
    reports: bool,
    /// Of a million datagrams, lost one way.
    loss: u32,
    rtt: Duration,
}

/// MTUs below Ethernet's that tunnels and access lines have: PPPoE, IP in IP, GRE, VXLAN,
/// WireGuard, VPNs.
const USUAL: [u16; 6] = [1_492, 1_480, 1_476, 1_450, 1_420, 1_400];

/// Smaller ones, to which edge networks and servers are set (TMA'18).
const SMALL: [u16; 4] = [1_280, 1_340, 1_360, 1_380];

impl Path {
    /// Of 100 paths 11 carry at most 1380 bytes (IMC'10), and 25 less than 1500 (TMA'18: more than
    /// a fifth of edge networks clamp). A quarter of either has an MTU that is not usual (ours). Of
    /// 100, reports are filtered on 10 (4 to 6 by RIPE Atlas 2012, 5 to 18 by IMC'10). No rate of
    /// random loss is published with them: six in ten have none, three up to 1 %, one up to 5 %
    /// (ours); round trips are 5 to 300 ms, their logarithm drawn evenly (ours).
    pub fn draw(rng: &mut Rng) -> Self {
        let odd = rng.below(4) == 0;
        let mtu = match rng.below(100) {
            0..11 if odd => 1_229 + rng.below(152) as u16,
            0..11 => SMALL[rng.below(4) as usize],
            11..25 if odd => 1_381 + rng.below(119) as u16,
            11..25 => USUAL[rng.below(6) as usize],
            _ => 1_500,
        };
        let loss = match rng.below(10) {
            0..6 => 0,
            6..9 => 1_000 + rng.below(9_000),
            _ => 10_000 + rng.below(40_000),
        };
        let rtt = Duration::from_micros((5_000.0 * libm::pow(60.0, rng.unit())) as u64);
        Self {
            largest: mtu - 28,
            reports: rng.below(100) >= 10,
            loss,
            rtt,
        }
    }

    fn loses(self, rng: &mut Rng) -> bool {
        rng.below(1_000_000) < self.loss
    }
}

/// What a search came to on a path.
pub(super) struct Ran {
    pub found: u16,
    pub time: Duration,
    pub probes: u64,
    pub bytes: u64,
}

/// Has `search` find what `path` carries.
pub(super) fn run(search: Search, path: Path, rng: &mut Rng) -> Ran {
    let mut discovery = Discovery::new(Settings::ipv4(1_500), search);
    let mut now = Instant::ZERO;
    // When, which probe, and of a report the MTU that it names.
    let mut coming: VecDeque<(Instant, u64, Option<u32>)> = VecDeque::new();
    // After a handshake, padded to the base, which has measured a round trip.
    discovery.round_trip_measured(path.rtt);
    discovery.connected_at_base(now);
    while discovery.state() != State::SearchComplete {
        while let Some(probe) = discovery.poll_probe(now) {
            let fits = probe.size <= path.largest;
            let lost = path.loses(rng) || path.loses(rng);
            if !lost && (fits || path.reports) {
                let mtu = (!fits).then_some(u32::from(path.largest) + 28);
                coming.push_back((now + path.rtt, probe.number, mtu));
            }
        }
        let next = coming
            .front()
            .map(|c| c.0)
            .into_iter()
            .chain(discovery.timeout());
        now = next.min().expect("something is next");
        if coming.front().is_some_and(|c| c.0 <= now) {
            match coming.pop_front().expect("one") {
                (_, number, None) => {
                    discovery.acknowledged(now, number);
                }
                (_, number, Some(mtu)) => {
                    let quotes = Some(number);
                    discovery.reported(now, Report { mtu, quotes });
                }
            }
        } else {
            discovery.on_timeout(now);
        }
    }
    let (found, time, counts) = (
        discovery.plpmtu(),
        now.since(Instant::ZERO),
        discovery.counts(),
    );
    Ran {
        found,
        time,
        probes: counts.probes,
        bytes: counts.bytes,
    }
}
