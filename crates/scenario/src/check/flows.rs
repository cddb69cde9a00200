//! Flows: who sends what to whom, under which control.

use narrows_path::routes::Routes;

use super::transport::{Between, TransportKeys};
use super::{Check, Names, ways};
use crate::document::{At, Flow, Optional, Whole};
use crate::endpoints::MAX_FLOWS;
use crate::parts::{Carries, Control, EcnMode, HostModel, Traffic};
use crate::plan::{FlowPlan, HostIndex, IpVersion};
use crate::refusal::Refusal;
use crate::transport::{Transport, TransportName};

impl Check<'_> {
    /// Reads the flows.
    pub(super) fn flows(&mut self) -> Result<(), Refusal> {
        let routes = self.plan.routes();
        let model = self.host_model()?;
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
        let ip = self.ip(&flow.ip)?;
        let keys = TransportKeys::from(&**flow);
        let transport = match (traffic.carries(), self.transport_name(keys)?) {
            (Carries::Datagrams, TransportName::Tcp) => {
                self.without_use(keys, model)?;
                Transport::Datagrams
            }
            (Carries::Datagrams, name) => return Err(self.constant(flow, name)),
            (Carries::Stream, name) => {
                let ends = (from, to);
                self.connections(flow, keys, name, Between { ends, ip, model })?
            }
        };
        let (start, stop) = self.times(&flow.start, &flow.stop)?;
        let via = self.via(flow, (from, to), &transport, ip, routes)?;
        if via.is_none() {
            self.joined(flow, &flow.to, (from, to), routes)?;
        }
        Ok(FlowPlan {
            name,
            from,
            to,
            opens,
            dscp: places.parsed(&flow.dscp)?.map_or(0, |dscp| dscp.0),
            start,
            start_offset: flow.start.is_none(),
            stop,
            traffic,
            ip,
            transport,
            via,
        })
    }

    /// The refusal of datagrams at a constant rate over a transport that sends a stream.
    fn constant(&self, flow: &At<Flow>, name: TransportName) -> Refusal {
        let allowed = "`bulk` or `bytes N`";
        let refusal = match &flow.traffic {
            Some(given) => self.places.refuse(given, allowed),
            None => self.places.missing(flow, "traffic", allowed),
        };
        refusal.with_help(match name {
            TransportName::Modelled(_) => "a constant rate is a word of `transport`: `rate 20Mbit`",
            _ => "a constant bit rate goes as plain datagrams: leave `transport` out",
        })
    }

    /// How hosts treat segments where a table does not say.
    pub(super) fn host_model(&self) -> Result<HostModel, Refusal> {
        match &self.scenario.host_model {
            Some(given) => super::model::read(self.places, given, HostModel::default()),
            None => Ok(HostModel::default()),
        }
    }

    /// `ip = 4` or `ip = 6`.
    pub(super) fn ip(&self, given: &Optional<Whole<4, 6>>) -> Result<IpVersion, Refusal> {
        match given {
            None => Ok(IpVersion::V4),
            Some(at) => match at.0 {
                4 => Ok(IpVersion::V4),
                6 => Ok(IpVersion::V6),
                _ => Err(self.places.refuse(at, "4 or 6")),
            },
        }
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
