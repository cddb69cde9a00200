//! Which boxes of mmb's catalogue stand on a path, and where.
//!
//! A [`Prober`] and a [`Responder`] send each other probes of which both know every byte,
//! and compare what came with what was sent. Neither has sockets or a clock: they take and give
//! packets of IP, and the time is an argument. So the same code runs on simulated paths and over raw
//! sockets.
//!
//! ```
//! use narrows_middlebox_detect::{Prober, ProberSettings, Responder, ResponderSettings, Verdict};
//! use narrows_units::{Instant, Rng};
//!
//! let [own, target] = ["192.0.2.1:4000", "198.51.100.1:5000"].map(|at| at.parse().unwrap());
//! let mut prober = Prober::new(ProberSettings::new(own, target), Rng::for_name(1, "prober"));
//! let settings = ResponderSettings {
//!     own: target,
//!     clients: vec!["192.0.2.0/24".parse().unwrap()],
//!     calls: Vec::new(),
//! };
//! let mut responder = Responder::new(settings, [7; 32]);
//! let mut now = Instant::ZERO;
//! while let Some(wake) = prober.next_wake() {
//!     now = now.max(wake);
//!     while let Some(packet) = prober.poll(now) {
//!         // A path that changes nothing.
//!         if let Some(answer) = responder.receive(now, &packet) {
//!             prober.receive(now, &answer);
//!         }
//!     }
//! }
//! let findings = &prober.detection().unwrap().findings;
//! assert!(findings.iter().all(|finding| finding.verdict == Verdict::NotFound));
//! ```

#![forbid(unsafe_code)]

mod evidence;
mod finding;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod fuzz;
mod judge;
mod locate;
mod message;
mod probe;
mod probe_log;
mod prober;
mod responder;
mod trial;

pub use finding::{Detection, Finding, Hop, OtherChange, Place, Verdict};
pub use probe::Way;
pub use prober::{Prober, ProberSettings, Stage};
pub use responder::{Responder, ResponderCounters, ResponderSettings};
