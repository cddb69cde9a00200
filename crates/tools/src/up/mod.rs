//! A topology that stays: the hosts and links of a scenario, up until they are taken down, with
//! programs of the user's in the hosts.
//!
//! One process holds a topology: the namespaces of its hosts by open files, and the elements of
//! its links in a thread. So all of it goes when that process ends, however it does. What has a
//! name outside of it is its folder among the runs of this user and, where root may mount, the
//! hosts' names in `/run/netns`; both are written down before they are made
//! ([`State`](narrows_linux::machine::State)).
//!
//! In the folder is who holds it ([`Holder`]), how it is built ([`Record`]) and a socket that
//! answers each connection with what passed ([`Figures`]). Who enters a host or takes a topology
//! down finds the process by number and start time and holds on to it by a pidfd, so that it is
//! never another one that has got the number since.

use narrows_results::Error;
use narrows_scenario::Refusal;

mod counters;
mod down;
mod enter;
mod figures;
mod folder;
mod hosts;
mod name;
mod raise;
mod record;
mod start;

pub use down::{Down, down, down_lost};
pub use enter::{EnterError, enter};
pub use figures::{
    ChangeMade, ElementFigures, Figures, HostFigures, LinkFigures, Passed, WayFigures,
};
pub use folder::{Condition, Found, all, enterable, full_names, names, status};
pub use raise::{Raised, UpOptions, detach, into_background, raise};
pub use record::{ElementRecord, End, Holder, HostRecord, LinkRecord, Record};
pub use start::start;

fn refused(why: Refusal) -> Error {
    Error::Refused(why.to_string())
}
