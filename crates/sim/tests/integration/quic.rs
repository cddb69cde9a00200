//! Flows over QUIC through a bottleneck: what is not as with TCP. What is alike
//! is in `flows.rs`.

use crate::rig::{Record, dumbbell, flow, plan, run};
use narrows_core::{Event, EventSink, RecoveryEvent};
use narrows_sim::SimError;
use narrows_units::{Duration, Instant};
use narrows_wire::{Ecn, ip};

/// Stream data of a full packet on a 50 Mbit/s link: at least 1430 bytes of a
/// frame of 1514, after IP, UDP, short header, tag and frame header.
const IDEAL_MBIT: f64 = 50.0 * 1430.0 / 1514.0;

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
fn a_control_that_cannot_repeat_is_refused() {
    let plan = plan(&dumbbell("pfifo", &flow("odd", "cc = \"quic:bbr\"")));
    let error = narrows_sim::accepts(&plan).unwrap_err();
    assert!(matches!(&error, SimError::Unrepeatable { owner, .. } if owner == "flow/odd"));
    assert!(error.to_string().contains("--engine live"), "{error}");
}

/// A path whose first link takes 1500 bytes and of which no host knows what follows: a link of
/// `second` bytes, and a hop of 1400 that says nothing where `silent`.
fn unknown_path(second: u32, silent: bool, flow: &str) -> String {
    let hop = if silent { "\"mtu 1400 silent\", " } else { "" };
    format!(
        r#"
duration = "20s"
[[link]]
name = "near"
ends = ["server", "router"]
up   = [{hop}"bottleneck: rate 20Mbit queue pfifo limit 100", "netem delay 10ms"]
down = ["netem delay 10ms"]
[[link]]
name = "far"
ends = ["router", "client"]
mtu  = {second}
[[flow]]
name = "one"
from = "server"
to   = "client"
{flow}
"#
    )
}

#[test]
fn a_flow_finds_what_a_path_carries_of_which_it_was_told_nothing() {
    for (second, silent) in [(1_500, true), (1_400, false)] {
        for (words, around) in [
            // IP, UDP, short header, tag, frame.
            ("cc = \"quic:cubic\"", 28 + 42),
            (
                "transport = \"quic-model window 100 search adaptive\"",
                28 + 71,
            ),
        ] {
            let mut record = Record::default();
            run(&plan(&unknown_path(second, silent, words)), 1, &mut record);
            let mbit = record.goodput_mbit(0, 5, 20);
            // A frame of Ethernet has 14 bytes more than its packet.
            let ideal = 20.0 * (1_400.0 - f64::from(around)) / 1_414.0;
            assert!(
                mbit >= 0.99 * ideal && mbit <= 1.03 * ideal,
                "{words} over {second}: {mbit} of {ideal}"
            );
        }
    }
}

#[test]
fn the_loss_of_its_probes_slows_no_flow_down() {
    let words = "transport = \"quic-model window 60 search adaptive\"";
    let mut record = Record::default();
    run(&plan(&unknown_path(1_500, true, words)), 1, &mut record);
    assert_eq!(record.recoveries, [], "{words}");
}
