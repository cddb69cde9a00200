//! Flows: who sends what to whom, under which control.

use narrows_path::routes::Routes;

use super::{Check, Names, ways};
use crate::document::{At, EcnRequest, Flow, Optional};
use crate::endpoints::MAX_FLOWS;
use crate::parts::{Control, EcnMode, HostModel, Traffic};
use crate::plan::{FlowPlan, HostIndex, IpVersion};
use crate::refusal::Refusal;
use crate::transport::Transport;

impl Check<'_> {
    /// Reads the flows.
    pub(super) fn flows(&mut self) -> Result<(), Refusal> {
        let routes = self.plan.routes();
        let model = match &self.scenario.host_model {
            Some(given) => super::model::read(self.places, given, HostModel::default())?,
            None => HostModel::default(),
        };
        let offsets = self.scenario.start_offset.as_ref().is_none_or(|at| **at);
        let mut names = Names::default();
        self.at_most(MAX_FLOWS, "flow", &self.scenario.flow)?;
        for flow in &self.scenario.flow {
            let name = names.required(self.places, flow, &flow.name)?;
            let mut flow = self.flow(flow, name, &routes, model)?;
            flow.start_offset &= offsets;
            self.plan.flows.push(flow);
        }
        Ok(())
    }

    fn flow(
        &self,
        flow: &At<Flow>,
        name: String,
        routes: &Routes,
        model: HostModel,
    ) -> Result<FlowPlan, Refusal> {
        let (plan, places) = (&self.plan, self.places);
        let (from, to) = self.ends(flow, &flow.from, &flow.to)?;
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
        let via = self.via(flow, (from, to), transport, &traffic, ip, routes)?;
        if via.is_none() {
            self.joined(flow, &flow.to, (from, to), routes)?;
        }
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

    /// The two ends of a flow or a probe.
    pub(super) fn ends<T>(
        &self,
        table: &At<T>,
        from: &Optional<String>,
        to: &Optional<String>,
    ) -> Result<(HostIndex, HostIndex), Refusal> {
        let a = self.required_host(table, "from", from)?;
        let b = self.required_host(table, "to", to)?;
        match to {
            Some(to) if a == b => Err(self.places.refuse(to, "another host than `from`")),
            _ => Ok((a, b)),
        }
    }

    /// Refuses the ends of a flow or a probe, of which `to` names the second, if no way
    /// leads from one to the other.
    pub(super) fn joined<T>(
        &self,
        table: &At<T>,
        to: &Optional<String>,
        ends: (HostIndex, HostIndex),
        routes: &Routes,
    ) -> Result<(), Refusal> {
        const ALLOWED: &str = "a host to which there is a path";
        ways::between(&self.plan, routes, ends).map_err(|why| {
            let refusal = match to {
                Some(to) => self.places.refuse(to, ALLOWED),
                None => self.places.missing(table, "to", ALLOWED),
            };
            refusal.with_help(why)
        })
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
