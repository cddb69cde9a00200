//! What a path does to packets: rate-limited links, netem's impairments,
//! re-marking, delay classes, taps; and which way packets go.
//!
//! Every box is an [`Element`](narrows_core::Element): a state machine that
//! takes the time as an argument. An [`ElementSpec`] is what a scenario file
//! says about one box, in tc's manner of words; it prints back in canonical
//! words and builds the box.
//!
//! ```
//! use narrows_path::ElementSpec;
//!
//! let element = ElementSpec::parse("netem delay 10ms loss 1%").unwrap();
//! assert_eq!(element.kind(), "netem");
//! let error = ElementSpec::parse("delay 10ms").unwrap_err();
//! assert_eq!(error.help.as_deref(), Some("write `netem delay 10ms`"));
//! ```

#![forbid(unsafe_code)]

mod by;
mod cell;
mod chain;
mod codepoint;
mod kind;
mod mmb;
mod mtu;
mod nat;
pub mod netem;
pub mod paths;
mod percent;
mod police;
mod rate;
mod recorded;
mod recording;
mod remark;
pub mod routes;
mod serialise;
mod site;
#[macro_use]
mod spec;
mod switch;
mod tap;
mod tc;
#[cfg(test)]
mod testing;
mod trace;
mod tunnel;
mod waiting;
pub mod wakes;
mod wifi;

pub use by::{ByClass, ByKey, BySpec, FieldClassifier};
pub use cell::{Cell, CellSpec, Distance, Scheduler};
pub use codepoint::{Dscp, EcnWord};
pub use kind::{Facts, LimitedLink, LinkRate, NamesFile, Reports};
pub use mmb::{MmbSpec, RuleList};
pub use mtu::{Mtu, MtuSpec};
pub use nat::{Nat, NatSpec};
pub use netem::{DelayTraceSpec, Netem, NetemSpec};
pub use percent::Percent;
pub use police::{Police, PoliceSpec};
pub use rate::{DEFAULT_OVERHEAD, RateLink, RateSpec};
pub use recorded::RecordedLink;
pub use recording::{Rates, Recording};
pub use remark::{Remark, RemarkSpec};
pub use serialise::Serialiser;
pub use site::{OtherEnd, PortSite, Site};
pub use switch::{Switch, SwitchSpec};
pub use tap::{Tap, TapSpec};
pub use trace::{OPPORTUNITY, Trace, TraceError, TraceLink, TraceSpec};
pub use tunnel::{Encapsulation, Tunnel, TunnelSpec, TunnelWords};
pub use wifi::{AccessPointSpec, AirtimeRule, WifiRadio, WifiSpec};

elements! {
    /// A link of limited rate with a queue in front of it.
    "rate" => Rate(RateSpec),
    /// A link whose rate a recording gives.
    "trace" => Trace(TraceSpec);
    /// A Wi-Fi station that sends aggregates of what waits.
    "wifi" => Wifi(WifiSpec),
    /// An access point whose stations share one radio, a port each.
    "ap" => AccessPoint(AccessPointSpec);
    /// Delay, jitter, loss, reordering, duplication, corruption, slots.
    "netem" => Netem(NetemSpec),
    /// A delay that a recording gives.
    "trace" => DelayTrace(DelayTraceSpec);
    /// Sets DSCP or ECN.
    "remark" => Remark(RemarkSpec);
    /// Different boxes by DSCP or ECN.
    "by" => By(BySpec);
    /// Drops or marks what exceeds a token bucket.
    "police" => Police(PoliceSpec);
    /// A link with a smaller MTU.
    "mtu" => Mtu(MtuSpec);
    /// What rules make of packets.
    "mmb" => Mmb(MmbSpec);
    /// Source address and port translation.
    "nat" => Nat(NatSpec);
    /// An end of a tunnel.
    "tunnel" => Tunnel(TunnelSpec);
    /// A node whose ports share one buffer.
    "switch" => Switch(SwitchSpec);
    /// A base station that shares resource blocks among terminals, a port each.
    "cell" => Cell(CellSpec);
    /// An observation point.
    "tap" => Tap(TapSpec);
}
