//! The document, as it is written: keys and their words.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use crate::pep::leg::{LegConfig, plain};

/// The document, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) version: Spanned<u64>,
    pub(super) user: Option<String>,
    pub(super) threads: Option<Spanned<usize>>,
    pub(super) status: Option<PathBuf>,
    pub(super) metrics: Option<Spanned<String>>,
    pub(super) drain: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) limits: LimitWords,
    #[serde(default)]
    pub(super) listener: Vec<Spanned<ListenerWords>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitWords {
    pub(super) backlog: Option<Spanned<String>>,
    pub(super) budget: Option<Spanned<String>>,
    pub(super) tunnels: Option<Spanned<usize>>,
    pub(super) tunnels_per_client: Option<Spanned<usize>>,
    pub(super) memory: Option<Spanned<String>>,
    pub(super) ipv6_prefix: Option<Spanned<u8>>,
    pub(super) resolve: Option<Spanned<String>>,
    pub(super) request: Option<Spanned<String>>,
    pub(super) connect: Option<Spanned<String>>,
    pub(super) probe: Option<Spanned<String>>,
    pub(super) idle: Option<Spanned<String>>,
    pub(super) read_ahead: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListenerWords {
    pub(super) listen: Spanned<String>,
    #[serde(default)]
    pub(super) intake: IntakeWord,
    pub(super) clients: Vec<Spanned<String>>,
    pub(super) destinations: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) thesis: bool,
    #[serde(default)]
    pub(super) cookies: bool,
    #[serde(default)]
    pub(super) replay_safe: bool,
    #[serde(default)]
    pub(super) balancers: Vec<Spanned<String>>,
    pub(super) send_proxy: Option<Spanned<String>>,
    pub(super) keep_source: Option<Spanned<bool>>,
    pub(super) from: Option<Spanned<String>>,
    pub(super) parent: Option<ParentWords>,
    #[serde(default)]
    pub(super) near: Leg,
    #[serde(default)]
    pub(super) far: Leg,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum IntakeWord {
    #[default]
    Request,
    Socks5,
    Transparent,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParentWords {
    pub(super) proxy: Spanned<String>,
    pub(super) patience: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) or_directly: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Leg {
    pub(super) cc: Option<Spanned<String>>,
    pub(super) hint: Option<Spanned<String>>,
    pub(super) unsent: Option<Spanned<String>>,
    pub(super) send_buffer: Option<Spanned<String>>,
    pub(super) receive_buffer: Option<Spanned<String>>,
    pub(super) keepalive: Option<Spanned<String>>,
    pub(super) user_timeout: Option<Spanned<String>>,
}

impl Leg {
    /// A leg of which nothing is said.
    pub(super) fn plain(fast_open: bool, transparent: bool) -> LegConfig {
        LegConfig {
            options: plain(fast_open, transparent),
            own: None,
            hint: None,
        }
    }
}
