//! Runs that are taken from a store, or run into it.

use std::path::Path;

use narrows_results::store::{Key, Others, Store, StoredRun, Taken};
use narrows_results::{Engine, Error, Progress, RunResult, Watch};
use narrows_scenario::Plan;
use narrows_units::Duration;

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
}

/// What came of it.
pub(super) enum Fetched {
    /// The run, and whether it was there already.
    Run(Box<StoredRun>, bool),
    /// Others have begun it and go first.
    OfOthers,
    Cancelled,
}

impl Cells {
    /// Cells of one store.
    pub fn of(store: Store, how: Use) -> Self {
        let stores = vec![store];
        Self { stores, how }
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
        let key = asked.key;
        let note = |line: String| (asked.watch.progress)(Progress::Note(&line));
        let Some(store) = self.stores.first() else {
            return Err(Error::Refused("no store of cells is named".to_owned()));
        };
        let mut made = false;
        for _ in 0..TRIES {
            if made || self.how != Use::Fresh {
                if let Some(found) = self.take(asked, &note)? {
                    return Ok(Fetched::Run(found, !made));
                }
            }
            if self.how == Use::Merge {
                return Err(Error::Engine(format!("it is not in {}", self.places())));
            }
            let others = match self.how {
                Use::Fresh => Others::Regardless,
                Use::Resume | Use::Merge => asked.others,
            };
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
                note(said);
            }
            made = true;
        }
        Err(Error::Output {
            what: format!("{key} in {}", store.dir().display()),
            why: "what was written there is not read again; check its disk".to_owned(),
        })
    }

    /// The run from the first store that has it whole. When merging, all that have it have to
    /// agree.
    fn take(
        &self,
        asked: &Asked<'_>,
        note: &dyn Fn(String),
    ) -> Result<Option<Box<StoredRun>>, Error> {
        let mut found: Option<(&Store, Box<StoredRun>)> = None;
        for store in &self.stores {
            let into = asked.into.filter(|_| found.is_none());
            match (store.take(asked.key, into)?, &found) {
                (Taken::Absent, _) => {}
                (Taken::Damaged(why), _) => {
                    note(store.damage_in_words(asked.key, &why));
                    // Stores that are merged are only read.
                    if self.how != Use::Merge {
                        store.reject(asked.key)?;
                    }
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
        Ok(found.map(|(_, run)| run))
    }
}
