//! For tests: a sender that does what a real kernel did.
//!
//! A [`Replay`] is a client whose segments leave when the kernel's left and
//! whose timers fire when the kernel's fired; ACKs are processed as ever. What
//! the congestion control is asked is kept, and it answers what the kernel's
//! answered, so that the two stay together as far as the reckoning does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narrows_cc::{Answer, CaState, Call, CwndEvent, Facts, Observer};
use narrows_core::{CountedBytes, PacketPool};
use narrows_units::{Instant, Rng};

use crate::config::TcpConfig;
use crate::connection::Connection;
use crate::push::PushMarks;
use crate::scoreboard::flag;
use crate::sequence;
use crate::timers::Purpose;

/// A plausible wrong rule, kept to prove that traces of a real kernel distinguish it from
/// the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// What is SACKed is not counted as delivered.
    SackedNotCounted,
    /// A retransmission counts as delivered when it is sent.
    RetransmissionsTwice,
    /// That a segment was sent again is forgotten, so that it gives RTT samples
    /// against Karn's rule.
    RetransmissionsForgotten,
    /// A probe of the tail counts as in flight a second time.
    ProbesInFlight,
    /// Only new data that ends an idle time begins a transmission
    /// (`CA_EVENT_TX_START`), not a retransmission.
    SilentRetransmissions,
}

/// What the congestion control is to answer, and what it was asked.
#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<(Call, Answer)>,
    calls: Vec<(Call, Facts)>,
    /// The beginning of a transmission goes unnoticed.
    silent: bool,
}

/// Shared by a [`Replay`] and the observer of its congestion control.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Script>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Shared {
    /// Notes the call and answers as the script has it, if it does. Answers to
    /// calls that were not made are passed over.
    fn called(&mut self, call: Call, facts: &Facts, answer: &mut Answer) {
        let mut script = self.lock();
        let begins = call == Call::CwndEvent(CwndEvent::TxStart);
        if call == Call::Release || script.silent && begins {
            return;
        }
        script.calls.push((call, *facts));
        let mut answers = script.answers.iter();
        if let Some(at) = answers.position(|(c, _)| c.same_hook(&call)) {
            if let Some((_, scripted)) = script.answers.drain(..=at).next_back() {
                *answer = scripted;
            }
        }
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
    script: Shared,
    mutant: Option<Mutant>,
}

impl Replay {
    /// An end whose SYN, due at once, has the number `iss`, and whose
    /// timestamps are milliseconds of its clock plus `ts_offset`.
    pub fn new(config: TcpConfig, iss: u32, ts_offset: u32) -> Self {
        let mut connection = Connection::client(config, Rng::for_name(1, "replay"));
        let first = sequence::first(iss);
        connection.iss = iss;
        connection.ts_offset = ts_offset;
        connection.snd.start = first + 1;
        connection.snd.una = first;
        connection.snd.next = first;
        connection.snd.small_end = first;
        connection.outgoing = CountedBytes::starting_at(first + 1);
        connection.push_marks = PushMarks::starting_at(first + 1);
        let script = Shared::default();
        connection.cc.observe(Box::new(script.clone()));
        Self {
            connection,
            pool: PacketPool::new(),
            script,
            mutant: None,
        }
    }

    /// Reckons by a wrong rule from now on.
    pub fn follow(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    fn follows(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
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
    pub fn script(&mut self, answers: impl IntoIterator<Item = (Call, Answer)>) {
        self.script.lock().answers = answers.into_iter().collect();
    }

    /// What it was asked since the last question.
    pub fn calls(&mut self) -> Vec<(Call, Facts)> {
        std::mem::take(&mut self.script.lock().calls)
    }

    /// A packet came; `bytes` are its headers and `payload` how many bytes
    /// follow them.
    pub fn receive(&mut self, now: Instant, bytes: &[u8], payload: u32) {
        self.settle();
        let established = self.connection.handshake.finished;
        let sacked = self.connection.board.sacked_out;
        let mut packet = self.pool.take(now, None);
        packet.bytes.extend_from_slice(bytes);
        packet.zero_tail = payload;
        self.connection.receive(now, &packet);
        self.pool.give(packet);
        if self.follows(Mutant::SackedNotCounted) {
            let more = self.connection.board.sacked_out.saturating_sub(sacked);
            self.connection.rate.delivered -= more;
        }
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
        let mutant = self.mutant;
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
            self.script.lock().silent = mutant == Some(Mutant::SilentRetransmissions);
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
                if let Some(mutant) = mutant {
                    misremember(c, i, mutant, probe);
                }
                i += 1;
            }
            self.script.lock().silent = false;
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
        Some((purpose, timers.deadline?))
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

/// What a wrong rule makes of segment `i`, which was sent again.
fn misremember(c: &mut Connection, i: u64, mutant: Mutant, probe: bool) {
    let Some(segment) = c.board.get_mut(i) else {
        return;
    };
    match mutant {
        Mutant::RetransmissionsTwice => c.rate.delivered += 1,
        Mutant::RetransmissionsForgotten => {
            let counted = segment.is(flag::RETRANS);
            segment.flags &= !(flag::EVER | flag::RETRANS);
            c.board.retrans_out -= u32::from(counted);
        }
        Mutant::ProbesInFlight if probe && !segment.is(flag::RETRANS | flag::LOST) => {
            segment.flags |= flag::RETRANS;
            c.board.retrans_out += 1;
        }
        _ => {}
    }
}
