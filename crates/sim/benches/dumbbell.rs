//! Ten virtual seconds of two flows through one bottleneck, for each queue.

use criterion::{Criterion, Throughput, criterion_main};
use narrows_core::NullSink;
use narrows_scenario::{Draft, Plan};
use narrows_sim::RunHandle;

fn plan(queue: &str, traffic: &str) -> Plan {
    let toml = format!(
        r#"version = 1
name = "dumbbell"
duration = "10s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "rate 50Mbit queue {queue}"]
down = ["netem delay 10ms", "rate 50Mbit queue {queue}"]
[[flow]]
name = "one"
from = "client"
to   = "server"
cc   = "cubic"
ecn  = true
traffic = "{traffic}"
[[flow]]
name = "two"
from = "client"
to   = "server"
cc   = "prague"
traffic = "{traffic}"
"#
    );
    Draft::read("dumbbell.toml", toml.as_bytes())
        .and_then(|draft| draft.check())
        .unwrap_or_else(|refusal| panic!("{refusal:?}"))
}

fn dumbbell(c: &mut Criterion) {
    let mut group = c.benchmark_group("dumbbell");
    group.sample_size(10);
    for (name, queue, traffic) in [
        ("datagrams", "pfifo", "cbr rate 25Mbit"),
        ("pfifo", "pfifo", "bulk"),
        ("fq_codel", "fq_codel", "bulk"),
        ("dualpi2", "dualpi2", "bulk"),
    ] {
        let plan = plan(queue, traffic);
        let run = || narrows_sim::run(&plan, 1, &mut NullSink, &RunHandle::default());
        let packets = run().map_or(0, |outcome| outcome.packets);
        group.throughput(Throughput::Elements(packets));
        group.bench_function(name, |b| b.iter(run));
    }
    group.finish();
}

#[allow(missing_docs)] // what the macro makes
mod group {
    use super::dumbbell;
    use criterion::criterion_group;
    criterion_group!(benches, dumbbell);
}
use group::benches;
criterion_main!(benches);
