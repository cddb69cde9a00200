//! Narrows: a laboratory for what happens to transport protocols between two hosts. This
//! crate is what its command line uses, and what any other interface would: scenarios
//! and campaigns are loaded, run, compared and drawn by the functions here.
//!
//! A scenario comes from a file or the catalogue ([`scenario::load`]) or from the words of
//! its elements and flows ([`scenario::Draft::from_words`]). Checked, it is a
//! [`Plan`](scenario::Plan), which [`run_scenario`] runs on an [`Engine`]; the result has a
//! summary, series and a verdict, and is also written into a folder if one is named.
//!
//! ```
//! use narrows::scenario::Draft;
//! use narrows::{EngineName, RunOptions, Watch, run_scenario};
//!
//! let link = ["netem delay 5ms", "rate 10Mbit queue fq_codel"].map(str::to_owned);
//! let mut draft = Draft::from_words(&link, &["cubic".to_owned()])?;
//! draft.set("duration=3s")?;
//! let engine = EngineName::Sim.engine(None)?;
//! let result = run_scenario(&*engine, &draft.check()?, &RunOptions::default(), &Watch::default())?;
//!
//! assert!(result.record.verdict.trusted());
//! let goodput_mbit = result.summary.flows[0].goodput_mbit.unwrap();
//! assert!(goodput_mbit > 9.0 && goodput_mbit < 10.0);
//! // The series: a value for each interval of time.
//! let rtt = result.series.track("flow/cubic", "rtt_ms").unwrap();
//! for (t_s, rtt_ms) in rtt.t_s.iter().zip(&rtt.value).take(3) {
//!     println!("{t_s:.2} s: {rtt_ms:.1} ms");
//! }
//! assert!(rtt.value.iter().all(|ms| *ms >= 10.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | To | there is |
//! |---|---|
//! | follow a run and cancel it | [`Watch`], [`Progress`] |
//! | run the cells of a campaign | [`load::campaigns`], [`run_campaign`] |
//! | hold both engines against each other | [`load::cells`], [`compare()`] |
//! | hold two results against each other | [`results::open`], [`diff()`] |
//! | write pages, figures and tables | [`report`] |
//! | measure in captures and at devices | [`observe`] |
//! | read the packets of a capture | [`packets`] |
//! | mark packets at a device | [`signals`] |
//! | try a middlebox by rules | [`mmb`] |
//! | put a command behind a path | `shell`, on Linux |
//! | keep a topology up, and run programs in its hosts | `up`, on Linux |
//! | start four machines in a line, and a run between them | `testbed`, on Linux |
//! | have a command's connections yield until a deadline | [`by`], on Linux |
//! | serve a split proxy | `pep`, on Linux |
//! | find the size that a path carries | `pmtud`, on Linux |
//! | read traffic mixes, and run them between hosts | [`traffic`] |
//! | read and write descriptors of other tools | [`descriptors`] |
//! | build a kernel in virtual time | [`kernel`] |
//! | ask what this machine can run | `machine`, on Linux |
//! | check an installation | [`selftest`] |

#![forbid(unsafe_code)]

pub mod by;
pub mod descriptors;
mod engines;
pub mod kernel;
pub mod load;
pub mod packets;
#[cfg(target_os = "linux")]
pub mod pep;
pub mod program;
pub mod selftest;
#[cfg(target_os = "linux")]
mod virtual_time;

pub use engines::{EngineName, gain_rights};
pub use narrows_campaign as campaign;
pub use narrows_cc::names as control_names;
pub use narrows_core::{EVENTS, EventField, EventKind};
pub use narrows_files as files;
#[cfg(target_os = "linux")]
pub use narrows_linux::{DeviceWatch, machine};
pub use narrows_report as report;
pub use narrows_results as results;
pub use narrows_scenario as scenario;
#[cfg(target_os = "linux")]
pub use narrows_services::pmtud;
pub use narrows_services::traffic;
pub use narrows_tools::{Secret, mmb, observe, signals};
#[cfg(target_os = "linux")]
pub use narrows_tools::{shell, testbed, up};
pub use narrows_units as units;

pub use narrows_campaign::{CampaignOptions, CompareOptions, compare, diff, run_campaign};
pub use narrows_results::{
    Engine, Error, Output, Progress, Results, RunOptions, RunResult, Watch, run_scenario,
};
pub use narrows_sim::SimEngine;
#[cfg(target_os = "linux")]
pub use virtual_time::{kernel_engine, take_part};
#[cfg(target_os = "linux")]
pub use {narrows_kernel::KernelEngine, narrows_live::LiveEngine};
