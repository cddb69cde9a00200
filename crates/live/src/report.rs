//! What threads beside the datapath saw.
//!
//! Only the datapath's thread holds the run's event sink. Flows, samplers and
//! the BPF ring buffer hand it what they saw through a channel.

use std::sync::mpsc::{Receiver, Sender, channel};

use narrows_packet::{EntityId, Event, FlowId, FlowSample, RecoveryEvent};
use narrows_units::{Duration, Instant};

/// The events of [`narrows_packet::Event`] that need no packet, owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Each is the event of the same name.
pub enum Report {
    Established {
        flow: FlowId,
        ecn: bool,
        accecn: bool,
    },
    Delivered {
        flow: FlowId,
        bytes: u64,
    },
    RttSample {
        flow: FlowId,
        rtt: Duration,
    },
    Recovery {
        flow: FlowId,
        event: RecoveryEvent,
    },
    Retransmitted {
        flow: FlowId,
        bytes: u32,
    },
    Sampled {
        flow: FlowId,
        sample: FlowSample,
    },
    Finished {
        flow: FlowId,
        bytes: u64,
        complete: bool,
    },
    ProbeRtt {
        probe: EntityId,
        rtt: Duration,
    },
    ProbeLost {
        probe: EntityId,
    },
    Limited {
        flow: FlowId,
        receive_window: Duration,
        send_buffer: Duration,
        application: Duration,
    },
}

impl Report {
    /// The event that it stands for.
    pub fn event(&self) -> Event<'static> {
        match *self {
            Self::Established { flow, ecn, accecn } => Event::Established { flow, ecn, accecn },
            Self::Delivered { flow, bytes } => Event::Delivered { flow, bytes },
            Self::RttSample { flow, rtt } => Event::RttSample { flow, rtt },
            Self::Recovery { flow, event } => Event::Recovery { flow, event },
            Self::Retransmitted { flow, bytes } => Event::Retransmitted { flow, bytes },
            Self::Sampled { flow, sample } => Event::Sampled { flow, sample },
            Self::Finished {
                flow,
                bytes,
                complete,
            } => Event::Finished {
                flow,
                bytes,
                complete,
            },
            Self::ProbeRtt { probe, rtt } => Event::ProbeRtt { probe, rtt },
            Self::ProbeLost { probe } => Event::ProbeLost { probe },
            Self::Limited {
                flow,
                receive_window,
                send_buffer,
                application,
            } => Event::Limited {
                flow,
                receive_window,
                send_buffer,
                application,
            },
        }
    }
}

/// The end of the channel that threads write to; cheap to clone.
#[derive(Clone, Debug)]
pub struct Reporter(Sender<(Instant, Report)>);

impl Reporter {
    /// Reports what was seen at `at`. Once the run has ended nobody listens,
    /// and nothing happens.
    pub fn report(&self, at: Instant, report: Report) {
        let _ = self.0.send((at, report));
    }
}

/// The end that the datapath reads, at times when no packet waits.
#[derive(Debug)]
pub struct Reports(Receiver<(Instant, Report)>);

impl Reports {
    /// The next one, if there is one by now.
    pub fn next(&self) -> Option<(Instant, Report)> {
        self.0.try_recv().ok()
    }
}

/// A channel of reports.
pub fn reports() -> (Reporter, Reports) {
    let (sender, receiver) = channel();
    (Reporter(sender), Reports(receiver))
}
