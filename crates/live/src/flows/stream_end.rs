//! One end of a flow over TCP.

use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use narrows_app::Want;
use narrows_packet::FlowId;
use narrows_units::Instant;
use nix::errno::Errno;
use nix::sys::socket::{
    MsgFlags, Shutdown, SockaddrStorage, connect, getsockopt, listen, recv, send, setsockopt,
    shutdown, sockopt,
};

use super::ecn_switch::EcnSwitch;
use super::error::FlowError;
use super::facts::EndFacts;
use super::socket_option::tcp_info;
use super::sockets::{BACKLOG, Owner, control_of};
use super::stream_plan::EndPlan;
use crate::sample::EcnLayout;
use crate::{Report, Reporter};

/// What an application writes or reads at once, in bytes: few calls, and no
/// flow keeps the others of its host waiting for long.
const AT_ONCE: usize = 256 << 10;

/// Reads in a row, so that no flow keeps the others of its host waiting.
const READS: usize = 16;

/// `TCP_ESTABLISHED`, `TCP_SYN_SENT`, `TCP_CLOSE` (net/tcp_states.h).
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const CLOSE: u8 = 7;

/// Where an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Waits for its time, or for the other end.
    Waiting,
    /// Has sent a SYN.
    Opening,
    /// Sends or receives, or is open and has nothing to write yet.
    Open,
    /// Has sent all, and waits until the other end has got it.
    Closing,
    /// Is done.
    Over,
}

/// What an end wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Nothing.
    Nothing,
    /// Something to read, or the end of what there is.
    Read,
    /// Room to write, or a handshake that is done.
    Write,
}

/// One end of a flow, and its socket.
#[derive(Debug)]
pub struct StreamEnd {
    /// What it is to do.
    pub plan: EndPlan,
    /// The connection, or the listener before there is one.
    pub socket: OwnedFd,
    /// Where it is.
    pub phase: Phase,
    started: bool,
    established: bool,
    /// Whether its application has written all that it wants to for now.
    idle: bool,
    looked: bool,
    unreported: u64,
    facts: EndFacts,
}

/// What every end needs to act.
pub struct Scene<'a> {
    /// The time.
    pub now: Instant,
    /// Who hears what happened.
    pub reporter: &'a Reporter,
    /// The host's ECN switch.
    pub ecn: &'a EcnSwitch,
    /// How the kernel says what was negotiated.
    pub layout: EcnLayout,
    /// Zeros to send; receiving does not touch them.
    pub buffer: &'a mut [u8],
}

/// A buffer for [`Scene`].
pub fn buffer() -> Vec<u8> {
    vec![0; AT_ONCE]
}

impl StreamEnd {
    /// Has its socket, bound, and listening at the end that answers. To be
    /// called on a thread in the host.
    ///
    /// # Errors
    /// If the socket cannot be had so.
    pub fn new(mut plan: EndPlan) -> Result<Self, FlowError> {
        let owner = Owner(&plan.name);
        let socket = owner.stream(plan.local, &plan.options)?;
        let failed = |action: &str| {
            let (what, action) = (plan.name.clone(), action.to_owned());
            move |e: Errno| FlowError::Socket {
                what,
                action,
                reason: e.into(),
            }
        };
        let sends = plan.generator.is_some();
        if !sends {
            owner.read_in_bulk(&socket)?;
        }
        if plan.fast_open && plan.opens && sends {
            setsockopt(&socket, sockopt::TcpFastOpenConnect, &true)
                .map_err(failed("send data with its SYN"))?;
        }
        if !plan.opens {
            if plan.fast_open {
                super::socket_option::accept_fast_open(&socket, BACKLOG).map_err(|reason| {
                    FlowError::Socket {
                        what: plan.name.clone(),
                        action: "take data with the SYN".to_owned(),
                        reason,
                    }
                })?;
            }
            let backlog = nix::sys::socket::Backlog::new(BACKLOG).map_err(failed("listen"))?;
            listen(&socket, backlog).map_err(failed("listen"))?;
        }
        let facts = EndFacts {
            flow: plan.flow,
            sends,
            notes: std::mem::take(&mut plan.notes),
            ..EndFacts::default()
        };
        Ok(Self {
            plan,
            socket,
            phase: Phase::Waiting,
            started: false,
            established: false,
            idle: false,
            looked: false,
            unreported: 0,
            facts,
        })
    }

    fn id(&self) -> FlowId {
        FlowId(self.plan.flow as u32)
    }

    fn sends(&self) -> bool {
        self.facts.sends
    }

    /// What it waits for.
    pub fn interest(&self) -> Interest {
        match self.phase {
            Phase::Waiting if self.plan.opens => Interest::Nothing,
            Phase::Waiting => Interest::Read,
            Phase::Opening => Interest::Write,
            Phase::Open if self.sends() && self.idle => Interest::Nothing,
            Phase::Open if self.sends() => Interest::Write,
            Phase::Open | Phase::Closing => Interest::Read,
            Phase::Over => Interest::Nothing,
        }
    }

    /// Whether it receives, and may have what nobody read yet.
    pub fn receives(&self) -> bool {
        self.phase == Phase::Open && !self.sends()
    }

    /// The flow's start.
    pub fn start(&mut self, scene: &mut Scene<'_>) {
        self.started = true;
        if let Some(generator) = &mut self.plan.generator {
            generator.start(scene.now);
        }
        if !self.plan.opens {
            return;
        }
        let remote = SockaddrStorage::from(self.plan.remote);
        let opened = scene.ecn.asking(self.plan.ask, || {
            let connected = connect(self.socket.as_raw_fd(), &remote);
            // With a cookie, the SYN goes out with the first data: now, while
            // the switch is turned.
            if connected.is_ok() && self.plan.fast_open {
                self.supply_once(scene.now, scene.buffer);
            }
            connected
        });
        self.phase = Phase::Opening;
        match opened {
            Ok(Ok(()) | Err(Errno::EINPROGRESS)) => {}
            Ok(Err(e)) => self.break_off(scene, "cannot connect", e),
            Err(e) => {
                let e = e.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
                self.break_off(scene, "cannot choose whether to ask for ECN", e);
            }
        }
    }

    /// When its application writes next by the clock, if it is open and does so.
    pub fn next_write(&self, now: Instant) -> Option<Instant> {
        let generator = self.plan.generator.as_ref();
        let generator = generator.filter(|_| self.phase == Phase::Open)?;
        generator.next_write(now)
    }

    /// Its application writes at times of its own, and one has come.
    pub fn write_when_due(&mut self, scene: &mut Scene<'_>) {
        if self.phase == Phase::Open {
            self.supply(scene);
        }
    }

    /// The flow's stop: its application writes no more.
    pub fn stop(&mut self, scene: &mut Scene<'_>) {
        if let Some(generator) = &mut self.plan.generator {
            generator.stop();
        }
        if self.phase == Phase::Open {
            self.supply(scene);
        }
    }

    /// Its socket is ready for what it waits for, or has failed. Says whether
    /// it has another socket now.
    pub fn ready(&mut self, scene: &mut Scene<'_>) -> bool {
        match self.phase {
            Phase::Waiting if self.plan.opens => {}
            Phase::Waiting => return self.accept(scene),
            Phase::Opening => self.opening(scene),
            Phase::Open if self.sends() => self.supply(scene),
            Phase::Open => self.take(scene),
            Phase::Closing => self.await_peer(scene),
            Phase::Over => {}
        }
        false
    }

    fn accept(&mut self, scene: &mut Scene<'_>) -> bool {
        let accept = || -> std::io::Result<OwnedFd> {
            let listener = TcpListener::from(self.socket.try_clone()?);
            let (connection, _) = listener.accept()?;
            connection.set_nonblocking(true)?;
            Ok(connection.into())
        };
        // An error is a connection that was gone before it was accepted.
        let Ok(connection) = accept() else {
            return false;
        };
        self.socket = connection;
        self.phase = Phase::Open;
        self.established(scene);
        true
    }

    fn opening(&mut self, scene: &mut Scene<'_>) {
        if let Ok(code @ 1..) = getsockopt(&self.socket, sockopt::SocketError) {
            self.break_off(scene, "cannot connect", Errno::from_raw(code));
            return;
        }
        match tcp_info(&self.socket).map_or(ESTABLISHED, |info| info.state) {
            SYN_SENT => {}
            CLOSE => self.break_off(scene, "cannot connect", Errno::ECONNRESET),
            _ => {
                self.phase = Phase::Open;
                self.established(scene);
            }
        }
    }

    fn established(&mut self, scene: &mut Scene<'_>) {
        (self.established, self.started) = (true, true);
        if let Some(generator) = &mut self.plan.generator {
            // Where the other end opens, the connection may be here before
            // the timer.
            generator.start(scene.now);
        }
        let info = tcp_info(&self.socket);
        if self.sends() {
            let (ecn, accecn) = info
                .as_ref()
                .map_or((false, false), |i| (i.ecn(), scene.layout.accecn(i)));
            let flow = self.id();
            let ecn = ecn && !accecn;
            scene
                .reporter
                .report(scene.now, Report::Established { flow, ecn, accecn });
        }
        self.facts.info = info;
        self.facts.congestion_control = control_of(&self.socket);
        if self.sends() {
            self.supply(scene);
        }
    }

    /// Lets the application write as much as the socket takes, up to a
    /// limit; after its last byte the stream ends.
    fn supply(&mut self, scene: &mut Scene<'_>) {
        let Some(generator) = &mut self.plan.generator else {
            return;
        };
        if generator.want(scene.now) == Want::End {
            let written = generator.bytes();
            self.plan.shared.written.store(written, Ordering::Release);
            self.phase = Phase::Closing;
            if let Err(e) = shutdown(self.socket.as_raw_fd(), Shutdown::Write) {
                self.break_off(scene, "cannot end its stream", e);
            }
            return;
        }
        if let Err(e) = self.write(scene.now, scene.buffer) {
            self.break_off(scene, "cannot send", e);
            return;
        }
        let wants = self.plan.generator.as_ref().map(|g| g.want(scene.now));
        self.idle = wants == Some(Want::Nothing);
        if wants == Some(Want::End) {
            self.supply(scene);
        }
    }

    /// The first write of a connection that is yet to be opened by it.
    fn supply_once(&mut self, now: Instant, zeros: &[u8]) {
        // What is wrong shows when the connection is looked at.
        let _ = self.write(now, zeros);
    }

    fn write(&mut self, now: Instant, zeros: &[u8]) -> nix::Result<()> {
        let Some(generator) = &mut self.plan.generator else {
            return Ok(());
        };
        let Want::Stream(want) = generator.want(now) else {
            return Ok(());
        };
        let len = usize::try_from(want).map_or(zeros.len(), |n| n.min(zeros.len()));
        match send(
            self.socket.as_raw_fd(),
            &zeros[..len],
            MsgFlags::MSG_NOSIGNAL,
        ) {
            Ok(taken) => generator.sent(taken as u64),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::EINPROGRESS) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Takes what has arrived. The bytes themselves are zeros that nobody
    /// wants: with `MSG_TRUNC` the kernel counts them and does not copy.
    pub fn take(&mut self, scene: &mut Scene<'_>) {
        for _ in 0..READS {
            let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
            match recv(self.socket.as_raw_fd(), scene.buffer, flags) {
                Ok(0) => {
                    self.received_all(scene);
                    return;
                }
                Ok(bytes) => self.unreported += bytes as u64,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(e) => {
                    self.break_off(scene, "was broken off", e);
                    return;
                }
            }
        }
    }

    /// Reports what was taken since the last time.
    pub fn report_delivered(&mut self, scene: &Scene<'_>) {
        let bytes = std::mem::take(&mut self.unreported);
        if bytes > 0 {
            let flow = self.id();
            self.plan
                .shared
                .delivered
                .fetch_add(bytes, Ordering::AcqRel);
            scene
                .reporter
                .report(scene.now, Report::Delivered { flow, bytes });
        }
    }

    fn received_all(&mut self, scene: &mut Scene<'_>) {
        self.report_delivered(scene);
        let shared = &self.plan.shared;
        // The sender stored it before it closed, and its FIN is here.
        let written = shared.written.load(Ordering::Acquire);
        let complete = shared.delivered.load(Ordering::Acquire) == written;
        self.over(scene, complete);
        // The socket stays, so that no FIN is left to be repeated by nobody.
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Write);
    }

    /// The sender waits for the receiver's FIN: by then all that it ever sent
    /// is acknowledged, marks included.
    fn await_peer(&mut self, scene: &mut Scene<'_>) {
        let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
        match recv(self.socket.as_raw_fd(), scene.buffer, flags) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Ok(0) => {
                self.look(scene);
                self.phase = Phase::Over;
            }
            Ok(_) => {}
            Err(e) => self.break_off(scene, "was broken off", e),
        }
    }

    fn break_off(&mut self, scene: &mut Scene<'_>, what: &str, why: Errno) {
        self.report_delivered(scene);
        self.facts.notes.push(format!("{what}: {}", why.desc()));
        self.over(scene, false);
    }

    /// The last look at the socket.
    fn look(&mut self, scene: &Scene<'_>) {
        if self.established && !self.looked {
            self.looked = true;
            self.facts.info = tcp_info(&self.socket).or(self.facts.info);
            if let Some(info) = self.facts.info.as_ref().filter(|_| self.facts.sends) {
                let watch = self.plan.shared.watch.lock();
                watch
                    .unwrap_or_else(PoisonError::into_inner)
                    .look(scene.now, info, &mut |r| {
                        scene.reporter.report(scene.now, r)
                    });
            }
            let control = control_of(&self.socket);
            if !control.is_empty() {
                self.facts.congestion_control = control;
            }
        }
    }

    fn over(&mut self, scene: &Scene<'_>, complete: bool) {
        self.look(scene);
        self.phase = Phase::Over;
        if self.plan.shared.finished.swap(true, Ordering::AcqRel) {
            return;
        }
        let flow = self.id();
        let bytes = self.plan.shared.delivered.load(Ordering::Acquire);
        let event = Report::Finished {
            flow,
            bytes,
            complete,
        };
        scene.reporter.report(scene.now, event);
    }

    /// The end of the run: takes what is there, and gives the connection up at
    /// once. What it knows.
    pub fn end(mut self, scene: &mut Scene<'_>) -> EndFacts {
        if self.receives() {
            self.take(scene);
            self.report_delivered(scene);
        }
        self.look(scene);
        // Of two ends, the receiver knows what was delivered.
        if self.phase != Phase::Over && self.started && !self.sends() {
            self.over(scene, false);
        }
        // Closed now, the socket is reset (see `Owner::stream`).
        self.facts
    }
}
