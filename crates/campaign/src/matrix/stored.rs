//! Runs that are taken from a store, or run into it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use narrows_results::store::{Difference, Found, Key, Others, Store, StoredRun, Taken};
use narrows_results::{Engine, Error, Progress, RunResult, Watch};
use narrows_scenario::Plan;
use narrows_units::Duration;

use super::run::no_store;

/// Makes a run, all of whose files go to the folder if one is given; `None` if it was cancelled.
type Make<'a> = dyn Fn(Option<&Path>) -> Result<Option<RunResult>, Error> + 'a;

/// How often a cell is run whose files are not there as they were written: a store that
/// others clear meanwhile is no reason to give up, a disk that loses everything is.
const TRIES: usize = 3;

/// Where cells are taken from and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Stores with cells. What is run is kept in the first one.
    pub stores: Vec<Store>,
    /// How they are used.
    pub how: Use,
    /// Whether a run that cannot be kept ends the campaign. Otherwise that is noted, and the
    /// rest is run without being kept.
    pub must_keep: bool,
}

/// How stores are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Use {
    /// What is there is taken, what is missing is run.
    #[default]
    Resume,
    /// Everything is run, and held against what is there.
    Fresh,
    /// What is there is taken, and what is missing has failed.
    Merge,
}

/// A run that is wanted.
pub(super) struct Asked<'a> {
    pub(super) key: &'a Key,
    pub(super) others: Others,
    /// Whether all its files are kept, or its summary alone.
    pub(super) whole: bool,
    /// Where its data files go.
    pub(super) into: Option<&'a Path>,
    pub(super) watch: &'a Watch<'a>,
    /// Whether it is kept where it has to be run.
    pub(super) is_kept: bool,
}

/// What came of it.
pub(super) enum Fetched {
    /// The run, and whether it was there already.
    Run(Box<StoredRun>, bool),
    /// Others have begun it and go first.
    OfOthers,
    Cancelled,
    /// It is not there and shall not be kept.
    Nothing,
    /// It is not there and cannot be kept.
    Lost(Error),
}

impl Cells {
    /// Cells of one store, in which every run has to be kept.
    pub fn of(store: Store, how: Use) -> Self {
        Self {
            stores: vec![store],
            how,
            must_keep: true,
        }
    }

    /// The folders of the stores, in words.
    pub fn places(&self) -> String {
        let places = self.stores.iter().map(|s| s.dir().display().to_string());
        places.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn key(
        &self,
        engine: &dyn Engine,
        plan: &Plan,
        seed: u64,
        interval: Duration,
    ) -> Option<Key> {
        self.stores.first()?.key(engine, plan, seed, interval)
    }

    /// Takes the run, or has it made by `run` in the folder that this is given.
    pub(super) fn fetch(&self, asked: &Asked<'_>, run: &Make<'_>) -> Result<Fetched, Error> {
        if self.how != Use::Fresh {
            if let Some(found) = self.take(asked)? {
                return Ok(Fetched::Run(found, true));
            }
        }
        if !asked.is_kept {
            return Ok(Fetched::Nothing);
        }
        match self.make(asked, run) {
            Err(error) if !self.must_keep && is_of_files(&error) => Ok(Fetched::Lost(error)),
            made => made,
        }
    }

    /// Has the run made and kept in the first store.
    fn make(&self, asked: &Asked<'_>, run: &Make<'_>) -> Result<Fetched, Error> {
        let key = asked.key;
        let store = self.stores.first().ok_or_else(no_store)?;
        let others = match self.how {
            Use::Fresh => Others::Regardless,
            Use::Resume | Use::Merge => asked.others,
        };
        for _ in 0..TRIES {
            let Some(begun) = store.begin(key, others)? else {
                return Ok(Fetched::OfOthers);
            };
            let Some(mut result) = run(asked.whole.then(|| begun.dir()))? else {
                return Ok(Fetched::Cancelled);
            };
            begun.write(&mut result, !asked.whole, asked.watch.cancel)?;
            if !result.record.complete {
                return Ok(Fetched::Cancelled);
            }
            if let Some(said) = store.keep(begun, key, &result)? {
                asked.note(&said);
            }
            if let Some(found) = self.take(asked)? {
                return Ok(Fetched::Run(found, false));
            }
        }
        Err(Error::Output {
            what: format!("{key} in {}", store.dir().display()),
            why: "what was written there is not read again; check its disk".to_owned(),
        })
    }

    /// The run from the first store that has it whole. When merging, one has to have it, and all
    /// that have it have to agree.
    fn take(&self, asked: &Asked<'_>) -> Result<Option<Box<StoredRun>>, Error> {
        let mut found: Option<(&Store, Box<StoredRun>)> = None;
        let mut damage = Vec::new();
        for store in &self.stores {
            let into = asked.into.filter(|_| found.is_none());
            match (store.take(asked.key, into)?, &found) {
                (Taken::Absent, _) => {}
                (Taken::Damaged(why), _) => {
                    damage.push(format!("it is damaged in {}: {why}", store.dir().display()));
                }
                (Taken::Cell(run), None) => found = Some((store, run)),
                (Taken::Cell(run), Some((first, before))) => {
                    if run.record.digest != before.record.digest {
                        return Err(Error::Engine(format!(
                            "{} and {} have other data of it",
                            first.dir().display(),
                            store.dir().display()
                        )));
                    }
                }
            }
        }
        match found {
            Some((_, run)) => {
                for why in damage {
                    asked.note(&format!("{}: {why}", asked.key));
                }
                Ok(Some(run))
            }
            // What comes in its place says what was damaged.
            None if self.how != Use::Merge => Ok(None),
            None if damage.is_empty() => {
                Err(Error::Engine(format!("it is not in {}", self.places())))
            }
            None => Err(Error::Engine(damage.join("; "))),
        }
    }

    /// What cells there are of the names and seeds of `wanted` that are not taken for them, why,
    /// and for how many of these.
    ///
    /// # Errors
    /// When a store cannot be read.
    pub(super) fn near(
        &self,
        wanted: impl Iterator<Item = Key>,
    ) -> Result<Vec<(Difference, usize)>, Error> {
        let mut wanted = wanted.peekable();
        if wanted.peek().is_none() {
            return Ok(Vec::new());
        }
        let mut there: BTreeMap<(String, u64), Vec<Key>> = BTreeMap::new();
        for store in &self.stores {
            for Found { key, .. } in store.survey(false)?.cells {
                let place = (key.scenario().to_owned(), key.seed);
                there.entry(place).or_default().push(key);
            }
        }
        let mut near = BTreeMap::new();
        for key in wanted {
            let alike = there.get(&(key.scenario().to_owned(), key.seed));
            let differences = alike.into_iter().flatten().filter_map(|k| key.near(k));
            for difference in differences.collect::<BTreeSet<_>>() {
                *near.entry(difference).or_insert(0) += 1;
            }
        }
        Ok(near.into_iter().collect())
    }
}

impl Asked<'_> {
    fn note(&self, line: &str) {
        (self.watch.progress)(Progress::Note(line));
    }
}

/// Whether files are to blame, and not the run.
fn is_of_files(error: &Error) -> bool {
    matches!(
        error,
        Error::Io { .. } | Error::Content { .. } | Error::Output { .. }
    )
}
