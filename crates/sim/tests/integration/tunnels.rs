//! Flows through tunnels: whose packets are in them, how long, and what their ends drop.

use std::collections::BTreeSet;

use narrows_core::{DropCause, Event, EventSink, FlowId, PacketId, RecoveryEvent};
use narrows_units::Instant;
use narrows_wire::{FlowKey, Ip};

use crate::rig::{Record, flow, plan, run};

/// A path of 20 ms and 50 Mbit/s; these elements are in a tunnel of these words before the
/// bottleneck, which is in it, too.
fn path(tunnel: &str, inside: &str, flows: &str) -> String {
    format!(
        r#"
duration = "10s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "tunnel {tunnel}", {inside} "bottleneck: rate 50Mbit queue pfifo limit 200", "tunnel end"]
down = ["netem delay 10ms", "tunnel {tunnel}", {inside} "tunnel end"]
{flows}
"#
    )
}

/// What passes a tap in the tunnel.
#[derive(Default)]
struct Tapped {
    record: Record,
    keys: BTreeSet<FlowKey>,
    ids: BTreeSet<(PacketId, Option<FlowId>)>,
    longest: usize,
}

impl EventSink for Tapped {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if let Event::Tapped { packet, .. } = event {
            self.keys.extend(FlowKey::of(&packet.bytes));
            self.ids.insert((packet.id, packet.flow));
            let ip = Ip::parse(&packet.bytes).unwrap();
            assert_eq!(ip.total_len, packet.len() as usize);
            self.longest = self.longest.max(ip.total_len);
        }
        self.record.record(now, event);
    }
}

#[test]
fn flows_in_a_tunnel_are_the_same_flows_behind_one_five_tuple() {
    for (words, outer) in [("wireguard", 60), ("fou", 28), ("ipsec ipv6", 72)] {
        let flows = flow("bulk", "cc = \"cubic\"")
            + &flow("calls", "traffic = \"cbr rate 1Mbit size 1200\"");
        let plan = plan(&path(words, "\"tap mid\",", &flows));
        let mut tapped = Tapped::default();
        run(&plan, 1, &mut tapped);
        assert_eq!(tapped.keys.len(), 2, "one each way: {:?}", tapped.keys);
        let ends: BTreeSet<_> = plan.boxes().iter().flat_map(|b| b.addresses).collect();
        assert!(tapped.keys.iter().all(|k| ends.contains(&k.source)));
        assert!(tapped.ids.iter().all(|(_, flow)| flow.is_some()));
        let ids: BTreeSet<_> = tapped.ids.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), tapped.ids.len(), "a packet has one flow");
        assert!(
            tapped.longest <= 1500 && tapped.longest > 1490,
            "{}",
            tapped.longest
        );
        // The first window was too long for the tunnel, and nothing after it.
        let drops = &tapped.record.drops;
        let too_big: Vec<_> = drops.iter().filter(|d| d.1 == DropCause::TooBig).collect();
        assert!(
            (1..=10).contains(&too_big.len()),
            "{words}: {}",
            too_big.len()
        );
        assert!(too_big.iter().all(|d| d.0.as_nanos() < 100_000_000));
        let recoveries = tapped.record.recoveries.iter();
        let mut timeouts = recoveries.filter(|r| r.2 == RecoveryEvent::RetransmissionTimeout);
        assert!(timeouts.next().is_none());
        let mbit = tapped.record.goodput_mbit(0, 3, 10);
        // The other flow has 1 Mbit/s of payload in packets of 1200 bytes.
        let share = (1500 - outer - 52) as f64 / 1514.0;
        let least = 0.97 * (50.0 - 1.1) * share;
        assert!((least..50.0 * share).contains(&mbit), "{words}: {mbit}");
    }
}

#[test]
fn with_automatic_source_ports_each_flow_has_a_five_tuple_in_the_tunnel() {
    let flows = flow("one", "cc = \"cubic\"") + &flow("two", "cc = \"cubic\"");
    let mut tapped = Tapped::default();
    run(
        &plan(&path("fou sport auto", "\"tap mid\",", &flows)),
        1,
        &mut tapped,
    );
    assert_eq!(tapped.keys.len(), 4, "{:?}", tapped.keys);
}

#[test]
fn a_smaller_mtu_in_a_tunnel_is_discovered_through_its_end() {
    let flows = flow("bulk", "cc = \"cubic\"");
    let mut record = Record::default();
    run(
        &plan(&path("wireguard", "\"mtu 1400\",", &flows)),
        1,
        &mut record,
    );
    let mbit = record.goodput_mbit(0, 3, 10);
    let ideal = 50.0 * (1400 - 60 - 52) as f64 / 1414.0;
    assert!(
        (0.99 * ideal..=1.001 * ideal).contains(&mbit),
        "{mbit} of {ideal}"
    );
}

#[test]
fn what_is_overtaken_in_a_tunnel_is_dropped_below_its_window_only() {
    // Packets of one class are 20 ms, some 80 packets, behind the others.
    let flows = flow("fast", "traffic = \"cbr rate 40Mbit size 1000\"")
        + &flow("slow", "traffic = \"cbr rate 4Mbit size 1000\"\ndscp = 8");
    let lost = |replay: &str| {
        let inside = "\"by dscp cs1 (netem delay 20ms)\",";
        let mut record = Record::default();
        let words = format!("ipsec replay {replay}");
        run(&plan(&path(&words, inside, &flows)), 1, &mut record);
        let replayed = record.drops.iter().filter(|d| d.1 == DropCause::Replay);
        replayed.count()
    };
    assert_eq!(lost("off"), 0);
    // 44 Mbit/s of 1000 bytes for 20 ms: 110 packets.
    assert_eq!(lost("120"), 0);
    let dropped = lost("100");
    // All of 4 Mbit/s for 10 s but those that nothing has overtaken.
    assert!((4900..=5000).contains(&dropped), "{dropped}");
}
