//! What one end of a flow can say about it.

use narrows_core::{FlowId, TcpInfo};
use narrows_linux::tcp_info::EcnLayout;

use crate::FlowFacts;

/// What the kernel made of one end, as its socket said last.
#[derive(Clone, Debug, Default)]
pub struct EndFacts {
    /// Index of the flow in the plan.
    pub flow: usize,
    /// Whether this end sends the data.
    pub sends: bool,
    /// As `getsockopt(TCP_CONGESTION)` says; empty where there is no such socket.
    pub congestion_control: String,
    /// The last sample of the socket.
    pub info: Option<TcpInfo>,
    /// Whether that was the last one.
    pub sampled_last: bool,
    /// Why its connection is gone, in a sentence.
    pub broken: Option<String>,
    /// What went otherwise than the plan says, in sentences.
    pub notes: Vec<String>,
}

impl EndFacts {
    /// Of an end of `flow` of which nothing is known yet.
    pub fn of(FlowId(flow): FlowId, sends: bool) -> Self {
        Self {
            flow: flow as usize,
            sends,
            ..Self::default()
        }
    }

    /// Adds what this end says to what is known of the flow.
    pub fn add_to(self, facts: &mut FlowFacts, layout: EcnLayout) {
        if let Some(info) = &self.info {
            if self.sends {
                facts.delivered_ce = info.delivered_ce.map(u64::from);
            } else {
                facts.received_ce = info.received_ce.map(u64::from);
            }
            // Whichever end has seen the other's option knows which kind of
            // ECN it is.
            facts.accecn |= layout.accecn(info);
            facts.ecn |= info.ecn();
            facts.ecn &= !facts.accecn;
        }
        if self.sends && !self.congestion_control.is_empty() {
            facts.congestion_control = self.congestion_control;
        }
        facts.notes.extend(self.notes);
    }
}
