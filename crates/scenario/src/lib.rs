//! Scenario and campaign files, one-liners and `--set` overrides, checked into
//! a [`Plan`] before anything runs.

#![forbid(unsafe_code)]

mod parts;
mod plan;

pub use parts::{Control, EcnMode, ElementSpec, HostModel, Traffic};
pub use plan::{
    CapturePlan, CapturePoint, FlowPlan, HostIndex, HostPlan, IpVersion, LinkIndex, LinkPlan,
    NamedElement, Plan, ProbePlan, TapPlan, TimedChange, Window, codepoint_word, ecn_mode_word,
};
