//! What a cell is a function of, and so its name.

use std::fmt;
use std::io;
use std::path::PathBuf;

use narrows_engine::{Engine, VirtualKernel};
use narrows_scenario::Plan;
use narrows_units::Duration;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::folder::digest;

/// All that decides about the data of a run. Whatever reaches them belongs here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// The scenario with every default filled in, without the texts about it and without its own
    /// seed.
    plan: serde_json::Value,
    /// SHA-256, in hexadecimal, of the files that its elements name.
    files_sha256: String,
    /// The seed of the run.
    pub seed: u64,
    /// `sim` or `kernel`.
    pub engine: String,
    /// Narrows' version, see [`version`].
    pub version: String,
    /// The kernel in virtual time, where one runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<VirtualKernel>,
    /// Nanoseconds between the points of the series that is kept; 0 where the summary alone is.
    pub series_ns: u64,
}

/// Texts about a scenario, which decide nothing, and what another part of the key holds.
const NO_PART: [&str; 3] = ["about", "source", "seed"];

impl Key {
    /// `None` for a plan that JSON cannot hold, which has no name.
    pub(super) fn of(
        engine: &dyn Engine,
        plan: &Plan,
        seed: u64,
        interval: Duration,
        version: &str,
    ) -> Option<Self> {
        // Without all of it two runs would share a name.
        let files = serde_json::to_vec(&*plan.files).ok()?;
        let mut plan = serde_json::to_value(plan).ok()?;
        if let Some(plan) = plan.as_object_mut() {
            plan.retain(|name, _| !NO_PART.contains(&name.as_str()));
        }
        Some(Self {
            plan,
            files_sha256: digest::of_bytes(&files),
            seed,
            engine: engine.name().to_owned(),
            version: version.to_owned(),
            kernel: engine.virtual_kernel().cloned(),
            series_ns: interval.as_nanos(),
        })
    }

    /// The name of its cell: the SHA-256 of the key, in hexadecimal.
    pub fn name(&self) -> String {
        digest::of_bytes(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The scenario's name, for a campaign that of its cell.
    pub fn scenario(&self) -> &str {
        self.plan["name"].as_str().unwrap_or_default()
    }
}

/// Why a cell is not taken for another one of the same scenario's name and seed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// It is of this version of Narrows.
    Version(String),
    /// It is of this engine.
    Engine(String),
    /// It is of the kernel in virtual time with this id.
    Kernel(String),
    /// Its scenario has other values, or the files that it names other contents.
    Values,
    /// It has its summary alone, or a series with other intervals.
    Series,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "by version {version}"),
            Self::Engine(engine) => write!(f, "by the engine {engine}"),
            Self::Kernel(id) => write!(f, "by the kernel {id}"),
            Self::Values => write!(f, "with other values"),
            Self::Series => write!(f, "without the series that is wanted"),
        }
    }
}

impl Key {
    /// What makes `other` no cell of this key, the weightiest difference alone; `None` if it is
    /// one, and for a cell of another name or seed.
    pub fn near(&self, other: &Self) -> Option<Difference> {
        if (self.scenario(), self.seed) != (other.scenario(), other.seed) {
            return None;
        }
        let kernel = |key: &Self| key.kernel.as_ref().map(|kernel| kernel.id.clone());
        if self.version != other.version {
            Some(Difference::Version(other.version.clone()))
        } else if self.engine != other.engine {
            Some(Difference::Engine(other.engine.clone()))
        } else if self.kernel != other.kernel {
            Some(Difference::Kernel(kernel(other).unwrap_or_default()))
        } else if (&self.plan, &self.files_sha256) != (&other.plan, &other.files_sha256) {
            Some(Difference::Values)
        } else if self.series_ns != other.series_ns {
            Some(Difference::Series)
        } else {
            None
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cell {} with seed {}", self.scenario(), self.seed)
    }
}

/// The version of the running program, built from `commit`: with that where it is known and
/// nothing was changed since, else with the SHA-256 of the program's file, as two builds of
/// changed files are not alike; `program` finds that.
///
/// # Errors
/// When that file cannot be read.
pub fn version(
    commit: Option<&str>,
    program: impl FnOnce() -> io::Result<PathBuf>,
) -> Result<String, Error> {
    let narrows = env!("CARGO_PKG_VERSION");
    if let Some(commit) = commit.filter(|commit| !commit.ends_with("-dirty")) {
        return Ok(format!("{narrows} ({commit})"));
    }
    let program = program().map_err(|why| Error::Output {
        what: "the version of this program".to_owned(),
        why: format!("its own file cannot be found: {why}"),
    })?;
    let (_, sha256) = digest::of_path(&program)?;
    Ok(format!("{narrows} (program {})", &sha256[..16]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kernel(id: &str) -> Option<VirtualKernel> {
        Some(VirtualKernel {
            id: id.to_owned(),
            ..VirtualKernel::default()
        })
    }

    #[test]
    fn the_weightiest_difference_is_why_a_cell_is_not_another_one() {
        let key = Key {
            plan: json!({ "name": "mine", "duration": "9s" }),
            files_sha256: "0".repeat(64),
            seed: 1,
            engine: "kernel".to_owned(),
            version: "1".to_owned(),
            kernel: kernel("a"),
            series_ns: 10,
        };
        assert_eq!(key.to_string(), "the cell mine with seed 1");
        assert_eq!(key.near(&key), None);
        // Each change is added to those before it, and outweighs them.
        let mut other = key.clone();
        let mut differs = |change: fn(&mut Key), difference: Difference, words: &str| {
            let mut alone = key.clone();
            change(&mut alone);
            change(&mut other);
            for other in [&alone, &other] {
                assert_eq!(key.near(other).as_ref(), Some(&difference), "{words}");
            }
            assert_eq!(difference.to_string(), words);
        };
        differs(
            |key| key.series_ns = 0,
            Difference::Series,
            "without the series that is wanted",
        );
        differs(
            |key| key.files_sha256 = "1".repeat(64),
            Difference::Values,
            "with other values",
        );
        differs(
            |key| key.plan["duration"] = json!("8s"),
            Difference::Values,
            "with other values",
        );
        differs(
            |key| key.kernel = kernel("b"),
            Difference::Kernel("b".to_owned()),
            "by the kernel b",
        );
        differs(
            |key| key.engine = "sim".to_owned(),
            Difference::Engine("sim".to_owned()),
            "by the engine sim",
        );
        differs(
            |key| key.version = "2".to_owned(),
            Difference::Version("2".to_owned()),
            "by version 2",
        );
        // Of another name or seed it is not near at all.
        let elsewhere: [fn(&mut Key); 2] =
            [|key| key.seed = 2, |key| key.plan["name"] = json!("yours")];
        for change in elsewhere {
            let mut other = key.clone();
            change(&mut other);
            assert_eq!(key.near(&other), None, "{other}");
        }
    }
}
