//! What was negotiated, and codepoints on their way.

use super::*;

#[test]
fn what_was_asked_for_or_what_the_control_needs_is_negotiated() {
    let got = |keys: &str, ecn: bool, accecn: bool| {
        let verdict = judged(with("cc   = \"prague\"", keys), |_, summary| {
            let flow = &mut summary.flows[0];
            (flow.ecn, flow.accecn) = (ecn, accecn);
        });
        let mut reasons = verdict.reasons();
        let line = reasons.next().map(|f| f.line.clone());
        assert_eq!(reasons.count(), 0, "{keys}");
        line.map(|line| line.replace("flow/first asked for ", ""))
    };
    let prague = "cc = \"prague\"";
    let dctcp = "cc = \"kernel:dctcp\"";
    let cubic = "cc = \"cubic\"";
    let classic = "cc = \"cubic\"\necn = true";
    let off = "cc = \"cubic\"\necn = false";
    for (keys, ecn, accecn, expected) in [
        (prague, false, true, None),
        (prague, true, true, None),
        (
            prague,
            true,
            false,
            Some("AccECN and negotiated classic ECN"),
        ),
        (prague, false, false, Some("AccECN and negotiated no ECN")),
        (dctcp, true, false, None),
        (dctcp, true, true, Some("classic ECN and negotiated AccECN")),
        (
            dctcp,
            false,
            false,
            Some("classic ECN and negotiated no ECN"),
        ),
        // One that needs none asks for none.
        (cubic, false, false, None),
        (
            cubic,
            true,
            false,
            Some("no ECN and negotiated classic ECN"),
        ),
        (classic, true, false, None),
        (
            classic,
            false,
            false,
            Some("classic ECN and negotiated no ECN"),
        ),
        (
            classic,
            true,
            true,
            Some("classic ECN and negotiated AccECN"),
        ),
        (off, false, false, None),
        (off, true, false, Some("no ECN and negotiated classic ECN")),
        (off, false, true, Some("no ECN and negotiated AccECN")),
    ] {
        assert_eq!(got(keys, ecn, accecn).as_deref(), expected, "{keys}");
    }
    let never = judged(plan_of(SCENARIO), |_, summary| {
        summary.flows[0].accecn = false;
        summary.flows[0].established_s = None;
    });
    assert_eq!(against(&never), ["never-started"]);
}

#[test]
fn codepoints_change_only_where_an_element_may_change_them() {
    let found = |besides: &str, sent: [u64; 4], received: [u64; 4]| {
        let up = format!("up   = [{besides}\"netem delay 10ms\", ");
        let plan = with("up   = [\"netem delay 10ms\", ", &up);
        let verdict = judged(plan, |_, summary| {
            let codepoints = &mut summary.flows[0].codepoints;
            (codepoints.sent, codepoints.received) = (sent, received);
        });
        let reasons = verdict.reasons();
        let lines = reasons.map(|f| {
            assert_eq!(f.check, "codepoint-changed");
            f.line.clone()
        });
        lines.collect::<Vec<_>>()
    };
    let arrived = |n: u64, word: &str| {
        vec![format!(
            "{n} packets of flow/first arrived as {word} that were sent as something else"
        )]
    };
    // Loss and marks are no change of that kind.
    assert_eq!(found("", [2, 100, 0, 0], [2, 60, 0, 30]), [""; 0]);
    assert_eq!(found("", [2, 9, 9, 0], [3, 9, 9, 0]), arrived(1, "Not-ECT"));
    assert_eq!(found("", [2, 9, 9, 0], [2, 11, 9, 0]), arrived(2, "ECT(1)"));
    assert_eq!(found("", [2, 9, 9, 0], [2, 9, 12, 0]), arrived(3, "ECT(0)"));
    assert_eq!(
        found("", [9, 0, 0, 0], [8, 0, 0, 1]),
        ["1 packets of flow/first arrived with CE, and none was sent that may be marked"]
    );
    assert_eq!(found("", [9, 0, 0, 0], [9, 0, 0, 0]), [""; 0]);
    for allowed in [
        "\"remark if dscp 8 ecn not-ect\", ",
        "\"netem corrupt 1%\", ",
    ] {
        assert_eq!(found(allowed, [2, 9, 0, 0], [5, 6, 0, 0]), [""; 0]);
    }
    // A copy is received besides what was sent, as what that was.
    let twice = "\"netem duplicate 5%\", ";
    assert_eq!(found(twice, [2, 9, 0, 0], [4, 11, 0, 0]), [""; 0]);
    assert_eq!(
        found(twice, [0, 9, 0, 0], [2, 9, 0, 0]),
        arrived(2, "Not-ECT")
    );
    assert_eq!(
        found("\"remark dscp 8\", ", [2, 9, 0, 0], [4, 9, 0, 0]),
        arrived(2, "Not-ECT")
    );
}
