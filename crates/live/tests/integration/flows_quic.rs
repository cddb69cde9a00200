//! Flows over QUIC with real sockets, over a wire that loses nothing.

use crate::flows_rig::{Run, Seen, delivered, established, finished, with};
use narrows_core::FlowId;
use narrows_live::Report;

#[test]
fn quic_carries_exact_bytes_whoever_opens_and_ends_a_flow_at_its_stop() {
    let mut text = with("");
    for (name, more) in [
        ("a", "traffic = \"bytes 1000003b\""),
        (
            "b",
            "traffic = \"bytes 1000003b\"\nopens = \"server\"\nip = 6",
        ),
        ("c", "stop = \"1s\"\necn = false"),
    ] {
        text += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n\
             cc = \"quic:cubic\"\n{more}\n"
        );
    }
    let Some(mut run) = Run::start("quic_carries_exact_bytes", &text) else {
        return;
    };
    let flows = [0, 1, 2].map(FlowId);
    run.until(|seen| flows.iter().all(|f| finished(seen, *f).is_some()));
    let (facts, reports) = run.stop();
    for (flow, ecn) in flows.into_iter().zip([true, true, false]) {
        let (bytes, complete) = finished(&reports, flow).unwrap();
        assert!(complete && bytes > 0, "{flow:?}");
        assert_eq!(delivered(&reports, flow), bytes);
        assert_eq!(established(&reports, flow), Some((ecn, false)));
        let facts = &facts[flow.0 as usize];
        assert_eq!(facts.congestion_control, "quic:cubic");
        assert_eq!(facts.notes, Vec::<String>::new());
        let rtts = reports
            .iter()
            .filter(|r| matches!(r, Report::RttSample { flow: f, .. } if *f == flow));
        assert!(rtts.count() > 0);
    }
    for flow in &flows[..2] {
        assert_eq!(delivered(&reports, *flow), 1_000_003);
    }
}

#[test]
fn all_packets_of_a_quic_flow_have_its_dscp() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"quic:cubic\"\ndscp = 8\ntraffic = \"bytes 10000b\"\n\
         [[flow]]\nname = \"six\"\nfrom = \"client\"\nto = \"server\"\nip = 6\n\
         cc = \"quic:cubic\"\ndscp = 8\necn = false\ntraffic = \"bytes 10000b\"\n",
    );
    let Some(mut run) = Run::start("all_packets_of_a_quic_flow", &text) else {
        return;
    };
    run.until(|seen| [0, 1].iter().all(|f| finished(seen, FlowId(*f)).is_some()));
    let packets = run.seen();
    run.stop();
    for (i, ect) in [(0, 0b10), (1, 0)] {
        let (near, far) = (32_768 + i, 5_001 + i);
        let ours = |p: &&Seen| p.ports == (near, far) || p.ports == (far, near);
        let classes: Vec<u8> = packets.iter().filter(ours).map(|p| p.class).collect();
        assert!(classes.len() > 4, "{i}");
        assert!(classes.iter().all(|c| c >> 2 == 8), "{i}: {classes:?}");
        // Packets without ECN are sent by an endpoint that has no connection.
        assert!(classes.contains(&(8 << 2 | ect)), "{i}: {classes:?}");
    }
}
