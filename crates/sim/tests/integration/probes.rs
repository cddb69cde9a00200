//! Paths, probes and datagrams: exact times, routing, changes, hooks.

use crate::rig::{Digest, Record, conserves, plan, run};
use narrows_core::{DropCause, HookVerdict, HostHook, Packet, Role, SocketFacts};
use narrows_sim::{RunHandle, Simulation};
use narrows_units::{Duration, Instant};

const DUMBBELL: &str = r#"
duration = "2s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 8Mbit queue pfifo limit 100"]
down = ["netem delay 10ms"]
[[probe]]
name = "ping"
from = "client"
to   = "server"
interval = "100ms"
size = 986
"#;

#[test]
fn a_probe_measures_delay_and_serialisation_to_the_nanosecond() {
    let mut record = Record::default();
    let outcome = run(&plan(DUMBBELL), 1, &mut record);
    // 986 + 14 bytes at 8 Mbit/s take 1 ms.
    assert_eq!(record.probe_rtts.len(), 20);
    for (i, (at, rtt)) in record.probe_rtts.iter().enumerate() {
        assert_eq!(rtt.as_nanos(), 21_000_000);
        assert_eq!(at.as_nanos(), i as u64 * 100_000_000 + 21_000_000);
    }
    assert_eq!(outcome.packets, 40);
    assert_eq!(outcome.in_flight, 0);
    // Two elements up and one down.
    assert_eq!(outcome.packet_hops, 20 * 3);
}

#[test]
fn changes_hold_from_their_exact_time_on() {
    let toml = format!(
        "{DUMBBELL}
[[change]]
at = \"1s\"
target = \"link/access/up/netem\"
to = \"delay 30ms\"
"
    );
    let mut record = Record::default();
    run(&plan(&toml), 1, &mut record);
    // The question sent at 1 s itself is the first of the new delay.
    for (i, (_, rtt)) in record.probe_rtts.iter().enumerate() {
        let expected = if i < 10 { 21 } else { 41 };
        assert_eq!(*rtt, Duration::from_millis(expected), "{i}");
    }
}

#[test]
fn a_router_forwards_and_taps_see_both_directions() {
    let toml = r#"
duration = "1s"
[[router]]
name = "mid"
[[link]]
name = "near"
ends = ["client", "mid"]
up   = ["netem delay 3ms"]
down = ["netem delay 3ms"]
[[link]]
name = "far"
ends = ["mid", "server"]
up   = ["tap point", "netem delay 4ms"]
down = ["netem delay 4ms", "tap point"]
[[probe]]
name = "ping"
from = "client"
to   = "server"
interval = "500ms"
size = 100
"#;
    let mut record = Record::default();
    run(&plan(toml), 1, &mut record);
    let rtts: Vec<_> = record
        .probe_rtts
        .iter()
        .map(|(_, r)| r.as_millis())
        .collect();
    assert_eq!(rtts, [14, 14]);
    let taps: Vec<_> = record.taps[..2]
        .iter()
        .map(|(t, f)| (t.as_nanos() / 1_000_000, *f))
        .collect();
    assert_eq!(taps, [(3, true), (11, false)]);
}

/// One flow ends at the node in the middle and another passes it, whether the file names that
/// node or not.
#[test]
fn a_node_is_an_end_of_one_flow_and_on_the_way_of_another() {
    let toml = r#"
duration = "2s"
[[link]]
name = "near"
ends = ["client", "mid"]
up   = ["netem delay 3ms", "rate 10Mbit"]
[[link]]
name = "far"
ends = ["mid", "server"]
up   = ["netem delay 4ms", "rate 10Mbit"]
[[flow]]
name = "short"
from = "client"
to   = "mid"
cc   = "cubic"
[[flow]]
name = "long"
from = "client"
to   = "server"
cc   = "cubic"
[[flow]]
name = "back"
from = "mid"
to   = "client"
cc   = "cubic"
"#;
    for middle in ["", "[[router]]\nname = \"mid\"\n"] {
        let outcome = run(&plan(&format!("{toml}{middle}")), 1, &mut Record::default());
        for flow in &outcome.flows {
            assert!(flow.established && flow.delivered > 100_000, "{outcome:?}");
        }
    }
}

#[test]
fn a_probe_that_is_not_answered_in_time_counts_as_lost() {
    let toml = r#"
duration = "13s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 1ms loss 100%"]
down = ["netem delay 1ms"]
[[probe]]
name = "ping"
from = "client"
to   = "server"
interval = "1s"
"#;
    let mut record = Record::default();
    let outcome = run(&plan(toml), 1, &mut record);
    assert!(record.probe_rtts.is_empty());
    assert_eq!(record.probes_lost.len(), 4);
    assert_eq!(record.probes_lost[0], Instant::from_nanos(10_000_000_000));
    assert!(record.drops.iter().all(|(_, c)| *c == DropCause::Loss));
    assert_eq!(outcome.dropped, 13);
}

const NOISY: &str = r#"
duration = "3s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms 3ms distribution paretonormal loss gemodel 1% 20% duplicate 2% reorder 3%", "rate 8Mbit queue fq_codel"]
down = ["netem delay 10ms slot 800us 5ms packets 4"]
[[probe]]
name = "ping"
from = "client"
to   = "server"
interval = "3ms"
[[flow]]
name = "voice"
from = "server"
to   = "client"
traffic = "cbr rate 2Mbit size 400"
"#;

#[test]
fn one_seed_gives_one_digest_and_another_seed_another() {
    let plan = plan(NOISY);
    let digest = |seed| {
        let mut digest = Digest::default();
        run(&plan, seed, &mut digest);
        assert!(digest.events > 5_000);
        digest.value()
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn a_new_element_reseeds_no_other() {
    // A tap more: the same losses, the same delays.
    let rtts = |toml: &str| {
        let mut record = Record::default();
        run(&plan(toml), 1, &mut record);
        (record.probe_rtts, record.drops)
    };
    let with_tap = NOISY.replace("up   = [", "up   = [\"tap first\", ");
    assert_eq!(rtts(NOISY), rtts(&with_tap));
}

#[test]
fn datagrams_arrive_at_their_rate() {
    let mut record = Record::default();
    run(&plan(NOISY), 1, &mut record);
    let mbit = record.goodput_mbit(0, 1, 3);
    assert!((mbit - 2.0).abs() < 0.02, "{mbit}");
    let (at, flow, _, complete) = record.finished[0];
    assert_eq!(
        (at, flow, complete),
        (Instant::from_nanos(3_000_000_000), 0, false)
    );
}

#[test]
fn a_cancelled_run_says_so_and_still_adds_up() {
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let handle = RunHandle {
        cancel: Some(&cancel),
        ..RunHandle::default()
    };
    let mut record = Record::default();
    let outcome = narrows_sim::run(&plan(NOISY), 1, &mut record, &handle).unwrap();
    assert!(outcome.interrupted);
    assert_eq!(outcome.virtual_time, Duration::ZERO);
    conserves(&outcome);
}

/// Drops every third packet that leaves.
struct Third(u32);

impl HostHook for Third {
    fn egress(
        &mut self,
        _: Instant,
        role: Role,
        _: &mut Packet,
        _: Option<&SocketFacts>,
    ) -> HookVerdict {
        assert_eq!(role, Role::Initiator);
        self.0 += 1;
        if self.0 % 3 == 0 {
            HookVerdict::Drop
        } else {
            HookVerdict::Pass
        }
    }

    fn ingress(
        &mut self,
        _: Instant,
        _: Role,
        _: &mut Packet,
        _: Option<&SocketFacts>,
    ) -> HookVerdict {
        HookVerdict::Pass
    }
}

#[test]
fn a_hook_sees_every_packet_of_its_host_and_may_drop_it() {
    let mut sim = Simulation::new(&plan(DUMBBELL), 1).unwrap();
    assert!(sim.add_hook("host/client", Box::new(Third(0))));
    assert!(!sim.add_hook("host/nobody", Box::new(Third(0))));
    let mut record = Record::default();
    let outcome = sim.run(&mut record, &RunHandle::default()).unwrap();
    conserves(&outcome);
    assert_eq!(record.probe_rtts.len(), 14);
    assert_eq!(outcome.dropped, 6);
}
