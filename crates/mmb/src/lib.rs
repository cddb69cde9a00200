//! Middleboxes by rules, in the language of MAMI's mmb: which packets a rule is about, and
//! what becomes of them.
//!
//! A [`Rule`] is read from a line of words and prints back as one; [`commands`] reads a file
//! of them. A [`Middlebox`] applies them to packets that travel either way through it: it
//! finds the rules that a packet matches, tracks connections for the stateful ones, and
//! changes packets with their checksums.
//!
//! ```
//! use narrows_mmb::Rule;
//!
//! let rule = Rule::parse("mmb add tcp-opt-mss > 1500 mod tcp-opt-mss 1460").unwrap();
//! assert_eq!(rule.to_string(), "add tcp-opt-mss > 1500 mod tcp-opt-mss 1460");
//! let error = Rule::parse("add tcp-syn mod ip-tll 3").unwrap_err();
//! assert_eq!(error.help.as_deref(), Some("did you mean `ip-ttl`?"));
//! ```

#![deny(unsafe_code)]

mod action;
mod classifier;
mod command;
mod complete;
mod connections;
mod constraint;
mod element;
#[allow(unsafe_code)]
mod ffi;
mod field;
mod fragments;
mod key_plan;
mod layout;
mod middlebox;
mod ordered;
mod parse;
mod places;
mod possible;
mod program;
mod pruning;
mod ready;
mod recent;
mod reference;
mod repeat;
mod rule;
mod rule_actions;
mod shape;
mod structs;
mod table;
mod value;

pub use command::{Command, FileError, commands};
pub use complete::complete;
pub use connections::Direction;
pub use element::LinkBox;
pub use ffi::{is_established, kept_for};
pub use field::{Field, Layer};
pub use middlebox::{
    BoxCounters, ConnectionView, Middlebox, Outcome, Refused, RuleCounters, RuleHits, Settings,
    TableView,
};
pub use program::{
    Program, ProgramAction, ProgramMapped, ProgramOptionWhat, ProgramRule, ProgramTest,
    ProgramWhat, Unsupported,
};
pub use ready::{READY, ReadyBox};
pub use reference::field_reference;
pub use rule::{Condition, Constraint, DropRate, Named, Rule, Strip, Target, Test};
pub use structs::{ProgramMapping, ProgramOption, ProgramSet};
pub use value::Value;
