//! What threads beside the datapath saw.
//!
//! Only the datapath's thread holds the run's event sink. Flows, samplers and
//! the BPF ring buffer hand it what they saw through a channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use narrows_packet::{Event, FlowId};
use narrows_units::Instant;

/// An event that needs no packet: what a thread can see that holds none.
pub type Report = Event<'static>;

/// The end of the channel that threads write to; cheap to clone.
#[derive(Clone, Debug)]
pub struct Reporter {
    channel: Sender<(Instant, Report)>,
    flows: Arc<[Told]>,
}

/// What a flow's congestion control has told by itself.
#[derive(Debug)]
struct Told {
    /// What it makes of marks (Prague's α), which the kernel's own looks at a
    /// socket do not show.
    alpha: AtomicU32,
    /// Whether it tells of round trips and of changes of its state.
    all: AtomicBool,
}

impl Reporter {
    /// Reports what was seen at `at`. Once the run has ended nobody listens,
    /// and nothing happens.
    ///
    /// Looks at a flow's socket are completed by the α that its congestion
    /// control told last. Where the control itself tells of round trips and of
    /// changes of its state, those of looks, which see less, are left out.
    pub fn report(&self, at: Instant, mut report: Report) {
        match &mut report {
            Report::Sampled { flow, sample } if sample.alpha == u32::MAX => {
                if let Some(told) = self.told(*flow) {
                    sample.alpha = told.alpha.load(Ordering::Relaxed);
                }
            }
            Report::RttSample { flow, .. } | Report::Recovery { flow, .. } => {
                let told = self.told(*flow);
                if told.is_some_and(|told| told.all.load(Ordering::Relaxed)) {
                    return;
                }
            }
            _ => {}
        }
        let _ = self.channel.send((at, report));
    }

    /// Reports what a flow's congestion control told: from now on all of its
    /// round trips and changes of state come this way.
    pub fn report_of_control(&self, at: Instant, flow: FlowId, report: Report) {
        if let Some(told) = self.told(flow) {
            told.all.store(true, Ordering::Relaxed);
        }
        let _ = self.channel.send((at, report));
    }

    /// Keeps the estimate of marking of a flow's congestion control, in parts
    /// per 2²⁰, for the next look at its socket.
    pub fn set_alpha(&self, flow: FlowId, alpha: u32) {
        if let Some(told) = self.told(flow) {
            told.alpha.store(alpha, Ordering::Relaxed);
        }
    }

    fn told(&self, flow: FlowId) -> Option<&Told> {
        self.flows.get(flow.0 as usize)
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
    let nothing = |_| Told {
        alpha: AtomicU32::new(u32::MAX),
        all: AtomicBool::new(false),
    };
    let flows = (0..flows).map(nothing).collect();
    (Reporter { channel, flows }, Reports(receiver))
}

#[cfg(test)]
mod tests {
    use narrows_packet::{FlowSample, RecoveryEvent};
    use narrows_units::Duration;

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

    #[test]
    fn what_a_control_tells_takes_the_place_of_what_looks_saw() {
        let (reporter, reports) = reports(2);
        let rtt = |ms| Report::RttSample {
            flow: FlowId(0),
            rtt: Duration::from_millis(ms),
        };
        let reduced = Report::Recovery {
            flow: FlowId(0),
            event: RecoveryEvent::CongestionExperienced,
        };
        let other = Report::RttSample {
            flow: FlowId(1),
            rtt: Duration::from_millis(9),
        };
        reporter.report(Instant::ZERO, rtt(1));
        reporter.report_of_control(Instant::ZERO, FlowId(0), rtt(2));
        reporter.report(Instant::ZERO, rtt(3));
        reporter.report(Instant::ZERO, reduced);
        reporter.report(Instant::ZERO, other);
        let seen: Vec<_> = std::iter::from_fn(|| reports.next().map(|r| r.1)).collect();
        assert_eq!(seen, [rtt(1), rtt(2), other]);
    }
}
