//! QUIC endpoints without I/O, and flows that show a path what QUIC or its
//! relatives would show it.
//!
//! Time is an argument everywhere, and every random draw comes from a seed, so
//! that a run repeats byte for byte.
//!
//! [`Connection`] is one end of a real QUIC connection: quinn-proto, driven in
//! a run's time, with connection ids and randomness from a seed, and with
//! cryptography that hides nothing in TLS's place. [`model`] has flows that are only
//! modelled, and show more than QUIC does.
//!
//! ```
//! use narrows_quic::QuicControl;
//!
//! let control = QuicControl::parse("quic:cubic").unwrap();
//! assert_eq!(control.name(), "cubic");
//! ```

#![forbid(unsafe_code)]

mod connection;
mod control;
pub mod datagram;
mod epoch;
pub mod model;
mod null;
mod settings;
mod socket;
pub mod spin;
mod watch;

pub use connection::{Connection, QuicEvent};
pub use control::{PREFIX, QuicControl};
pub use epoch::Epoch;
pub use settings::{LEAST_PAYLOAD, QuicConfig, SERVER_NAME, STREAM_WINDOW, Tls};
pub use socket::Socket;
