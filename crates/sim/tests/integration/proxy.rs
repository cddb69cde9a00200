//! Flows that go by a proxy: when their first byte arrives, that all of it does, and what
//! the proxy holds back.

use crate::rig;

use narrows_core::{Event, EventSink, FlowId};
use narrows_scenario::Plan;
use narrows_sim::{RunHandle, Simulation};
use narrows_units::Instant;

/// What became of each flow, and the most that waited in the proxy.
#[derive(Default)]
struct Record {
    first_byte_ms: Vec<Option<f64>>,
    bytes: Vec<u64>,
    complete: Vec<bool>,
    backlog: i64,
    fields: std::collections::BTreeSet<&'static str>,
    starts: Vec<Instant>,
    /// Bytes of each flow that arrived from the first of these times until the second.
    span: Option<[Instant; 2]>,
    in_span: Vec<u64>,
}

impl EventSink for Record {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Delivered {
                flow: FlowId(i),
                bytes,
            } => {
                let i = i as usize;
                self.bytes[i] += bytes;
                if self.span.is_some_and(|[from, to]| from <= now && now < to) {
                    self.in_span[i] += bytes;
                }
                let after = now.since(self.starts[i]).as_millis_f64();
                self.first_byte_ms[i].get_or_insert(after);
            }
            Event::Finished {
                flow: FlowId(i),
                complete,
                ..
            } => {
                self.complete[i as usize] = complete;
            }
            Event::Telemetry { field, value, .. } => {
                self.fields.insert(field.name);
                if field.name == "proxy_backlog" {
                    self.backlog = self.backlog.max(value);
                }
            }
            _ => {}
        }
    }
}

fn run(plan: &Plan) -> Record {
    run_over(plan, None)
}

fn run_over(plan: &Plan, span: Option<[Instant; 2]>) -> Record {
    let flows = plan.flows.len();
    let mut record = Record {
        first_byte_ms: vec![None; flows],
        bytes: vec![0; flows],
        complete: vec![false; flows],
        starts: plan.flows.iter().map(|f| f.start).collect(),
        span,
        in_span: vec![0; flows],
        ..Record::default()
    };
    let sim = Simulation::new(plan, 1).unwrap();
    let outcome = sim.run(&mut record, &RunHandle::default()).unwrap();
    rig::conserves(&outcome);
    record
}

/// A client, a tower that forwards and has a proxy, and a phone; nothing but delay between
/// them.
fn path(proxy: &str, flows: &str) -> Plan {
    rig::plan(&format!(
        "duration = \"5s\"\n\
         [[link]]\nname = \"wire\"\nends = [\"client\", \"tower\"]\n\
         up = [\"netem delay 50ms\"]\ndown = [\"netem delay 50ms\"]\n\
         [[link]]\nname = \"air\"\nends = [\"tower\", \"phone\"]\n\
         up = [\"netem delay 10ms\"]\ndown = [\"netem delay 10ms\"]\n\
         [[proxy]]\nname = \"pep\"\nhost = \"tower\"\n{proxy}\n{flows}"
    ))
}

fn flow(name: &str, start: &str, more: &str) -> String {
    format!(
        "[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"phone\"\ncc = \"cubic\"\n\
         bytes = 1000\nstart = \"{start}\"\n{more}\n"
    )
}

/// The first bytes of two equal flows, one after the other, in ms.
fn first_bytes(proxy: &str, more: &str) -> [f64; 2] {
    let flows = flow("cold", "0s", more) + &flow("warm", "2s", more);
    let record = run(&path(proxy, &flows));
    assert_eq!(record.complete, [true, true]);
    [0, 1].map(|i| record.first_byte_ms[i].expect("a byte"))
}

#[test]
fn the_first_byte_arrives_after_the_round_trips_that_each_handshake_takes() {
    // With R1 of 100 ms and R2 of 20 ms.
    let open = "via = \"pep\"\nfast_open = true\n";
    for (layout, proxy) in [("rfc8803", ""), ("thesis", "layout = \"thesis\"")] {
        assert_eq!(first_bytes(proxy, ""), [180.0, 180.0], "direct");
        let cold = 1.5 * 120.0;
        let request_alone = 150f64.max(50.0 + 20.0) + 10.0;
        assert_eq!(first_bytes(proxy, open), [cold, request_alone], "{layout}");
        let with_data = format!("{open}first_data = \"with-request\"\n");
        assert_eq!(
            first_bytes(proxy, &with_data),
            [cold, 50.0 + 30.0],
            "{layout}"
        );
        let both = format!("{proxy}\nfast_open = true\n");
        // The first connection onward is cold as well.
        assert_eq!(first_bytes(&both, &with_data), [cold, 60.0], "{layout}");
    }
    let awaited = "via = \"pep\"\nfirst_data = \"after-answer\"\n";
    assert_eq!(first_bytes("", awaited), [2.5 * 100.0 + 1.5 * 20.0; 2]);
}

#[test]
fn all_bytes_go_through_both_ways_and_with_either_end_opening() {
    let flow = |name: &str, from: &str, to: &str, opens: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             opens = \"{opens}\"\ncc = \"cubic\"\nbytes = 3000000\nvia = \"pep\"\n"
        )
    };
    let flows = flow("up", "client", "phone", "client")
        + &flow("down", "phone", "client", "client")
        + &flow("pulled", "client", "phone", "phone")
        + &flow("pushed", "phone", "client", "phone");
    for more in [
        "",
        "layout = \"thesis\"",
        "near_cc = \"reno\"\nfar_cc = \"prague\"",
    ] {
        let record = run(&path(more, &flows));
        assert_eq!(record.complete, [true; 4], "{more}");
        assert_eq!(record.bytes, [3_000_000; 4], "{more}");
    }
}

#[test]
fn what_waits_in_the_proxy_stays_within_its_backlog_and_is_reported_of_each_leg() {
    let plan = rig::plan(
        "duration = \"4s\"\n\
         [[link]]\nname = \"wire\"\nends = [\"client\", \"tower\"]\n\
         up = [\"netem delay 20ms\", \"rate 100Mbit\"]\ndown = [\"netem delay 20ms\"]\n\
         [[link]]\nname = \"air\"\nends = [\"tower\", \"phone\"]\n\
         up = [\"netem delay 5ms\", \"rate 10Mbit queue fq_codel\"]\ndown = [\"netem delay 5ms\"]\n\
         [[proxy]]\nname = \"pep\"\nhost = \"tower\"\nbacklog = 400000\nfar_unsent = 60000\n\
         near_window = 300000\n\
         [[flow]]\nname = \"bulk\"\nfrom = \"client\"\nto = \"phone\"\ncc = \"cubic\"\nvia = \"pep\"\n",
    );
    let record = run(&plan);
    assert!(
        (390_000..=400_000).contains(&record.backlog),
        "{}",
        record.backlog
    );
    for field in ["near_cwnd", "far_cwnd", "far_srtt", "far_delivery_rate"] {
        // Nothing but the answer to the request is sent to the client.
        assert_eq!(
            record.fields.contains(field),
            field.starts_with("far"),
            "{field}"
        );
    }
    let mbit = record.bytes[0] as f64 * 8.0 / 4e6;
    assert!(mbit > 0.9 * 10.0 * 1448.0 / 1514.0, "{mbit}");
}

#[test]
fn a_capacity_sizes_windows_marks_and_backlog_by_the_round_trips_of_the_legs() {
    let flows = flow("f", "0s", "via = \"pep\"");
    let proxy = &path("capacity = \"80Mbit\"", &flows).proxies[0];
    // 1 MB in the 100 ms of the near leg, 200 kB in the 20 ms of the far one.
    assert_eq!(proxy.near.window, Some(2_000_000));
    assert_eq!(proxy.far.window, Some(400_000));
    assert_eq!(proxy.backlog, 1_000_000);
    assert_eq!(proxy.near.unsent, Some(1_000_000));
    assert_eq!(proxy.far.unsent, Some(256 << 10));
    let said = "capacity = \"80Mbit\"\nbacklog = 5000000\nnear_window = 70000";
    let proxy = &path(said, &flows).proxies[0];
    assert_eq!(
        (proxy.backlog, proxy.near.window),
        (5_000_000, Some(70_000))
    );
}

/// Mbit/s of each of `flows` flows by a proxy, in the second that begins half a second after
/// the rate of its short leg has risen from 10 to 80 Mbit/s.
fn after_a_rise(proxy: &str, flows: usize) -> Vec<f64> {
    let flow = |i| {
        format!(
            "[[flow]]\nname = \"bulk{i}\"\nfrom = \"client\"\nto = \"phone\"\n\
             cc = \"cubic\"\nvia = \"pep\"\n"
        )
    };
    let flows: String = (0..flows).map(flow).collect();
    let plan = rig::plan(&format!(
        "duration = \"8s\"\n\
         [[link]]\nname = \"wire\"\nends = [\"client\", \"tower\"]\n\
         up = [\"netem delay 20ms\", \"rate 200Mbit\"]\ndown = [\"netem delay 20ms\"]\n\
         [[link]]\nname = \"air\"\nends = [\"tower\", \"phone\"]\n\
         up = [\"netem delay 10ms\", \"bottleneck: rate 10Mbit queue fq_codel\"]\n\
         down = [\"netem delay 10ms\"]\n\
         [[change]]\nat = \"6s\"\ntarget = \"link/air/up/bottleneck\"\nto = \"rate 80Mbit\"\n\
         [[proxy]]\nname = \"pep\"\nhost = \"tower\"\n{proxy}\n{flows}"
    ));
    let span = [6_500, 7_500].map(|ms| Instant::from_nanos(ms * 1_000_000));
    let record = run_over(&plan, Some(span));
    let mbit = |bytes: &u64| *bytes as f64 * 8.0 / 1e6;
    record.in_span.iter().map(mbit).collect()
}

#[test]
fn a_leg_that_is_given_the_rate_has_it_half_a_second_after_it_rose() {
    const NINE_TENTHS: f64 = 0.9 * 80.0 * 1448.0 / 1514.0;
    let given = "far_cc = \"quickstart\"\nfar_hint = \"link/air/up/bottleneck\"";
    let [alone] = after_a_rise(given, 1)[..] else {
        panic!("one flow");
    };
    assert!(alone >= NINE_TENTHS, "{alone}");
    // Three share it, each as much as the others.
    let three = after_a_rise(given, 3);
    assert!(three.iter().sum::<f64>() >= NINE_TENTHS, "{three:?}");
    assert!(
        three.iter().all(|mbit| *mbit >= NINE_TENTHS / 3.5),
        "{three:?}"
    );
    // Who is not given it has to find it out.
    for proxy in ["", "far_cc = \"quickstart\""] {
        let found = after_a_rise(proxy, 1);
        assert!(found[0] < NINE_TENTHS, "{proxy}: {found:?}");
    }
}
