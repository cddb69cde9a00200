//! `narrows campaign`.

use std::path::PathBuf;

use narrows::load::{self, is_pattern};
use narrows::report::table::{campaign_json, campaign_table};
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
    let mut campaigns = Vec::new();
    for loaded in load::campaigns(&args.name)? {
        let mut campaign = loaded.campaign(&args.sets)?;
        campaign.only(&args.only)?;
        campaigns.push(campaign);
    }
    let several = campaigns.len() > 1;
    let mut status = Status::Done;
    let mut documents = Vec::new();
    for campaign in campaigns {
        // Of several campaigns, each gets a folder of its own in DIR.
        let out: Option<PathBuf> = args.out.as_ref().map(|dir| match several {
            true => dir.join(&campaign.name),
            false => dir.clone(),
        });
        let ended = one(args, &*engine, &campaign, out, &mut documents)?;
        status = status.and(ended);
        if status == Status::Interrupted {
            break;
        }
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

/// What repeats `campaign`: all that decides about its data and its verdict,
/// as it was typed, but by its own name where a pattern meant several.
fn command(args: &Args, campaign: &scenario::Campaign) -> Vec<String> {
    let name = match is_pattern(&args.name) {
        true => &campaign.name,
        false => &args.name,
    };
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
    out: Option<PathBuf>,
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
        origin: super::origin(command(args, campaign)),
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
