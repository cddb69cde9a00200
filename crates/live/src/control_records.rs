//! From the records of congestion controls to the run's events.

use std::collections::BTreeMap;

use narrows_bpf::{Hook, Record};
use narrows_cc::{CaState, Decision};
use narrows_core::{FlowId, RecoveryEvent, TelemetryField};
use narrows_scenario::Plan;
use narrows_units::Duration;

use crate::flows::sender_port;
use crate::{Clock, Report, Reporter};

/// Turns the records of the plan's senders into reports.
pub(crate) struct ControlRecords {
    /// Senders by their local port, which no other flow's end has.
    senders: BTreeMap<u16, Sender>,
    clock: Clock,
    reporter: Reporter,
}

/// What is known of a sender from its records.
#[derive(Clone, Debug)]
struct Sender {
    flow: FlowId,
    /// What its control reports of itself.
    fields: Vec<TelemetryField>,
    /// `delivered_ce` when it entered CWR last.
    marks: u32,
}

impl ControlRecords {
    /// Of the flows of `plan`, on the run's clock.
    pub(crate) fn new(plan: &Plan, clock: Clock, reporter: Reporter) -> Self {
        let flows = (0..plan.flows.len()).map(|i| FlowId(i as u32));
        let senders = flows.map(|flow| {
            let tcp = plan.flows[flow.0 as usize].transport.tcp();
            let own = tcp.and_then(|tcp| tcp.cc.own());
            let sender = Sender {
                flow,
                fields: own.map(|spec| spec.telemetry()).unwrap_or_default(),
                marks: 0,
            };
            (sender_port(plan, flow), sender)
        });
        Self {
            senders: senders.collect(),
            clock,
            reporter,
        }
    }

    /// Reports what a record shows; a receiver's are ignored.
    pub(crate) fn report(&mut self, record: &Record) {
        let Some(sender) = self.senders.get_mut(&record.raw.local_port) else {
            return;
        };
        let flow = sender.flow;
        let at = self.clock.at(record.raw.ktime_ns);
        let telemetry = sender.fields.iter().zip(&record.telemetry);
        let telemetry: Vec<_> = telemetry.filter_map(|(f, v)| Some((*f, (*v)?))).collect();
        if !telemetry.is_empty() {
            self.reporter.set_telemetry(flow, telemetry);
        }
        if record.hook == Hook::PktsAcked && record.facts.rtt_us > 0 {
            let rtt = Duration::from_micros(u64::from(record.facts.rtt_us));
            let report = Report::RttSample { flow, rtt };
            self.reporter.report_of_control(at, flow, report);
        }
        for event in sender.events(record).into_iter().flatten() {
            let report = Report::Recovery { flow, event };
            self.reporter.report_of_control(at, flow, report);
        }
    }
}

impl Sender {
    /// What a record says of the congestion state: the event of the hook, and
    /// that of the decision.
    fn events(&mut self, record: &Record) -> [Option<RecoveryEvent>; 2] {
        let left = record.decision.events & Decision::SLOW_START_EXIT != 0;
        let of_hook = match record.hook {
            Hook::SetState => self.entered(record),
            Hook::UndoCwnd => Some(RecoveryEvent::SpuriousUndo),
            _ => None,
        };
        [of_hook, left.then_some(RecoveryEvent::SlowStartExit)]
    }

    /// The hook is called before the state changes, with the new one
    /// (`tcp_set_ca_state`).
    fn entered(&mut self, record: &Record) -> Option<RecoveryEvent> {
        let is = |state: CaState| record.argument == state as u32;
        let was = |state: CaState| record.facts.ca_state == state as u8;
        if is(CaState::Loss) {
            // Each timeout enters it anew (`tcp_enter_loss`).
            return Some(RecoveryEvent::RetransmissionTimeout);
        }
        if is(CaState::Recovery) && !was(CaState::Recovery) {
            return Some(RecoveryEvent::FastRetransmit);
        }
        if !is(CaState::Cwr) || was(CaState::Cwr) {
            return None;
        }
        // Without a new mark a tail-loss probe has mended a loss
        // (`tcp_process_tlp_ack`), which the simulator reports so too.
        let marks = record.facts.delivered_ce;
        Some(if std::mem::replace(&mut self.marks, marks) == marks {
            RecoveryEvent::FastRetransmit
        } else {
            RecoveryEvent::CongestionExperienced
        })
    }
}

#[cfg(test)]
mod tests {
    use narrows_bpf::RawSocket;
    use narrows_cc::Facts;
    use narrows_units::Instant;

    use super::*;
    use crate::reports;

    const PLAN: &str = "version = 1\nname = \"test\"\nduration = \"1s\"\n\
        [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\nup = [\"rate 1Mbit\"]\n\
        [[flow]]\nname = \"a\"\nfrom = \"client\"\nto = \"server\"\ncc = \"prague\"\n\
        [[flow]]\nname = \"b\"\nfrom = \"client\"\nto = \"server\"\ncc = \"prague\"\n\
        opens = \"server\"\n";

    fn record(port: u16, hook: Hook) -> Record {
        Record {
            sample: true,
            hook,
            socket: 1,
            argument: 0,
            answer: 0,
            raw: RawSocket {
                local_port: port,
                ..RawSocket::default()
            },
            telemetry: Vec::new(),
            facts: Facts::default(),
            decision: Decision::default(),
        }
    }

    /// What is reported of these records.
    fn reported(records: &[Record]) -> Vec<Report> {
        let draft = narrows_scenario::Draft::read("test.toml", PLAN.as_bytes());
        let plan = draft.and_then(|d| d.check()).expect("the plan is good");
        let (reporter, reports) = reports(plan.flows.len());
        let mut control_records = ControlRecords::new(&plan, Clock::starting_now(), reporter);
        records
            .iter()
            .for_each(|record| control_records.report(record));
        std::iter::from_fn(|| reports.next().map(|(_, report)| report)).collect()
    }

    #[test]
    fn round_trips_are_those_of_acks_that_senders_got() {
        let acked = |port, rtt_us| {
            let mut record = record(port, Hook::PktsAcked);
            record.facts.rtt_us = rtt_us;
            record
        };
        let rtt = |flow, us| Report::RttSample {
            flow: FlowId(flow),
            rtt: Duration::from_micros(us),
        };
        // Flow 0's sender opens, at 32768; flow 1's answers, at 5002.
        let seen = reported(&[
            acked(32_768, 20_100),
            acked(5_002, 20_200),
            // Their receivers, an ACK without a sample, an unknown port.
            acked(5_001, 1),
            acked(32_769, 1),
            acked(32_768, 0),
            acked(443, 1),
        ]);
        assert_eq!(seen, [rtt(0, 20_100), rtt(1, 20_200)]);
    }

    #[test]
    fn each_change_of_state_is_its_own_event() {
        let change = |from: CaState, to: CaState, marks| {
            let mut record = record(32_768, Hook::SetState);
            record.argument = to as u32;
            (record.facts.ca_state, record.facts.delivered_ce) = (from as u8, marks);
            record
        };
        let mut left = record(32_768, Hook::PktsAcked);
        left.decision.events = Decision::SLOW_START_EXIT;
        let seen = reported(&[
            left,
            change(CaState::Open, CaState::Disorder, 0),
            change(CaState::Disorder, CaState::Recovery, 0),
            record(32_768, Hook::UndoCwnd),
            change(CaState::Recovery, CaState::Open, 0),
            change(CaState::Open, CaState::Cwr, 3),
            change(CaState::Cwr, CaState::Open, 3),
            // By a tail-loss probe: no new mark.
            change(CaState::Open, CaState::Cwr, 3),
            change(CaState::Cwr, CaState::Loss, 3),
            change(CaState::Loss, CaState::Loss, 3),
        ]);
        let events: Vec<_> = seen
            .iter()
            .map(|report| match report {
                Report::Recovery { event, .. } => *event,
                other => panic!("{other:?}"),
            })
            .collect();
        use RecoveryEvent::*;
        assert_eq!(
            events,
            [
                SlowStartExit,
                FastRetransmit,
                SpuriousUndo,
                CongestionExperienced,
                FastRetransmit,
                RetransmissionTimeout,
                RetransmissionTimeout
            ]
        );
    }

    #[test]
    fn what_a_control_reports_of_itself_comes_with_samples_of_its_socket() {
        let draft = narrows_scenario::Draft::read("test.toml", PLAN.as_bytes());
        let plan = draft.and_then(|d| d.check()).expect("the plan is good");
        let (reporter, reports) = reports(plan.flows.len());
        let mut control_records =
            ControlRecords::new(&plan, Clock::starting_now(), reporter.clone());
        let mut record = record(32_768, Hook::Init);
        record.telemetry = vec![Some(7)];
        control_records.report(&record);
        let (flow, sample) = (FlowId(0), narrows_core::FlowSample::default());
        reporter.report(Instant::ZERO, Report::Sampled { flow, sample });
        let seen = reports.next().map(|r| r.1);
        let Some(Report::Telemetry { field, value, .. }) = seen else {
            panic!("{seen:?}");
        };
        assert_eq!((field.column().as_str(), value), ("alpha", 7));
    }
}
