//! Periodic samples of the senders of flows.

use narrows_packet::{Endpoint, Event, FlowId, Limited};
use narrows_units::Instant;

use crate::hosts::{Hosts, Net};

impl Hosts {
    /// Reports a sample of every flow of the plan that has a sender and is not over.
    pub fn sample(&mut self, net: &mut Net<'_>) {
        for i in 0..self.flows.len() {
            let sockets = self.flows[i];
            let Some(sender) = sockets.sender.filter(|_| !sockets.finished) else {
                continue;
            };
            let flow = FlowId(i as u32);
            let receiver = sockets.receiver.and_then(|s| self.endpoint(s));
            let received_ce = receiver.and_then(|e| e.received_ce());
            let mut limited = sockets.limited;
            let Some(endpoint) = self.endpoint(sender) else {
                continue;
            };
            sample(
                endpoint,
                flow,
                received_ce,
                &mut limited,
                net.now,
                &mut |event| {
                    net.sink.record(net.now, event);
                },
            );
            self.flows[i].limited = limited;
        }
    }
}

/// Reports what a sender of `flow` says at `now`, and how long it was limited if that is
/// no more what was reported `last`. `received_ce` is what its other end counted, where
/// a sender does not know it.
pub fn sample(
    sender: &dyn Endpoint,
    flow: FlowId,
    received_ce: Option<u64>,
    last: &mut Limited,
    now: Instant,
    record: &mut dyn FnMut(Event<'static>),
) {
    let mut sample = sender.sample(now);
    sample.delivered_ce = received_ce.unwrap_or(sample.delivered_ce);
    record(Event::Sampled { flow, sample });
    if let Some(limited) = sender.limited().filter(|l| l != last) {
        *last = limited;
        record(Event::Limited {
            flow,
            receive_window: limited.receive_window,
            send_buffer: limited.send_buffer,
            application: limited.application,
        });
    }
}
