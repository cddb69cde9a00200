//! Whole runs against what theory says about them. The single rules have their
//! tests beside the code: PI's step to the bit and p_C, p_L of a fixed p′ in
//! `narrows-aqm`, window against marking probability in `narrows-tcp`.

mod support;

use narrows_lab::{RunSummary, SimEngine};
use narrows_packet::{DropCause, Event, EventSink};
use narrows_sim::Control;
use narrows_units::Instant;
use support::{plan_of, run};

/// Flows of these congestion controls, classic ones with ECN, through `queue`
/// at 50 Mbit/s and a base RTT of 20 ms.
fn summary(queue: &str, ccs: &[&str]) -> RunSummary {
    let mut text = format!(
        r#"
version  = 1
name     = "theory"
duration = "60s"
measure  = "20s..60s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 50Mbit queue {queue}"]
down = ["netem delay 10ms"]
"#
    );
    for (i, cc) in ccs.iter().enumerate() {
        text += &format!(
            "[[flow]]\nname = \"flow{i}\"\nfrom = \"client\"\nto = \"server\"\n\
             cc = \"{cc}\"\necn = \"accecn\"\n"
        );
    }
    run(&SimEngine, &plan_of(&text)).summary
}

/// RFC 9332 §1: full utilisation with a queue of about a millisecond; the step
/// stands at 1 ms, the ramp of Appendix A.1 ends at 1.2 ms.
#[test]
fn a_lone_prague_fills_dualpi2_with_less_than_two_milliseconds_of_queue() {
    for variant in ["linux", "linux-2020", "rfc9332"] {
        for cc in ["prague", "prague variant 2020"] {
            let summary = summary(&format!("dualpi2 variant {variant}"), &[cc]);
            let queue = summary.queue("link/access/up/bottleneck").unwrap();
            let used = queue.utilisation.unwrap();
            assert!(used >= 0.95, "{variant}, {cc}: {used}");
            let low = queue
                .bands
                .iter()
                .find(|b| b.name == "low_latency")
                .unwrap();
            let p99 = low.sojourn_ms.unwrap().p99;
            assert!(p99 < 2.0, "{variant}, {cc}: {p99} ms");
        }
    }
}

/// How p_L, the share of coupled marks in the L queue, stands to 2√p_C, from
/// the share of marks in the classic queue.
fn coupling(words: &str) -> f64 {
    let summary = summary(&format!("dualpi2 {words}"), &["cubic", "prague"]);
    let queue = summary.queue("link/access/up/bottleneck").unwrap();
    let packets = |band: usize| queue.bands[band].packets as f64;
    let classic = queue.marks.probability as f64 / packets(0);
    let low = queue.marks.coupled as f64 / packets(1);
    low / (2.0 * classic.sqrt())
}

/// RFC 9332 §2.1: p_C = p′² and p_L = k·p′ with k = 2, so p_L = 2√p_C.
#[test]
fn marks_of_both_queues_are_coupled_by_the_square() {
    for variant in ["linux", "linux-2020"] {
        let ratio = coupling(&format!("variant {variant}"));
        assert!((0.9..1.1).contains(&ratio), "{variant}: {ratio}");
    }
    for mutant in ["unsquared", "uncoupled"] {
        let ratio = coupling(&format!("mutant {mutant}"));
        assert!(ratio < 0.6, "{mutant}: {ratio}");
    }
}

/// When a queue dropped.
#[derive(Default)]
struct Drops(Vec<Instant>);

impl EventSink for Drops {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if let Event::Dropped { cause, .. } = event {
            assert_eq!(cause, DropCause::Probability);
            self.0.push(now);
        }
    }
}

/// RFC 8289 §4.2 (control law): the n-th gap between drops is interval/√n.
#[test]
fn codel_under_constant_overload_spaces_its_drops_100_ms_over_root_n() {
    let plan = plan_of(
        r#"
version  = 1
name     = "overload"
duration = "4s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 10Mbit queue codel limit 100000"]
down = ["netem delay 10ms"]

[[flow]]
name = "flood"
from = "client"
to   = "server"
traffic = "cbr rate 20Mbit size 1200"
"#,
    );
    let mut drops = Drops::default();
    narrows_sim::run(&plan, 1, &mut drops, &Control::default()).unwrap();
    assert!(drops.0.len() > 100, "{}", drops.0.len());
    for (i, pair) in drops.0.windows(2).enumerate() {
        let gap = pair[1].since(pair[0]).as_millis_f64();
        // Linux's one Newton step from 1 gives 1/2 for 1/√2.
        let root = if i == 1 { 2.0 } else { (i as f64 + 1.0).sqrt() };
        let law = 100.0 / root;
        // A frame leaves each millisecond.
        assert!(
            (gap - law).abs() < 1.1 + 0.03 * law,
            "{i}: {gap} ms, law {law} ms"
        );
    }
}
