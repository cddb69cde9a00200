//! `narrows campaign`.

use std::path::PathBuf;

use narrows::campaign::Cells;
use narrows::load;
use narrows::report::pages;
use narrows::report::table::{campaign_json, campaign_table};
use narrows::results::collection::CollectionWriter;
use narrows::scenario;
use narrows::{CampaignOptions, Engine, Watch, run_campaign};
use serde_json::Value;

use crate::args::{Campaign as Args, Format};
use crate::output::{print, print_json, width};
use crate::progress::{Bar, cancel_flag_of_runs};
use crate::status::{Failure, Outcome, Status};

pub fn campaign(args: &Args) -> Outcome {
    let engine = narrows::EngineName::from(args.engine).engine(args.kernel.as_deref())?;
    // All of them are checked before the first one runs.
    let load::Campaigns { collection, files } = load::campaigns(&args.name)?;
    let several = files.len() > 1 || collection.is_some();
    let all = files
        .iter()
        .map(|loaded| Ok((loaded, loaded.campaign(&args.sets)?)));
    let chosen = only(all.collect::<Result<_, Failure>>()?, &args.only)?;
    let (files, campaigns): (Vec<_>, Vec<_>) = chosen.into_iter().unzip();
    let alone = !several && !load::is_pattern(&args.name);
    let gathered = match &collection {
        Some(collection) => gather(args, &*engine, collection, &campaigns)?,
        None => None,
    };
    let cells = super::store::of_campaign(&args.store, &*engine)?;
    let mut status = Status::Done;
    let mut documents = Vec::new();
    for (loaded, campaign) in files.into_iter().zip(&campaigns) {
        // Of several campaigns, each gets a folder of its own in DIR.
        let out: Option<PathBuf> = match &gathered {
            Some(gathered) => Some(gathered.campaign_dir(&campaign.name)),
            None => args.out.as_ref().map(|dir| match several {
                true => dir.join(&campaign.name),
                false => dir.clone(),
            }),
        };
        // What repeats it is what was typed, or of several its own name.
        let name = if alone {
            &args.name
        } else {
            loaded.short_name()
        };
        let ended = one(
            args,
            &*engine,
            campaign,
            name,
            (out, cells.as_ref()),
            &mut documents,
        )?;
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
    if args.format == Format::Json {
        match documents.pop() {
            Some(only) if !several => print_json(&only),
            last => {
                documents.extend(last);
                print_json(&Value::Array(documents));
            }
        }
    }
    Ok(status)
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

/// The folder of a collection, in which each of `campaigns` gets one.
fn gather(
    args: &Args,
    engine: &dyn Engine,
    collection: &scenario::Collection,
    campaigns: &[scenario::Campaign],
) -> Result<Option<CollectionWriter>, Failure> {
    let names: Vec<&str> = campaigns.iter().map(|c| c.name.as_str()).collect();
    collection.check_names(&names)?;
    let output = super::output(args.out.as_deref());
    let origin = super::origin(command(args, &args.name));
    let begun = CollectionWriter::begin(engine, collection, &names, &output, &origin);
    Ok(begun?)
}

/// What repeats what is called `name`: all that decides about its data and its verdict, as it
/// was typed.
fn command(args: &Args, name: &str) -> Vec<String> {
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

fn one(
    args: &Args,
    engine: &dyn Engine,
    campaign: &scenario::Campaign,
    name: &str,
    (out, cells): (Option<PathBuf>, Option<&Cells>),
    documents: &mut Vec<Value>,
) -> Result<Status, Failure> {
    let options = CampaignOptions {
        seeds: match (args.seeds, args.seed) {
            (Some(n), _) => (1..=n).collect(),
            (None, Some(seed)) => vec![seed],
            (None, None) => campaign.seeds.clone(),
        },
        jobs: args.jobs.map_or(0, |n| n as usize),
        output: super::output(out.as_deref()),
        origin: super::origin(command(args, name)),
        cells: cells.cloned(),
        ..CampaignOptions::default()
    };
    let folder = {
        let bar = Bar::new(&campaign.name);
        let watch = Watch {
            cancel: cancel_flag_of_runs(),
            progress: &|progress| bar.update(progress),
        };
        run_campaign(engine, campaign, &options, &watch)?
    };
    match args.format {
        Format::Text => print(&campaign_table(&folder.result, (!args.wide).then(width))),
        Format::Json => documents.push(campaign_json(&folder)),
    }
    super::finish(&folder.dir)?;
    let result = &folder.result;
    Ok(if !result.complete {
        Status::Interrupted
    } else if result.cells.iter().any(|c| c.error.is_some()) {
        Status::Failed
    } else if args.check && !result.passed() {
        Status::OutOfTolerance
    } else if !folder.record.verdict.trusted() {
        Status::NotTrustworthy
    } else {
        Status::Done
    })
}
