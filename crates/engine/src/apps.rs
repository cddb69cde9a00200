//! Applications that scenarios name by their kind, on their hosts.

use std::sync::Arc;

use narrows_app::{Site, SiteEnd};
use narrows_core::{Profile, Role};
use narrows_host::{Part, Transport};
use narrows_quic::QuicConfig;
use narrows_scenario::{AppPlan, NameTable, Transport as Planned};
use narrows_units::Instant;

use crate::setup::{Builder, Carrier, ETHERNET_MTU, SetupError, SocketPlan, TcpPlan};

impl Builder<'_> {
    /// Puts both ends of application `i` on their hosts.
    pub(crate) fn app(&mut self, i: usize, names: &NameTable) -> Result<(), SetupError> {
        let plan = &self.plan.apps[i];
        let owner = format!("app/{}", plan.name);
        self.require_path(&owner, plan.from, plan.to)?;
        let ends = self.plan.app_ends(i);
        let mut socket = |role, local, remote| {
            let profile: Profile = self.setup.add_socket(SocketPlan {
                carrier: app_carrier(plan, (local, remote), self.epoch, self.tls),
                traffic_class: plan.dscp << 2 | plan.spec.codepoint() as u8,
                flow: None,
                part: Part::Receives,
                role,
                owner: owner.clone(),
                rng: None,
            });
            SiteEnd { profile, local }
        };
        let (near, far) = (ends.opener.1, ends.answerer.1);
        let end = Instant::ZERO + self.plan.duration;
        let site = Site {
            entity: names.id(&owner).unwrap_or_default(),
            from: socket(Role::Initiator, near, far),
            to: socket(Role::Responder, far, near),
            name: owner.clone(),
            seed: self.setup.seed,
            start: plan.start,
            stop: plan.stop.unwrap_or(end).min(end),
        };
        let [begins, answers] = plan.spec.ends(&site);
        self.add_app(plan.from, &owner, begins);
        self.add_app(plan.to, &owner, answers);
        Ok(())
    }
}

/// What carries what an application sends. Addresses and MTU of QUIC are filled in for each
/// connection.
fn app_carrier(
    plan: &AppPlan,
    (local, remote): (std::net::SocketAddr, std::net::SocketAddr),
    epoch: narrows_quic::Epoch,
    tls: Option<&Arc<narrows_quic::Tls>>,
) -> Carrier {
    match &plan.transport {
        Planned::Tcp(tcp) => Carrier::Tcp(Box::new(TcpPlan::new(tcp, true))),
        Planned::Quic(quic) => {
            let config = QuicConfig {
                local,
                remote,
                control: quic.cc,
                ecn: quic.ecn,
                dscp: plan.dscp,
                mtu: ETHERNET_MTU,
                window: narrows_quic::STREAM_WINDOW,
                spin: true,
                flow: None,
                tls: tls.map(Arc::clone),
            };
            Carrier::Shared(Transport::Quic(config, epoch))
        }
        Planned::Modelled(spec) => Carrier::Shared(Transport::Model(*spec)),
        Planned::Datagrams => Carrier::Shared(Transport::Datagrams),
    }
}
