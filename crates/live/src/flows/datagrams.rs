//! The flows of datagrams and the latency probes that begin or end in one
//! host.

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use narrows_app::probe::{Asker, PAYLOAD_LEN, Probe};
use narrows_app::{Generator, Want};
use narrows_packet::{EntityId, FlowId};
use narrows_units::{Duration, Instant};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recv, recvmsg, sendto, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;

use super::arrival::arrival;
use super::error::FlowError;
use super::facts::EndFacts;
use super::sockets::Owner;
use super::stop::{Stop, poll_for, wake_sharply};
use crate::{Clock, Report, Reporter};

/// How often receivers of flows are read: nobody waits for what they get, and
/// their sockets have memory for longer.
const TICK: Duration = Duration::from_millis(5);

/// Datagrams sent in a row by a sender that is late, before others have their
/// turn.
const BURST: u32 = 64;

/// One thing that is done with datagrams in a host.
#[derive(Debug)]
pub enum Task {
    /// A flow's sender.
    Send {
        /// Index of the flow.
        flow: usize,
        /// The application.
        generator: Generator,
        /// Where to.
        remote: SocketAddr,
        /// When it starts.
        start: Instant,
        /// When it stops.
        stop: Option<Instant>,
    },
    /// A flow's receiver.
    Receive {
        /// Index of the flow.
        flow: usize,
        /// When the flow starts.
        start: Instant,
        /// When it is over.
        stop: Option<Instant>,
    },
    /// The end of a probe that asks.
    Ask {
        /// `probe/NAME`.
        entity: EntityId,
        /// When to ask, and what became of it.
        asker: Asker,
        /// Whom.
        remote: SocketAddr,
        /// Bytes of payload of a question.
        payload_len: usize,
    },
    /// The end of a probe that answers.
    Answer {
        /// Bytes of payload of an answer.
        payload_len: usize,
    },
}

/// A task, as it is planned.
#[derive(Debug)]
pub struct TaskPlan {
    /// `flow/NAME` or `probe/NAME`.
    pub name: String,
    /// This end's address.
    pub local: SocketAddr,
    /// DSCP and ECN field of what it sends.
    pub class: u8,
    /// What it does.
    pub task: Task,
}

/// A task with its socket.
#[derive(Debug)]
struct Running {
    task: Task,
    socket: OwnedFd,
    /// Whether it has to be read as soon as something arrives.
    prompt: bool,
    delivered: u64,
    unreported: u64,
    finished: bool,
    refused: u64,
    reason: Option<Errno>,
}

/// All of them in one host, served by one thread, apart from the host's
/// streams: a write of 256 KiB must not delay a datagram.
#[derive(Debug)]
pub struct Datagrams {
    running: Vec<Running>,
    clock: Clock,
    reporter: Reporter,
    stop: Stop,
    /// When flows' receivers are read next, if there are any.
    tick: Option<Instant>,
}

impl Datagrams {
    /// To be called on a thread in the host.
    ///
    /// # Errors
    /// If a socket cannot be had as planned.
    pub fn new(
        plans: Vec<TaskPlan>,
        clock: Clock,
        reporter: Reporter,
        stop: Stop,
    ) -> Result<Self, FlowError> {
        let mut running = Vec::new();
        for plan in plans {
            let owner = Owner(&plan.name);
            let (socket, roomy) = owner.datagrams(plan.local, plan.class)?;
            if matches!(plan.task, Task::Ask { .. } | Task::Answer { .. }) {
                // Without it, a datagram's time is that of its reading.
                let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
            }
            running.push(Running {
                prompt: match plan.task {
                    Task::Ask { .. } | Task::Answer { .. } => true,
                    Task::Receive { .. } => !roomy,
                    Task::Send { .. } => false,
                },
                task: plan.task,
                socket,
                delivered: 0,
                unreported: 0,
                finished: false,
                refused: 0,
                reason: None,
            });
        }
        let receives = |r: &Running| matches!(r.task, Task::Receive { .. });
        Ok(Self {
            tick: running.iter().any(receives).then_some(Instant::ZERO + TICK),
            running,
            clock,
            reporter,
            stop,
        })
    }

    /// Serves all until it is stopped.
    pub fn run(mut self) -> Vec<EndFacts> {
        wake_sharply();
        let mut buffer = vec![0; 1 << 16];
        while !self.stop.told() {
            let mut next = self.tick;
            for running in &mut self.running {
                let wake = running.act(&self.clock, &self.reporter, &buffer);
                next = [next, wake].into_iter().flatten().min();
            }
            let ready = self.wait(next);
            let now = self.clock.now();
            let tick = self.tick.is_some_and(|at| at <= now);
            for (running, ready) in self.running.iter_mut().zip(ready) {
                if ready || tick {
                    running.take(&self.clock, &self.reporter, &mut buffer);
                }
                if tick {
                    running.report_delivered(now, &self.reporter);
                    running.finish_if_due(now, &self.reporter);
                }
            }
            if tick {
                self.tick = Some(self.clock.now() + TICK);
            }
        }
        let (clock, reporter) = (self.clock, self.reporter);
        let ended = self.running.into_iter();
        ended
            .filter_map(|r| r.end(&clock, &reporter, &mut buffer))
            .collect()
    }

    /// Waits until `next`, or until something arrives; says for whom.
    fn wait(&self, next: Option<Instant>) -> Vec<bool> {
        let prompt = self.running.iter().filter(|r| r.prompt);
        let mut fds: Vec<_> = std::iter::once(self.stop.poll_fd())
            .chain(prompt.map(|r| PollFd::new(r.socket.as_fd(), PollFlags::POLLIN)))
            .collect();
        // The deadline is absolute, so no wait adds to the next.
        let left = next.map(|at| self.clock.until(at).unwrap_or(TimeSpec::new(0, 0)));
        // Interrupted is as good as nothing ready.
        let _ = poll_for(&mut fds, left);
        let mut answers = fds[1..].iter().map(|fd| fd.any().unwrap_or(false));
        self.running
            .iter()
            .map(|r| r.prompt && answers.next().unwrap_or(false))
            .collect()
    }
}

impl Running {
    /// Does what is due; when it next wants to.
    fn act(&mut self, clock: &Clock, reporter: &Reporter, zeros: &[u8]) -> Option<Instant> {
        let now = clock.now();
        match &mut self.task {
            Task::Send {
                generator,
                remote,
                start,
                stop,
                ..
            } => {
                if now < *start {
                    return Some(*start);
                }
                // The grid is that of the plan, not that of this thread.
                generator.start(*start);
                let remote = SockaddrStorage::from(*remote);
                for _ in 0..BURST {
                    // What was due before the stop is sent, however late this
                    // thread woke; the plan says how many datagrams there are.
                    if ends_by(generator, *stop, now) {
                        generator.stop();
                    }
                    let Want::Datagram(bytes) = generator.want(now) else {
                        break;
                    };
                    let payload = &zeros[..(bytes as usize).min(zeros.len())];
                    let sent = sendto(
                        self.socket.as_raw_fd(),
                        payload,
                        &remote,
                        MsgFlags::MSG_NOSIGNAL,
                    );
                    // A datagram that the host does not take is lost, as it is
                    // for any program.
                    if let Err(e) = sent {
                        self.refused += 1;
                        self.reason = Some(e);
                    }
                    generator.sent(u64::from(bytes));
                }
                generator.next()
            }
            Task::Receive { stop, .. } => stop.filter(|_| !self.finished),
            Task::Ask {
                entity,
                asker,
                remote,
                payload_len,
            } => {
                for _ in 0..asker.lost(now) {
                    reporter.report(now, Report::ProbeLost { probe: *entity });
                }
                let remote = SockaddrStorage::from(*remote);
                while let Some(question) = asker.ask(clock.now()) {
                    if let Err(e) = send_probe(&self.socket, question, *payload_len, &remote) {
                        self.refused += 1;
                        self.reason = Some(e);
                    }
                }
                asker.next_wake()
            }
            Task::Answer { .. } => None,
        }
    }

    /// Takes what has arrived.
    fn take(&mut self, clock: &Clock, reporter: &Reporter, buffer: &mut [u8]) {
        match &mut self.task {
            Task::Send { .. } => {}
            Task::Receive { .. } => {
                // The kernel counts the whole datagram and copies a byte.
                let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
                while let Ok(bytes) = recv(self.socket.as_raw_fd(), &mut buffer[..1], flags) {
                    self.unreported += bytes as u64;
                }
            }
            Task::Ask { entity, asker, .. } => {
                while let Some((payload, at, _)) = receive(&self.socket, clock, buffer) {
                    let answer = payload.filter(|p| p.reply);
                    let rtt = answer.and_then(|answer| asker.answered(at, answer));
                    if let Some(rtt) = rtt {
                        let probe = *entity;
                        reporter.report(clock.now(), Report::ProbeRtt { probe, rtt });
                    }
                }
            }
            Task::Answer { payload_len } => {
                while let Some((payload, at, from)) = receive(&self.socket, clock, buffer) {
                    let (Some(question), Some(from)) = (payload.filter(|p| !p.reply), from) else {
                        continue;
                    };
                    // How long the question lay here is not the path's doing:
                    // it is taken out of the round trip by moving its start.
                    let held = clock.now().since(at);
                    let answer = Probe {
                        reply: true,
                        sent: question.sent + held,
                        ..question
                    };
                    if let Err(e) = send_probe(&self.socket, answer, *payload_len, &from) {
                        self.refused += 1;
                        self.reason = Some(e);
                    }
                }
            }
        }
    }

    fn report_delivered(&mut self, now: Instant, reporter: &Reporter) {
        let bytes = std::mem::take(&mut self.unreported);
        if let Task::Receive { flow, .. } = self.task {
            self.delivered += bytes;
            if bytes > 0 {
                let flow = FlowId(flow as u32);
                reporter.report(now, Report::Delivered { flow, bytes });
            }
        }
    }

    /// Datagrams without end are over at the flow's stop; what still comes
    /// counts as delivered.
    fn finish_if_due(&mut self, now: Instant, reporter: &Reporter) {
        if let Task::Receive { stop: Some(at), .. } = self.task {
            if at <= now {
                self.finish(now, reporter);
            }
        }
    }

    fn finish(&mut self, now: Instant, reporter: &Reporter) {
        if let Task::Receive { flow, start, .. } = self.task {
            if !self.finished && start <= now {
                self.finished = true;
                let event = Report::Finished {
                    flow: FlowId(flow as u32),
                    bytes: self.delivered,
                    complete: false,
                };
                reporter.report(now, event);
            }
        }
    }

    /// The end of the run.
    fn end(mut self, clock: &Clock, reporter: &Reporter, buffer: &mut [u8]) -> Option<EndFacts> {
        self.take(clock, reporter, buffer);
        let now = clock.now();
        self.report_delivered(now, reporter);
        self.finish(now, reporter);
        let mut notes = Vec::new();
        if let Some(reason) = self.reason {
            let (n, s) = (self.refused, if self.refused == 1 { "" } else { "s" });
            let why = reason.desc();
            notes.push(format!("its host did not send {n} datagram{s}: {why}"));
        }
        let (flow, sends) = match self.task {
            Task::Send { flow, .. } => (flow, true),
            Task::Receive { flow, .. } => (flow, false),
            Task::Ask { .. } | Task::Answer { .. } => return None,
        };
        Some(EndFacts {
            flow,
            sends,
            notes,
            ..EndFacts::default()
        })
    }
}

/// Whether an application that stops at `stop` has nothing more to send: what
/// it wants next is due later, or it wants nothing by itself and the time has
/// come.
fn ends_by(generator: &Generator, stop: Option<Instant>, now: Instant) -> bool {
    stop.is_some_and(|at| generator.next().map_or(now >= at, |due| due >= at))
}

fn send_probe(
    socket: &OwnedFd,
    probe: Probe,
    payload_len: usize,
    to: &SockaddrStorage,
) -> nix::Result<()> {
    let mut payload = vec![0; payload_len.max(PAYLOAD_LEN)];
    payload[..PAYLOAD_LEN].copy_from_slice(&probe.to_bytes());
    sendto(socket.as_raw_fd(), &payload, to, MsgFlags::MSG_NOSIGNAL).map(|_| ())
}

/// The next datagram: what it is as a probe, when the kernel got it, and from
/// whom.
///
/// The kernel stamps datagrams with the time of day (`SO_TIMESTAMPNS`), when
/// they arrive: a thread that is woken late does not lengthen a round trip.
/// The run's clock does not jump as the time of day may, so the stamp is
/// turned into an age, and the age is taken from the run's clock. If the time
/// of day was set in between, the age is not plausible, and the time of the
/// reading stands for it.
fn receive(
    socket: &OwnedFd,
    clock: &Clock,
    buffer: &mut [u8],
) -> Option<(Option<Probe>, Instant, Option<SockaddrStorage>)> {
    let mut control = cmsg_space!(TimeSpec);
    let mut slices = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut control),
        MsgFlags::MSG_DONTWAIT,
    )
    .ok()?;
    let stamp = message.cmsgs().ok().and_then(|mut all| {
        all.find_map(|c| match c {
            ControlMessageOwned::ScmTimestampns(at) => Some(at),
            _ => None,
        })
    });
    let (len, from) = (message.bytes, message.address);
    let at = stamp.and_then(|stamp| arrival(clock, stamp));
    let at = at.unwrap_or_else(|| clock.now());
    Some((Probe::parse(&buffer[..len]), at, from))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use narrows_app::Spec;

    use super::*;
    use crate::reports;

    #[test]
    fn a_sender_that_wakes_after_its_stop_sends_what_was_due_before_it() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // One each 100 µs, from 0 until before 10.05 ms.
        let spec = Spec::parse("cbr rate 800kbit size 10").unwrap();
        let stop = Instant::ZERO + Duration::from_micros(10_050);
        let mut running = Running {
            task: Task::Send {
                flow: 0,
                generator: Generator::new(spec),
                remote: receiver.local_addr().unwrap(),
                start: Instant::ZERO,
                stop: Some(stop),
            },
            socket: sender.into(),
            prompt: false,
            delivered: 0,
            unreported: 0,
            finished: false,
            refused: 0,
            reason: None,
        };
        let (reporter, _reports) = reports(1);
        let clock = Clock::starting_now();
        // The thread sleeps through the whole flow.
        std::thread::sleep(std::time::Duration::from_millis(12));
        while running.act(&clock, &reporter, &[0; 64]).is_some() {}
        receiver.set_nonblocking(true).unwrap();
        let mut arrived = 0;
        while receiver.recv(&mut [0; 64]).is_ok() {
            arrived += 1;
        }
        assert_eq!((arrived, running.refused), (101, 0));
    }
}
