//! Measurement signals in the packets of a device of this machine, for `narrows mark`.

use narrows_bpf::{BpfError, SignalCounters, SignalOptions, SignalProgram};
use narrows_linux::machine::{State, Undo};
use narrows_linux::{LinuxError, RunId, own_segments, set_own_segments};
use narrows_scenario::SignalSpec;

/// What an attachment needs of `gso_max_segs`: one run of the program for each
/// packet on the wire.
const ONE_SEGMENT: u32 = 1;

/// Why packets of a device cannot be marked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// The machine refused a step.
    #[error(transparent)]
    Linux(#[from] LinuxError),
    /// The kernel did not take the program, or does not answer.
    #[error("{what}: {error}")]
    Bpf {
        /// Where: a device, or what was asked for.
        what: String,
        /// Why.
        error: BpfError,
    },
}

impl SignalError {
    /// Whether what is missing is a right of this user's.
    pub fn is_of_rights(&self) -> bool {
        match self {
            Self::Linux(error) => error.is_of_rights(),
            Self::Bpf { error, .. } => matches!(error, BpfError::NoPermission { .. }),
        }
    }
}

/// Signals at a device of this process's network namespace. Dropping it detaches
/// them and sets the device back; what a killed process cannot set back is
/// written down for [`sweep`](narrows_linux::machine::sweep).
#[derive(Debug)]
pub struct DeviceSignals {
    // Declared in the order in which they are to go.
    mark: SignalProgram,
    _state: State,
}

impl DeviceSignals {
    /// Marks connections that begin at `device` from now on. For profiles that
    /// count packets the device is set to one segment in a packet.
    ///
    /// # Errors
    /// If there is no such device, the kernel or this build has no BPF, or the
    /// caller is not root.
    pub fn attach(
        device: &str,
        signals: &SignalSpec,
        options: &SignalOptions,
    ) -> Result<Self, SignalError> {
        let absent = |e| LinuxError::refused(format!("there is no device {device}"), e);
        let (_, segments) = own_segments(device).map_err(absent)?;
        // Written down before it is done: a killed process undoes nothing.
        let state = State::open(&RunId::random())?;
        state.record(&Undo::SignalFilters(device.to_owned()))?;
        let mark = attach_own(device, signals, options)?;
        if signals.counts_packets() && segments != ONE_SEGMENT {
            state.record(&Undo::Segments {
                device: device.to_owned(),
                value: segments,
            })?;
            set_own_segments(device, ONE_SEGMENT).map_err(|e| {
                LinuxError::refused(format!("{device}: gso_max_segs cannot be set"), e)
            })?;
        }
        Ok(Self {
            mark,
            _state: state,
        })
    }

    /// What they have done so far.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn counters(&self) -> Result<SignalCounters, SignalError> {
        self.mark.counters().map_err(|error| SignalError::Bpf {
            what: "counters".to_owned(),
            error,
        })
    }

    /// Whether they are attached by tcx, otherwise by clsact.
    pub fn is_tcx(&self) -> bool {
        self.mark.is_tcx()
    }
}

fn attach_own(
    device: &str,
    signals: &SignalSpec,
    options: &SignalOptions,
) -> Result<SignalProgram, SignalError> {
    let refused = |error| SignalError::Bpf {
        what: device.to_owned(),
        error,
    };
    let absent = |e| LinuxError::refused(format!("there is no device {device}"), e);
    let (index, _) = own_segments(device).map_err(absent)?;
    SignalProgram::attach_with(index, signals, options).map_err(refused)
}
