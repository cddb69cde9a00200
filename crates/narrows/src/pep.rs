//! A split proxy beside a bottleneck, for real networks: the [daemon](serve), and the
//! state that it reports; a [command](Run) whose connections go by one, and a [call](connect()) for
//! programs that ask for it themselves.
//!
//! ```no_run
//! use narrows::pep::{Config, Log, ListenerConfig, serve};
//!
//! let mut config = Config::default();
//! config.listeners.push(ListenerConfig::plain(
//!     "10.0.0.1:8803".parse()?,
//!     &["10.0.0.0/8".to_owned()],
//!     &["0.0.0.0/0 ports 80-443".to_owned()],
//! )?);
//! serve(config, Log::Text { details: false })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use narrows_pep::{Counters, Parent};
pub use narrows_pep_client::{Call, Connected, WithoutProxy, connect};
pub use narrows_services::pep::*;
