//! DA-LBE: transfers that are done by their deadline and yield until then.

use crate::rig::{Record, flow, plan, run};
use narrows_cc::{ControlSpec, DalbeInterval, DalbeLaw};

/// 60 s of 32.5 MB, which are 4.33 Mbit/s, from 2 s on over 20 Mbit/s and 30 ms, with
/// a queue of a bandwidth-delay product; `others` beside it.
fn transfer(queue: &str, words: &str, others: &str) -> Record {
    let control = format!("dalbe {words} deadline 60s size 32500000b");
    transfer_by(&control, queue, others)
}

fn transfer_by(control: &str, queue: &str, others: &str) -> Record {
    let link = format!(
        r#"
duration = "75s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 15ms", "bottleneck: rate 20Mbit queue {queue}"]
down = ["netem delay 15ms"]
"#
    );
    let background = format!(
        "cc = \"{control}\"\nstart = \"2s\"\n\
         traffic = \"bytes 32500000b\""
    );
    let toml = link + &flow("background", &background) + others;
    let mut record = Record::default();
    run(&plan(&toml), 1, &mut record);
    record
}

/// Seconds that the background transfer took.
fn took(record: &Record) -> f64 {
    let done = record.finished.iter().find(|(_, flow, ..)| *flow == 0);
    let (at, _, bytes, complete) = done.expect("it is done");
    assert!(*complete && *bytes == 32_500_000);
    at.as_nanos() as f64 / 1e9 - 2.0
}

/// What it reported, a row for each interval.
fn intervals(record: &Record) -> Vec<DalbeInterval> {
    let mut rows: Vec<DalbeInterval> = Vec::new();
    let mut row = DalbeInterval::default();
    let mut at = None;
    for (time, flow, field, value) in &record.telemetry {
        if *flow != 0 {
            continue;
        }
        if at.is_some_and(|at| at != *time)
            && rows.last().is_none_or(|r| r.intervals < row.intervals)
        {
            rows.push(row);
        }
        at = Some(*time);
        row.set(field.name, field.in_units(*value));
    }
    rows
}

#[test]
fn it_is_done_at_its_deadline_beside_a_cubic_flow_that_keeps_the_rest() {
    for over in ["vegas", "cubic", "reno", "ledbat"] {
        for policy in ["pid", "mbc"] {
            let words = format!("over {over} policy {policy}");
            let cubic = flow("cubic", "cc = \"cubic\"\nstart = \"0s\"");
            let record = transfer("pfifo limit 50", &words, &cubic);
            let late = took(&record) / 60.0 - 1.0;
            assert!((-0.02..=0.02).contains(&late), "{words}: {late}");
            // 19.1 Mbit/s of payload less 4.33.
            let kept = record.goodput_mbit(1, 2, 62);
            assert!(kept > 0.95 * 14.8, "{words}: {kept} Mbit/s kept");
            // Fixed point against double precision, in each interval.
            let spec = ControlSpec::parse(&format!("dalbe {words}")).unwrap();
            let law = DalbeLaw::of(&spec).unwrap();
            let rows = intervals(&record);
            assert!(rows.len() > 50, "{words}: {} intervals", rows.len());
            // Before the first one there may be no connection yet.
            let rows: Vec<_> = rows.into_iter().filter(|r| r.intervals > 0.0).collect();
            // The last ones may be shorter than the time between two samples.
            let pairs = rows.windows(2);
            for pair in pairs.filter(|p| p[1].intervals == p[0].intervals + 1.0) {
                let exact = law.step(&pair[0], &pair[1]);
                let off = (pair[1].w / exact.w - 1.0).abs();
                assert!(off < 1e-3, "{words}: {off} in {:?}", pair[1]);
            }
            println!("{words}: {:+.2} %, {kept:.2} Mbit/s kept", 100.0 * late);
        }
    }
}

#[test]
fn over_dctcp_it_yields_to_dctcp_at_a_step_mark() {
    let other = flow("dctcp", "cc = \"dctcp\"\nstart = \"0s\"");
    let step = "codel ecn target 1s interval 10s ce_threshold 5ms limit 1000";
    for policy in ["pid", "mbc"] {
        let record = transfer(step, &format!("over dctcp policy {policy}"), &other);
        let late = took(&record) / 60.0 - 1.0;
        // Windows of a dozen packets, which marks move by a tenth and more.
        assert!((-0.03..=0.03).contains(&late), "{policy}: {late}");
        println!("dctcp {policy}: {:+.2} %", 100.0 * late);
    }
}

#[test]
fn free_capacity_is_used() {
    // 32.5 MB at 19.1 Mbit/s are 13.6 s. It takes two intervals to find that nobody is there, and
    // it looks again; over CUBIC the losses are its own, and cost it twenty times as many
    // reductions. What the deadline needs is 60 s.
    for (over, most) in [("vegas", 20.0), ("cubic", 35.0)] {
        let record = transfer("pfifo limit 50", &format!("over {over}"), "");
        let took = took(&record);
        assert!(took < most, "{over}: {took} s");
    }
}

#[test]
fn behind_a_queue_that_isolates_flows_it_is_no_faster_than_the_deadline_needs_while_others_are_there()
 {
    let cubic = flow("cubic", "cc = \"cubic\"\nstart = \"0s\"");
    for (words, others, done) in [
        ("over cubic policy mbc", true, 0.95..1.02),
        ("over vegas policy pid", true, 0.95..1.02),
        // Alone there it takes what is free.
        ("over cubic policy mbc", false, 0.2..0.8),
    ] {
        let record = transfer("fq_codel", words, if others { &cubic } else { "" });
        let took = took(&record) / 60.0;
        assert!(done.contains(&took), "{words}, {others}: {took}");
        if others {
            // In the first quarter, of 19.1 less 4.33: plain CUBIC leaves it 9.5.
            let theirs = record.goodput_mbit(1, 2, 17);
            assert!(theirs > 12.0, "{words}: {theirs}");
        }
    }
    // The null model: what knows no deadline is early, and takes its share.
    let record = transfer_by("cubic", "fq_codel", &cubic);
    assert!(took(&record) < 0.7 * 60.0 && record.goodput_mbit(1, 2, 17) < 11.0);
}

#[test]
fn a_deadline_that_is_out_of_reach_is_said_to_be() {
    // 16 Mbit/s where a fair share is 9.5: said before best effort is tried.
    let link = r#"
duration = "60s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 15ms", "bottleneck: rate 20Mbit queue pfifo limit 50"]
down = ["netem delay 15ms"]
"#;
    let words = "cc = \"dalbe over cubic deadline 30s size 60000000b\"\nstart = \"2s\"\n\
                 traffic = \"bytes 60000000b\"";
    let toml = link.to_owned()
        + &flow("background", words)
        + &flow("cubic", "cc = \"cubic\"\nstart = \"0s\"");
    let mut record = Record::default();
    run(&plan(&toml), 1, &mut record);
    let mut short = record
        .telemetry
        .iter()
        .filter(|(_, _, f, v)| f.name == "short_of" && *v >= 6);
    let (at, ..) = short.next().expect("it is said");
    assert!(at.as_nanos() < 25_000_000_000, "{at}");
}
