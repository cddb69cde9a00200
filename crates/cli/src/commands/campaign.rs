//! `narrows campaign`, and `narrows merge`, which makes the same of runs in stores.

use std::path::PathBuf;

use narrows::campaign::{Cells, FailedRun, Merged, Use, merge_campaign};
use narrows::load;
use narrows::report::pages;
use narrows::report::table::{campaign_json, campaign_table};
use narrows::results::collection::CollectionWriter;
use narrows::results::store::Difference;
use narrows::scenario::{self, Collection, Loaded};
use narrows::{CampaignOptions, Engine, Watch, run_campaign};
use serde_json::{Value, json};

use crate::args::{Campaign as Args, CampaignRuns, Format, Merge};
use crate::output::{message, print, print_json, width};
use crate::progress::{Bar, cancel_flag_of_runs};
use crate::status::{Failure, Outcome, Status};

/// How many missing runs are named; JSON has all.
const NAMED: usize = 20;

pub fn campaign(args: &Args) -> Outcome {
    let engine = engine(&args.runs)?;
    let chosen = Chosen::load(&args.name, &args.runs)?;
    if let Some(word) = &args.shard {
        return super::shard::shard(args, *word, &*engine, &chosen);
    }
    let cells = super::store::of_campaign(&args.store, &*engine)?;
    all(&args.runs, &*engine, &chosen, cells.as_ref())
}

pub fn merge(args: &Merge) -> Outcome {
    let engine = engine(&args.runs)?;
    let chosen = Chosen::load(&args.campaign, &args.runs)?;
    let cells = Cells {
        stores: super::store::named(&args.stores)?,
        how: Use::Merge,
        must_keep: true,
    };
    all(&args.runs, &*engine, &chosen, Some(&cells))
}

fn engine(runs: &CampaignRuns) -> Result<Box<dyn Engine>, Failure> {
    Ok(narrows::EngineName::from(runs.engine).engine(runs.kernel.as_deref())?)
}

/// The campaigns that a name means, with the cells that were asked for.
pub struct Chosen {
    /// As it was typed.
    name: String,
    collection: Option<Collection>,
    /// Whether there is more than one, or could have been.
    several: bool,
    files: Vec<Loaded>,
    pub campaigns: Vec<scenario::Campaign>,
}

impl Chosen {
    /// All of them are checked before the first one runs.
    fn load(name: &str, runs: &CampaignRuns) -> Result<Self, Failure> {
        let load::Campaigns { collection, files } = load::campaigns(name)?;
        let several = files.len() > 1 || collection.is_some();
        let all = files.into_iter().map(|loaded| {
            let campaign = loaded.campaign(&runs.sets)?;
            Ok((loaded, campaign))
        });
        let chosen = only(all.collect::<Result<_, Failure>>()?, &runs.only)?;
        let (files, campaigns) = chosen.into_iter().unzip();
        Ok(Self {
            name: name.to_owned(),
            collection,
            several,
            files,
            campaigns,
        })
    }
}

/// Runs or merges them, one after the other.
fn all(
    runs: &CampaignRuns,
    engine: &dyn Engine,
    chosen: &Chosen,
    cells: Option<&Cells>,
) -> Outcome {
    let alone = !chosen.several && !load::is_pattern(&chosen.name);
    let gathered = match &chosen.collection {
        Some(collection) => gather(runs, engine, chosen, collection)?,
        None => None,
    };
    let mut status = Status::Done;
    let mut documents = Vec::new();
    for (loaded, campaign) in chosen.files.iter().zip(&chosen.campaigns) {
        // Of several campaigns, each gets a folder of its own in DIR.
        let out: Option<PathBuf> = match &gathered {
            Some(gathered) => Some(gathered.campaign_dir(&campaign.name)),
            None => runs.out.as_ref().map(|dir| match chosen.several {
                true => dir.join(&campaign.name),
                false => dir.clone(),
            }),
        };
        // What repeats it is what was typed, or of several its own name.
        let name = if alone {
            &chosen.name
        } else {
            loaded.short_name()
        };
        let ended = one(runs, engine, campaign, name, (out, cells), &mut documents)?;
        status = status.and(ended);
        if status == Status::Interrupted {
            break;
        }
    }
    if let Some(gathered) = gathered {
        let folder = gathered.finish()?;
        pages::write_collection(&folder)?;
        super::finish(&folder.dir)?;
    }
    if runs.format == Format::Json {
        print_documents(documents, chosen.several);
    }
    Ok(status)
}

/// Prints the documents of campaigns: one alone, or of several a list.
pub fn print_documents(mut documents: Vec<Value>, several: bool) {
    match documents.pop() {
        Some(only) if !several => print_json(&only),
        last => {
            documents.extend(last);
            print_json(&Value::Array(documents));
        }
    }
}

/// The campaigns with the cells that one of `patterns` fits: of several those that have any.
fn only<T>(
    campaigns: Vec<(T, scenario::Campaign)>,
    patterns: &[String],
) -> Result<Vec<(T, scenario::Campaign)>, Failure> {
    let mut fits = vec![false; patterns.len()];
    let mut chosen = Vec::new();
    let mut left_out = None;
    for (of, mut campaign) in campaigns {
        let mut fitting = Vec::new();
        for (pattern, fits) in patterns.iter().zip(&mut fits) {
            if campaign.has(pattern)? {
                *fits = true;
                fitting.push(pattern.clone());
            }
        }
        if fitting.is_empty() && !patterns.is_empty() {
            left_out.get_or_insert(campaign);
            continue;
        }
        campaign.only(&fitting)?;
        chosen.push((of, campaign));
    }
    let nowhere = patterns.iter().zip(fits).find(|(_, fits)| !fits);
    let mut example = left_out.or_else(|| Some(chosen.first()?.1.clone()));
    if let (Some((pattern, _)), Some(campaign)) = (nowhere, &mut example) {
        campaign.only(std::slice::from_ref(pattern))?;
    }
    Ok(chosen)
}

/// The folder of a collection, in which each campaign gets one.
fn gather(
    runs: &CampaignRuns,
    engine: &dyn Engine,
    chosen: &Chosen,
    collection: &Collection,
) -> Result<Option<CollectionWriter>, Failure> {
    let names: Vec<&str> = chosen.campaigns.iter().map(|c| c.name.as_str()).collect();
    collection.check_names(&names)?;
    let output = super::output(runs.out.as_deref());
    let origin = super::origin(command(runs, &chosen.name));
    let begun = CollectionWriter::begin(engine, collection, &names, &output, &origin);
    Ok(begun?)
}

/// What repeats what is called `name`: all that decides about its data and its verdict, as it
/// was typed.
fn command(args: &CampaignRuns, name: &str) -> Vec<String> {
    let mut words = ["narrows", "campaign", name].map(str::to_owned).to_vec();
    super::repeated(&mut words, "--only", &args.only);
    words.extend(super::engine_words(args.engine));
    super::repeated(&mut words, "--kernel", &args.kernel);
    super::repeated(&mut words, "--seeds", &args.seeds.map(|n| n.to_string()));
    super::repeated(&mut words, "--seed", &args.seed.map(|n| n.to_string()));
    super::repeated(&mut words, "--set", &args.sets);
    words.extend(args.check.then(|| "--check".to_owned()));
    words
}

/// The options of one campaign.
pub fn options(runs: &CampaignRuns, campaign: &scenario::Campaign) -> CampaignOptions {
    CampaignOptions {
        seeds: match (runs.seeds, runs.seed) {
            (Some(n), _) => (1..=n).collect(),
            (None, Some(seed)) => vec![seed],
            (None, None) => campaign.seeds.clone(),
        },
        jobs: runs.jobs.map_or(0, |n| n as usize),
        ..CampaignOptions::default()
    }
}

fn one(
    runs: &CampaignRuns,
    engine: &dyn Engine,
    campaign: &scenario::Campaign,
    name: &str,
    (out, cells): (Option<PathBuf>, Option<&Cells>),
    documents: &mut Vec<Value>,
) -> Result<Status, Failure> {
    let options = CampaignOptions {
        output: super::output(out.as_deref()),
        origin: super::origin(command(runs, name)),
        cells: cells.cloned(),
        ..options(runs, campaign)
    };
    let merges = cells.filter(|cells| cells.how == Use::Merge);
    let Merged {
        folder,
        missing,
        near,
    } = {
        let bar = Bar::new(&campaign.name);
        let watch = Watch {
            cancel: cancel_flag_of_runs(),
            progress: &|progress| bar.update(progress),
        };
        match merges {
            Some(_) => merge_campaign(engine, campaign, &options, &watch)?,
            None => Merged {
                folder: run_campaign(engine, campaign, &options, &watch)?,
                missing: Vec::new(),
                near: Vec::new(),
            },
        }
    };
    match runs.format {
        Format::Text => print(&campaign_table(&folder.result, (!runs.wide).then(width))),
        Format::Json => {
            let mut document = campaign_json(&folder);
            if merges.is_some() {
                document["missing"] = missing.iter().map(failed_json).collect();
                document["near"] = near.iter().map(near_json).collect();
            }
            documents.push(document);
        }
    }
    super::finish(&folder.dir)?;
    if let (Some(cells), false) = (merges, missing.is_empty()) {
        let all = campaign.cells.len() * options.seeds.len();
        say_missing(&missing, &near, all, name, cells);
    }
    let result = &folder.result;
    Ok(if !result.complete {
        Status::Interrupted
    } else if result.cells.iter().any(|c| c.error.is_some()) {
        Status::Failed
    } else if runs.check && !result.passed() {
        Status::OutOfTolerance
    } else if !folder.record.verdict.trusted() {
        Status::NotTrustworthy
    } else {
        Status::Done
    })
}

/// A run that failed or is missing.
pub fn failed_json(run: &FailedRun) -> Value {
    json!({ "cell": run.cell, "seed": run.seed, "why": run.why })
}

fn near_json((difference, runs): &(Difference, usize)) -> Value {
    json!({ "runs": runs, "there": difference.to_string() })
}

/// Names runs that failed or are missing, a line each; of many the first ones.
pub fn name_runs(runs: &[FailedRun]) {
    for run in runs.iter().take(NAMED) {
        message!(
            "narrows:   {} with seed {}: {}",
            run.cell,
            run.seed,
            run.why
        );
    }
    if runs.len() > NAMED {
        message!(
            "narrows:   and {} more, which --format json names",
            runs.len() - NAMED
        );
    }
}

/// What is missing, what there is in its place, and what to do.
fn say_missing(
    missing: &[FailedRun],
    near: &[(Difference, usize)],
    all: usize,
    name: &str,
    cells: &Cells,
) {
    message!("narrows: {} of {all} runs are missing:", missing.len());
    name_runs(missing);
    for (difference, runs) in near {
        message!("narrows: {runs} of them are there {difference}, and are not taken");
    }
    if let Some(store) = cells.stores.first() {
        message!(
            "narrows: what is taken is by version {}; `narrows campaign {name} --store {}` with \
             the same options runs what is missing",
            store.version(),
            store.dir().display()
        );
    }
}
