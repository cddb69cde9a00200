//! Flows: who sends what to whom, under which control.

use super::{Check, Names};
use crate::document::{At, EcnRequest, Flow, Optional};
use crate::parts::{Control, EcnMode, HostModel, Traffic};
use crate::plan::{FlowPlan, HostIndex, IpVersion};
use crate::refusal::Refusal;
use crate::transport::Transport;

impl Check<'_> {
    /// Reads the flows.
    pub(super) fn flows(&mut self) -> Result<(), Refusal> {
        let reach = self.reach();
        let model = match &self.scenario.host_model {
            Some(given) => super::model::read(self.places, given, HostModel::default())?,
            None => HostModel::default(),
        };
        let offsets = self.scenario.start_offset.as_ref().is_none_or(|at| **at);
        let mut names = Names::default();
        for flow in &self.scenario.flow {
            let name = names.required(self.places, flow, &flow.name)?;
            let mut flow = self.flow(flow, name, &reach, model)?;
            flow.start_offset &= offsets;
            self.plan.flows.push(flow);
        }
        Ok(())
    }

    fn flow(
        &self,
        flow: &At<Flow>,
        name: String,
        reach: &[usize],
        model: HostModel,
    ) -> Result<FlowPlan, Refusal> {
        let (plan, places) = (&self.plan, self.places);
        let (from, to) = self.ends(flow, &flow.from, &flow.to, reach)?;
        let opens = match &flow.opens {
            None => from,
            Some(at) => {
                let opens = self.host(at)?;
                if opens != from && opens != to {
                    let (from, to) = (&plan.host(from).name, &plan.host(to).name);
                    return Err(places.refuse(at, format!("`{from}` or `{to}`")));
                }
                opens
            }
        };
        let traffic = self.traffic(flow)?;
        let cc = places.parsed(&flow.cc)?;
        let transport = self.transport(flow, cc)?;
        let ip = match &flow.ip {
            None => IpVersion::V4,
            Some(at) => match at.0 {
                4 => IpVersion::V4,
                6 => IpVersion::V6,
                _ => return Err(places.refuse(at, "4 or 6")),
            },
        };
        self.fits(flow, (from, to), transport, &traffic, ip)?;
        let cc = match cc {
            Some(cc) => cc.clone(),
            None if transport == Transport::Quic => Control::Quic(Default::default()),
            // The plan's entry for the control of a flow that has none.
            None if transport.modelled().is_some() || traffic.is_datagram() => {
                Control::parse("reno").map_err(|e| places.refused_words(flow, e))?
            }
            None => {
                let allowed = "a congestion control, such as \"cubic\"";
                return Err(places.missing(flow, "cc", allowed));
            }
        };
        let (start, stop) = self.times(&flow.start, &flow.stop)?;
        let via = self.via(flow, (from, to), transport, &traffic, ip, reach)?;
        Ok(FlowPlan {
            name,
            from,
            to,
            opens,
            ecn: self.ecn(flow, transport, &cc)?,
            dscp: places.parsed(&flow.dscp)?.map_or(0, |dscp| dscp.0),
            start,
            start_offset: flow.start.is_none(),
            stop,
            traffic,
            ip,
            fast_open: flow.fast_open.as_ref().is_some_and(|at| **at),
            host: match (transport, &flow.host_model) {
                (Transport::Tcp, Some(given)) => super::model::read(places, given, model)?,
                (Transport::Tcp, None) => model,
                // It is about TCP's segments.
                (Transport::Quic | Transport::Modelled(_), _) => HostModel::default(),
            },
            transport,
            spin: self.spin(flow, transport)?,
            via,
            cc,
        })
    }

    /// The two ends of a flow or a probe, between which there is a path.
    pub(super) fn ends<T>(
        &self,
        table: &At<T>,
        from: &Optional<String>,
        to: &Optional<String>,
        reach: &[usize],
    ) -> Result<(HostIndex, HostIndex), Refusal> {
        let a = self.required_host(table, "from", from)?;
        let b = self.required_host(table, "to", to)?;
        let refuse = |allowed: &str| match to {
            Some(to) => self.places.refuse(to, allowed),
            None => self.places.missing(table, "to", allowed),
        };
        if a == b {
            return Err(refuse("another host than `from`"));
        }
        if reach[a.0] != reach[b.0] {
            let (a, b) = (&self.plan.host(a).name, &self.plan.host(b).name);
            return Err(refuse("a host to which there is a path")
                .with_help(format!("no links lead from `{a}` to `{b}`")));
        }
        Ok((a, b))
    }

    /// For each host the group of those that links join it with, through
    /// whatever comes between.
    pub(super) fn reach(&self) -> Vec<usize> {
        let mut neighbours = vec![Vec::new(); self.plan.hosts.len()];
        for link in &self.plan.links {
            neighbours[link.ends.0.0].push(link.ends.1.0);
            neighbours[link.ends.1.0].push(link.ends.0.0);
        }
        let mut group = vec![usize::MAX; neighbours.len()];
        for start in 0..group.len() {
            let mut next = vec![start];
            while let Some(host) = next.pop() {
                if group[host] == usize::MAX {
                    group[host] = start;
                    next.extend(&neighbours[host]);
                }
            }
        }
        group
    }

    /// What the handshake asks for: what the file says, or else what the control
    /// needs. `true` is the plainest form that serves the control.
    fn ecn(&self, flow: &Flow, transport: Transport, cc: &Control) -> Result<EcnMode, Refusal> {
        let needed = match transport {
            // There is one way of feedback and nothing to negotiate; quinn has it on.
            Transport::Quic => EcnMode::Classic,
            Transport::Tcp => needed_ecn(cc),
            Transport::Modelled(_) => return Ok(EcnMode::Off),
        };
        let Some(given) = &flow.ecn else {
            return Ok(needed);
        };
        match (*self.places.words(given)?, needed) {
            (EcnRequest::On, EcnMode::Off) => Ok(EcnMode::Classic),
            (EcnRequest::On, needed) => Ok(needed),
            (EcnRequest::Mode(EcnMode::AccEcn), _) if transport == Transport::Quic => Err(self
                .places
                .refuse(given, "`true` or `false`")
                .with_help("QUIC counts every mark in its acknowledgements; packets carry ECT(0)")),
            (EcnRequest::Mode(mode), _) => Ok(mode),
        }
    }

    /// `bytes = 1000000`, `bytes = "10Mb"` or `traffic = "words"`; bulk if neither.
    fn traffic(&self, flow: &Flow) -> Result<Traffic, Refusal> {
        match (&flow.bytes, &flow.traffic) {
            (Some(_), Some(traffic)) => {
                let allowed = "either `bytes` or `traffic`, not both";
                Err(self.places.refuse(traffic, allowed))
            }
            (Some(bytes), None) => Ok(Traffic::Bytes(self.places.words(bytes)?.0)),
            (None, traffic) => Ok(self.places.parsed(traffic)?.copied().unwrap_or_default()),
        }
    }
}

/// What the handshake asks for where a file says nothing: what the control needs.
pub(crate) fn needed_ecn(cc: &Control) -> EcnMode {
    let needs = cc.needs();
    if needs.accecn {
        EcnMode::AccEcn
    } else if needs.ecn {
        EcnMode::Classic
    } else {
        EcnMode::Off
    }
}
