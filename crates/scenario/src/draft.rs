//! A scenario as it was written, not yet checked.

use std::path::{Path, PathBuf};

use crate::load::Place;
use crate::named_files::NamedFiles;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::source::Spot;
use crate::tree::{self, Node};
use crate::within::Within;
use crate::{check, set};

/// A scenario as it was written: values may still be set, then it is checked.
#[derive(Clone, Debug)]
pub struct Draft {
    pub(crate) root: Node,
    pub(crate) place: Place,
}

impl Draft {
    /// Reads the bytes of a scenario file; `name` is its name in messages.
    ///
    /// # Errors
    /// If they are no TOML.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Refusal> {
        tree::read(name, bytes).map(Self::of)
    }

    pub(crate) fn of(root: Node) -> Self {
        Self {
            root,
            place: Place::Folder(PathBuf::new()),
        }
    }

    /// A scenario without a file: one link, `access`, between `client` and
    /// `server`, with flows over it, for 60 s.
    ///
    /// Each of `links` is an element in words, `rate 50Mbit queue dualpi2`, in
    /// both directions unless `up` or `down` is written before it. Each of `flows`
    /// is a congestion control in words, with `name:` before it and keys of a
    /// flow after it if wanted: `second: cubic ecn classic start 1s`.
    ///
    /// # Errors
    /// If there is no link or no flow. What is wrong in the words is refused by
    /// [`check`](Self::check).
    pub fn from_words(links: &[String], flows: &[String]) -> Result<Self, Refusal> {
        crate::oneline::draft(links, flows, &[], None, &[])
    }

    /// The same with applications and one of Flent's tests. Each of `apps` is the kind of one,
    /// with `name:` before it and keys of `[[app]]` and of its kind after it if wanted: `api:
    /// request response 1Mb arrivals poisson 50ms cc prague`. `test` is a test's name, and keys of
    /// `[test]` after it if wanted: `rrul cc prague`; the run then lasts 70 s.
    ///
    /// # Errors
    /// If there is no link, or neither a flow, an application nor a test.
    pub fn with_apps(
        links: &[String],
        flows: &[String],
        apps: &[String],
        test: Option<&str>,
    ) -> Result<Self, Refusal> {
        crate::oneline::draft(links, flows, apps, test, &[])
    }

    /// The same with traffic mixes. Each of `mixes` is the path of a mix or flow file, with
    /// `name:` before it and keys of `[[mix]]` after it if wanted: `mix.yaml bandwidth 50Mbit`.
    ///
    /// # Errors
    /// If there is no link, or nothing that uses it.
    pub fn with_mixes(
        links: &[String],
        flows: &[String],
        apps: &[String],
        test: Option<&str>,
        mixes: &[String],
    ) -> Result<Self, Refusal> {
        crate::oneline::draft(links, flows, apps, test, mixes)
    }

    /// Sets one value by name, as `--set` does: `duration=10s`,
    /// `flow/prague/cc=cubic`,
    /// `link/access/up/bottleneck=rate 20Mbit queue dualpi2`.
    ///
    /// # Errors
    /// If nothing has that name. A value that does not fit is refused by
    /// [`check`](Self::check).
    pub fn set(&mut self, assignment: &str) -> Result<(), Refusal> {
        let spot = Spot::whole("--set", assignment);
        let Some((key, value)) = assignment.split_once('=') else {
            let allowed = "NAME=VALUE, such as duration=10s";
            return Err(Refusal::at(&spot, "", format!("`{assignment}`"), allowed));
        };
        let value_at = spot.at(key.len() + 1..assignment.len());
        let value = Node::raw(value, value_at);
        set::set(&mut self.root, key.trim(), &spot, value)
    }

    /// Checks all of it, and reads the recordings that it names: beside its
    /// file, or in the current folder if it has none.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<Plan, Refusal> {
        check::plan(&self.root, &self.place)
    }

    /// Checks a topology as [`check`](Self::check) does, in which nothing need happen: what its
    /// hosts run is not for the file to say.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check_topology(&self) -> Result<Plan, Refusal> {
        check::plan_without_traffic(&self.root, &self.place)
    }

    /// Checks all of it as [`check`](Self::check) does, with the files that it names from `files`
    /// alone.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check_with(&self, files: &NamedFiles) -> Result<Plan, Refusal> {
        check::plan(&self.root, files)
    }

    /// Checks all of it as [`check`](Self::check) does, for what comes from strangers: files that
    /// it names are read in and below `folder` alone, and what leads out of it (`..`, an absolute
    /// path, a symbolic link) is refused.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check_within(&self, folder: &Path) -> Result<Plan, Refusal> {
        check::plan(&self.root, &Within(folder))
    }
}
