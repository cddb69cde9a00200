//! What a guest is to run.

use std::path::PathBuf;

use narrows_scenario::{Draft, Plan};
use serde::{Deserialize, Serialize};

/// A run, as it is handed to a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The plan as a scenario file.
    pub plan: String,
    /// The seed of the run.
    pub seed: u64,
    /// The current folder, where files lie that the plan names.
    pub folder: PathBuf,
    /// Whether files of the run are wanted: what programs write.
    pub keep: bool,
}

impl Job {
    /// The job of running `plan`.
    ///
    /// # Errors
    /// A sentence, where the plan cannot be handed over as a file.
    pub(crate) fn of(plan: &Plan, seed: u64, keep: bool) -> Result<Self, String> {
        let folder = std::env::current_dir()
            .map_err(|error| format!("the current folder cannot be found: {error}"))?;
        let job = Self {
            plan: plan.to_toml(),
            seed,
            folder,
            keep,
        };
        // A recording of rates is named by its file, which may lie elsewhere.
        match job.plan() {
            Ok(same) if same == *plan => Ok(job),
            Ok(_) => Err("a kernel in virtual time cannot be handed this plan".to_owned()),
            Err(why) => Err(format!(
                "a kernel in virtual time reads the plan in the current folder, and there {why}"
            )),
        }
    }

    /// The plan.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn plan(&self) -> Result<Plan, String> {
        let draft = Draft::read("the plan", self.plan.as_bytes());
        draft
            .and_then(|draft| draft.check())
            .map_err(|refusal| refusal.to_line())
    }
}
