//! Why a kernel was not built.

use std::io;
use std::path::{Path, PathBuf};

use crate::edit::Misfit;
use crate::store::StoreError;
use crate::survey::{self, Tool};

/// One sentence: what was wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Programs that are needed are not there.
    #[error("a kernel cannot be built without {}: {}", names(.0), survey::remedy(.0))]
    Tools(Vec<Tool>),
    /// Sources in packages need Debian's tools.
    #[error(
        "no sources can be fetched without {}: name a tree with --source DIR",
        names(.0)
    )]
    NoPackages(Vec<Tool>),
    /// What was named is no source tree.
    #[error("{} is no Linux source tree: it has no {lack}", tree.display())]
    NoTree {
        /// What was named.
        tree: PathBuf,
        /// What a tree would have.
        lack: &'static str,
    },
    /// The tree is of a kernel that is older than the changes.
    #[error(
        "{} is Linux {found}, and time travel with these changes needs 6.12 or newer: name another \
         tree with --source DIR, or a package such as linux-source-6.12 with --package NAME",
        tree.display()
    )]
    TooOld {
        /// What was named.
        tree: PathBuf,
        /// Which kernel it is.
        found: String,
    },
    /// The keys that Debian's packages are signed with are not there.
    #[error(
        "Debian's signatures cannot be checked: apt-get install debian-archive-keyring, or name a tree with --source DIR"
    )]
    NoKeyring,
    /// No suite has the package.
    #[error("no package `{asked}` is in {}: there {} {}", suites.join(", "), if there.len() == 1 { "is" } else { "are" }, listed(there))]
    NoPackage {
        /// What was asked for.
        asked: String,
        /// Where it was looked for.
        suites: Vec<String>,
        /// The packages that there are.
        there: Vec<String>,
    },
    /// The tree is of a kind to which a change does not fit.
    #[error("{0}. Linux 6.12 to 7.3 were tried; what is changed and why: docs/kernel.md")]
    Misfit(#[from] Misfit),
    /// The tree has not what the configuration asks for.
    #[error("this tree cannot be configured as is needed: it has no {}", .0.join(", "))]
    Config(Vec<String>),
    /// A program failed.
    #[error("{program} failed: {said}")]
    Failed {
        /// Which, with what it was to do.
        program: String,
        /// The lines in which it says why.
        said: String,
    },
    /// A file or folder.
    #[error("could not {what} {}: {why}", path.display())]
    Io {
        /// The step, as a verb.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system answered.
        why: io::Error,
    },
    /// Another build is under way in the same store.
    #[error("another `narrows kernel build` is under way in {}", .0.display())]
    UnderWay(PathBuf),
    /// The build was stopped; nothing of it is left.
    #[error("interrupted; what it made is being removed")]
    Interrupted,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BuildError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |why| Self::Io { what, path, why }
    }

    /// Whether what was asked for was refused before anything was built.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::NoTree { .. }
                | Self::TooOld { .. }
                | Self::NoPackage { .. }
                | Self::Misfit(_)
                | Self::Config(_)
        ) || matches!(self, Self::Store(error) if error.is_refusal())
    }
}

fn names(tools: &[Tool]) -> String {
    let names: Vec<_> = tools.iter().map(|tool| tool.name).collect();
    names.join(", ")
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}
