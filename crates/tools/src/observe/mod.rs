//! What packets of others show: captures and devices observed at one or several
//! points, and what is written, saved and answered about them.
//!
//! An [`Observation`] reads captures and watches devices, one after the other; its
//! [`Report`](format::Report) writes what is found. The techniques are in
//! [`narrows_observe`], most of which this module has, too.

#[cfg(target_os = "linux")]
mod devices;
mod points;
mod read;
mod save;

pub use narrows_observe::{
    Estimate, Filter, Flow, Nothing, Observer, ObserverConfig, ObserverMode, Pinned, Quantity,
    Side, Technique, format,
};
pub use narrows_wire::efm::Profile;

pub use narrows_services::Exposed;
pub use points::{Observation, Tap, View};
pub use read::{CaptureRead, Unread, Wanted};
pub use save::Saved;
