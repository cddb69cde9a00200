//! The same names where nothing can be loaded: what would load answers with the reason,
//! and what is there only once something was loaded cannot be.

#![allow(missing_docs)] // Said where something can be loaded.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use narrows_cc::ControlSpec;
use narrows_mmb::{Program, RuleCounters};

use crate::error::{BpfError, NOT_BUILT};
use crate::{
    BoxConnection, BoxTotals, EcnFlags, Record, SignalCounters, SignalOptions, Survey, Trace,
    TransferGoal, TransferTally,
};

pub(crate) fn load_program(
    _: &ControlSpec,
    _: &str,
    _: EcnFlags,
    _: Trace,
) -> Result<LoadedProgram, BpfError> {
    Err(BpfError::NotBuilt(NOT_BUILT))
}

/// A congestion control that is loaded as a program; there is none in this build.
#[derive(Debug)]
pub(crate) struct LoadedProgram(Infallible);

impl LoadedProgram {
    pub(crate) fn parameters(&self) -> Result<ProgramParameters, BpfError> {
        match self.0 {}
    }

    pub(crate) fn ecn(&self) -> EcnFlags {
        match self.0 {}
    }

    pub(crate) fn poll(&mut self, _: impl FnMut(Record)) -> Result<usize, BpfError> {
        match self.0 {}
    }

    pub(crate) fn dropped(&self) -> Result<u64, BpfError> {
        match self.0 {}
    }

    pub(crate) fn attach_transfer(
        &self,
        _: &ControlSpec,
        _: BorrowedFd<'_>,
        _: &TransferGoal,
    ) -> Result<Transfer, BpfError> {
        match self.0 {}
    }
}

/// Shares a transfer among connections; here there is none.
#[derive(Debug)]
pub struct Transfer(Infallible);

impl Transfer {
    pub fn pass(&mut self, _: &TransferGoal) -> Result<TransferTally, BpfError> {
        match self.0 {}
    }

    pub fn adopt(
        &self,
        _: BorrowedFd<'_>,
        _: &TransferGoal,
        _: u64,
        _: u64,
    ) -> Result<(), BpfError> {
        match self.0 {}
    }
}

/// Parameter blocks of sockets; there are none in this build.
#[derive(Clone, Debug)]
pub(crate) struct ProgramParameters(Infallible);

impl ProgramParameters {
    pub(crate) fn write(&self, _: BorrowedFd<'_>, _: &[u8]) -> Result<(), BpfError> {
        match self.0 {}
    }

    pub(crate) fn read(&self, _: BorrowedFd<'_>) -> Result<Option<Vec<u8>>, BpfError> {
        match self.0 {}
    }
}

/// Gives packets ECT(1); here it says why it cannot.
#[derive(Debug)]
pub struct Ect1(Infallible);

impl Ect1 {
    pub fn attach(_: u32) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn attach_clsact(_: u32) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn is_tcx(&self) -> bool {
        match self.0 {}
    }
}

/// Marks packets at a device; here it says why it cannot.
#[derive(Debug)]
pub struct SignalProgram(Infallible);

impl SignalProgram {
    pub fn attach(_: u32, _: &narrows_efm::SignalSpec) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn attach_with(
        _: u32,
        _: &narrows_efm::SignalSpec,
        _: &SignalOptions,
    ) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn is_tcx(&self) -> bool {
        match self.0 {}
    }

    pub fn counters(&self) -> Result<SignalCounters, BpfError> {
        match self.0 {}
    }

    pub fn untraced(&self) -> Result<u64, BpfError> {
        match self.0 {}
    }

    pub fn poll(&mut self, _: impl FnMut(Vec<u8>)) -> Result<usize, BpfError> {
        match self.0 {}
    }
}

/// A box at a device; here it says why there is none.
#[derive(Debug)]
pub struct BoxProgram(Infallible);

impl BoxProgram {
    pub fn attach(_: u32, _: &Program) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn attach_again(&mut self, _: u32) -> Result<(), BpfError> {
        match self.0 {}
    }

    pub fn reload(&mut self, _: &Program, _: &[Option<u32>]) -> Result<(), BpfError> {
        match self.0 {}
    }

    pub fn ifindex(&self) -> Option<u32> {
        match self.0 {}
    }

    pub fn connections(&self) -> Result<Vec<BoxConnection>, BpfError> {
        match self.0 {}
    }

    pub fn rules(&self) -> Result<Vec<RuleCounters>, BpfError> {
        match self.0 {}
    }

    pub fn sweep(&self) -> Result<(), BpfError> {
        match self.0 {}
    }

    pub fn totals(&self) -> Result<BoxTotals, BpfError> {
        match self.0 {}
    }
}

/// Leads connections; here it says why it cannot.
#[derive(Debug)]
pub struct Lead(Infallible);

impl Lead {
    pub fn attach(_: BorrowedFd<'_>, _: u16, _: SocketAddr) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn origins(&self) -> Result<Origins, BpfError> {
        match self.0 {}
    }
}

/// Where to connections were opened that were led; here there are none.
#[derive(Debug)]
pub struct Origins(Infallible);

impl Origins {
    pub fn take(&self, _: SocketAddr) -> Option<SocketAddr> {
        match self.0 {}
    }
}

/// Counts bursts; here it says why it cannot.
#[derive(Debug)]
pub struct Bursts(Infallible);

impl Bursts {
    pub fn load() -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn attach(&mut self, _: u32) -> Result<(), BpfError> {
        match self.0 {}
    }

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
