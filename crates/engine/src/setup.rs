//! What both engines build from a plan: which applications run on which host, and the
//! options of the sockets that they open.

use std::sync::Arc;

use narrows_app::probe::{PAYLOAD_LEN, ProbeClient};
use narrows_app::{End, FlowAccount, Prober, Responder};
use narrows_core::{App, FlowId, Profile, Role};
use narrows_host::{AppOn, Part, Transport};
use narrows_path::routes::Routes;
use narrows_pep::Listener;
use narrows_quic::{Epoch, QuicConfig, Tls, spin};
use narrows_scenario::{
    Control, EcnMode, HostIndex, HostModel, NameTable, Plan, QuicOptions, SpinUse, TcpOptions,
};
use narrows_units::{Instant, Rng};
use narrows_wire::udp;

/// The MTU in bytes of a QUIC connection until its host fills in that of its link: Ethernet's.
pub(crate) const ETHERNET_MTU: u32 = 1_500;

/// Why no engine can build a plan. A checked plan has no such fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The ends of a flow or probe are not joined.
    #[error("{what}: no path leads from {from} to {to} and back")]
    NoPath {
        /// The flow or probe.
        what: String,
        /// One end.
        from: String,
        /// The other.
        to: String,
    },
}

/// What carries a socket's data.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// The engine's own TCP.
    Tcp(Box<TcpPlan>),
    /// What is the same in both engines.
    Shared(Transport),
}

/// What a TCP socket of the plan asks for.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    /// The congestion control.
    pub control: Control,
    /// What its SYN asks for and its SYN-ACK grants.
    pub ecn: EcnMode,
    /// Whether data goes with the SYN where a cookie is known.
    pub fast_open: bool,
    /// Whether the end that opens has data to send before it receives any.
    pub speaks_first: bool,
    /// How the host treats its segments.
    pub host: HostModel,
    /// Bytes that its receive window offers at most, where that is said.
    pub window: Option<u64>,
    /// Bytes that may wait to be sent for the first time, where that is said.
    pub unsent: Option<u64>,
}

impl TcpPlan {
    /// What both ends of a connection with these options ask for, and whether the one that
    /// opens it has data to send before it receives any.
    pub fn new(options: &TcpOptions, speaks_first: bool) -> Self {
        Self {
            control: options.cc.clone(),
            ecn: options.ecn,
            fast_open: options.fast_open,
            speaks_first,
            host: options.host,
            window: None,
            unsent: None,
        }
    }
}

/// The options of the sockets that have one [`Profile`].
#[derive(Clone, Debug)]
pub struct SocketPlan {
    /// What carries its data.
    pub carrier: Carrier,
    /// DSCP and, of datagrams, the ECN field of what it sends.
    pub traffic_class: u8,
    /// The flow of the plan that it belongs to.
    pub flow: Option<FlowId>,
    /// What this end does for that flow.
    pub part: Part,
    /// Whether it opens its connection.
    pub role: Role,
    /// What it belongs to: `flow/NAME`, `probe/NAME` or `app/NAME`.
    pub owner: String,
    /// Randomness of the first connection, where it is not to come from the name.
    pub rng: Option<Rng>,
}

impl SocketPlan {
    /// The flow of which it is the sender or the receiver; no proxy's socket is either.
    pub fn end_of(&self) -> Option<FlowId> {
        self.flow.filter(|_| self.part != Part::Relays)
    }

    /// Whether it sends the data of its flow.
    pub fn sends(&self) -> bool {
        self.part == Part::Sends
    }

    /// The name that seeds the randomness of its connections.
    pub fn name(&self) -> String {
        match self.role {
            Role::Initiator => format!("{}/opener", self.owner),
            Role::Responder => format!("{}/answerer", self.owner),
        }
    }
}

/// What a run of a plan consists of at its hosts.
#[derive(Default)]
pub struct Setup {
    /// Seeds what its connections draw.
    pub seed: u64,
    /// Sets of socket options, in the order of their [`Profile`] numbers.
    pub sockets: Vec<SocketPlan>,
    /// Applications, in the order in which they start.
    pub apps: Vec<AppOn>,
    /// The account of each flow, in the plan's order.
    pub accounts: Vec<Arc<FlowAccount>>,
}

impl Setup {
    /// What `plan` asks for. Which ends of QUIC spin comes from `seed`; its connections
    /// count time from `epoch` on and are encrypted by `tls`, if it is there.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn of(
        plan: &Plan,
        seed: u64,
        epoch: Epoch,
        tls: Option<&Arc<Tls>>,
    ) -> Result<Self, SetupError> {
        let names = NameTable::of(plan);
        let routes = plan.routes();
        let mut builder = Builder {
            plan,
            routes: &routes,
            epoch,
            tls,
            setup: Self {
                seed,
                ..Self::default()
            },
        };
        let mut listeners: Vec<Vec<Listener>> = plan.proxies.iter().map(|_| Vec::new()).collect();
        for i in 0..plan.flows.len() {
            if let (Some(via), Some(listener)) = (plan.flows[i].via, builder.flow(i)?) {
                listeners[via.proxy].push(listener);
            }
        }
        builder.proxies(listeners);
        for i in 0..plan.probes.len() {
            builder.probe(i, &names)?;
        }
        for i in 0..plan.apps.len() {
            builder.app(i, &names)?;
        }
        Ok(builder.setup)
    }

    /// A further set of socket options, and its number.
    pub fn add_socket(&mut self, socket: SocketPlan) -> Profile {
        self.sockets.push(socket);
        Profile(self.sockets.len() as u32 - 1)
    }

    /// Puts an application on a host, after those that are there; `name` is what errors
    /// call it.
    pub fn add_app(&mut self, HostIndex(node): HostIndex, name: &str, app: impl App + 'static) {
        self.apps.push(AppOn {
            node,
            name: name.to_owned(),
            app: Box::new(app),
        });
    }
}

pub(crate) struct Builder<'p> {
    pub plan: &'p Plan,
    routes: &'p Routes,
    pub epoch: Epoch,
    pub tls: Option<&'p Arc<Tls>>,
    pub setup: Setup,
}

impl Builder<'_> {
    /// Refuses `what` if no path leads from one host to the other, or none back.
    pub fn require_path(&self, what: &str, a: HostIndex, b: HostIndex) -> Result<(), SetupError> {
        let refuse = |_| SetupError::NoPath {
            what: what.to_owned(),
            from: self.plan.hosts[a.0].name.clone(),
            to: self.plan.hosts[b.0].name.clone(),
        };
        self.routes.path(a.0, b.0).map_err(refuse)?;
        self.routes.path(b.0, a.0).map_err(refuse)?;
        Ok(())
    }

    /// Puts both applications of flow `i` on their hosts; where its proxy listens for it,
    /// if it goes by one.
    fn flow(&mut self, i: usize) -> Result<Option<Listener>, SetupError> {
        let plan = &self.plan.flows[i];
        let owner = format!("flow/{}", plan.name);
        let ends = self.plan.flow_ends(i);
        let split = self.split(i);
        match self.plan.proxy_ends(i) {
            Some(proxy) => {
                self.require_path(&owner, ends.opener.0, proxy.host)?;
                self.require_path(&owner, ends.answerer.0, proxy.host)?;
            }
            None => self.require_path(&owner, plan.opens, ends.answerer.0)?,
        }
        let account = Arc::new(FlowAccount::new(FlowId(i as u32)));
        self.setup.accounts.push(Arc::clone(&account));
        let [opener, answerer] = match &split {
            Some(split) => self
                .split_ends(i, split)
                .map(|tcp| (Carrier::Tcp(Box::new(tcp)), None)),
            None => self.carriers(i),
        };
        for (role, (carrier, rng), (host, local), (_, remote)) in [
            (Role::Initiator, opener, ends.opener, ends.answerer),
            (Role::Responder, answerer, ends.answerer, ends.opener),
        ] {
            let sends = host == plan.from;
            let part = if sends { Part::Sends } else { Part::Receives };
            let profile = self.setup.add_socket(SocketPlan {
                carrier,
                traffic_class: plan.dscp << 2,
                flow: Some(FlowId(i as u32)),
                part,
                role,
                owner: owner.clone(),
                rng,
            });
            let end = End {
                profile,
                local,
                remote,
                opens: role == Role::Initiator,
                start: plan.start,
                account: Arc::clone(&account),
            };
            let rng = Rng::for_name(self.setup.seed, &format!("{owner}/traffic"));
            let app = match sends {
                true => plan.traffic.sender(end, rng, plan.stop),
                false => plan.traffic.receiver(end),
            };
            let app = match &split {
                Some(split) if role == Role::Initiator => split.by_proxy(app),
                _ => app,
            };
            self.add_app(host, &owner, app);
        }
        split.map(|split| self.listener(i, &split)).transpose()
    }

    /// What carries flow `i` at the end that opens it and at the other, and the randomness of
    /// these.
    fn carriers(&self, i: usize) -> [(Carrier, Option<Rng>); 2] {
        use narrows_scenario::Transport as Planned;
        let plan = &self.plan.flows[i];
        let carrier = match &plan.transport {
            Planned::Quic(quic) => return self.quic(i, quic),
            Planned::Modelled(spec) => Carrier::Shared(Transport::Model(*spec)),
            Planned::Datagrams => Carrier::Shared(Transport::Datagrams),
            Planned::Tcp(tcp) => {
                let speaks_first = plan.opens == plan.from;
                Carrier::Tcp(Box::new(TcpPlan::new(tcp, speaks_first)))
            }
        };
        [(carrier.clone(), None), (carrier, None)]
    }

    fn quic(&self, i: usize, quic: &QuicOptions) -> [(Carrier, Option<Rng>); 2] {
        let plan = &self.plan.flows[i];
        let ends = self.plan.flow_ends(i);
        let (near, far) = (ends.opener.1, ends.answerer.1);
        let config = |local, remote| QuicConfig {
            local,
            remote,
            control: quic.cc,
            ecn: quic.ecn,
            dscp: plan.dscp,
            mtu: ETHERNET_MTU,
            window: narrows_quic::STREAM_WINDOW,
            spin: quic.spin != SpinUse::Greased,
            flow: Some(FlowId(i as u32)),
            tls: None,
        };
        let (client, server) = (config(near, far), config(far, near));
        let (epoch, on) = (self.epoch, quic.spin == SpinUse::On);
        let (ours, theirs) =
            spin::generators(epoch, self.setup.seed, &plan.name, on, &client, &server);
        [(client, ours), (server, theirs)].map(|(config, rng)| {
            let tls = self.tls.map(Arc::clone);
            let config = QuicConfig { tls, ..config };
            (Carrier::Shared(Transport::Quic(config, epoch)), Some(rng))
        })
    }

    /// Puts an application on a host, after those that are there.
    pub(crate) fn add_app(&mut self, HostIndex(node): HostIndex, name: &str, app: Box<dyn App>) {
        let name = name.to_owned();
        self.setup.apps.push(AppOn { node, name, app });
    }

    fn probe(&mut self, i: usize, names: &NameTable) -> Result<(), SetupError> {
        let plan = &self.plan.probes[i];
        let owner = format!("probe/{}", plan.name);
        self.require_path(&owner, plan.from, plan.to)?;
        let ends = self.plan.probe_ends(i);
        let (near, far) = (ends.opener.1, ends.answerer.1);
        let entity = names.id(&owner).unwrap_or_default();
        let profile = self.setup.add_socket(SocketPlan {
            carrier: Carrier::Shared(Transport::Datagrams),
            traffic_class: plan.dscp << 2 | plan.ecn as u8,
            flow: None,
            part: Part::Receives,
            role: Role::Initiator,
            owner: owner.clone(),
            rng: None,
        });
        let headers = 20 + udp::HEADER_LEN as u32;
        let payload_len = plan.size.saturating_sub(headers).max(PAYLOAD_LEN as u32);
        let end = Instant::ZERO + self.plan.duration;
        let stop = plan.stop.unwrap_or(end).min(end);
        let client = ProbeClient::new(plan.interval, plan.start, stop);
        let prober = Prober::new(entity, profile, near, far, client, payload_len);
        self.setup.add_app(plan.from, &owner, prober);
        let responder = Responder::new(profile, far, payload_len);
        self.setup.add_app(plan.to, &owner, responder);
        Ok(())
    }
}
