//! Scenario and campaign files, one-liners and `--set` overrides, checked into
//! a [`Plan`] before anything runs.

#![forbid(unsafe_code)]

mod assemble;
mod campaign;
pub mod catalog;
mod check;
mod command;
mod control;
mod draft;
mod draw;
pub mod endpoints;
mod fields;
mod glob;
mod handle;
mod load;
mod lone_link;
mod names;
mod oneline;
mod parts;
mod plan;
mod refusal;
mod schema;
mod set;
mod source;
mod transport;
mod tree;
mod write;

pub use assemble::{Assembled, BadChange, assemble};
pub use campaign::{
    Axis, Band, Between, Campaign, Cell, Condition, Formula, Held, Judgement, Measured, Metric,
    Pair, PairedCells, Seen, Shape, Shelf, Sum, Tolerance,
};
pub use draft::Draft;
pub use glob::Glob;
pub use handle::Handle;
pub use load::{Kind, Loaded, load};
pub use lone_link::lone_link;
pub use names::NameTable;
pub use oneline::Side;
pub use parts::{Control, EcnMode, ElementSpec, HostModel, Marking, Traffic};
pub use plan::{
    CapturePlan, CapturePoint, CommandPlan, Datapath, FlowPlan, HostIndex, HostPlan, IpVersion,
    LinkIndex, LinkPlan, MarkPlan, NamedElement, ObserverPlan, Plan, ProbePlan, TapPlan,
    TimedChange, Window, codepoint_word, ecn_mode_word,
};
pub use refusal::Refusal;
pub use schema::schema;
pub use transport::{SpinUse, Transport};
