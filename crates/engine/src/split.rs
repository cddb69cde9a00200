//! Flows that go by proxies: the sockets of each leg, and the proxies themselves.

use narrows_core::{App, FlowId, Profile, Role};
use narrows_host::Part;
use narrows_pep::{FirstData, Hints, Layout, Limits, Listener, Proxy, Route, Terms, Via};
use narrows_scenario::endpoints::ProxyEnds;
use narrows_scenario::{EcnMode, HostIndex, LegPlan, ProxyPlan, TcpOptions};

use crate::setup::{Builder, Carrier, SetupError, SocketPlan, TcpPlan};

/// What a flow that goes by a proxy needs to know of it.
pub(crate) struct Split<'p> {
    proxy: &'p ProxyPlan,
    ends: ProxyEnds,
    route: Route,
    tcp: &'p TcpOptions,
}

impl Split<'_> {
    /// `app`, which opens the flow, by way of the proxy.
    pub fn by_proxy(&self, app: Box<dyn App>) -> Box<dyn App> {
        Box::new(Via::new(app, self.route))
    }
}

impl<'p> Builder<'p> {
    /// How flow `i` goes, if it goes by a proxy.
    pub(crate) fn split(&self, i: usize) -> Option<Split<'p>> {
        let ends = self.plan.proxy_ends(i)?;
        let plan = &self.plan.flows[i];
        let (via, tcp) = (plan.via?, plan.transport.tcp()?);
        let proxy = &self.plan.proxies[via.proxy];
        let route = Route {
            proxy: ends.near,
            layout: proxy.layout,
            first_data: via.first_data,
        };
        Some(Split {
            proxy,
            ends,
            route,
            tcp,
        })
    }

    /// What the sockets of flow `i` ask for at its own ends. A connection's mode of ECN is
    /// that of the end which sends data over it: that end's where it opens the connection,
    /// and whoever is asked grants it.
    pub(crate) fn split_ends(&self, i: usize, split: &Split<'_>) -> [TcpPlan; 2] {
        let plan = &self.plan.flows[i];
        let own = TcpPlan::new(split.tcp, plan.opens == plan.from);
        let opener = TcpPlan {
            ecn: match plan.opens == plan.from {
                true => split.tcp.ecn,
                false => split.proxy.near.ecn,
            },
            // The request.
            speaks_first: true,
            ..own.clone()
        };
        let answerer = TcpPlan {
            ecn: EcnMode::Auto,
            fast_open: split.tcp.fast_open || split.proxy.fast_open,
            ..own
        };
        [opener, answerer]
    }

    /// The proxy's sockets for flow `i`, and where it listens for it.
    pub(crate) fn listener(&mut self, i: usize, split: &Split<'_>) -> Result<Listener, SetupError> {
        let plan = &self.plan.flows[i];
        let (proxy, ends) = (split.proxy, split.ends);
        let owner = format!("proxy/{}/{}", proxy.name, plan.name);
        let flow_ends = self.plan.flow_ends(i);
        // A connection onward that waited for data which waits for it would never open.
        let speaks_first =
            plan.opens == plan.from && split.route.first_data == FirstData::WithRequest;
        let mut leg = |leg: &LegPlan, role, fast_open, end: HostIndex| {
            let ecn = match (role, plan.opens == plan.from) {
                (Role::Responder, _) => EcnMode::Auto,
                (Role::Initiator, true) => leg.ecn,
                (Role::Initiator, false) => split.tcp.ecn,
            };
            self.require_path(&owner, end, ends.host)?;
            let tcp = TcpPlan {
                control: leg.cc.clone(),
                ecn,
                fast_open,
                speaks_first,
                host: split.tcp.host,
                window: leg.window,
                unsent: leg.unsent,
            };
            Ok::<Profile, SetupError>(self.setup.add_socket(SocketPlan {
                carrier: Carrier::Tcp(Box::new(tcp)),
                traffic_class: plan.dscp << 2,
                flow: Some(FlowId(i as u32)),
                part: Part::Relays,
                role,
                owner: owner.clone(),
                rng: None,
            }))
        };
        let near = leg(
            &proxy.near,
            Role::Responder,
            split.tcp.fast_open,
            flow_ends.opener.0,
        )?;
        let far = leg(
            &proxy.far,
            Role::Initiator,
            proxy.fast_open,
            flow_ends.answerer.0,
        )?;
        Ok(Listener {
            near,
            local: ends.near,
            far,
            onward_from: Some(ends.far),
            terms: Terms {
                thesis: proxy.layout == Layout::Thesis,
                cookies: None,
                fast_open: proxy.fast_open,
                ..Terms::default()
            },
            parent: None,
            flow: Some(FlowId(i as u32)),
            near_rate: None,
            far_rate: None,
        })
    }

    /// Puts the proxies that have flows on their hosts.
    pub(crate) fn proxies(&mut self, listeners: Vec<Vec<Listener>>) {
        for (proxy, listeners) in self.plan.proxies.iter().zip(listeners) {
            if listeners.is_empty() {
                continue;
            }
            let limits = Limits {
                backlog: proxy.backlog,
                budget: proxy.budget,
                ..Limits::default()
            };
            let name = format!("proxy/{}", proxy.name);
            let hints = Hints {
                near: self.plan.given_rates(&proxy.near).steps().to_vec(),
                far: self.plan.given_rates(&proxy.far).steps().to_vec(),
            };
            let app = Proxy::new(listeners, limits).with_hints(&hints);
            self.setup.add_app(proxy.host, &name, app);
        }
    }
}
