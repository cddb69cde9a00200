//! Periodic samples of the senders of flows.

use narrows_core::{Endpoint, Event, FlowId};

use crate::hosts::{Hosts, Net};

impl Hosts {
    /// Reports a sample of every flow of the plan that has a sender and is not over, and
    /// lets applications report of themselves.
    pub fn sample(&mut self, net: &mut Net<'_>) {
        for app in 0..self.apps.len() {
            self.call(net, app, |app, host| app.sample(host));
        }
        for i in 0..self.flows.len() {
            let sockets = self.flows[i];
            let Some(sender) = sockets.sender.filter(|_| !sockets.finished) else {
                continue;
            };
            let flow = FlowId(i as u32);
            let receiver = sockets.receiver.and_then(|s| self.endpoint(s));
            let received_ce = receiver.and_then(|e| e.received_ce());
            let Some(endpoint) = self.endpoint(sender) else {
                continue;
            };
            let (mut sample, limited) = (endpoint.sample(net.now), Endpoint::limited(endpoint));
            let (now, sink) = (net.now, &mut *net.sink);
            endpoint.telemetry(&mut |field, value| {
                let source = flow.into();
                sink.record(
                    now,
                    Event::Telemetry {
                        source,
                        field,
                        value,
                    },
                );
            });
            // Where a sender does not know it, its other end does.
            sample.delivered_ce = received_ce.unwrap_or(sample.delivered_ce);
            net.sink.record(net.now, Event::Sampled { flow, sample });
            if let Some(limited) = limited.filter(|l| *l != sockets.limited) {
                self.flows[i].limited = limited;
                let event = Event::Limited {
                    flow,
                    receive_window: limited.receive_window,
                    send_buffer: limited.send_buffer,
                    application: limited.application,
                };
                net.sink.record(net.now, event);
            }
        }
    }
}
