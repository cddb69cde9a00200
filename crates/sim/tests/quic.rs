//! QUIC flows through a bottleneck.

mod rig;

use narrows_packet::{Event, EventSink, RecoveryEvent};
use narrows_sim::SimError;
use narrows_units::{Duration, Instant};
use narrows_wire::{Ecn, ip};
use rig::{Digest, Record, plan, run};

/// Stream data of a full packet on a 50 Mbit/s link: at least 1430 bytes of a
/// frame of 1514, after IP, UDP, short header, tag and frame header.
const IDEAL_MBIT: f64 = 50.0 * 1430.0 / 1514.0;

fn dumbbell(queue: &str, flows: &str) -> String {
    format!(
        r#"
duration = "10s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 50Mbit queue {queue}"]
down = ["netem delay 10ms"]
{flows}
"#
    )
}

fn flow(name: &str, words: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n{words}\n")
}

#[test]
fn a_lone_flow_fills_the_link() {
    for words in ["cc = \"quic:cubic\"", "cc = \"quic:newreno\""] {
        let toml = dumbbell("pfifo limit 200", &flow("lone", words));
        let mut record = Record::default();
        run(&plan(&toml), 1, &mut record);
        let mbit = record.goodput_mbit(0, 3, 10);
        assert!(
            (0.9 * IDEAL_MBIT..=50.0 * 1472.0 / 1514.0).contains(&mbit),
            "{words}: {mbit}"
        );
        assert_eq!(record.established.len(), 1, "{words}");
        let (_, _, sample) = record.samples.last().unwrap();
        assert!(sample.cwnd > 10 && sample.in_flight > 10, "{sample:?}");
        assert!(sample.srtt >= Duration::from_millis(20), "{sample:?}");
    }
}

#[test]
fn either_end_may_open_and_send() {
    for words in ["opens = \"server\"", "ip = 6", "opens = \"server\"\nip = 6"] {
        let words = format!("transport = \"quic\"\ntraffic = \"bytes 3Mb\"\n{words}");
        let toml = dumbbell("pfifo", &flow("odd", &words));
        let mut record = Record::default();
        let outcome = run(&plan(&toml), 1, &mut record);
        let [(at, 0, bytes, true)] = record.finished[..] else {
            panic!("{words}: {:?}", record.finished);
        };
        assert_eq!(bytes, 3 << 20);
        assert!(at < Instant::from_nanos(3_000_000_000));
        assert!(outcome.flows[0].established && outcome.flows[0].complete);
    }
}

#[test]
fn exact_bytes_arrive_exactly_over_a_lossy_path() {
    let toml = r#"
duration = "60s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms loss random 2% duplicate 1% reorder 1%", "rate 10Mbit"]
down = ["netem delay 10ms 2ms loss random 2%"]
[[flow]]
name = "odd"
from = "client"
to   = "server"
cc   = "quic:cubic"
traffic = "bytes 1234567"
"#;
    for seed in 1..4 {
        let mut record = Record::default();
        run(&plan(toml), seed, &mut record);
        let total: u64 = record.delivered.iter().map(|(_, _, n)| n).sum();
        assert_eq!(total, 1_234_567);
        assert_eq!(record.finished.len(), 1);
        assert!(record.finished[0].3);
        let fast = |(_, _, r): &&(_, _, _)| *r == RecoveryEvent::FastRetransmit;
        assert!(record.recoveries.iter().filter(fast).count() > 0);
    }
}

#[test]
fn a_stopped_flow_ends_soon_and_leaves_the_link_to_others() {
    let flows =
        flow("long", "cc = \"quic:cubic\"") + &flow("short", "cc = \"quic:cubic\"\nstop = \"4s\"");
    let toml = dumbbell("fq_codel", &flows);
    let mut record = Record::default();
    run(&plan(&toml), 1, &mut record);
    let (at, _, _, complete) = *record.finished.iter().find(|f| f.1 == 1).unwrap();
    assert!(complete, "{:?}", record.finished);
    let late = at.since(Instant::from_nanos(4_000_000_000));
    assert!(late < Duration::from_millis(500), "{late}");
    assert!(record.goodput_mbit(0, 6, 10) > 0.9 * IDEAL_MBIT);
}

/// Codepoints of the packets that the hosts sent.
#[derive(Default)]
struct Codepoints {
    sent: [u64; 4],
    recoveries: Vec<RecoveryEvent>,
    retransmitted: u64,
}

impl EventSink for Codepoints {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        match event {
            Event::Sent { packet, .. } => self.sent[ip::ecn(&packet.bytes) as usize] += 1,
            Event::Recovery { event, .. } => self.recoveries.push(event),
            Event::Retransmitted { .. } => self.retransmitted += 1,
            _ => {}
        }
    }
}

#[test]
fn marks_slow_a_flow_down_without_loss_and_ecn_may_be_left_out() {
    let with = |words: &str| {
        let toml = dumbbell(
            "fq_codel",
            &flow("one", &format!("cc = \"quic:cubic\"\n{words}")),
        );
        let mut seen = Codepoints::default();
        run(&plan(&toml), 1, &mut seen);
        seen
    };
    let on = with("");
    assert!(on.sent[Ecn::Ect0 as usize] > 10_000, "{:?}", on.sent);
    assert!(
        on.recoveries
            .contains(&RecoveryEvent::CongestionExperienced)
    );
    let off = with("ecn = false");
    assert_eq!(off.sent[Ecn::Ect0 as usize], 0);
    assert!(
        !off.recoveries
            .contains(&RecoveryEvent::CongestionExperienced)
    );
    assert!(off.retransmitted > on.retransmitted);
}

#[test]
fn one_seed_gives_one_digest_and_another_seed_another() {
    let flows =
        flow("a", "cc = \"quic:cubic\"") + &flow("b", "cc = \"quic:newreno\"\nspin = \"on\"");
    let mut plan = plan(&dumbbell("dualpi2", &flows));
    plan.duration = Duration::from_secs(2);
    let digest = |seed| {
        let mut digest = Digest::default();
        run(&plan, seed, &mut digest);
        digest.value()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn a_control_that_cannot_repeat_is_refused() {
    let plan = plan(&dumbbell("pfifo", &flow("odd", "cc = \"quic:bbr\"")));
    let error = narrows_sim::accepts(&plan).unwrap_err();
    assert!(matches!(&error, SimError::Unrepeatable { flow, .. } if flow == "odd"));
    assert!(error.to_string().contains("--engine live"), "{error}");
}
