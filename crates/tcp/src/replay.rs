//! A door for tests: a sender that does what a real kernel did.
//!
//! A [`Replay`] is a client whose segments leave when the kernel's left and
//! whose timers fire when the kernel's fired; ACKs are processed as ever. What
//! the congestion control is asked is kept, and it answers what the kernel's
//! answered, so that the two stay together as far as the reckoning does.
//!
//! With the feature `replay` and without a [`Replay`] nothing changes: a
//! [`Witness`] that was given no script is its controller.

use std::collections::VecDeque;

use narrows_cc::{CaState, Controller, CwndEvent, Decision, Facts, Mode, Needs, Spec};
use narrows_packet::PacketPool;
use narrows_units::{Instant, Rng};

use crate::config::Config;
use crate::connection::Connection;
pub use crate::mutation::Mutant;
use crate::scoreboard::flag;
use crate::sequence;
use crate::stream::CountedBytes;
use crate::timers::Purpose;

/// A hook of the congestion control with its argument.
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
}

impl Call {
    /// Whether both are the same hook, whatever it was told.
    pub fn same_hook(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What the kernel's algorithm answered to a call.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The call.
    pub call: Call,
    /// What it decided.
    pub decision: Decision,
    /// What `ssthresh` or `undo_cwnd` returned, segments.
    pub returned: u32,
}

/// A controller that is watched, and may be told what to answer.
#[derive(Clone, Debug)]
pub struct Witness {
    controller: Controller,
    script: Option<VecDeque<Answer>>,
    calls: Vec<(Call, Facts)>,
    pub(crate) mutant: Option<Mutant>,
}

impl Witness {
    pub(crate) fn new(spec: &Spec) -> Self {
        Self {
            controller: Controller::new(spec),
            script: None,
            calls: Vec::new(),
            mutant: None,
        }
    }

    /// Notes the call; what the script has for it, if there is one. Answers
    /// to calls that were not made are passed over.
    fn called(&mut self, call: Call, facts: &Facts) -> Option<Answer> {
        let script = self.script.as_mut()?;
        self.calls.push((call, *facts));
        let at = script.iter().position(|a| a.call.same_hook(&call))?;
        script.drain(..=at).next_back()
    }

    fn decide(
        &mut self,
        call: Call,
        facts: &Facts,
        native: impl FnOnce(&mut Controller) -> Decision,
    ) -> Decision {
        let scripted = self.called(call, facts);
        let native = native(&mut self.controller);
        scripted.map_or(native, |a| a.decision)
    }

    pub(crate) fn mode(&self) -> Mode {
        self.controller.mode()
    }

    pub(crate) fn needs(&self) -> Needs {
        self.controller.needs()
    }

    pub(crate) fn name(&self) -> &'static str {
        self.controller.name()
    }

    pub(crate) fn ecn_refused(&mut self) {
        self.controller.ecn_refused();
    }

    pub(crate) fn init(&mut self, facts: &Facts) -> Decision {
        self.decide(Call::Init, facts, |c| c.init(facts))
    }

    pub(crate) fn release(&mut self) {
        self.controller.release();
    }

    pub(crate) fn ssthresh(&mut self, facts: &Facts) -> u32 {
        let scripted = self.called(Call::Ssthresh, facts);
        let native = self.controller.ssthresh(facts);
        scripted.map_or(native, |a| a.returned)
    }

    pub(crate) fn undo_cwnd(&mut self, facts: &Facts) -> u32 {
        let scripted = self.called(Call::UndoCwnd, facts);
        let native = self.controller.undo_cwnd(facts);
        scripted.map_or(native, |a| a.returned)
    }

    pub(crate) fn set_state(&mut self, facts: &Facts, state: CaState) -> Decision {
        self.decide(Call::SetState(state), facts, |c| c.set_state(facts, state))
    }

    pub(crate) fn cwnd_event(&mut self, facts: &Facts, event: CwndEvent) -> Decision {
        self.decide(Call::CwndEvent(event), facts, |c| {
            c.cwnd_event(facts, event)
        })
    }

    pub(crate) fn in_ack_event(&mut self, facts: &Facts) -> Decision {
        self.decide(Call::InAckEvent, facts, |c| c.in_ack_event(facts))
    }

    pub(crate) fn pkts_acked(&mut self, facts: &Facts) -> Decision {
        self.decide(Call::PktsAcked, facts, |c| c.pkts_acked(facts))
    }

    pub(crate) fn cong_avoid(&mut self, facts: &Facts, acked: u32) -> Decision {
        self.decide(Call::CongAvoid(acked), facts, |c| {
            c.cong_avoid(facts, acked)
        })
    }

    pub(crate) fn cong_control(&mut self, facts: &Facts) -> Decision {
        self.decide(Call::CongControl, facts, |c| c.cong_control(facts))
    }

    pub(crate) fn alpha(&self) -> Option<u32> {
        self.controller.alpha()
    }

    pub(crate) fn max_tso_segs(&self) -> Option<u32> {
        self.controller.max_tso_segs()
    }

    pub(crate) fn pacing_ratios(&self) -> Option<(u32, u32)> {
        self.controller.pacing_ratios()
    }
}

/// What the timer of a connection runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Retransmission timeout.
    Retransmit,
    /// Tail-loss probe.
    LossProbe,
    /// RACK's reordering window.
    Reorder,
}

/// A client that does what a kernel did.
#[derive(Debug)]
pub struct Replay {
    connection: Connection,
    pool: PacketPool,
}

impl Replay {
    /// An end whose SYN, due at once, has the number `iss`, and whose
    /// timestamps are milliseconds of its clock plus `ts_offset`.
    pub fn new(config: Config, iss: u32, ts_offset: u32) -> Self {
        let mut connection = Connection::client(config, Rng::for_name(1, "replay"));
        let first = sequence::first(iss);
        connection.iss = iss;
        connection.ts_offset = ts_offset;
        connection.snd.una = first;
        connection.snd.next = first;
        connection.snd.small_end = first;
        connection.snd.pushed = first;
        connection.outgoing = CountedBytes::starting_at(first + 1);
        connection.cc.script = Some(VecDeque::new());
        Self {
            connection,
            pool: PacketPool::new(),
        }
    }

    /// Reckons by a wrong rule from now on.
    pub fn follow(&mut self, mutant: Mutant) {
        self.connection.cc.mutant = Some(mutant);
    }

    /// Sends the SYN.
    pub fn open(&mut self, now: Instant) {
        self.connection.open(now);
        self.drain(now);
    }

    /// What the handshake has to say leaves.
    fn drain(&mut self, now: Instant) {
        while let Some(packet) = self.connection.poll_transmit(now, &mut self.pool) {
            self.pool.give(packet);
        }
    }

    /// What the congestion control answers from now on.
    pub fn script(&mut self, answers: impl IntoIterator<Item = Answer>) {
        self.connection.cc.script = Some(answers.into_iter().collect());
    }

    /// What it was asked since the last question.
    pub fn calls(&mut self) -> Vec<(Call, Facts)> {
        std::mem::take(&mut self.connection.cc.calls)
    }

    /// A packet came; `bytes` are its headers and `payload` how many bytes
    /// follow them.
    pub fn receive(&mut self, now: Instant, bytes: &[u8], payload: u32) {
        self.settle();
        let established = self.connection.handshake.finished;
        let mut packet = self.pool.take(now, None);
        packet.bytes.extend_from_slice(bytes);
        packet.zero_tail = payload;
        self.connection.receive(now, &packet);
        self.pool.give(packet);
        if !established {
            self.drain(now);
        }
    }

    /// The application has written everything before `end`.
    pub fn written(&mut self, now: Instant, end: u32) {
        let c = &mut self.connection;
        c.advance(now);
        let end = sequence::expand(end, c.outgoing.end());
        if end > c.outgoing.end() {
            c.write_zeros(end - c.outgoing.end());
        }
    }

    /// The application has closed its side.
    pub fn closed(&mut self) {
        self.connection.closing = true;
    }

    /// Segments of `segment` bytes, `len` bytes in all, leave, with FIN behind
    /// them or not; `probe` if they probe the tail.
    pub fn transmit(
        &mut self,
        now: Instant,
        seq: u32,
        len: u32,
        segment: u32,
        fin: bool,
        probe: bool,
    ) {
        if now != self.connection.now {
            self.settle();
        }
        let c = &mut self.connection;
        c.advance(now);
        let seq = sequence::expand(seq, c.snd.next);
        if probe {
            c.out.tail_probe_retransmitted = seq < c.snd.next;
        }
        if seq == c.snd.next {
            if c.board.packets_out == 0 {
                c.restart_window_after_idle();
            }
            let mut left = len;
            loop {
                let bytes = left.min(segment);
                left -= bytes;
                let last = u64::from(bytes) == c.unsent();
                let packet = c.send_new(u64::from(bytes), fin && left == 0, last, &mut self.pool);
                self.pool.give(packet);
                c.out.sent_in_batch += 1;
                if left == 0 {
                    break;
                }
            }
        } else {
            let end = seq + u64::from(len) + u64::from(fin);
            let mut i = c.board.find(seq);
            while c.board.get(i).is_some_and(|s| s.seq < end) {
                let packet = if probe {
                    c.send_again(i, &mut self.pool)
                } else if std::mem::take(&mut c.out.retransmit_head) {
                    c.retransmit(i, &mut self.pool)
                } else {
                    c.retransmit_lost(i, &mut self.pool)
                };
                if let Some(packet) = packet {
                    self.pool.give(packet);
                }
                i += 1;
            }
        }
        if probe {
            self.connection.note_tail_probe();
            self.connection.rearm_retransmission();
        }
    }

    /// Whether the segment with `seq` would be sent again: it is lost.
    pub fn is_lost(&self, seq: u32) -> bool {
        let c = &self.connection;
        let seq = sequence::expand(seq, c.snd.next);
        c.board
            .get(c.board.find(seq))
            .is_some_and(|s| s.is(flag::LOST) && !s.is(flag::RETRANS))
    }

    /// Whether `seq` was sent before.
    pub fn is_old(&self, seq: u32) -> bool {
        sequence::expand(seq, self.connection.snd.next) < self.connection.snd.next
    }

    /// Whether the congestion window is used up.
    pub fn window_is_full(&self) -> bool {
        self.connection.board.in_flight() >= self.connection.cong.cwnd
    }

    /// The state machine's state.
    pub fn ca_state(&self) -> CaState {
        self.connection.cong.state
    }

    /// What the timer runs for, and when it would fire.
    pub fn timer(&self) -> Option<(Timer, Instant)> {
        let timers = &self.connection.timers;
        let purpose = match timers.purpose() {
            Purpose::Retransmit => Timer::Retransmit,
            Purpose::LossProbe => Timer::LossProbe,
            Purpose::Reorder => Timer::Reorder,
            Purpose::Idle | Purpose::WindowProbe => return None,
        };
        Some((purpose, timers.deadline()?))
    }

    /// The timer fires now, for `timer`.
    pub fn time_out(&mut self, now: Instant, timer: Timer) {
        self.settle();
        let c = &mut self.connection;
        c.advance(now);
        match timer {
            Timer::Retransmit => c.on_retransmission_timeout(),
            Timer::Reorder => c.on_reorder_timeout(),
            Timer::LossProbe => c.on_loss_probe_timeout(),
        }
    }

    /// Nothing more leaves in answer to what happened last.
    pub fn settle(&mut self) {
        let c = &mut self.connection;
        if !c.handshake.finished {
            return;
        }
        if std::mem::take(&mut c.out.try_new) && c.snd.next <= c.cong.high_seq {
            c.cong.frto = false;
        }
        c.finish_batch(false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_script_a_witness_is_its_controller() {
        let spec = Spec::parse("reno").unwrap();
        let facts = Facts {
            cwnd: 20,
            in_flight: 20,
            ..Facts::default()
        };
        let mut witness = Witness::new(&spec);
        assert_eq!(witness.ssthresh(&facts), 10);
        assert!(witness.calls.is_empty());
        witness.script = Some(VecDeque::from([Answer {
            call: Call::Ssthresh,
            decision: Decision::default(),
            returned: 7,
        }]));
        assert_eq!(witness.ssthresh(&facts), 7);
        assert_eq!(witness.ssthresh(&facts), 10, "the script is at its end");
        assert_eq!(witness.calls.len(), 2);
    }
}
