//! A queue under arrivals that were recorded in front of another one: does it drop, mark and
//! let go the same packets at the same times?
//!
//! Two captures are needed, one in front of the other queue and one behind it, with nothing
//! else between them that takes time. A packet is recognised behind it by its bytes: all but
//! what a router or a queue may change, which are the traffic class, the hops left and the
//! checksum of IPv4's header. Equal packets are distinguished by their order.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;

use narrows_core::{EntityId, NullSink, Outlet, PacketPool, Port};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::capture::{CaptureError, CaptureReader};
use narrows_wire::{Ecn, ip};

use crate::{LinkFacts, QueueSpec};

/// A packet of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it passed.
    pub at: Instant,
    /// What was kept of it, from the IP header on.
    pub bytes: Vec<u8>,
    /// Its length on the wire.
    pub len: u32,
    /// Its number in the run, which the simulator's captures have.
    pub id: Option<u64>,
}

impl Recorded {
    /// Whether it carries CE.
    fn is_marked(&self) -> bool {
        ip::ecn(&self.bytes) == Ecn::Ce
    }

    /// What stays of it on its way.
    fn identity(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        match bytes.first().map(|first| first >> 4) {
            // RFC 791: type of service, time to live, header checksum.
            Some(4) => [1, 8, 10, 11].iter().for_each(|at| clear(&mut bytes, *at)),
            // RFC 8200: version and traffic class, the rest of it, hop limit.
            Some(6) => [0, 1, 7].iter().for_each(|at| clear(&mut bytes, *at)),
            _ => {}
        }
        bytes
    }
}

fn clear(bytes: &mut [u8], at: usize) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = 0;
    }
}

/// The IP packets of a capture, in the order of their times.
///
/// # Errors
/// When it cannot be read.
pub fn recording(capture: impl Read) -> Result<Vec<Recorded>, CaptureError> {
    let mut reader = CaptureReader::new(capture)?;
    let mut all = Vec::new();
    while let Some(record) = reader.read()? {
        if let (Some(at), Some(bytes)) = (record.at, record.ip_packet()) {
            let len = bytes.len() as u32 + record.cut();
            let bytes = bytes.to_vec();
            let id = record.id;
            all.push(Recorded { at, bytes, len, id });
        }
    }
    all.sort_by_key(|packet| packet.at);
    Ok(all)
}

/// A packet that left a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its place among the arrivals.
    pub arrival: usize,
    /// When it left.
    pub at: Instant,
    /// Whether it carried CE then.
    pub marked: bool,
}

/// By what a packet is recognised behind the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its bytes.
    ByBytes,
    /// Its number in the run, where one run numbers packets on all of their way.
    ByNumber,
}

/// Which of `arrivals` each packet behind the queue is; those that are none of them are left
/// out.
pub fn departures(arrivals: &[Recorded], behind: &[Recorded], known: Known) -> Vec<Departure> {
    let identity = |packet: &Recorded| match known {
        Known::ByBytes => (packet.identity(), None),
        Known::ByNumber => (Vec::new(), packet.id),
    };
    let mut waiting: BTreeMap<_, VecDeque<usize>> = BTreeMap::new();
    for (index, packet) in arrivals.iter().enumerate() {
        waiting
            .entry(identity(packet))
            .or_default()
            .push_back(index);
    }
    let of = |packet: &Recorded| {
        Some(Departure {
            arrival: waiting.get_mut(&identity(packet))?.pop_front()?,
            at: packet.at,
            marked: packet.is_marked(),
        })
    };
    behind.iter().filter_map(of).collect()
}

/// How packets go on once a queue has let them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// At once: the queue itself says when a packet may go.
    Free,
    /// One after the other, each after the time that it takes at the link's rate.
    Serial,
}

/// What a recording leaves open of the other queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Decides what the queue draws: its hash of flows, its chances.
    pub seed: u64,
    /// How far its clock was ahead of the recording's. CoDel counts units of 1024 ns and fq ticks
    /// of a millisecond, so that this decides where two times are a unit apart or none.
    pub phase: Duration,
}

impl Open {
    /// So many seeds, each with so many phases of a clock that counts in `unit`.
    pub fn each(seeds: u64, phases: u64, unit: Duration) -> impl Iterator<Item = Self> {
        let of = move |seed, step| Self {
            seed,
            phase: unit * step / phases.max(1),
        };
        (1..=seeds).flat_map(move |seed| (0..phases).map(move |step| of(seed, step)))
    }
}

/// What leaves the queue `spec` if `arrivals` come.
pub fn replay(
    spec: &QueueSpec,
    arrivals: &[Recorded],
    link: LinkFacts,
    wire: Wire,
    open: Open,
) -> Vec<Departure> {
    let mut queue = spec.build(EntityId(0), link, Rng::for_name(open.seed, "replay"));
    let (mut pool, mut sent) = (PacketPool::new(), Vec::<(Port, _)>::new());
    let mut left = Vec::new();
    let (mut clock, mut free_at) = (Instant::ZERO, Instant::ZERO);
    let mut next = 0;
    loop {
        let mut out = Outlet {
            pool: &mut pool,
            events: &mut NullSink,
            sent: &mut sent,
        };
        let arrival = arrivals.get(next);
        let came = arrival.map(|packet| (packet.at + open.phase).max(clock));
        // After the last arrival the queue only has to become empty.
        let tick = queue.next_tick().filter(|_| came.is_some());
        let ready = queue.next_dequeue(clock.max(free_at));
        let ready = ready.map(|at| at.max(free_at).max(clock));
        let Some(now) = came.into_iter().chain(tick).chain(ready).min() else {
            break;
        };
        clock = now;
        if tick.is_some_and(|at| at <= now) {
            queue.tick(now);
            continue;
        }
        // A timer goes before a packet that comes at its time: a device sends in one softirq,
        // and receives in the next (NET_TX, NET_RX).
        if let Some(arrival) = arrival.filter(|_| ready != Some(now)) {
            let mut packet = out.pool.take(now, None);
            packet.bytes.extend_from_slice(&arrival.bytes);
            packet.zero_tail = arrival.len - arrival.bytes.len() as u32;
            queue.enqueue(now, packet, &mut out);
            next += 1;
        }
        while now >= free_at {
            let Some(packet) = queue.dequeue(now, &mut out) else {
                break;
            };
            free_at = match wire {
                Wire::Free => now,
                Wire::Serial => now + link.rate.time_for(u64::from(packet.len() + link.overhead)),
            };
            left.push(Departure {
                // The pool numbers packets as they are made: as they came.
                arrival: packet.id.0 as usize,
                at: free_at,
                marked: ip::ecn(&packet.bytes) == Ecn::Ce,
            });
            out.pool.give(packet);
        }
    }
    let on_recording = |departure: &mut Departure| {
        let at = departure.at.since(Instant::ZERO + open.phase);
        departure.at = Instant::ZERO + at;
    };
    left.iter_mut().for_each(on_recording);
    left
}

/// How two queues differ that had the same arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Packets that came and are judged.
    pub packets: usize,
    /// Packets that each of the two dropped.
    pub dropped: [usize; 2],
    /// Packets that one of the two alone dropped.
    pub dropped_by_one: usize,
    /// Packets that each of the two let go with CE.
    pub marked: [usize; 2],
    /// Packets that both let go, one of them with CE.
    pub marked_by_one: usize,
    /// Places in the order of the packets that both let go at which another packet stands.
    pub out_of_order: usize,
    /// The most by which the times differ at which the two let a packet go.
    pub apart: Duration,
    /// The first arrival that one of the two dropped or marked and the other did not.
    pub first: Option<usize>,
}

impl Difference {
    /// Of `packets` that came, what was seen to leave a queue and what leaves the other. What
    /// leaves that after the last packet that was seen is not judged: it may have waited
    /// when the recording ended.
    pub fn between(packets: usize, left: [&[Departure]; 2]) -> Self {
        let end = left[0].last().map(|departure| departure.at);
        let is_late = |departure: Departure| end.is_none_or(|end| departure.at > end);
        let fates = left.map(|left| {
            let mut fates = vec![None; packets];
            for departure in left {
                fates[departure.arrival] = Some(*departure);
            }
            fates
        });
        let mut all = Self {
            packets,
            ..Self::default()
        };
        for (index, (one, other)) in fates[0].iter().zip(&fates[1]).enumerate() {
            if one.is_none() && other.is_some_and(is_late) {
                all.packets -= 1;
                continue;
            }
            for (side, fate) in [one, other].into_iter().enumerate() {
                all.dropped[side] += usize::from(fate.is_none());
                all.marked[side] += usize::from(fate.is_some_and(|fate| fate.marked));
            }
            let differs = match (one, other) {
                (Some(one), Some(other)) => {
                    all.apart = all
                        .apart
                        .max(one.at.since(other.at))
                        .max(other.at.since(one.at));
                    all.marked_by_one += usize::from(one.marked != other.marked);
                    one.marked != other.marked
                }
                (None, None) => false,
                _ => {
                    all.dropped_by_one += 1;
                    true
                }
            };
            all.first = all.first.or(differs.then_some(index));
        }
        let orders = [0, 1].map(|side: usize| {
            let both = left[side].iter().map(|departure| departure.arrival);
            both.filter(|index| fates[1 - side][*index].is_some())
                .collect::<Vec<_>>()
        });
        all.out_of_order = (orders[0].iter().zip(&orders[1]))
            .filter(|(one, other)| one != other)
            .count();
        all
    }

    /// How many packets the two did not treat alike.
    pub fn packets_apart(&self) -> usize {
        self.dropped_by_one + self.marked_by_one + self.out_of_order
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::IpFields;
    use narrows_wire::capture::{Interface, PcapngWriter, ToWrite};
    use narrows_wire::link::LinkType;

    use super::*;
    use crate::testing::ETHERNET;

    /// 400 packets of two flows, three of one to one of the other, 0.5 ms apart, each with a
    /// number of its own; twice as many as a link of 10 Mbit/s carries.
    fn arrivals() -> Vec<Recorded> {
        let packet = |number: u16| {
            let fields = IpFields {
                source: [10, 0, 0, 1].into(),
                destination: [10, 0, 0, 2 + u8::from(number % 4 == 0)].into(),
                traffic_class: 2,
                ttl: 64,
                protocol: ip::UDP,
                ident: number.into(),
            };
            let mut bytes = Vec::new();
            fields.write(&mut bytes, 1_230);
            bytes.extend([0; 8]);
            Recorded {
                at: Instant::from_nanos(500_000 * u64::from(number)),
                bytes,
                len: 1_250,
                id: None,
            }
        };
        (0..400).map(packet).collect()
    }

    /// What is behind a queue, with a hop taken off, that let packets go so.
    fn behind(arrivals: &[Recorded], left: &[Departure]) -> Vec<Recorded> {
        let mut all = Vec::new();
        for departure in left {
            let mut packet = arrivals[departure.arrival].clone();
            ip::take_hop(&mut packet.bytes);
            if departure.marked {
                ip::set_ecn(&mut packet.bytes, Ecn::Ce);
            }
            packet.at = departure.at;
            all.push(packet);
        }
        all
    }

    fn written(packets: &[Recorded]) -> Vec<u8> {
        let mut writer = PcapngWriter::new(Vec::new(), "test").unwrap();
        let interface = Interface {
            name: "tap".to_owned(),
            link: LinkType::RAW,
            snaplen: 128,
        };
        writer.add_interface(&interface).unwrap();
        for packet in packets {
            let to_write = ToWrite {
                at: packet.at,
                bytes: &packet.bytes,
                zero_tail: packet.len - packet.bytes.len() as u32,
                cut: 0,
                id: None,
                direction: None,
                comment: None,
            };
            writer.write(0, &to_write).unwrap();
        }
        writer.finish().unwrap()
    }

    /// How the queue of `words` differs from the one of `theirs`.
    fn difference(theirs: &str, words: &str, wire: Wire) -> Difference {
        let arrivals = arrivals();
        let left = |words: &str| {
            let spec = QueueSpec::parse(words).unwrap();
            replay(&spec, &arrivals, ETHERNET, wire, Open::default())
        };
        let seen = behind(&arrivals, &left(theirs));
        let (before, behind) = (written(&arrivals), written(&seen));
        let recorded = recording(&before[..]).unwrap();
        let known = departures(&recorded, &recording(&behind[..]).unwrap(), Known::ByBytes);
        Difference::between(arrivals.len(), [&known, &left(words)])
    }

    #[test]
    fn a_queue_does_not_differ_from_itself_and_a_wrong_rule_is_found() {
        for words in [
            "pfifo limit 20",
            "codel ecn",
            "fq_codel",
            "drr class a dscp 1 class b",
            "cake bandwidth 8Mbit besteffort",
        ] {
            for wire in [Wire::Serial, Wire::Free] {
                let shaped = format!("tbf rate 10Mbit burst 1600 limit 1Mb queue ({words})");
                let words = if wire == Wire::Free { &shaped } else { words };
                let found = difference(words, words, wire);
                assert_eq!(found.packets_apart(), 0, "{words}: {found:?}");
                assert!(
                    found.apart.is_zero() && found.packets > 300,
                    "{words}: {found:?}"
                );
            }
        }
        let found = difference("pfifo limit 20", "pfifo limit 21", Wire::Serial);
        assert!(
            found.dropped_by_one > 0 && found.first == Some(40),
            "{found:?}"
        );
        let found = difference("codel ecn", "codel ecn interval 90ms", Wire::Serial);
        assert!(
            found.marked_by_one > 0 && found.dropped_by_one == 0,
            "{found:?}"
        );
        let found = difference("fq_codel quantum 300", "codel ecn", Wire::Serial);
        assert!(found.apart > Duration::ZERO, "{found:?}");
    }

    #[test]
    fn what_still_waited_at_the_end_is_not_judged() {
        let arrivals = arrivals();
        let spec = QueueSpec::parse("pfifo").unwrap();
        let left = replay(&spec, &arrivals, ETHERNET, Wire::Serial, Open::default());
        let found = Difference::between(400, [&left[..150], &left]);
        assert_eq!((found.packets, found.packets_apart()), (150, 0));
        // One that is missing in between was dropped.
        let mut holed = left[..150].to_vec();
        holed.remove(70);
        let found = Difference::between(400, [&holed, &left]);
        assert_eq!((found.dropped, found.dropped_by_one), ([1, 0], 1));
    }

    #[test]
    fn a_packet_of_ipv6_is_recognised_behind_a_hop_that_marks_it() {
        let packet = |ident: u16| {
            let fields = IpFields {
                source: std::net::Ipv6Addr::from(1).into(),
                destination: std::net::Ipv6Addr::from(2).into(),
                traffic_class: 2,
                ttl: 64,
                protocol: ip::UDP,
                ident: 0,
            };
            let mut bytes = Vec::new();
            fields.write(&mut bytes, 8);
            bytes.extend(ident.to_be_bytes());
            bytes.extend([0; 6]);
            Recorded {
                at: Instant::from_nanos(u64::from(ident)),
                len: bytes.len() as u32,
                bytes,
                id: None,
            }
        };
        let came = [packet(1), packet(2)];
        let left = [(1, true), (0, false)].map(|(arrival, marked)| Departure {
            arrival,
            at: Instant::from_nanos(5),
            marked,
        });
        let seen = behind(&came, &left);
        assert_eq!(departures(&came, &seen, Known::ByBytes), left);
    }

    #[test]
    fn a_clock_of_the_queue_delays_and_hastens_no_packet() {
        // Every 2 ms one packet, which takes 1264 bytes at 10 Mbit/s: 1.0112 ms.
        let mut came = arrivals();
        for (at, packet) in came.iter_mut().enumerate() {
            packet.at = Instant::from_nanos(2_000_000 * at as u64);
        }
        for (words, phase) in [("pi2 tupdate 3ms", 0), ("pie", 0), ("pfifo", 700)] {
            let spec = QueueSpec::parse(words).unwrap();
            let open = Open {
                phase: Duration::from_nanos(phase),
                ..Open::default()
            };
            let left = replay(&spec, &came, ETHERNET, Wire::Serial, open);
            assert_eq!(left.len(), came.len(), "{words}");
            for (packet, departure) in came.iter().zip(left) {
                let took = departure.at.since(packet.at);
                assert_eq!(took, Duration::from_nanos(1_011_200), "{words}");
                assert_eq!(departure.marked, packet.is_marked(), "{words}");
            }
        }
    }

    #[test]
    fn what_is_open_is_tried_with_each_seed_and_evenly_spread_phases() {
        let unit = Duration::from_nanos(1_024);
        let all: Vec<_> = Open::each(2, 4, unit).collect();
        let want = [1, 2].map(|seed| {
            [0, 256, 512, 768].map(|phase| Open {
                seed,
                phase: Duration::from_nanos(phase),
            })
        });
        assert_eq!(all, want.concat());
        assert_eq!(Open::each(3, 0, unit).count(), 0);
    }
}
