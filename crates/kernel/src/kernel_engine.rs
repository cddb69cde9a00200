//! A kernel in virtual time as an [`Engine`].

use narrows_core::EventSink;
use narrows_engine::{Ended, Engine, EngineError, RunHandle, VirtualKernel};
use narrows_scenario::Plan;

use crate::{KernelError, VirtualMachine};

/// The stacks of a kernel that is booted for each run, in virtual time.
#[derive(Clone, Debug)]
pub struct KernelEngine {
    machine: VirtualMachine,
}

impl KernelEngine {
    /// Runs on `machine`.
    pub fn new(machine: VirtualMachine) -> Self {
        Self { machine }
    }
}

impl Engine for KernelEngine {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn virtual_kernel(&self) -> Option<&VirtualKernel> {
        Some(self.machine.kernel())
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        narrows_live::NameTable::of(plan).as_slice().to_vec()
    }

    fn accepts(&self, plan: &Plan) -> Result<(), EngineError> {
        narrows_live::check_plan(plan).map_err(|error| narrows_live::refused(plan, error))?;
        VirtualMachine::accepts(plan).map_err(EngineError::Refused)
    }

    fn hosts_as_here(&self, plan: &Plan) -> Plan {
        narrows_live::flows::with_hosts_in_virtual_time(plan, &self.machine.kernel().release)
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        control: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        let ended = self.machine.run(plan, seed, sink, control);
        ended.map_err(|error: KernelError| EngineError::Failed(error.to_string()))
    }
}

/// Runs what a guest is to run: the live engine, on the kernel that it finds itself in.
///
/// # Errors
/// What that kernel does not have, or what failed.
pub fn run_in_guest(
    plan: &Plan,
    seed: u64,
    sink: &mut dyn EventSink,
    control: &RunHandle<'_>,
) -> Result<Ended, String> {
    let mut run = || {
        narrows_live::check(plan)?;
        narrows_live::run(plan, seed, sink, control)
    };
    run().map_err(|error: narrows_live::LiveError| error.to_string())
}
