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

#[cfg(feature = "testkit")]
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

/// For tests: sees every call of a connection's congestion control, to record it or to answer
/// in its place.
#[cfg(feature = "testkit")]
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
    #[cfg(feature = "testkit")]
    observer: Option<Box<dyn Observer>>,
}

/// The clone has no observer of tests.
impl Clone for Controller {
    fn clone(&self) -> Self {
        Self {
            instance: self.instance.clone(),
            #[cfg(feature = "testkit")]
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
            #[cfg(feature = "testkit")]
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
    #[cfg(feature = "testkit")]
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// To be called before [`Controller::init`] when the handshake ended
    /// without the ECN that the algorithm needs: it becomes Reno, as Linux's
    /// Prague does (L4STeam/linux net/ipv4/tcp_prague.c). Without such a need
    /// nothing changes.
    pub fn ecn_refused(&mut self) {
        if self.needs.ecn {
            *self = Self {
                #[cfg(feature = "testkit")]
                observer: self.observer.take(),
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
        let answer = self.instance.call(call, facts);
        #[cfg(feature = "testkit")]
        let answer = self.observed(call, facts, answer);
        answer
    }

    /// What the stack gets in place of `answer`.
    #[cfg(feature = "testkit")]
    fn observed(&mut self, call: Call, facts: &Facts, mut answer: Answer) -> Answer {
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
        #[cfg(feature = "testkit")]
        if self.observer.is_some() {
            return true;
        }
        self.instance.sees_acks()
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn controller(words: &str) -> Controller {
        Controller::new(&ControlSpec::parse(words).unwrap())
    }

    fn window(cwnd: u32) -> Facts {
        Facts {
            cwnd,
            mss: 1250,
            ..Facts::default()
        }
    }

    /// Notes each call and the window, and answers 7 segments to `ssthresh`.
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<(Call, u32)>>>);

    impl Notes {
        fn taken(&self) -> Vec<(Call, u32)> {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    impl Observer for Notes {
        fn called(&mut self, call: Call, facts: &Facts, answer: &mut Answer) {
            self.0.lock().unwrap().push((call, facts.cwnd));
            if call == Call::Ssthresh {
                answer.returned = 7;
            }
        }
    }

    #[test]
    fn an_observer_sees_each_call_and_may_answer_in_place_of_the_control() {
        let notes = Notes::default();
        let mut cc = controller("reno");
        cc.init(&window(10));
        cc.observe(Box::new(notes.clone()));
        assert_eq!(notes.taken(), [], "the call before it");
        cc.cong_avoid(&window(20), 3);
        assert_eq!(cc.ssthresh(&window(40)), 7);
        assert_eq!(
            notes.taken(),
            [(Call::CongAvoid(3), 20), (Call::Ssthresh, 40)]
        );
        let mut unobserved = cc.clone();
        assert_eq!(unobserved.ssthresh(&window(40)), 20);
        assert_eq!(notes.taken(), [], "a clone has no observer");
    }

    #[test]
    fn the_observer_stays_with_a_connection_that_becomes_reno() {
        let notes = Notes::default();
        let mut cc = controller("prague");
        cc.observe(Box::new(notes.clone()));
        cc.ecn_refused();
        assert_eq!(cc.name(), "reno");
        cc.init(&window(10));
        assert_eq!(notes.taken(), [(Call::Init, 10)]);
    }

    /// `in_ack_event` of Linux's tcp_dctcp.c and tcp_westwood.c; the others that are in
    /// Linux leave it out. An observer is to see each call.
    #[test]
    fn only_an_observer_and_controls_with_that_hook_see_acks_before_they_are_processed() {
        for (words, sees) in [
            ("reno", false),
            ("cubic", false),
            ("vegas", false),
            ("prague", false),
            ("bbr", false),
            ("dctcp", true),
            ("westwood", true),
            ("relentless", true),
            ("dalbe over vegas", false),
            ("dalbe over dctcp", true),
        ] {
            let mut cc = controller(words);
            assert_eq!(cc.sees_acks(), sees, "{words}");
            cc.observe(Box::new(Notes::default()));
            assert!(cc.sees_acks(), "{words}");
        }
    }

    #[test]
    fn a_report_has_a_place_for_every_field_and_telemetry_those_with_a_value() {
        let mut cc = controller("roomy period 100ms");
        let mut facts = window(10);
        cc.init(&facts);
        assert_eq!(cc.report(), [Some(0), None], "no rate before a period");
        let names = |cc: &Controller| Vec::from_iter(cc.telemetry().map(|(f, _)| f.name));
        assert_eq!(names(&cc), ["periods"]);
        facts.delivered = 10;
        facts.now_ns = 100_000_000;
        cc.timer(&facts);
        // 10 segments of 1250 bytes in 100 ms, in kbit/s.
        assert_eq!(cc.report(), [Some(1), Some(1000)]);
        assert_eq!(names(&cc), ["periods", "noted"]);
        assert_eq!(controller("reno").report(), []);
    }

    #[test]
    fn the_same_hook_may_have_another_argument() {
        for (a, b, same) in [
            (Call::CongAvoid(1), Call::CongAvoid(2), true),
            (
                Call::SetState(CaState::Open),
                Call::SetState(CaState::Cwr),
                true,
            ),
            (Call::Timer, Call::Timer, true),
            (Call::Init, Call::Release, false),
            (Call::CongControl, Call::CongAvoid(0), false),
        ] {
            assert_eq!(a.same_hook(&b), same, "{a:?} and {b:?}");
        }
    }

    #[test]
    fn for_debugging_it_is_its_words_and_whether_it_runs() {
        let mut cc = controller("cubic beta 700");
        cc.init(&window(10));
        let text = r#"Controller { spec: "cubic beta 700", started: true, .. }"#;
        assert_eq!(format!("{cc:?}"), text);
        assert_eq!(format!("{:?}", cc.spec()), "ControlSpec(cubic beta 700)");
    }
}
