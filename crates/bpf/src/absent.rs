//! The same names where nothing can be loaded: each answers with the reason.

use std::convert::Infallible;
use std::os::fd::BorrowedFd;

use narrows_cc::ControlSpec;

use crate::error::{BpfError, NOT_BUILT};
use crate::packets::Packet;
use crate::{
    EcnFlags, Record, SignalCost, SignalCounters, SignalOptions, SignalRecord, SignalRun, Survey,
    Trace,
};

/// Loads congestion controls; here it says why it cannot.
#[derive(Debug)]
pub struct ControlLoader(());

impl ControlLoader {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this build cannot load BPF.
    pub fn load(_: &ControlSpec, _: &str, _: EcnFlags, _: Trace) -> Result<Loaded, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }
}

/// A loaded congestion control; there is none in this build.
#[derive(Debug)]
pub struct Loaded(Infallible);

impl Loaded {
    /// The registered name.
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// What sets and reads the options of sockets.
    ///
    /// # Errors
    /// Never here.
    pub fn socket_options(&self) -> Result<SocketOptions, BpfError> {
        match self.0 {}
    }

    /// What the kernel accepted.
    pub fn ecn(&self) -> EcnFlags {
        match self.0 {}
    }

    /// Reads what came through the ring buffer.
    ///
    /// # Errors
    /// Never here.
    pub fn poll(&mut self, _: impl FnMut(Record)) -> Result<usize, BpfError> {
        match self.0 {}
    }

    /// Records lost because the ring buffer was full.
    ///
    /// # Errors
    /// Never here.
    pub fn dropped(&self) -> Result<u64, BpfError> {
        match self.0 {}
    }
}

/// Options of sockets that use a control; there are none in this build.
#[derive(Clone, Debug)]
pub struct SocketOptions(Infallible);

impl SocketOptions {
    /// The registered name of the control.
    pub fn control(&self) -> &str {
        match self.0 {}
    }

    /// Sets an option of a socket.
    ///
    /// # Errors
    /// Never here.
    pub fn set(&self, _: BorrowedFd<'_>, _: &str, _: u64, _: bool) -> Result<(), BpfError> {
        match self.0 {}
    }

    /// What a socket runs.
    ///
    /// # Errors
    /// Never here.
    pub fn of(&self, _: BorrowedFd<'_>) -> Result<ControlSpec, BpfError> {
        match self.0 {}
    }
}

/// Gives packets ECT(1); here it says why it cannot.
#[derive(Debug)]
pub struct Ect1(Infallible);

impl Ect1 {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this build cannot load BPF.
    pub fn attach(_: u32) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always: this build cannot load BPF.
    pub fn attach_clsact(_: u32) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    /// Whether it is attached by tcx.
    pub fn is_tcx(&self) -> bool {
        match self.0 {}
    }
}

/// Marks packets at a device; here it says why it cannot.
#[derive(Debug)]
pub struct SignalProgram(Infallible);

impl SignalProgram {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this build cannot load BPF.
    pub fn attach(_: u32, _: &narrows_efm::SignalSpec) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always: this build cannot load BPF.
    pub fn attach_with(
        _: u32,
        _: &narrows_efm::SignalSpec,
        _: &SignalOptions,
    ) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    /// Whether it is attached by tcx.
    pub fn is_tcx(&self) -> bool {
        match self.0 {}
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// Never here.
    pub fn counters(&self) -> Result<SignalCounters, BpfError> {
        match self.0 {}
    }

    /// Records of a trace that found no room.
    ///
    /// # Errors
    /// Never here.
    pub fn untraced(&self) -> Result<u64, BpfError> {
        match self.0 {}
    }

    /// Hands over the records of a trace.
    ///
    /// # Errors
    /// Never here.
    pub fn poll(&mut self, _: impl FnMut(SignalRecord)) -> Result<usize, BpfError> {
        match self.0 {}
    }
}

/// The marking programs without a device; here it says why there are none.
#[derive(Debug)]
pub struct SignalRuns(Infallible);

impl SignalRuns {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this build cannot load BPF.
    pub fn load(_: &narrows_efm::SignalSpec, _: &SignalOptions) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    /// A frame leaves.
    ///
    /// # Errors
    /// Never here.
    pub fn leave(&self, _: &[u8], _: u32) -> Result<SignalRun, BpfError> {
        match self.0 {}
    }

    /// A frame of this host's TCP leaves.
    ///
    /// # Errors
    /// Never here.
    pub fn leave_at(&self, _: &[u8], _: u32, _: u64) -> Result<SignalRun, BpfError> {
        match self.0 {}
    }

    /// A frame arrives.
    ///
    /// # Errors
    /// Never here.
    pub fn arrive(&self, _: &[u8], _: u32) -> Result<SignalRun, BpfError> {
        match self.0 {}
    }

    /// What they have done so far.
    ///
    /// # Errors
    /// Never here.
    pub fn counters(&self) -> Result<SignalCounters, BpfError> {
        match self.0 {}
    }
}

/// Refuses.
///
/// # Errors
/// Always: this build cannot load BPF.
pub fn signal_cost(_: &[u8], _: u32) -> Result<SignalCost, BpfError> {
    Err(BpfError::NotBuilt(NOT_BUILT))
}

/// Reports a device's packets; here it says why it cannot.
#[derive(Debug)]
pub struct Tap(Infallible);

impl Tap {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this build cannot load BPF.
    pub fn attach(_: u32) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    /// Reads what passed.
    ///
    /// # Errors
    /// Never here.
    pub fn poll(&mut self, _: impl FnMut(Packet)) -> Result<usize, BpfError> {
        match self.0 {}
    }

    /// Packets lost because the ring buffer was full.
    ///
    /// # Errors
    /// Never here.
    pub fn dropped(&self) -> Result<u64, BpfError> {
        match self.0 {}
    }
}

/// Counts bursts; here it says why it cannot.
#[derive(Debug)]
pub struct Bursts(Infallible);

impl Bursts {
    /// Refuses.
    ///
    /// # Errors
    /// Always: this build cannot load BPF.
    pub fn load() -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    /// Attaches it to a device.
    ///
    /// # Errors
    /// Never here.
    pub fn attach(&mut self, _: u32) -> Result<(), BpfError> {
        match self.0 {}
    }

    /// Segments in the longest burst of a port.
    ///
    /// # Errors
    /// Never here.
    pub fn longest(&self, _: u16) -> Result<u32, BpfError> {
        match self.0 {}
    }
}

/// What this machine can load: nothing, with the reason.
pub fn survey() -> Survey {
    Survey {
        lacks: vec![NOT_BUILT.to_owned()],
        ..Survey::default()
    }
}

/// What the kernel holds of BPF: this build cannot ask.
pub fn held_by_kernel() -> Vec<String> {
    Vec::new()
}
