//! What threads beside the datapath saw.
//!
//! Only the datapath's thread holds the run's event sink. Flows, samplers and
//! the BPF ring buffer hand it what they saw through a channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
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
pub struct Reporter {
    channel: Sender<(Instant, Report)>,
    /// What each flow's congestion control makes of marks (Prague's α), which
    /// the kernel's own looks at a socket do not show.
    alphas: Arc<[AtomicU32]>,
}

impl Reporter {
    /// Reports what was seen at `at`. Once the run has ended nobody listens,
    /// and nothing happens.
    ///
    /// A look at a flow's socket is completed by the α that its congestion
    /// control told last.
    pub fn report(&self, at: Instant, mut report: Report) {
        if let Report::Sampled { flow, sample } = &mut report {
            let told = self.alphas.get(flow.0 as usize);
            if let Some(told) = told.filter(|_| sample.alpha == u32::MAX) {
                sample.alpha = told.load(Ordering::Relaxed);
            }
        }
        let _ = self.channel.send((at, report));
    }

    /// Keeps the estimate of marking of a flow's congestion control, in parts
    /// per 2²⁰, for the next look at its socket.
    pub fn set_alpha(&self, flow: FlowId, alpha: u32) {
        if let Some(kept) = self.alphas.get(flow.0 as usize) {
            kept.store(alpha, Ordering::Relaxed);
        }
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

/// A channel of reports on a plan with so many flows.
pub fn reports(flows: usize) -> (Reporter, Reports) {
    let (channel, receiver) = channel();
    let alphas = (0..flows).map(|_| AtomicU32::new(u32::MAX)).collect();
    (Reporter { channel, alphas }, Reports(receiver))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_a_socket_is_completed_by_what_its_control_told() {
        let (reporter, reports) = reports(1);
        let look = Report::Sampled {
            flow: FlowId(0),
            sample: FlowSample {
                cwnd: 7,
                alpha: u32::MAX,
                ..FlowSample::default()
            },
        };
        let alpha_seen = || match reports.next() {
            Some((_, Report::Sampled { sample, .. })) => sample.alpha,
            other => panic!("{other:?}"),
        };
        reporter.report(Instant::ZERO, look);
        assert_eq!(alpha_seen(), u32::MAX);
        reporter.set_alpha(FlowId(0), 1 << 19);
        reporter.set_alpha(FlowId(9), 1);
        reporter.report(Instant::ZERO, look);
        assert_eq!(alpha_seen(), 1 << 19);
    }
}
