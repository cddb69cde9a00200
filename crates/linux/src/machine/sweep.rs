//! Taking away what runs that were killed have left.

use super::{NamedFolder, named, processes, state};
use crate::RunId;

/// What a sweep did, a line for each thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// The runs that were found dead.
    pub runs: Vec<RunId>,
    /// What was taken away.
    pub removed: Vec<String>,
    /// What could not be, and why.
    pub failed: Vec<String>,
}

/// Ends the programs and undoes the changes of runs that are no more: those
/// that were killed before they could do it themselves. Living runs are left
/// alone, and other users' runs are theirs to clean up after.
pub fn sweep() -> Sweep {
    let mut swept = Sweep::default();
    for run in state::dead_runs() {
        swept.add(run);
    }
    swept.say(named::remove_ownerless(|_| true));
    swept
}

/// The same for `folder` alone, and the run that has it.
pub fn sweep_folder(folder: &NamedFolder) -> Sweep {
    let mut swept = match &folder.run {
        Some(run) => sweep_run(run),
        None => Sweep::default(),
    };
    swept.say(named::remove_ownerless(|path| path == folder.path));
    swept
}

/// The same for `run` alone, which is left alone if it lives.
pub fn sweep_run(run: &RunId) -> Sweep {
    let mut swept = Sweep::default();
    if state::dead_runs().contains(run) {
        swept.add(run.clone());
    }
    swept
}

impl Sweep {
    fn add(&mut self, run: RunId) {
        for pid in processes::end_all_of(&run) {
            self.removed.push(format!("run {run}: ended process {pid}"));
        }
        let reaped = state::reap(&run).into_iter();
        self.say(reaped.map(|said| said.map(|removed| format!("run {run}: {removed}"))));
        self.runs.push(run);
    }

    fn say(&mut self, said: impl IntoIterator<Item = Result<String, String>>) {
        for one in said {
            match one {
                Ok(removed) => self.removed.push(removed),
                Err(trouble) => self.failed.push(trouble),
            }
        }
    }
}

/// Removes the control groups of runs that are no more and made nothing else: those of commands
/// that were led. What they started goes on, in the group above.
pub fn sweep_groups() {
    for run in state::dead_runs() {
        if state::made_groups_alone(&run) {
            for said in state::reap(&run) {
                match said {
                    Ok(deed) => tracing::debug!("run {run}: {deed}"),
                    Err(trouble) => tracing::warn!("{trouble}"),
                }
            }
        }
    }
}
