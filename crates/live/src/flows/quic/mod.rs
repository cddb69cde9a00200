//! Flows over QUIC: quinn as it is, over UDP sockets in the hosts.
//!
//! Each host has one thread for the ends of its QUIC flows, and tokio on it.
//! TLS is real here, with a certificate that is made for the run, so no two
//! runs are alike; settings, congestion controls and whether an end spins are those
//! of the simulator's flows.

mod certificate;
mod end;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use narrows_app::Generator;
use narrows_packet::FlowId;
use narrows_quic::{Config, Epoch, Watch, endpoint_seed, spin};
use narrows_scenario::{EcnMode, Plan, SpinUse};
use narrows_units::{Duration, Instant, Rng};
use quinn::{Endpoint, EndpointConfig, Runtime, TokioRuntime};
use tokio::runtime;

pub use certificate::Certificate;
use end::End;
use socket::Unmarked;

use super::error::FlowError;
use super::facts::EndFacts;
use super::stop::{Stop, wake_sharply};
use crate::{Clock, Reporter};

/// How often it is looked whether the run has ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);

/// One end of a flow, as it is planned.
#[derive(Debug)]
pub struct QuicPlan {
    /// Index of the flow in the plan.
    pub flow: usize,
    /// `flow/NAME`.
    pub name: String,
    /// Addresses, control and the like.
    pub config: Config,
    /// Whether this end connects.
    pub opens: bool,
    /// The application, if this end sends.
    pub generator: Option<Generator>,
    /// When the flow is opened.
    pub start: Instant,
    /// When it stops sending.
    pub stop: Option<Instant>,
    /// How often the sender is looked at.
    pub interval: Duration,
    /// What the ends trust, and prove themselves with.
    pub certificate: Certificate,
    /// What the endpoint draws by.
    pub seed: [u8; 32],
}

/// The two ends of flow `i` of `plan`, that which opens it first. Whether they spin
/// comes from `seed`, as in the simulator.
///
/// # Errors
/// If the flow needs what quinn has no switch for.
pub fn plans(
    plan: &Plan,
    i: usize,
    seed: u64,
    certificate: &Certificate,
) -> Result<[QuicPlan; 2], FlowError> {
    let flow = &plan.flows[i];
    let name = format!("flow/{}", flow.name);
    if flow.dscp != 0 {
        return Err(FlowError::Socket {
            what: name,
            action: "send QUIC with a DSCP".to_owned(),
            reason: io::Error::new(
                io::ErrorKind::Unsupported,
                "quinn sets the whole traffic class of its packets; leave `dscp` out, or run it \
                 in the simulator",
            ),
        });
    }
    let mtus = plan.links.iter().map(|l| l.mtu);
    let mtu = mtus.min().unwrap_or(1500);
    let ends = plan.flow_ends(i);
    let config = |local: SocketAddr, remote: SocketAddr| Config {
        local,
        remote,
        control: flow.cc.quic().unwrap_or_default(),
        ecn: flow.ecn != EcnMode::Off,
        dscp: 0,
        mtu,
        spin: flow.spin != SpinUse::Greased,
        flow: Some(FlowId(i as u32)),
    };
    let (near, far) = (ends.opener.1, ends.answerer.1);
    let (client, server) = (config(near, far), config(far, near));
    let on = flow.spin == SpinUse::On;
    let epoch = Epoch::at(std::time::Instant::now());
    let rngs = spin::generators(epoch, seed, &flow.name, on, &client, &server);
    let end = |config: Config, opens: bool, sends: bool, rng: Rng| QuicPlan {
        flow: i,
        name: name.clone(),
        config,
        seed: endpoint_seed(rng),
        opens,
        generator: sends.then(|| Generator::new(flow.traffic)),
        start: flow.start,
        stop: flow.stop,
        interval: plan.sample_interval,
        certificate: certificate.clone(),
    };
    let opener_sends = flow.opens == flow.from;
    Ok([
        end(client, true, opener_sends, rngs.0),
        end(server, false, !opener_sends, rngs.1),
    ])
}

/// The ends of QUIC flows in one host.
#[derive(Debug)]
pub struct Quic {
    runtime: runtime::Runtime,
    ends: Vec<End>,
    stop: Stop,
}

impl Quic {
    /// To be called on a thread in the host.
    ///
    /// # Errors
    /// If a socket cannot be had as planned.
    pub fn new(
        plans: Vec<QuicPlan>,
        clock: Clock,
        reporter: &Reporter,
        stop: Stop,
    ) -> Result<Self, FlowError> {
        let cannot = |what: &str, action: &str, reason: io::Error| FlowError::Socket {
            what: what.to_owned(),
            action: action.to_owned(),
            reason,
        };
        let runtime = runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|e| cannot("QUIC", "have a runtime", e))?;
        let entered = runtime.enter();
        let mut ends = Vec::new();
        for plan in plans {
            let watch = Watch::default();
            let endpoint = endpoint(&plan, &watch)
                .map_err(|e| cannot(&plan.name, &format!("have {}", plan.config.local), e))?;
            let client = plan
                .opens
                .then(|| {
                    let mut client = plan.certificate.client()?;
                    client.transport_config(plan.config.transport(&watch));
                    Ok(client)
                })
                .transpose()
                .map_err(|e: io::Error| cannot(&plan.name, "prepare TLS", e))?;
            ends.push(End::new(
                plan,
                endpoint,
                client,
                watch,
                clock,
                reporter.clone(),
            ));
        }
        drop(entered);
        Ok(Self {
            runtime,
            ends,
            stop,
        })
    }

    /// Serves all until it is stopped.
    pub fn run(self) -> Vec<EndFacts> {
        wake_sharply();
        let Self {
            runtime,
            ends,
            stop,
        } = self;
        runtime.block_on(async {
            let (told, tell) = tokio::sync::watch::channel(false);
            let ends: Vec<_> = ends
                .into_iter()
                .map(|end| tokio::spawn(end.run(tell.clone())))
                .collect();
            wait_for(&stop).await;
            let _ = told.send(true);
            let mut facts = Vec::new();
            for end in ends {
                // A panic there was printed there.
                facts.extend(end.await.ok());
            }
            facts
        })
    }
}

/// Returns once threads are told to end.
async fn wait_for(stop: &Stop) {
    while !stop.told() {
        tokio::time::sleep(LOOK).await;
    }
}

fn endpoint(plan: &QuicPlan, watch: &Watch) -> io::Result<Endpoint> {
    let socket = std::net::UdpSocket::bind(plan.config.local)?;
    let runtime = Arc::new(TokioRuntime);
    let mut socket = runtime.wrap_udp_socket(socket)?;
    if !plan.config.ecn {
        socket = Arc::new(Unmarked(socket));
    }
    let server = (!plan.opens)
        .then(|| {
            let mut server = plan.certificate.server()?;
            server.transport_config(plan.config.transport(watch));
            io::Result::Ok(server)
        })
        .transpose()?;
    let mut config = EndpointConfig::default();
    config
        .rng_seed(Some(plan.seed))
        .max_udp_payload_size(plan.config.payload())
        .ok();
    Endpoint::new_with_abstract_socket(config, server, socket, runtime)
}
