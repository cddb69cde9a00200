//! What a guest is to run.

use std::path::PathBuf;

use narrows_scenario::{Draft, NamedFiles, Plan};
use serde::{Deserialize, Serialize};

/// A run, as it is handed to a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The plan as a scenario file.
    pub plan: String,
    /// The files that the plan names: recordings of rates, rules of boxes.
    pub files: NamedFiles,
    /// The seed of the run.
    pub seed: u64,
    /// The current folder, in which programs run.
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
            files: NamedFiles::clone(&plan.files),
            seed,
            folder,
            keep,
        };
        match job.plan() {
            Ok(same) if same == *plan => Ok(job),
            Ok(_) => Err("a kernel in virtual time cannot be handed this plan".to_owned()),
            Err(why) => Err(format!(
                "a kernel in virtual time cannot be handed this plan: {why}"
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
            .and_then(|draft| draft.check_with(&self.files))
            .map_err(|refusal| refusal.to_line())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn handed_over(name: &str) -> (Plan, Job) {
        let draft = narrows_scenario::load(name).and_then(|file| file.draft());
        let plan = draft.and_then(|draft| draft.check()).unwrap();
        let job = Job::of(&plan, 1, false).unwrap();
        let bytes = serde_json::to_vec(&job).unwrap();
        (plan, serde_json::from_slice(&bytes).unwrap())
    }

    #[test]
    fn a_scenario_of_the_catalogue_takes_its_recording_along() {
        let (plan, job) = handed_over("pep/base-station");
        assert_eq!(job.plan().as_ref(), Ok(&plan));
        let without = Job {
            files: NamedFiles::default(),
            ..job
        };
        let why = without.plan().unwrap_err();
        assert!(why.contains("mmwave-short.csv"), "{why}");
    }

    #[test]
    fn files_that_lie_beside_a_scenario_elsewhere_go_along_as_they_were_read() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put("up.trace", "1\n3\n9\n");
        put("mine.mmb", "add all mod ip-ecn 0\n");
        put(
            "s.toml",
            "version = 1\nname = \"s\"\nduration = \"1s\"\n\
             [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n\
             up = [\"mmb mine.mmb\", \"rate trace up.trace queue pfifo\"]\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n",
        );
        let (plan, job) = handed_over(folder.path().join("s.toml").to_str().unwrap());
        // What lies there now is another file's.
        put("up.trace", "1\n");
        put("mine.mmb", "add all drop\n");
        assert_eq!(job.plan(), Ok(plan));
    }
}
