//! A split proxy beside a bottleneck, without I/O.
//!
//! A client connects to the proxy and says in its first bytes where it wants to go: by
//! RFC 8803 ([`convert`]), in the layout of the thesis that the proxy comes from
//! ([`thesis`]), or by SOCKS (RFC 1928). [`RequestReader`] reads either as it comes. [`Proxy`] is the application that
//! accepts, connects onward and relays, [`Via`] an application that goes by it.
//!
//! ```
//! use narrows_pep::{Asked, Layout, RequestReader, Terms, request, supported};
//!
//! let destination = "192.0.2.7:443".parse().unwrap();
//! let mut first = request(Layout::Convert, destination, None).unwrap();
//! first.extend_from_slice(b"GET /");
//! let mut reader = RequestReader::default();
//! let client = [10, 0, 0, 1].into();
//! let (asked, used) = reader.take(&first, &Terms::default(), client).unwrap().unwrap();
//! assert_eq!(asked, Asked::Connect { destination, layout: Layout::Convert });
//! // What follows the request in the same segment is for the destination.
//! assert_eq!(&first[used..], b"GET /");
//! ```

#![forbid(unsafe_code)]

mod buffers;
mod config;
pub mod convert;
mod cookie;
mod counters;
mod endings;
mod hints;
mod link_rate;
mod log_rate;
mod names;
mod onward;
mod policy;
mod proxy;
mod proxy_header;
mod relaying;
mod request;
mod shared;
mod socks;
mod telemetry;
pub mod thesis;
mod tunnel;
mod via;
mod words;

pub use buffers::{dip_allowance, in_flight, standing_backlog};
pub use config::{Intake, Limits, Listener, Parent};
pub use cookie::{COOKIE_LEN, Cookies};
pub use counters::{Book, Counters, Histogram};
pub use hints::{Hints, RATE_OPTION};
pub use link_rate::LinkRate;
pub use names::{NameAsked, NameQueue};
pub use policy::{Destinations, NETWORK, Network, Policy};
pub use proxy::Proxy;
pub use proxy_header::{HeaderVersion, header};
pub use request::{Asked, Layout, Refused, RequestReader, Terms, request, supported};
pub use shared::Shared;
pub use telemetry::TELEMETRY;
pub use tunnel::TunnelFacts;
pub use via::{FirstData, Route, Via};
