//! The live engine as the laboratory's engine.

use narrows_packet::EventSink;
use narrows_scenario::Plan;
use narrows_units::Duration;

use crate::engine::{Ended, Engine, RunControl};
use crate::rig::{Lateness, Rig, RigCommand, RigDiscipline, RigFlow};

/// The machine's own stacks, in network namespaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveEngine;

impl Engine for LiveEngine {
    fn name(&self) -> &'static str {
        "live"
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        narrows_live::NameTable::of(plan).as_slice().to_vec()
    }

    fn alone(&self) -> bool {
        true
    }

    fn accepts(&self, plan: &Plan) -> Result<(), String> {
        narrows_live::check(plan).map_err(|error| error.to_string())
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        control: &RunControl<'_>,
    ) -> Result<Ended, String> {
        let control = narrows_live::Control {
            cancel: Some(control.cancel),
            progress: Some(control.reached),
            keep: control.keep,
        };
        let before = Ticks::read();
        let outcome =
            narrows_live::run(plan, seed, sink, &control).map_err(|error| error.to_string())?;
        let stolen_pct = before
            .zip(Ticks::read())
            .and_then(|(a, b)| b.stolen_since(a));
        Ok(Ended {
            events: outcome.events,
            packets: outcome.packets,
            virtual_time: outcome.virtual_time,
            interrupted: outcome.interrupted,
            rig: Some(rig(outcome.rig, stolen_pct, plan.measure.length())),
            marks: outcome.marks.into_iter().map(Into::into).collect(),
        })
    }
}

/// What `run.json` says of a rig.
fn rig(rig: narrows_live::Rig, stolen_pct: Option<f64>, window: Duration) -> Rig {
    let late = rig.lateness;
    Rig {
        kernel: rig.kernel,
        lateness: Lateness {
            count: late.count,
            p50_us: late.p50_us,
            p99_us: late.p99_us,
            p999_us: late.p999_us,
            max_us: late.max_us,
        },
        ring_drops: rig.ring_drops,
        refused: rig.refused,
        stolen_pct,
        set_up_s: rig.set_up_s,
        tear_down_s: rig.tear_down_s,
        notes: rig.notes,
        flows: rig.flows.into_iter().map(flow).collect(),
        disciplines: rig
            .disciplines
            .into_iter()
            .map(|d| RigDiscipline {
                element: d.element,
                disciplines: d.disciplines,
                packets: d.packets,
                rate_mbit: d.bytes as f64 * 8.0 / window.as_secs_f64() / 1e6,
                drops: d.drops,
                marks: d.marks,
            })
            .collect(),
        commands: rig
            .commands
            .into_iter()
            .map(|c| RigCommand {
                name: format!("command/{}", c.name),
                line: c.line,
                status: c.status,
                ended: c.ended,
            })
            .collect(),
    }
}

fn flow(flow: narrows_live::FlowFacts) -> RigFlow {
    RigFlow {
        name: format!("flow/{}", flow.name),
        congestion_control: flow.congestion_control,
        ecn: flow.ecn,
        accecn: flow.accecn,
        received_ce: flow.received_ce,
        delivered_ce: flow.delivered_ce,
        gso_max_segs: flow.gso_max_segs,
        notes: flow.notes,
    }
}

/// The processors' time so far, from the first line of `/proc/stat`
/// (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal, in
/// clock ticks; guest time is in user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        const STEAL: usize = 7;
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .take(STEAL + 1)
            .map_while(|word| word.parse().ok())
            .collect();
        Some(Self {
            all: ticks.iter().sum(),
            stolen: *ticks.get(STEAL)?,
        })
    }

    /// In percent; `None` where no tick has passed.
    fn stolen_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|n| *n > 0)?;
        let stolen = self.stolen.saturating_sub(before.stolen);
        Some(100.0 * stolen as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let at =
            |user, steal| Ticks::parse(&format!("cpu  {user} 0 50 800 0 0 5 {steal} 0 0\ncpu0 1"));
        let (before, after) = (at(100, 10).unwrap(), at(280, 30).unwrap());
        assert_eq!(after.stolen_since(before), Some(10.0));
        assert_eq!(before.stolen_since(before), None);
        assert_eq!(Ticks::parse("cpu  1 2 3 4"), None);
        assert_eq!(Ticks::parse(""), None);
    }
}
