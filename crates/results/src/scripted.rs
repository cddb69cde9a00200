//! An engine whose runs are a script of events, for tests of what is made of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use narrows_core::{Event, EventSink, FlowId, Packet, PacketId};
use narrows_engine::{Ended, Engine, EngineError, RunHandle, VirtualKernel};
use narrows_scenario::{Draft, NameTable, Plan};
use narrows_units::{Duration, Instant};

/// A flow over a bottleneck, with a tap in front of it and two captures.
const SCENARIO: &str = r#"
version  = 1
name     = "two ends"
duration = "4s"
measure  = "1s..3s"
seed     = 5

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "tap mid", "bottleneck: rate 10Mbit queue pfifo"]
down = ["netem delay 10ms"]

[[flow]]
name = "first"
from = "client"
to   = "server"
cc   = "cubic"

[[capture]]
name = "near-end"
at   = "host/client"

[[capture]]
name = "mid"
at   = "tap/mid"
"#;

pub(crate) fn plan() -> Plan {
    let plan = Draft::read("scripted.toml", SCENARIO.as_bytes()).and_then(|draft| draft.check());
    plan.unwrap_or_else(|refusal| panic!("{refusal}"))
}

pub(crate) fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A packet of the plan's flow.
pub(crate) fn packet(id: u64) -> Packet {
    Packet {
        id: PacketId(id),
        flow: Some(FlowId(0)),
        ..Packet::default()
    }
}

/// Reports the events of a run, each with its time in ms.
pub(crate) type Script = dyn Fn(&NameTable, &mut dyn FnMut(u64, Event<'_>)) + Sync;

pub(crate) struct Scripted<'a> {
    pub(crate) name: &'static str,
    pub(crate) alone: bool,
    pub(crate) kernel: Option<VirtualKernel>,
    pub(crate) script: &'a Script,
    /// How its runs end, if they are not cancelled.
    pub(crate) ended: Ended,
    /// Events that were handed out before a run was cancelled.
    pub(crate) handed_out: AtomicUsize,
}

impl<'a> Scripted<'a> {
    /// A simulator.
    pub(crate) fn new(script: &'a Script) -> Self {
        Self {
            name: "sim",
            alone: false,
            kernel: None,
            script,
            ended: Ended {
                virtual_time: Duration::from_secs(4),
                ..Ended::default()
            },
            handed_out: AtomicUsize::new(0),
        }
    }
}

/// A simulator of whose runs nothing is reported.
pub(crate) fn silent() -> Scripted<'static> {
    Scripted::new(&|_, _| {})
}

/// A kernel in virtual time.
pub(crate) fn kernel() -> VirtualKernel {
    VirtualKernel {
        id: "7.3.4-0123456789ab".to_owned(),
        release: "7.3.4-narrows".to_owned(),
        ..VirtualKernel::default()
    }
}

impl Engine for Scripted<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn virtual_kernel(&self) -> Option<&VirtualKernel> {
        self.kernel.as_ref()
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        NameTable::of(plan).as_slice().to_vec()
    }

    fn alone(&self) -> bool {
        self.alone
    }

    fn run(
        &self,
        plan: &Plan,
        _: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        let mut ended = self.ended.clone();
        (self.script)(&NameTable::of(plan), &mut |ms, event| {
            ended.interrupted |= !handle.tick(at(ms));
            if !ended.interrupted {
                self.handed_out.fetch_add(1, Ordering::Relaxed);
                sink.record(at(ms), event);
            }
        });
        Ok(ended)
    }
}
