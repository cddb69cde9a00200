//! What datagrams and probes are measured by.

use crate::support::{plan_of, run};
use narrows_results::RunResult;
use narrows_sim::SimEngine;

/// Up 30 ms, of which netem makes up to 60, and down 5 ms.
#[test]
fn datagrams_and_probes_have_one_way_delay_jitter_and_loss() {
    let of = |up: &str| {
        let text = format!(
            "version = 1\nname = \"d\"\nduration = \"20s\"\nmeasure = \"1s..20s\"\n\
             [[link]]\nends = [\"client\", \"server\"]\nup = [\"{up}\"]\n\
             down = [\"netem delay 5ms\"]\n\
             [[flow]]\nname = \"call\"\nfrom = \"client\"\nto = \"server\"\n\
             traffic = \"cbr rate 500kbit\"\n\
             [[probe]]\nname = \"ping\"\nfrom = \"client\"\nto = \"server\"\n"
        );
        run(&SimEngine, &plan_of(&text))
    };
    let even = of("netem delay 30ms");
    let figure = |result: &RunResult, name: &str| {
        narrows_results::metric::lookup(&result.summary, name).unwrap_or_else(|| panic!("{name}"))
    };
    for (way, entity, delay) in [
        ("", "flow/call", 30.0),
        ("there.", "probe/ping", 30.0),
        ("back.", "probe/ping", 5.0),
    ] {
        let of = |metric: &str| figure(&even, &format!("{way}{metric} of {entity}"));
        assert_eq!((of("one_way_ms.min"), of("one_way_ms.max")), (delay, delay));
        assert_eq!((of("jitter_ms.max"), of("variation_ms.p99")), (0.0, 0.0));
    }
    assert_eq!(figure(&even, "loss_pct of flow/call"), 0.0);
    assert_eq!(figure(&even, "loss_pct of probe/ping"), 0.0);
    for (entity, metric) in [
        ("flow/call", "jitter_ms"),
        ("probe/ping", "there_one_way_ms"),
    ] {
        let track = even.series.track(entity, metric).expect("a series");
        assert!(!track.value.is_empty(), "{entity} {metric}");
    }
    let rough = of("netem delay 30ms 10ms loss 10%");
    let (jitter, variation) = (
        figure(&rough, "jitter_ms.mean of flow/call"),
        figure(&rough, "variation_ms.p99 of flow/call"),
    );
    // Of two delays evenly within ±10 ms the mean difference is 20/3 ms.
    assert!((6.0..7.4).contains(&jitter), "{jitter}");
    assert!((18.0..=20.0).contains(&variation), "{variation}");
    assert!((8.0..12.0).contains(&figure(&rough, "loss_pct of flow/call")));
    // The answers' way loses nothing: what is lost are questions, one in ten.
    let lost = figure(&rough, "loss_pct of probe/ping");
    assert!((6.0..14.0).contains(&lost), "{lost}");
    assert_eq!(figure(&rough, "back.jitter_ms.max of probe/ping"), 0.0);
}
