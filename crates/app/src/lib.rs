//! Applications without I/O.
//!
//! A [`Generator`] says how much an application wants to send now and when it next wants
//! more. [`Source`] and [`Sink`] are the two ends of a flow over it, [`Prober`] and
//! [`Responder`] those of a latency probe: they implement [`App`](narrows_core::App), so
//! that they run on simulated hosts and over real sockets alike. [`probe`] holds the payload
//! of latency probes. An [`AppSpec`] is an application that a scenario names by its kind.
//!
//! ```
//! use narrows_app::{Generator, Traffic, Want};
//! use narrows_units::{Instant, Rng};
//!
//! let mut application = Generator::new(Traffic::Bytes(3000), Rng::for_name(1, "flow/data"));
//! application.start(Instant::ZERO);
//! assert_eq!(application.want(Instant::ZERO), Want::Stream(3000));
//! application.sent(3000);
//! assert_eq!(application.want(Instant::ZERO), Want::End);
//! ```

#![forbid(unsafe_code)]

mod abr;
mod account;
mod arrivals;
mod call;
mod draw;
mod emodel;
mod exchange;
mod flow;
mod generator;
mod get;
mod kind;
mod media;
mod pmtud;
pub mod probe;
mod prober;
mod request;
mod short;
mod sizes;
mod spec;
mod video;
mod web;

pub use account::FlowAccount;
pub use call::CallSpec;
pub use flow::{DatagramSink, DatagramSource, End, Sink, Source};
pub use generator::{Generator, Want};
pub use get::GetSpec;
pub use kind::{Delivery, Misfit, Site, SiteEnd};
pub use pmtud::PmtudSpec;
pub use prober::{Prober, Responder};
pub use request::RequestSpec;
pub use short::ShortSpec;
pub use spec::{Carries, DatagramSpec, Traffic, WritesSpec};
pub use video::VideoSpec;
pub use web::WebSpec;

kind::apps! {
    /// Requests of one size, and the response to each.
    "request" => Request(RequestSpec);
    /// A search for the largest datagram that a path carries.
    "pmtud" => Pmtud(PmtudSpec);
    /// Speech or pictures as datagrams, and what arrives of them in time.
    "call" => Call(CallSpec);
    /// Short flows of drawn sizes that begin at drawn times, each over its own connection.
    "short" => Short(ShortSpec);
    /// Adaptive video, segment by segment at the bit rate that a rule chooses.
    "video" => Video(VideoSpec);
    /// Web pages of objects that depend on each other, over parallel connections.
    "web" => Web(WebSpec);
    /// Clients that each fetch an object now and then, over a connection of its own.
    "get" => Get(GetSpec);
}
