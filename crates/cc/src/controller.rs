//! One connection's congestion control.

use std::fmt;

use crate::facts::{CaState, CwndEvent, Decision, Facts};
use crate::ffi::{Instance, Params, RenoParams};
use crate::spec::{Needs, Spec};

/// Who owns recovery, PRR and the pacing rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The stack does and calls [`Controller::cong_avoid`].
    Window,
    /// The algorithm does, from [`Controller::cong_control`] on every ACK. The
    /// stack then neither runs PRR, nor sets the window to `ssthresh` at the
    /// end of a reduction, nor computes a pacing rate (Linux
    /// `tcp_cong_control()`, `tcp_end_cwnd_reduction()`, v6.17).
    Rate,
}

/// An algorithm, its parameters and one connection's state. The hooks are
/// Linux's and are called where Linux calls them.
#[derive(Clone)]
pub struct Controller {
    instance: Instance,
    needs: Needs,
    name: &'static str,
    pacing: (u32, u32),
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("params", self.instance.params())
            .finish_non_exhaustive()
    }
}

impl Controller {
    /// An instance before [`Controller::init`].
    pub fn new(spec: &Spec) -> Self {
        Self {
            instance: Instance::new(*spec.params()),
            needs: spec.needs(),
            name: spec.algorithm(),
            pacing: spec.pacing_ratios(),
        }
    }

    /// Which contract the algorithm keeps.
    pub fn mode(&self) -> Mode {
        if self.instance.is_rate_mode() {
            Mode::Rate
        } else {
            Mode::Window
        }
    }

    /// What it wants negotiated.
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// The algorithm's name, as `ss` would print it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// To be called before [`Controller::init`] when the handshake ended
    /// without the ECN that the algorithm needs: it becomes Reno, as Linux's
    /// Prague does (`prague_reno`, L4STeam/linux net/ipv4/tcp_prague.c).
    /// Without such a need nothing changes.
    pub fn ecn_refused(&mut self) {
        if self.needs.ecn {
            *self = Self {
                instance: Instance::new(Params::Reno(RenoParams::default())),
                needs: Needs::default(),
                name: "prague-reno",
                pacing: Spec::LINUX_PACING,
            };
        }
    }

    /// The connection is established; the initial window stands in `facts`.
    pub fn init(&mut self, facts: &Facts) -> Decision {
        self.instance.init(facts)
    }

    /// The connection ends.
    pub fn release(&mut self) {
        self.instance.release();
    }

    /// The slow start threshold for the reduction that begins now, segments.
    pub fn ssthresh(&mut self, facts: &Facts) -> u32 {
        self.instance.ssthresh(facts)
    }

    /// The window after a reduction that was found to be spurious, segments.
    pub fn undo_cwnd(&mut self, facts: &Facts) -> u32 {
        self.instance.undo_cwnd(facts)
    }

    /// The stack is about to enter `state`; `facts.ca_state` is the one that
    /// it leaves.
    pub fn set_state(&mut self, facts: &Facts, state: CaState) -> Decision {
        self.instance.set_state(facts, state as u8)
    }

    /// Something happened that concerns the window.
    pub fn cwnd_event(&mut self, facts: &Facts, event: CwndEvent) -> Decision {
        self.instance.cwnd_event(facts, event as u32)
    }

    /// An ACK arrived, before it is processed.
    pub fn in_ack_event(&mut self, facts: &Facts) -> Decision {
        self.instance.in_ack_event(facts)
    }

    /// Segments were acknowledged: `rtt_us`, `acked_sacked` and `in_flight`
    /// are of this ACK.
    pub fn pkts_acked(&mut self, facts: &Facts) -> Decision {
        self.instance.pkts_acked(facts)
    }

    /// [`Mode::Window`]: `acked` segments may raise the window.
    pub fn cong_avoid(&mut self, facts: &Facts, acked: u32) -> Decision {
        self.instance.cong_avoid(facts, acked)
    }

    /// [`Mode::Rate`]: an ACK was processed; the rate sample is in `facts`.
    pub fn cong_control(&mut self, facts: &Facts) -> Decision {
        self.instance.cong_control(facts)
    }

    /// Prague's estimate of the marked share, scaled to 2²⁰ = 1.
    pub fn alpha(&self) -> Option<u32> {
        self.instance.alpha()
    }

    /// The largest burst in segments that the algorithm allows, if it limits
    /// bursts (Linux's `max_tso_segs` hook in L4STeam's tree).
    pub fn max_tso_segs(&self) -> Option<u32> {
        self.instance.max_tso_segs()
    }

    /// The pacing rate as percent of `cwnd / srtt`: below `ssthresh / 2`, and
    /// above. In [`Mode::Rate`] the algorithm has applied them itself.
    pub fn pacing_ratios(&self) -> Option<(u32, u32)> {
        Some(self.pacing)
    }
}
