//! A search that runs.

use narrows_units::Instant;

use super::check::Check;
use super::found::{Found, Step, Way};
use crate::counts::Counts;
use crate::discovery::Discovery;
use crate::search::Search;
use crate::settings::Settings;

/// A search that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) discovery: Discovery,
    pub(super) search: Search,
    pub(super) way: Way,
    /// Whether only a base is looked for.
    pub(super) is_base: bool,
    pub(super) settings: Settings,
    pub(super) began: Instant,
    pub(super) steps: Vec<Step>,
    /// The number of the first probe of `steps` in the client's counting.
    pub(super) first: u64,
    /// The number of the client's that the discovery's first probe has.
    pub(super) offset: u64,
    /// What discoveries from larger bases have cost.
    pub(super) before: Counts,
    /// What all had cost when the search began.
    pub(super) at_beginning: Counts,
    /// Whether it has ended, and its discovery goes on.
    pub(super) has_ended: bool,
    /// What it came to, while that is checked.
    pub(super) check: Option<(Check, Found)>,
}

impl Running {
    pub(super) fn counts(&self) -> Counts {
        self.before + self.discovery.counts()
    }

    /// What it has come to.
    pub(super) fn found(&self, now: Instant) -> Found {
        let plpmtu = self.discovery.plpmtu();
        Found {
            search: self.search,
            way: self.way,
            is_base: self.is_base,
            plpmtu,
            mtu: match plpmtu {
                0 => 0,
                size => self.settings.mtu_of(size),
            },
            headers: self.settings.headers,
            base: self.settings.base,
            time: now.since(self.began),
            counts: self.counts() - self.at_beginning,
            steps: self.steps.clone(),
        }
    }
}
