//! Intervals of loss rates hold the true rate of the path in about 95 of 100
//! seeds, for each signal and each formula of two, under random and burst loss.
//!
//! The path is a model: initiator and responder send a packet each by turns,
//! every packet crosses two segments with the observer between them, and both
//! ends set their bits as RFC 9506 says.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use narrows_observe::{Nothing, Observer, ObserverConfig, Side};
use narrows_units::{Instant, Rng};
use narrows_wire::{IpFields, TcpFields, TcpFlags, ip};

/// Packets of a Q block.
const N: u32 = 64;
/// Turns until a sender knows of a loss, and packets reach the other end.
const DELAY: usize = 40;

/// A simple Gilbert process: losses with this rate, in bursts of this mean.
struct Segment {
    loss: f64,
    burst: f64,
    bad: bool,
}

impl Segment {
    fn new(loss: f64, burst: f64) -> Self {
        Self {
            loss,
            burst,
            bad: false,
        }
    }

    fn loses(&mut self, rng: &mut Rng) -> bool {
        let leave = 1.0 / self.burst;
        let enter = leave * self.loss / (1.0 - self.loss);
        let change = if self.bad { leave } else { enter };
        if rng.unit() < change {
            self.bad = !self.bad;
        }
        self.bad
    }
}

/// One end: what it sends, and what it has seen of the other's Q wave.
#[derive(Default)]
struct End {
    sent: u32,
    unreported: u32,
    // R: the block under way, what is left over from the one before and from this,
    // Q blocks that came meanwhile, the last of all, and whether it is a new one.
    r_value: bool,
    r_sent: u32,
    r_length: u32,
    carry: f64,
    rounded: f64,
    blocks: Vec<u32>,
    last: u32,
    came: bool,
    q_value: Option<bool>,
    q_run: u32,
}

impl End {
    fn receives(&mut self, q: bool) {
        match self.q_value {
            Some(value) if value != q => {
                self.blocks.push(self.q_run);
                self.last = self.q_run;
                self.came = true;
                self.q_run = 1;
            }
            _ => self.q_run += 1,
        }
        self.q_value = Some(q);
    }

    /// Begins an R block as long as the last Q block; what the one before had too
    /// much is made good.
    fn turns(&mut self) {
        let beyond = self.r_sent.saturating_sub(self.r_length);
        self.carry = self.rounded - f64::from(beyond);
        self.r_value = !self.r_value;
        self.r_sent = 0;
        self.blocks.clear();
        self.lasts(f64::from(self.last));
    }

    /// The block is to have this length, and what is left over from before.
    fn lasts(&mut self, mean: f64) {
        let exact = mean + self.carry;
        self.r_length = exact.round().max(1.0) as u32;
        self.rounded = exact - f64::from(self.r_length);
    }

    /// Bits of the next packet: Q, L, R. The length of an R block is the mean of
    /// the Q blocks that came since it began (RFC 9506 section 3.4).
    fn sends(&mut self) -> (bool, bool, bool) {
        let q = self.sent / N % 2 == 1;
        self.sent += 1;
        let l = self.unreported > 0;
        self.unreported -= u32::from(l);
        if std::mem::take(&mut self.came) {
            if self.r_length == 0 {
                self.turns();
            } else {
                let sum = f64::from(self.blocks.iter().sum::<u32>());
                self.lasts(sum / self.blocks.len() as f64);
            }
        }
        if self.r_length == 0 {
            return (q, l, false);
        }
        if self.r_sent >= self.r_length {
            self.turns();
        }
        let r = self.r_value;
        self.r_sent += 1;
        if self.r_sent >= self.r_length {
            self.turns();
        }
        (q, l, r)
    }
}

struct Path {
    observer: Observer,
    id: u64,
}

impl Path {
    fn observe(&mut self, side: Side, flags: u16, number: u32) {
        let ends: [(IpAddr, u16); 2] =
            [([10, 0, 0, 1].into(), 40_000), ([10, 0, 0, 2].into(), 443)];
        let (from, to) = (ends[side.index()], ends[side.other().index()]);
        let ip = IpFields {
            source: from.0,
            destination: to.0,
            traffic_class: 0,
            ttl: 64,
            protocol: ip::TCP,
            ident: 0,
        };
        let tcp = TcpFields {
            source_port: from.1,
            destination_port: to.1,
            seq: number,
            ack: number,
            flags: TcpFlags(flags),
            ..TcpFields::default()
        };
        let mut bytes = Vec::new();
        ip.write(&mut bytes, 120);
        tcp.write(&mut bytes, from.0, to.0, &[], 100);
        self.id += 1;
        let at = Instant::from_nanos(self.id * 100_000);
        self.observer.observe(&bytes, at, self.id, &mut Nothing);
    }
}

/// The intervals of every rate of a flow with these losses: initiator to
/// observer, on to the responder, responder to observer, on to the initiator.
fn run(
    seed: u64,
    code: u16,
    loss: [f64; 4],
    burst: f64,
    turns: u32,
) -> Vec<(String, f64, f64, f64)> {
    let mut rng = Rng::for_name(seed, "coverage");
    let mut segments = loss.map(|l| Segment::new(l, burst));
    let mut ends = [End::default(), End::default()];
    let mut arriving: [VecDeque<Option<bool>>; 2] = Default::default();
    let mut path = Path {
        observer: Observer::new(ObserverConfig::default()),
        id: 0,
    };
    path.observe(Side::Initiator, TcpFlags::SYN | code << 9, 0);
    path.observe(
        Side::Responder,
        TcpFlags::SYN | TcpFlags::ACK | code << 9,
        0,
    );
    for turn in 1..=turns {
        for side in Side::BOTH {
            // Acknowledgements are half as many as data: an R block that spans no
            // Q block would repeat the last one, and short ones do so more.
            if code == 7 && side == Side::Responder && turn % 2 == 1 {
                continue;
            }
            let (own, other) = (side.index(), side.other().index());
            let (q, l, r) = ends[own].sends();
            let third = if code == 6 { l } else { r };
            let before = segments[2 * own].loses(&mut rng);
            if !before {
                let bits = u16::from(third) << 11 | u16::from(q) << 10;
                path.observe(side, TcpFlags::ACK | bits, turn * 100);
            }
            let after = segments[2 * own + 1].loses(&mut rng);
            arriving[own].push_back((!before && !after).then_some(q));
            if arriving[own].len() > DELAY {
                match arriving[own].pop_front().flatten() {
                    Some(q) => ends[other].receives(q),
                    None => ends[own].unreported += 1,
                }
            }
        }
    }
    let flow = path.observer.flows().next().unwrap();
    let estimates = Observer::estimates(flow);
    let rates = estimates
        .iter()
        .filter(|e| e.unit == narrows_observe::Unit::Ratio);
    rates
        .map(|e| {
            let name = format!("{} {}", e.technique.name(), e.quantity.name());
            let interval = e.interval.unwrap();
            (name, e.value, interval.low, interval.high)
        })
        .collect()
}

fn both(a: f64, b: f64) -> f64 {
    1.0 - (1.0 - a) * (1.0 - b)
}

/// What each rate truly is.
fn truths([ao, ob, bo, oa]: [f64; 4]) -> BTreeMap<&'static str, f64> {
    BTreeMap::from([
        ("q upstream_loss_initiator", ao),
        ("q upstream_loss_responder", bo),
        ("l end_to_end_loss_initiator", both(ao, ob)),
        ("l end_to_end_loss_responder", both(bo, oa)),
        ("q+l downstream_loss_initiator", ob),
        ("q+l downstream_loss_responder", oa),
        ("r three_quarter_loss_initiator", both(both(bo, oa), ao)),
        ("r three_quarter_loss_responder", both(both(ao, ob), bo)),
        ("q+r end_to_end_loss_initiator", both(ao, ob)),
        ("q+r end_to_end_loss_responder", both(bo, oa)),
        ("q+r half_round_trip_loss_initiator", both(ob, bo)),
        ("q+r half_round_trip_loss_responder", both(oa, ao)),
        ("q+r downstream_loss_initiator", ob),
        ("q+r downstream_loss_responder", oa),
    ])
}

fn check(code: u16, loss: [f64; 4], burst: f64, turns: u32, rates: usize) {
    let truths = truths(loss);
    let mut covered: BTreeMap<String, (u32, f64)> = BTreeMap::new();
    for seed in 0..200 {
        for (name, value, low, high) in run(seed, code, loss, burst, turns) {
            let truth = truths[name.as_str()];
            let (n, sum) = covered.entry(name).or_default();
            *n += u32::from(low <= truth && truth <= high);
            *sum += value;
        }
    }
    // Of R, what the slower side reflects.
    let slower = [
        "r three_quarter_loss_responder",
        "q+r end_to_end_loss_initiator",
        "q+r half_round_trip_loss_initiator",
        "q+r downstream_loss_initiator",
    ];
    covered.retain(|name, _| code != 7 || slower.contains(&name.as_str()));
    assert_eq!(covered.len(), rates);
    for (name, (n, sum)) in &covered {
        let (truth, mean) = (truths[name.as_str()], sum / 200.0);
        assert!((180..=198).contains(n), "{name}: {n} of 200");
        assert!(
            (mean - truth).abs() < 0.05 * truth,
            "{name}: {mean} for {truth}"
        );
    }
}

#[test]
fn q_and_l_cover_random_loss() {
    check(6, [0.01, 0.005, 0.004, 0.01], 1.02, 20_000, 6);
}

#[test]
fn q_and_l_cover_burst_loss() {
    check(6, [0.01, 0.01, 0.01, 0.01], 6.0, 20_000, 6);
}

#[test]
fn q_and_r_cover_random_loss() {
    check(7, [0.01, 0.005, 0.004, 0.01], 1.02, 20_000, 4);
}

#[test]
fn q_and_r_cover_burst_loss() {
    check(7, [0.01, 0.01, 0.01, 0.01], 6.0, 20_000, 4);
}
