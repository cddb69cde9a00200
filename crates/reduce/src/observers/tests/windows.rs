//! What lies in an observer's window.

use super::*;

/// Two connections with their times in ms: one from the start on, of whose data those of 600 ms and
/// of 1700 ms are sent again; of the other nothing but its handshake from 2000 ms on.
fn passing() -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    for (port, start, answer, end) in [(40_000, 0, 20, 50), (40_001, 2_000, 2_020, 2_060)] {
        all.push((start, segment(port, true, (0, 0), SYN, 0)));
        all.push((answer, segment(port, false, (0, 1), SYN | ACK, 0)));
        all.push((end, segment(port, true, (1, 1), ACK, 0)));
    }
    for (n, (sent, again, acked)) in [
        (500, None, 510),
        (600, Some(620), 640),
        (1_500, None, 1_530),
        (1_600, None, 1_650),
        (1_700, Some(1_720), 1_740),
        (3_500, None, 3_590),
    ]
    .into_iter()
    .enumerate()
    {
        let seq = 1 + n as u32 * 100;
        for at in [Some(sent), again].into_iter().flatten() {
            all.push((at, segment(40_000, true, (seq, 1), ACK, 100)));
        }
        all.push((acked, segment(40_000, false, (1, seq + 100), ACK, 0)));
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

/// What an observer with this window finds that keeps these techniques.
fn found(techniques: &[&str], span: Span) -> Found {
    let techniques: Vec<String> = techniques.iter().map(|t| (*t).to_owned()).collect();
    let mut found = Found::new(&techniques, span);
    let mut observer = Observer::new(ObserverConfig::default());
    found.now = Some(5);
    for (id, (ms, bytes)) in passing().into_iter().enumerate() {
        found.reach(at(ms), &mut observer);
        observer.observe(&bytes, at(ms), id as u64, &mut found);
    }
    observer.finish(&mut found);
    found.settle();
    found
}

/// The estimates of round trips: flow, technique, quantity, value, of how many and how many not
/// taken, and when.
fn round_trips(found: &Found) -> Vec<(u64, Technique, Quantity, f64, u64, u64, Instant)> {
    let entries = found.log.iter().filter_map(|entry| match entry {
        Entry::Estimate(flow, at, e) if e.unit == Unit::Ms => Some((
            *flow,
            e.technique,
            e.quantity,
            e.value,
            e.n,
            e.rejected,
            *at,
        )),
        _ => None,
    });
    entries.collect()
}

#[test]
fn estimates_are_of_what_passes_in_the_window() {
    use Technique::{Handshake, SeqAck};
    let within = found(&[], Span::between(at(1_000), at(3_000)));
    // They are taken when the first packet after the window passes. The handshake of the first
    // flow was before it.
    let end = at(3_500);
    let mut trips = round_trips(&within);
    trips.sort_by_key(|(flow, ..)| *flow);
    assert_eq!(
        trips,
        [
            (0, SeqAck, Quantity::RightRtt, 40.0, 2, 1, end),
            (1, Handshake, FULL, 60.0, 1, 0, end),
            (1, Handshake, Quantity::LeftRtt, 40.0, 1, 0, end),
            (1, Handshake, Quantity::RightRtt, 20.0, 1, 0, end),
        ]
    );
    let samples: Vec<_> = within.samples().map(|(flow, s)| (flow, s.at)).collect();
    // With the acknowledgement of a handshake both its second part and its whole are known.
    let expected = [(0, 1_530), (0, 1_650), (1, 2_020), (1, 2_060), (1, 2_060)];
    assert_eq!(samples, expected.map(|(flow, ms)| (flow, at(ms))));
    // A rate is counted anew from the window's start on.
    let rates = within.log.iter().filter_map(|entry| match entry {
        Entry::Estimate(0, _, e) if e.unit == Unit::Ratio => Some((e.quantity, e.value, e.n)),
        _ => None,
    });
    let ce = Quantity::UpstreamCe;
    let expected = [(ce(Side::Initiator), 0.0, 4), (ce(Side::Responder), 0.0, 3)];
    assert_eq!(rates.collect::<Vec<_>>(), expected);
    let inside = |id| {
        let seen: &Seen = &within.flows[&id];
        (seen.inside.packets, seen.inside.bytes, seen.inside.again)
    };
    // Four packets with data, of which one again, and three acknowledgements.
    assert_eq!(inside(0), (7, 4 * 140 + 3 * 40, 1));
    assert_eq!(inside(1), (3, 3 * 40, 0));
    let first = &within.flows[&0];
    let all = (first.all.packets, first.all.bytes, first.all.again);
    assert_eq!(all, (17, 8 * 140 + 9 * 40, 2));
    assert_eq!(first.plan, Some(5));
    assert_eq!(first.called, "tcp/192.0.2.1:40000-192.0.2.2:443/0");
}

#[test]
fn estimates_of_the_whole_run_are_taken_as_flows_end() {
    use Technique::{Handshake, SeqAck};
    let mut trips = round_trips(&found(&[], Span::WHOLE));
    trips.sort_by_key(|(flow, ..)| *flow);
    let end = at(3_590);
    assert_eq!(
        trips[..4],
        [
            (0, Handshake, FULL, 50.0, 1, 0, end),
            (0, Handshake, Quantity::LeftRtt, 30.0, 1, 0, end),
            (0, Handshake, Quantity::RightRtt, 20.0, 1, 0, end),
            (0, SeqAck, Quantity::RightRtt, 45.0, 4, 2, end),
        ]
    );
    assert_eq!(trips.len(), 4 + 3);
}

#[test]
fn techniques_that_are_not_asked_for_are_not_kept() {
    let kept = |techniques: &[&str]| {
        let found = found(techniques, Span::WHOLE);
        let names = found.log.iter().map(|entry| match entry {
            Entry::Sample(_, sample) => sample.technique.name(),
            Entry::Estimate(_, _, estimate) => estimate.technique.name(),
        });
        let names: std::collections::BTreeSet<_> = names.collect();
        names.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(kept(&[]), ["ecn", "handshake", "seq-ack"]);
    assert_eq!(kept(&["seq-ack"]), ["seq-ack"]);
    assert_eq!(kept(&["handshake", "spin", "ecn"]), ["ecn", "handshake"]);
}
