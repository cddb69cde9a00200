//! Scenario and campaign files, one-liners and `--set` overrides, checked into
//! a [`Plan`] before anything runs.
//!
//! ```
//! use narrows_scenario::Draft;
//!
//! let link = ["netem delay 10ms".to_owned(), "rate 50Mbit queue dualpi2".to_owned()];
//! let flows = ["prague".to_owned(), "cubic".to_owned()];
//! let mut draft = Draft::from_words(&link, &flows).unwrap();
//! draft.set("duration=10s").unwrap();
//! assert_eq!(draft.check().unwrap().flows.len(), 2);
//!
//! draft.set("flow/cubic/cc=cubik").unwrap();
//! let refusal = draft.check().unwrap_err();
//! assert!(refusal.to_line().contains("did you mean `cubic`?"));
//! ```

#![forbid(unsafe_code)]

mod assemble;

mod campaign;
pub mod catalog;
mod check;
mod collection;
mod command;
mod complete;
mod control;
mod document;
mod draft;
mod draw;
mod edit;
pub mod endpoints;
mod flent;
mod glob;
mod load;
mod lone_link;
pub mod metrics;
mod mix;
mod named_files;
mod names;
mod notes;
mod oneline;
mod outline;
mod parts;
mod plan;
mod rates;
mod refusal;
mod rules;
mod set;
mod short_tables;
mod source;
mod start;
mod transport;
mod tree;
mod vocabulary;
mod within;

pub use assemble::{Assembled, BadChange, Placed, assemble};
pub use campaign::{
    Axis, Band, Between, Campaign, Cell, Condition, Expression, Figure, Formula, Held, Judgement,
    KeyFinding, Measured, Metric, Pair, PairedCells, Seen, Sentence, Shape, Shelf, Tolerance,
};
pub use check::model::host_model_words;
pub use collection::Collection;
pub use complete::{Completion, complete};
pub use document::schema;
pub use draft::Draft;
pub use edit::{Action, Direction, Edit, EditError, edited};
pub use flent::{FLENT_TESTS, FlentFlow, FlentProbe, FlentTest};
pub use glob::Glob;
pub use load::{Beside, FileKind, Heading, Loaded, load};
pub use lone_link::lone_link;
pub use named_files::NamedFiles;
pub use names::{NameTable, is_name};
pub use narrows_app::{APP_KINDS, APP_REPORTS, AppSpec, Delivery};
pub use narrows_aqm::QUEUE_KINDS;
pub use narrows_path::ELEMENT_KINDS;
pub use notes::{PlacedNote, notes};
pub use outline::{Outline, OutlineElement, OutlineFlow, OutlineLink, OutlineNode, OutlineTable};
pub use parts::{Control, EcnMode, ElementSpec, HostModel, Segmentation, SignalSpec, Traffic};
pub use plan::{
    AppPlan, CapturePlan, CapturePoint, CommandPlan, Datapath, FlowPlan, HostIndex, HostPlan,
    IpVersion, LegPlan, LinkIndex, LinkPlan, MixPlan, NamedElement, ObserverPlan, Origin, Plan,
    ProbePlan, ProxyPlan, SignalPlan, TapPlan, TimedChange, ViaPlan, Window, WindowPlan,
    ecn_mode_word,
};
pub use refusal::{Refusal, nearest};
pub use rules::{BoxRules, RulesFrom};
pub use source::is_obeyed;
pub use transport::{QuicOptions, SpinUse, TcpOptions, Transport};
pub use tree::LONGEST_FILE;
pub use vocabulary::{KeyWord, TableWord, Vocabulary, Word, WordParameter, vocabulary};
