//! Flows over QUIC with real sockets, over a wire that loses nothing.
#![cfg(target_os = "linux")]

mod flows_rig;

use flows_rig::{Run, delivered, established, finished, with};
use narrows_live::Report;
use narrows_packet::FlowId;

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
fn a_dscp_that_quinn_would_overwrite_is_refused() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"quic:cubic\"\ndscp = 8\n",
    );
    let Some((refused, left)) = Run::refused("a_dscp_that_quinn", &text) else {
        return;
    };
    let line = refused.to_string();
    assert!(line.contains("flow/one") && line.contains("DSCP"), "{line}");
    assert_eq!(line.lines().count(), 1);
    assert_eq!(left, Vec::<String>::new());
}
