//! What threads beside the datapath saw.
//!
//! Only the datapath's thread holds the run's event sink. Flows, samplers and
//! the BPF ring buffer hand it what they saw through a channel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narrows_core::{Event, FlowId, TelemetryField};
use narrows_units::Instant;

/// An event that needs no packet: what a thread can see that holds none.
pub type Report = Event<'static>;

/// The end of the channel that threads write to; cheap to clone.
#[derive(Clone, Debug)]
pub struct Reporter {
    channel: Sender<(Instant, Report)>,
    flows: Arc<[ControlReports]>,
}

/// What a flow's congestion control reports itself.
#[derive(Debug)]
struct ControlReports {
    /// What it last reported of itself, which samples of a socket do not show.
    telemetry: Mutex<Vec<(TelemetryField, i64)>>,
    /// Whether it reports its round trips and changes of state itself.
    reports_events: AtomicBool,
}

impl ControlReports {
    fn lock(&self) -> MutexGuard<'_, Vec<(TelemetryField, i64)>> {
        self.telemetry
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn telemetry(&self) -> Vec<(TelemetryField, i64)> {
        self.lock().clone()
    }
}

impl Reporter {
    /// Reports what was seen at `at`. Once the run has ended the channel has no reader,
    /// and nothing happens.
    ///
    /// A sample of a flow's socket is preceded by what its congestion control
    /// reported last of itself. Where the control itself reports round trips and
    /// changes of state, those of samples, which see less, are left out.
    pub fn report(&self, at: Instant, report: Report) {
        match &report {
            Report::Sampled { flow, .. } => {
                for (field, value) in self
                    .control(*flow)
                    .map(ControlReports::telemetry)
                    .unwrap_or_default()
                {
                    let source = (*flow).into();
                    let report = Report::Telemetry {
                        source,
                        field,
                        value,
                    };
                    let _ = self.channel.send((at, report));
                }
            }
            Report::RttSample { flow, .. } | Report::Recovery { flow, .. } => {
                let control = self.control(*flow);
                if control.is_some_and(|control| control.reports_events.load(Ordering::Relaxed)) {
                    return;
                }
            }
            _ => {}
        }
        let _ = self.channel.send((at, report));
    }

    /// Reports an event from a flow's congestion control itself: from now on all of its
    /// round trips and changes of state come this way.
    pub fn report_of_control(&self, at: Instant, flow: FlowId, report: Report) {
        if let Some(control) = self.control(flow) {
            control.reports_events.store(true, Ordering::Relaxed);
        }
        let _ = self.channel.send((at, report));
    }

    /// Keeps what a flow's congestion control reports of itself for the next sample
    /// of its socket.
    pub fn set_telemetry(&self, flow: FlowId, telemetry: Vec<(TelemetryField, i64)>) {
        if let Some(control) = self.control(flow) {
            *control.lock() = telemetry;
        }
    }

    fn control(&self, flow: FlowId) -> Option<&ControlReports> {
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
    let nothing = |_| ControlReports {
        telemetry: Mutex::default(),
        reports_events: AtomicBool::new(false),
    };
    let flows = (0..flows).map(nothing).collect();
    (Reporter { channel, flows }, Reports(receiver))
}

#[cfg(test)]
mod tests {
    use narrows_core::{FlowSample, RecoveryEvent, Reduce};
    use narrows_units::Duration;

    use super::*;

    #[test]
    fn a_sample_of_a_socket_is_preceded_by_what_its_control_reported() {
        let (reporter, reports) = reports(1);
        let flow = FlowId(0);
        let field = TelemetryField::new("periods", "", "", Reduce::Gauge);
        let sampled = Report::Sampled {
            flow,
            sample: FlowSample::default(),
        };
        let seen = || std::iter::from_fn(|| reports.next().map(|r| r.1)).collect::<Vec<_>>();
        reporter.report(Instant::ZERO, sampled);
        assert_eq!(seen(), [sampled]);
        reporter.set_telemetry(flow, vec![(field, 7)]);
        reporter.set_telemetry(FlowId(9), vec![(field, 1)]);
        reporter.report(Instant::ZERO, sampled);
        let value = 7;
        let telemetry = Report::Telemetry {
            source: flow.into(),
            field,
            value,
        };
        assert_eq!(seen(), [telemetry, sampled]);
    }

    #[test]
    fn reports_of_a_control_replace_those_of_samples() {
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
