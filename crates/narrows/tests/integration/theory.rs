//! Whole runs against what theory says about them. The single rules have their
//! tests beside the code: PI's step to the bit and p_C, p_L of a fixed p′ in
//! `narrows-aqm`, window against marking probability in `narrows-tcp`.

use crate::support::{plan_of, run};
use narrows_core::{DropCause, Event, EventSink, MarkCause};
use narrows_scenario::Plan;
use narrows_sim::RunHandle;
use narrows_sim::SimEngine;
use narrows_units::Instant;

/// Flows of these congestion controls, classic ones with ECN, through `queue`
/// at 50 Mbit/s and a base RTT of 20 ms.
fn scenario(queue: &str, ccs: &[&str]) -> Plan {
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
    plan_of(&text)
}

/// RFC 9332 §1: full utilisation with a queue of about a millisecond; the step
/// is at 1 ms, the ramp of Appendix A.1 ends at 1.2 ms.
#[test]
fn a_lone_prague_fills_dualpi2_with_less_than_two_milliseconds_of_queue() {
    for variant in ["linux", "linux-2020", "rfc9332"] {
        for cc in ["prague", "prague variant 2020"] {
            let plan = scenario(&format!("dualpi2 variant {variant}"), &[cc]);
            let summary = run(&SimEngine, &plan).summary;
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

/// What the queues of DualPI2 let go and marked in the steady window, and which
/// p′ it had at its samples.
#[derive(Default)]
struct Coupling {
    /// Packets of the classic and of the L queue.
    packets: [f64; 2],
    marks: [f64; 2],
    samples: f64,
    sum: f64,
    sum_of_squares: f64,
}

impl EventSink for Coupling {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if now.as_secs_f64() < 20.0 {
            return;
        }
        match event {
            Event::Dequeued { band, .. } => self.packets[band.index()] += 1.0,
            Event::Marked { cause, .. } => match cause {
                MarkCause::Probability => self.marks[0] += 1.0,
                MarkCause::Coupled => self.marks[1] += 1.0,
                MarkCause::Step | MarkCause::Overflow => {}
            },
            Event::QueueSampled { probability, .. } => {
                self.samples += 1.0;
                self.sum += probability;
                self.sum_of_squares += probability * probability;
            }
            _ => {}
        }
    }
}

/// How p_L, the share of coupled marks in the L queue, compares with 2√p_C, from
/// the share of marks in the classic queue, over five seeds. Over a run p′ strays
/// from its mean, and the root of its mean square is above its mean: by that
/// the ratio is corrected.
fn coupling(words: &str) -> f64 {
    let plan = scenario(
        &format!("dualpi2 {words}"),
        &["cubic", "prague variant 2020"],
    );
    let mut all = Coupling::default();
    for seed in 1..=5 {
        narrows_sim::run(&plan, seed, &mut all, &RunHandle::default()).unwrap();
    }
    let classic = all.marks[0] / all.packets[0];
    let low = all.marks[1] / all.packets[1];
    let strays = (all.sum_of_squares / all.samples).sqrt() / (all.sum / all.samples);
    low / (2.0 * classic.sqrt()) * strays
}

/// RFC 9332 §2.1: p_C = p′² and p_L = k·p′ with k = 2, so p_L = 2√p_C.
#[test]
fn marks_of_both_queues_are_coupled_by_the_square() {
    for variant in ["linux", "linux-2020"] {
        let ratio = coupling(&format!("variant {variant}"));
        assert!((0.9..1.1).contains(&ratio), "{variant}: {ratio}");
    }
    let uncoupled = coupling("coupling_factor 1");
    assert!(uncoupled < 0.6, "{uncoupled}");
}

/// Prague of 2022 paces by a fraction of a segment where marks ask for it. With fq,
/// which it is made for, what is paced has left TCP and fills the window, so that the
/// fraction grows again. Inside TCP it leaves room in the window, and Linux's
/// `tcp_is_cwnd_limited` then never lets it grow.
#[test]
fn prague_2022_grows_again_from_below_a_segment_where_the_host_has_fq() {
    let goodput = |host: &str| {
        let plan = plan_of(&format!(
            r#"
version  = 1
name     = "below-a-segment"
duration = "90s"
measure  = "30s..90s"
{host}
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "rate 8Mbit queue dualpi2"]
down = ["netem delay 10ms"]

[[flow]]
name = "p"
from = "client"
to   = "server"
cc   = "prague variant 2022"

[[flow]]
name = "c"
from = "client"
to   = "server"
cc   = "cubic"
"#
        ));
        let summary = run(&SimEngine, &plan).summary;
        summary.flow("p").unwrap().goodput_mbit.unwrap()
    };
    let (fq, timer) = (
        goodput(""),
        goodput("[host_model]\npacing = \"internal\"\n"),
    );
    assert!(fq > 0.5, "{fq}");
    assert!(timer < 0.1, "{timer}");
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
    narrows_sim::run(&plan, 1, &mut drops, &RunHandle::default()).unwrap();
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
