//! What an end of a flow over TCP is to do, and what both ends know.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use narrows_app::Generator;
use narrows_packet::FlowId;
use narrows_units::Instant;

use super::ecn_switch::Ask;
use super::sockets::StreamOptions;
use crate::sample::Watch;

/// What both ends of a flow know of it.
#[derive(Debug)]
pub struct Shared {
    /// Bytes that the sender's application wrote before it closed.
    pub written: AtomicU64,
    /// Bytes that the receiver's application was handed.
    pub delivered: AtomicU64,
    /// Whether its end was reported.
    pub finished: AtomicBool,
    /// What was seen of the sender so far.
    pub watch: Arc<Mutex<Watch>>,
}

impl Shared {
    /// Before the start of `flow`.
    pub fn new(flow: FlowId) -> Self {
        Self {
            written: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            watch: Arc::new(Mutex::new(Watch::new(flow))),
        }
    }
}

/// What an end is to do.
#[derive(Debug)]
pub struct EndPlan {
    /// Index of the flow.
    pub flow: usize,
    /// `flow/NAME`.
    pub name: String,
    /// This end's address.
    pub local: SocketAddr,
    /// The other's.
    pub remote: SocketAddr,
    /// Whether this end opens the connection.
    pub opens: bool,
    /// Whether data goes with the SYN where a cookie is known.
    pub fast_open: bool,
    /// What its SYN asks for.
    pub ask: Ask,
    /// The application, at the end that sends.
    pub generator: Option<Generator>,
    /// When the flow starts.
    pub start: Instant,
    /// When its application stops.
    pub stop: Option<Instant>,
    /// Its sockets' options.
    pub options: StreamOptions,
    /// What the other end knows as well.
    pub shared: Arc<Shared>,
    /// Notes about what was asked for.
    pub notes: Vec<String>,
}
