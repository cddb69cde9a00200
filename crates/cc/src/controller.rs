//! One connection's congestion control.

use std::fmt;

use narrows_core::TelemetryField;

use crate::facts::{CaState, CwndEvent, Decision, Facts};
use crate::ffi::Instance;
use crate::options::OptionError;
use crate::spec::{ControlSpec, Needs};

/// Who owns recovery, PRR and the pacing rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlMode {
    /// The stack does and calls [`Controller::cong_avoid`].
    Window,
    /// The algorithm does, from [`Controller::cong_control`] on every ACK. The
    /// stack then neither runs PRR, nor sets the window to `ssthresh` at the
    /// end of a reduction, nor computes a pacing rate (Linux
    /// `tcp_cong_control()`, `tcp_end_cwnd_reduction()`, v6.17).
    Rate,
}

/// A hook with its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The connection is established.
    Init,
    /// It ends.
    Release,
    /// A reduction begins.
    Ssthresh,
    /// It was spurious.
    UndoCwnd,
    /// The state machine is about to change.
    SetState(CaState),
    /// Something happened that concerns the window.
    CwndEvent(CwndEvent),
    /// An ACK arrived.
    InAckEvent,
    /// Segments were acknowledged.
    PktsAcked,
    /// So many segments may raise the window.
    CongAvoid(u32),
    /// An ACK was processed.
    CongControl,
    /// The algorithm's own timer is due.
    Timer,
}

impl Call {
    /// Whether both are the same hook, with whatever argument.
    pub fn same_hook(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What an algorithm answered to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What it decided.
    pub decision: Decision,
    /// What `ssthresh` or `undo_cwnd` returned, segments; 0 of the others.
    pub returned: u32,
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        Self {
            decision,
            returned: 0,
        }
    }
}

/// Sees every call of a connection's congestion control: to record it, or to answer
/// in its place.
pub trait Observer: Send {
    /// `call` was made with `facts`; what is left in `answer` is what the stack gets.
    fn called(&mut self, call: Call, facts: &Facts, answer: &mut Answer);
}

/// An algorithm, its parameters and one connection's state. The hooks are
/// Linux's and are called where Linux calls them.
pub struct Controller {
    instance: Instance,
    needs: Needs,
    /// Whether the connection is established and not released.
    started: bool,
    observer: Option<Box<dyn Observer>>,
}

/// The clone has no observer.
impl Clone for Controller {
    fn clone(&self) -> Self {
        Self {
            instance: self.instance.clone(),
            observer: None,
            ..*self
        }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("spec", &self.spec().to_string())
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

impl Controller {
    /// An instance before [`Controller::init`].
    pub fn new(spec: &ControlSpec) -> Self {
        Self {
            instance: Instance::new(spec.params.clone()),
            needs: spec.needs(),
            started: false,
            observer: None,
        }
    }

    /// The algorithm and its parameters, as they are now.
    pub fn spec(&self) -> ControlSpec {
        ControlSpec {
            params: self.instance.params.clone(),
        }
    }

    /// Which contract the algorithm keeps.
    pub fn mode(&self) -> ControlMode {
        if self.instance.params.algorithm().is_rate_mode() {
            ControlMode::Rate
        } else {
            ControlMode::Window
        }
    }

    /// What it wants negotiated.
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// The algorithm's name, as `ss` would print it.
    pub fn name(&self) -> &'static str {
        self.instance.params.algorithm().name()
    }

    /// Has `observer` see every call from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// To be called before [`Controller::init`] when the handshake ended
    /// without the ECN that the algorithm needs: it becomes Reno, as Linux's
    /// Prague does (L4STeam/linux net/ipv4/tcp_prague.c). Without such a need
    /// nothing changes.
    pub fn ecn_refused(&mut self) {
        if self.needs.ecn {
            let observer = self.observer.take();
            *self = Self {
                observer,
                ..Self::new(&ControlSpec::reno())
            };
        }
    }

    /// Sets the option `name` to `value`, in the unit that it has (microseconds,
    /// bytes, the place of a word among its choices); see [`ControlSpec::option`].
    ///
    /// # Errors
    /// [`OptionError`].
    pub fn set_option(&mut self, name: &str, value: u64) -> Result<(), OptionError> {
        self.instance.params.set_named(name, value, self.started)
    }

    /// The value of the option `name`, if there is one of that name.
    pub fn option(&self, name: &str) -> Option<u64> {
        self.instance.params.named(name)
    }

    /// Any hook.
    #[inline]
    pub fn call(&mut self, call: Call, facts: &Facts) -> Answer {
        match call {
            Call::Init => self.started = true,
            Call::Release => self.started = false,
            _ => {}
        }
        let mut answer = self.instance.call(call, facts);
        if let Some(observer) = &mut self.observer {
            observer.called(call, facts, &mut answer);
        }
        answer
    }

    /// The connection is established; the initial window is in `facts`.
    pub fn init(&mut self, facts: &Facts) -> Decision {
        self.call(Call::Init, facts).decision
    }

    /// The connection ends.
    pub fn release(&mut self) {
        self.call(Call::Release, &Facts::default());
    }

    /// The slow start threshold for the reduction that begins now, segments.
    pub fn ssthresh(&mut self, facts: &Facts) -> u32 {
        self.call(Call::Ssthresh, facts).returned
    }

    /// The window after a reduction that was found to be spurious, segments.
    pub fn undo_cwnd(&mut self, facts: &Facts) -> u32 {
        self.call(Call::UndoCwnd, facts).returned
    }

    /// The stack is about to enter `state`; `facts.ca_state` is the one that
    /// it leaves.
    pub fn set_state(&mut self, facts: &Facts, state: CaState) -> Decision {
        self.call(Call::SetState(state), facts).decision
    }

    /// Something happened that concerns the window.
    pub fn cwnd_event(&mut self, facts: &Facts, event: CwndEvent) -> Decision {
        self.call(Call::CwndEvent(event), facts).decision
    }

    /// Whether anybody needs [`in_ack_event`](Self::in_ack_event): of many algorithms it
    /// does nothing.
    #[inline]
    pub fn sees_acks(&self) -> bool {
        self.observer.is_some() || self.instance.sees_acks()
    }

    /// An ACK arrived, before it is processed.
    pub fn in_ack_event(&mut self, facts: &Facts) -> Decision {
        self.call(Call::InAckEvent, facts).decision
    }

    /// Segments were acknowledged: `rtt_us`, `acked_sacked` and `in_flight`
    /// are of this ACK.
    pub fn pkts_acked(&mut self, facts: &Facts) -> Decision {
        self.call(Call::PktsAcked, facts).decision
    }

    /// [`ControlMode::Window`]: `acked` segments may raise the window.
    pub fn cong_avoid(&mut self, facts: &Facts, acked: u32) -> Decision {
        self.call(Call::CongAvoid(acked), facts).decision
    }

    /// [`ControlMode::Rate`]: an ACK was processed; the rate sample is in `facts`.
    pub fn cong_control(&mut self, facts: &Facts) -> Decision {
        self.call(Call::CongControl, facts).decision
    }

    /// When [`Controller::timer`] is to be called, on the clock of
    /// `Facts::now_ns`; to be asked after each hook. `None` before `init`, after
    /// `release` and for an algorithm without a timer.
    #[inline]
    pub fn timer_at(&self) -> Option<u64> {
        self.instance.timer_at().filter(|_| self.started)
    }

    /// The algorithm's own timer is due.
    pub fn timer(&mut self, facts: &Facts) -> Decision {
        self.call(Call::Timer, facts).decision
    }

    /// What the algorithm reports of itself now: each field that has a value, which
    /// is a whole number of `1 / scale` units.
    pub fn telemetry(&self) -> impl Iterator<Item = (TelemetryField, i64)> {
        self.instance.report().filter_map(|(f, v)| Some((f, v?)))
    }

    /// The values alone, of every field in the order of [`ControlSpec::telemetry`].
    pub fn report(&self) -> Vec<Option<i64>> {
        self.instance.report().map(|(_, v)| v).collect()
    }

    /// The largest burst in segments that the algorithm allows, if it limits
    /// bursts (Linux's `max_tso_segs` hook in L4STeam's tree).
    #[inline]
    pub fn max_tso_segs(&self) -> Option<u32> {
        self.instance.max_tso_segs()
    }
}
