//! How an end of a connection is set up, in quinn-proto's terms.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time;

use narrows_core::FlowId;
use narrows_units::Rng;
use quinn_proto::{
    ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig, MtuDiscoveryConfig,
    ServerConfig, TransportConfig, ValidationTokenConfig, VarInt,
};

use crate::control::QuicControl;
use crate::null::Null;
use crate::watch::ControllerWatch;

/// Bytes of a UDP payload that every path must carry (RFC 9000 §14).
pub const LEAST_PAYLOAD: u32 = 1_200;

/// The largest UDP payload that a transport parameter can name
/// (RFC 9000 §18.2).
const MOST_PAYLOAD: u32 = 65_527;

/// Bytes of connection ids: quinn's default. A client's first guess at the
/// server's is as long.
const CID_LEN: usize = 8;

/// Bytes of a stream that may be on their way to the receiver: as much as
/// Linux lets a TCP receiver hold (the last of `net.ipv4.tcp_rmem`), so that
/// both transports feel the same limit. quinn's default is 1.25 MB.
pub const STREAM_WINDOW: u32 = 6 << 20;

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct QuicConfig {
    /// Its address.
    pub local: SocketAddr,
    /// The other end's.
    pub remote: SocketAddr,
    /// The congestion control, if it sends.
    pub control: QuicControl,
    /// Whether packets go with ECT(0); without, the field stays empty, and
    /// quinn finds ECN unusable as on a path that clears it.
    pub ecn: bool,
    /// The code point of all packets, 0 to 63.
    pub dscp: u8,
    /// The largest IP packet that this end's link takes, in bytes: quinn's MTU discovery
    /// searches up to it.
    pub mtu: u32,
    /// Bytes that the other end may send ahead of what this one's application reads.
    pub window: u32,
    /// Whether the spin bit may be in use. If so, quinn switches it off on one
    /// connection in eight at each end, by chance (RFC 9000 §17.4 asks for one
    /// in sixteen at least); where it is off, each packet shows a random bit.
    pub spin: bool,
    /// The flow, as the engine knows it.
    pub flow: Option<FlowId>,
    /// What encrypts packets; without, they are readable, and nothing is drawn from the
    /// system.
    pub tls: Option<Arc<Tls>>,
}

/// TLS for connections over real sockets.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Of both ends: the key of stateless resets.
    pub endpoint: EndpointConfig,
    /// How a client knows the server, which it calls [`SERVER_NAME`]; of clients.
    pub client: Option<ClientConfig>,
    /// How a server proves itself; of servers.
    pub server: Option<ServerConfig>,
}

/// What clients call every server.
pub const SERVER_NAME: &str = "narrows";

impl QuicConfig {
    /// The largest UDP payload on the path, in bytes.
    pub fn payload(&self) -> u16 {
        let headers = if self.local.is_ipv4() { 28 } else { 48 };
        let payload = self.mtu.saturating_sub(headers);
        // Below 65536 by the limit.
        payload.clamp(LEAST_PAYLOAD, MOST_PAYLOAD) as u16
    }

    /// How quinn is set up for it, in both engines: quinn's defaults but for
    /// the windows, the limit of MTU discovery, and segmentation offload,
    /// which is off. `watch` sees what its congestion control sees.
    pub(crate) fn transport(&self, watch: &ControllerWatch) -> Arc<TransportConfig> {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(self.payload());
        let mut transport = TransportConfig::default();
        transport
            .allow_spin(self.spin)
            .mtu_discovery_config(Some(discovery))
            .stream_receive_window(VarInt::from_u32(self.window))
            .enable_segmentation_offload(false)
            .congestion_controller_factory(watch.over(self.control.factory()));
        if self.tls.is_some() {
            // The other end may be another program: what this one keeps for it is one window.
            transport
                .max_concurrent_uni_streams(VarInt::from_u32(1))
                .max_concurrent_bidi_streams(VarInt::from_u32(0))
                .datagram_receive_buffer_size(None);
        }
        Arc::new(transport)
    }

    /// The endpoint; all that it draws comes from `rng`.
    pub(crate) fn endpoint(&self, crypto: Arc<Null>, rng: &mut Rng) -> EndpointConfig {
        let seed = draw_seed(rng);
        let ids = Rng::for_name(rng.draw_u64(), "connection ids");
        let mut endpoint = match &self.tls {
            Some(tls) => tls.endpoint.clone(),
            None => EndpointConfig::new(crypto),
        };
        endpoint
            .rng_seed(Some(seed))
            .cid_generator(move || Box::new(SeededIds(ids.clone())));
        // Never below the least that it allows.
        endpoint.max_udp_payload_size(self.payload()).ok();
        endpoint
    }

    /// What the client's end connects with.
    pub(crate) fn client(
        &self,
        crypto: Arc<Null>,
        transport: Arc<TransportConfig>,
        rng: &mut Rng,
    ) -> ClientConfig {
        let mut client = match &self.tls {
            Some(tls) => tls.client.clone().expect("TLS of a client"),
            None => ClientConfig::new(crypto),
        };
        let guesses = Rng::for_name(rng.draw_u64(), "the server's connection id");
        let guesses = Mutex::new(SeededIds(guesses));
        client
            .transport_config(transport)
            .initial_dst_cid_provider(Arc::new(move || {
                let mut guesses = guesses.lock().unwrap_or_else(PoisonError::into_inner);
                guesses.generate_cid()
            }));
        client
    }

    /// What the server's end accepts with.
    pub(crate) fn server(
        &self,
        crypto: Arc<Null>,
        transport: Arc<TransportConfig>,
    ) -> ServerConfig {
        let mut server = match &self.tls {
            Some(tls) => tls.server.clone().expect("TLS of a server"),
            None => ServerConfig::new(crypto.clone(), crypto),
        };
        // Tokens for a next connection carry the time of day, and there is none.
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        server
            .transport_config(transport)
            .validation_token_config(tokens)
            .migration(false);
        server
    }
}

/// The key of an end's null cryptography: the first that its generator draws.
pub(crate) fn draw_key(rng: &mut Rng) -> u64 {
    rng.draw_u64()
}

fn draw_seed(rng: &mut Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    for part in seed.chunks_mut(8) {
        part.copy_from_slice(&rng.draw_u64().to_le_bytes());
    }
    seed
}

/// Connection ids from a seed.
struct SeededIds(Rng);

impl ConnectionIdGenerator for SeededIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.draw_u64().to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        CID_LEN
    }

    fn cid_lifetime(&self) -> Option<time::Duration> {
        None
    }
}
