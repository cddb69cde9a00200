//! Modelled flows over a path of this file's own: they transfer, they recover,
//! and they show what they are to show.

use std::collections::BTreeMap;

use narrows_core::Role;
use narrows_quic::model::{Endpoint, ModelEvent, ModelSpec, Shape};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{Plus, QuicModel};

/// One way.
const DELAY: Duration = Duration::from_millis(20);

/// What a packet showed, as it left its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    at: Instant,
    initiator: bool,
    number: u32,
    echo: u32,
    spin: bool,
    vec: u8,
    square: bool,
    loss: bool,
    handshake: bool,
    length: u32,
}

struct Ran {
    left: Vec<Left>,
    /// Packets of data taken for lost, by later ones or by a timeout.
    losses: u64,
    delivered: u64,
    complete: bool,
}

fn shown(shape: Shape, payload: &[u8]) -> (u32, u32, bool, u8, bool, bool, bool) {
    match shape {
        Shape::Plus => {
            let p = Plus::parse(payload).expect("a PLUS header");
            let first = p.echo == 0;
            (p.serial, p.echo, p.spin, p.vec, false, false, first)
        }
        Shape::Quic => match QuicModel::parse(payload).expect("a header") {
            QuicModel::Long { number, .. } => (number, 0, false, 0, false, false, true),
            QuicModel::Short { number, shown, .. } => (
                number,
                0,
                shown.spin,
                shown.vec,
                shown.square,
                shown.loss,
                false,
            ),
        },
    }
}

/// Runs `words` for `time`; the responder sends `bytes`. `lost` says of each
/// packet, by its place among all that left, whether the path loses it.
fn run(
    words: &str,
    bytes: u64,
    time: Duration,
    seed: u64,
    mut lost: impl FnMut(u64, bool, Instant) -> bool,
) -> Ran {
    run_by_size(words, bytes, time, seed, |count, initiator, now, _| {
        lost(count, initiator, now)
    })
}

/// The same over a path that also looks at how long a packet's payload is.
fn run_by_size(
    words: &str,
    bytes: u64,
    time: Duration,
    seed: u64,
    mut lost: impl FnMut(u64, bool, Instant, u32) -> bool,
) -> Ran {
    let spec = ModelSpec::parse(words).expect("words of a flow");
    let rng = |end: &str| Rng::for_name(seed, end);
    let mut ends = [
        Endpoint::new(spec, Role::Initiator, (true, 1_500), rng("initiator")),
        Endpoint::new(spec, Role::Responder, (true, 1_500), rng("responder")),
    ];
    let mut path: BTreeMap<(Instant, u64), (usize, Vec<u8>)> = BTreeMap::new();
    let mut ran = Ran {
        left: Vec::new(),
        losses: 0,
        delivered: 0,
        complete: false,
    };
    let (mut now, mut count, mut buffer) = (Instant::ZERO, 0u64, Vec::new());
    ends[0].open();
    ends[1].write(bytes);
    ends[1].close();
    loop {
        for (from, end) in ends.iter_mut().enumerate() {
            while let Some(length) = end.poll_transmit(now, &mut buffer) {
                let (number, echo, spin, vec, square, loss, handshake) =
                    shown(spec.shape(), &buffer);
                let initiator = from == 0;
                ran.left.push(Left {
                    at: now,
                    initiator,
                    number,
                    echo,
                    spin,
                    vec,
                    square,
                    loss,
                    handshake,
                    length,
                });
                if !lost(count, initiator, now, length) {
                    path.insert((now + DELAY, count), (1 - from, buffer.clone()));
                }
                count += 1;
            }
            while let Some(event) = end.poll_event() {
                match event {
                    ModelEvent::Delivered(n) => ran.delivered += n,
                    ModelEvent::PeerFinished => ran.complete = true,
                    ModelEvent::Lost(lost) => ran.losses += u64::from(lost),
                    ModelEvent::Timeout => ran.losses += 1,
                    _ => {}
                }
            }
        }
        let arrival = path.first_key_value().map(|((at, _), _)| *at);
        let timers = ends.iter().filter_map(Endpoint::next_timeout);
        let Some(next) = timers.chain(arrival).min() else {
            return ran;
        };
        if next.since(Instant::ZERO) > time {
            return ran;
        }
        now = now.max(next);
        while let Some(first) = path.first_entry() {
            if first.key().0 > now {
                break;
            }
            let (to, payload) = first.remove();
            ends[to].receive(now, &payload);
        }
        for end in &mut ends {
            if end.next_timeout().is_some_and(|t| t <= now) {
                end.on_timeout(now);
            }
        }
    }
}

fn clean(_: u64, _: bool, _: Instant) -> bool {
    false
}

const S: fn(u64) -> Duration = Duration::from_secs;

#[test]
fn every_byte_arrives_over_a_path_that_loses_a_tenth() {
    for words in [
        "quic-model",
        "plus",
        "quic-model rate 4Mbit",
        "plus window 1",
    ] {
        for seed in 0..4 {
            let mut rng = Rng::for_name(seed, "loss");
            let ran = run(words, 200_000, S(600), seed, |_, _, _| rng.unit() < 0.1);
            assert_eq!(ran.delivered, 200_000, "{words} seed {seed}");
            assert!(ran.complete, "{words} seed {seed}");
        }
    }
}

#[test]
fn a_handshake_that_loses_either_packet_is_made_again() {
    for gone in [0, 1] {
        let ran = run("quic-model", 5_000, S(60), 1, |count, _, _| count == gone);
        assert!(ran.complete, "packet {gone} lost");
        assert!(ran.left.iter().filter(|l| l.handshake).count() >= 3);
    }
}

#[test]
fn a_window_bounds_what_is_in_flight_and_a_rate_what_leaves() {
    let ran = run("quic-model window 10", 2_000_000, S(60), 1, clean);
    // Ten packets a round trip, whatever the acknowledgements' grouping.
    let mut sent = ran.left.iter().filter(|l| !l.initiator && !l.handshake);
    let first = sent.next().expect("data").at;
    let count = 1 + sent.filter(|l| l.at.since(first) < S(4)).count();
    assert!((950..=1_010).contains(&count), "{count} in 100 round trips");
    let ran = run("quic-model rate 9600kbit", 2_000_000, S(60), 1, clean);
    let data: Vec<_> = ran.left.iter().filter(|l| l.length == 1_200).collect();
    let steady = &data[10..data.len() - 10];
    let gaps = steady.windows(2).map(|w| w[1].at.since(w[0].at));
    assert!(gaps.into_iter().all(|gap| gap == Duration::from_millis(1)));
}

#[test]
fn the_spin_bit_turns_once_in_a_round_trip_and_its_counter_reaches_three() {
    for words in ["quic-model rate 9600kbit", "plus rate 9600kbit"] {
        let ran = run(words, 10_000_000, S(4), 1, clean);
        for initiator in [true, false] {
            let own: Vec<_> = ran
                .left
                .iter()
                .filter(|l| l.initiator == initiator && !l.handshake)
                .collect();
            let edges: Vec<_> = own.windows(2).filter(|w| w[0].spin != w[1].spin).collect();
            // 40 ms, and up to three until packets leave that carry the edge on.
            let between = edges.windows(2).map(|e| e[1][1].at.since(e[0][1].at));
            for gap in between.skip(3) {
                assert!((40..=44).contains(&gap.as_millis()), "{words}: {gap}");
            }
            // Of the counter only edges speak, and none is held for a
            // millisecond longer than it has to be but where packets are rarer.
            let spoken = own.windows(2).filter(|w| w[1].vec > 0);
            assert!(spoken.into_iter().all(|w| w[0].spin != w[1].spin));
            assert!(edges.iter().any(|e| e[1].vec == 3), "{words}");
        }
    }
}

#[test]
fn a_lost_edge_starts_the_counter_over() {
    let mut edges = 0;
    let mut last = None;
    let clean_run = run("quic-model rate 9600kbit", 10_000_000, S(2), 1, clean);
    // The place of the responder's tenth edge among all packets.
    let at = clean_run.left.iter().position(|l| {
        let edge = !l.initiator && !l.handshake && last.is_some_and(|s| s != l.spin);
        if !l.initiator && !l.handshake {
            last = Some(l.spin);
        }
        edges += u32::from(edge);
        edge && edges == 10
    });
    let at = at.expect("ten edges") as u64;
    let ran = run(
        "quic-model rate 9600kbit",
        10_000_000,
        S(2),
        1,
        |count, _, _| count == at,
    );
    assert_eq!(ran.left[at as usize], clean_run.left[at as usize]);
    assert_eq!(clean_run.left[at as usize].vec, 3);
    let after = ran.left[at as usize..]
        .iter()
        .filter(|l| l.initiator && l.vec > 0);
    let counters: Vec<u8> = after.map(|l| l.vec).take(3).collect();
    // The initiator saw the change without a counter: one, and three again later.
    assert_eq!(counters, [1, 3, 3]);
}

#[test]
fn greased_bits_change_at_random_and_fixed_ones_never() {
    for (spin, most, least) in [("fixed", 0, 0), ("greased", 1_100, 900)] {
        let words = format!("quic-model signals s spin {spin} rate 9600kbit");
        let ran = run(&words, 2_400_000, S(4), 3, clean);
        let own = ran.left.iter().filter(|l| !l.initiator && !l.handshake);
        let bits: Vec<bool> = own.map(|l| l.spin).take(2_001).collect();
        let changes = bits.windows(2).filter(|w| w[0] != w[1]).count();
        assert!((least..=most).contains(&changes), "{spin}: {changes}");
    }
}

#[test]
fn q_counts_packets_in_blocks_and_l_marks_one_for_each_that_was_lost() {
    let words = "quic-model signals q+l n 128 rate 9600kbit";
    let mut rng = Rng::for_name(7, "loss");
    let mut gone = 0u32;
    let ran = run(words, 3_000_000, S(60), 7, |_, initiator, now| {
        let lost = !initiator && now > Instant::ZERO + S(1) && rng.unit() < 0.02;
        gone += u32::from(lost);
        lost
    });
    assert!(ran.complete);
    let own: Vec<_> = ran
        .left
        .iter()
        .filter(|l| !l.initiator && !l.handshake)
        .collect();
    for (place, packet) in own.iter().enumerate() {
        assert_eq!(packet.square, place / 128 % 2 == 1, "packet {place}");
    }
    let marks = own.iter().filter(|l| l.loss).count() as u32;
    assert!(
        gone > 20 && marks + 2 >= gone && marks <= gone + 2,
        "{marks} of {gone}"
    );
}

#[test]
fn plus_numbers_every_packet_and_echoes_what_arrived_last() {
    let ran = run("plus", 300_000, S(10), 5, clean);
    assert!(ran.complete);
    for initiator in [true, false] {
        let own: Vec<_> = ran
            .left
            .iter()
            .filter(|l| l.initiator == initiator)
            .collect();
        for pair in own.windows(2) {
            assert_eq!(pair[1].number, pair[0].number.wrapping_add(1));
        }
        // What arrived last left a one-way delay ago on this path.
        for packet in own.iter().skip(1) {
            let latest = ran
                .left
                .iter()
                .rev()
                .find(|l| l.initiator != initiator && l.at + DELAY <= packet.at);
            assert_eq!(packet.echo, latest.expect("packets were received").number);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_packets_and_another_other_ones() {
    let lossy = |seed| {
        let mut rng = Rng::for_name(seed, "loss");
        run("plus window 20", 300_000, S(20), seed, move |_, _, _| {
            rng.unit() < 0.05
        })
        .left
    };
    assert_eq!(lossy(1), lossy(1));
    assert_ne!(lossy(1), lossy(2));
}

#[test]
fn bytes_of_any_kind_do_no_harm() {
    let mut rng = Rng::for_name(1, "noise");
    for words in ["quic-model", "plus"] {
        let spec = ModelSpec::parse(words).expect("words");
        let mut end = Endpoint::new(
            spec,
            Role::Responder,
            (true, 1_500),
            Rng::for_name(1, "end"),
        );
        let mut good = Vec::new();
        let mut client = Endpoint::new(
            spec,
            Role::Initiator,
            (true, 1_500),
            Rng::for_name(1, "client"),
        );
        client.open();
        client
            .poll_transmit(Instant::ZERO, &mut good)
            .expect("a hello");
        end.receive(Instant::ZERO, &good);
        for round in 0..20_000 {
            let now = Instant::ZERO + Duration::from_micros(round);
            let mut bytes = good.clone();
            for _ in 0..rng.below(4) {
                let at = rng.below(bytes.len() as u32) as usize;
                bytes[at] = rng.draw_u64() as u8;
            }
            bytes.truncate(rng.below(bytes.len() as u32 + 1) as usize);
            end.receive(now, &bytes);
            while end.poll_transmit(now, &mut bytes).is_some() {}
            while end.poll_event().is_some() {}
        }
    }
}

/// The sizes of the sender's packets since `from`, each with how many there were, but for the last
/// of the stream.
fn sizes(ran: &Ran, from: Instant) -> BTreeMap<u32, usize> {
    let mut sizes = BTreeMap::new();
    for left in ran.left.iter().filter(|l| !l.initiator && l.at >= from) {
        *sizes.entry(left.length).or_default() += 1;
    }
    sizes
}

const AT: fn(u64) -> Instant = |ms| Instant::from_nanos(ms * 1_000_000);

#[test]
fn packets_grow_to_what_the_path_carries_and_what_probes_for_it_is_lost_without_a_consequence() {
    for (words, limit, found) in [
        ("quic-model window 60 search adaptive", 1_372, 1_372),
        ("plus window 60 search adaptive", 1_372, 1_372),
        ("quic-model rate 8Mbit search adaptive", 1_372, 1_372),
        ("quic-model window 60 search adaptive", 9_000, 1_472),
        ("quic-model window 60 search quinn", 1_372, 1_357),
        ("quic-model window 60 search adaptive", 1_200, 1_200),
    ] {
        let ran = run_by_size(words, 30_000_000, S(8), 1, |_, _, _, length| length > limit);
        assert_eq!(ran.losses, 0, "{words} over {limit}");
        let early = sizes(&ran, AT(0));
        assert!(early[&1_200] > 10, "{words}: it begins at once");
        // The search is over: nothing else leaves but the probes of later ones.
        let late = sizes(&ran, AT(2_000));
        let full = late.get(&found).copied().unwrap_or_default();
        let others: usize = late
            .iter()
            .filter(|(size, _)| **size != found)
            .map(|(_, n)| n)
            .sum();
        assert!(
            full > 1_000 && others == 0,
            "{words} over {limit}: {late:?}"
        );
    }
}

#[test]
fn a_path_that_takes_less_from_now_on_is_found_out_about_and_all_arrives() {
    let words = "quic-model window 60 search adaptive timeout 200ms";
    let ran = run_by_size(words, 20_000_000, S(60), 1, |_, _, now, length| {
        length > if now < AT(3_000) { 1_472 } else { 1_300 }
    });
    assert_eq!((ran.delivered, ran.complete), (20_000_000, true));
    assert!(sizes(&ran, AT(2_000))[&1_472] > 1_000);
    let late = sizes(&ran, AT(6_000));
    let full = late.get(&1_300).copied().unwrap_or_default();
    assert!(
        full > 1_000 && late.keys().all(|size| *size <= 1_300),
        "{late:?}"
    );
}

#[test]
fn random_loss_makes_packets_no_smaller() {
    let words = "quic-model window 60 search adaptive";
    let mut rng = Rng::for_name(5, "loss");
    let ran = run_by_size(words, u64::MAX / 4, S(60), 1, |_, _, _, length| {
        length > 1_400 || rng.unit() < 0.1
    });
    let late = sizes(&ran, AT(5_000));
    let full = late.get(&1_400).copied().unwrap_or_default();
    let all: usize = late.values().sum();
    assert!(full * 100 > all * 99, "{late:?}");
}
