//! The same names where nothing can be loaded: what would load answers with the reason,
//! and what is there only once something was loaded cannot be.

#![allow(missing_docs)] // Said where something can be loaded.

use std::convert::Infallible;

use super::{HookCost, SignalCost, SignalRun};
use crate::error::{BpfError, NOT_BUILT};
use crate::{BoxConnection, BoxTotals, SignalCounters, SignalOptions};

/// The marking programs without a device; here it says why there are none.
#[derive(Debug)]
pub struct SignalRuns(Infallible);

impl SignalRuns {
    pub fn load(_: &narrows_efm::SignalSpec, _: &SignalOptions) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn leave(&self, _: &[u8], _: u32) -> Result<SignalRun, BpfError> {
        match self.0 {}
    }

    pub fn leave_at(&self, _: &[u8], _: u32, _: u64) -> Result<SignalRun, BpfError> {
        match self.0 {}
    }

    pub fn arrive(&self, _: &[u8], _: u32) -> Result<SignalRun, BpfError> {
        match self.0 {}
    }

    pub fn counters(&self) -> Result<SignalCounters, BpfError> {
        match self.0 {}
    }
}

/// A box without a device; here it says why there is none.
#[derive(Debug)]
pub struct BoxRuns(Infallible);

impl BoxRuns {
    pub fn load(_: &narrows_mmb::Program) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn run(&self, _: bool, _: &[u8], _: u32) -> Result<(Option<Vec<u8>>, u64), BpfError> {
        match self.0 {}
    }

    pub fn reload(&mut self, _: &narrows_mmb::Program, _: &[Option<u32>]) -> Result<(), BpfError> {
        match self.0 {}
    }

    pub fn age(&self, _: u64) -> Result<(), BpfError> {
        match self.0 {}
    }

    pub fn sweep(&self) -> Result<(), BpfError> {
        match self.0 {}
    }

    pub fn totals(&self) -> Result<BoxTotals, BpfError> {
        match self.0 {}
    }

    pub fn connections(&self) -> Result<Vec<BoxConnection>, BpfError> {
        match self.0 {}
    }

    pub fn rules(&self) -> Result<Vec<narrows_mmb::RuleCounters>, BpfError> {
        match self.0 {}
    }
}

pub fn signal_cost(_: &[u8], _: u32) -> Result<SignalCost, BpfError> {
    Err(BpfError::NotBuilt(NOT_BUILT))
}

/// Counts runs of programs; here it says why there are none.
#[derive(Debug)]
pub struct HookCosts(Infallible);

impl HookCosts {
    pub fn begin() -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn read(&self) -> Vec<HookCost> {
        match self.0 {}
    }
}

/// Reports a device's packets; here it says why it cannot.
#[derive(Debug)]
pub struct Tap(Infallible);

impl Tap {
    pub fn attach(_: u32) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt(NOT_BUILT))
    }

    pub fn poll(&mut self, _: impl FnMut(Vec<u8>)) -> Result<usize, BpfError> {
        match self.0 {}
    }

    pub fn dropped(&self) -> Result<u64, BpfError> {
        match self.0 {}
    }
}
