//! What the two ends of a flow know together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use narrows_core::{Event, FlowId, Sockets};

/// The account of a flow, which its two applications share. Both run in one process in
/// either engine; nothing of it is on the wire.
#[derive(Debug)]
pub struct FlowAccount {
    flow: FlowId,
    written: AtomicU64,
    delivered: AtomicU64,
    started: AtomicBool,
    stopped: AtomicBool,
    finished: AtomicBool,
    complete: AtomicBool,
    broken: AtomicBool,
    established: AtomicBool,
    ecn: AtomicBool,
    accecn: AtomicBool,
}

/// Orders what one end writes before it ends its stream with what the other reads after
/// that end has arrived.
const SHARED: Ordering = Ordering::SeqCst;

fn get(flag: &AtomicBool) -> bool {
    flag.load(SHARED)
}

impl FlowAccount {
    /// The account of `flow`, which has not begun.
    pub fn new(flow: FlowId) -> Self {
        Self {
            flow,
            written: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            started: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            complete: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            established: AtomicBool::new(false),
            ecn: AtomicBool::new(false),
            accecn: AtomicBool::new(false),
        }
    }

    /// The flow's time has come.
    pub(crate) fn start(&self) {
        self.started.store(true, SHARED);
    }

    /// The sender's application stops.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SHARED);
    }

    /// The sender's connection is open.
    pub(crate) fn establish(&self, host: &mut dyn Sockets, ecn: bool, accecn: bool) {
        self.established.store(true, SHARED);
        self.ecn.store(ecn, SHARED);
        self.accecn.store(accecn, SHARED);
        host.record(Event::Established {
            flow: self.flow,
            ecn,
            accecn,
        });
    }

    /// The sender's application has written `total` bytes.
    pub(crate) fn write(&self, total: u64) {
        self.written.store(total, SHARED);
    }

    /// The receiver's application was handed `bytes`.
    pub(crate) fn deliver(&self, host: &mut dyn Sockets, bytes: u64) {
        self.delivered.fetch_add(bytes, SHARED);
        let flow = self.flow;
        host.record(Event::Delivered { flow, bytes });
    }

    /// The sender's stream has ended, and all of it is here.
    pub(crate) fn arrive(&self, host: &mut dyn Sockets) {
        let complete = self.delivered() == self.written.load(SHARED);
        self.finish(host, complete);
    }

    /// The connection is gone.
    pub(crate) fn break_off(&self, host: &mut dyn Sockets) {
        if !get(&self.stopped) && !get(&self.finished) {
            self.broken.store(true, SHARED);
        }
        self.finish(host, false);
    }

    /// The run ends: so does a flow that has begun.
    pub(crate) fn end(&self, host: &mut dyn Sockets) {
        if get(&self.started) {
            self.finish(host, false);
        }
    }

    /// Reports the end of the flow, once.
    pub(crate) fn finish(&self, host: &mut dyn Sockets, complete: bool) {
        if self.finished.swap(true, SHARED) {
            return;
        }
        self.complete.store(complete, SHARED);
        host.record(Event::Finished {
            flow: self.flow,
            bytes: self.delivered(),
            complete,
        });
    }

    /// Payload bytes handed to the receiving application in order.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(SHARED)
    }

    /// Whether the sender's connection was opened; datagrams need none.
    pub fn established(&self) -> bool {
        get(&self.established)
    }

    /// Whether classic ECN was negotiated; of QUIC, that packets carry ECT(0).
    pub fn ecn(&self) -> bool {
        get(&self.ecn)
    }

    /// Whether AccECN was negotiated.
    pub fn accecn(&self) -> bool {
        get(&self.accecn)
    }

    /// Whether all that the application had to send arrived.
    pub fn complete(&self) -> bool {
        get(&self.complete)
    }

    /// Whether the connection was reset or given up before the flow was over.
    pub fn broken(&self) -> bool {
        get(&self.broken)
    }
}
