//! `narrows compare`.

use narrows::report::{pages, table::comparison_table};
use narrows::results::comparison::FILE;
use narrows::{CompareOptions, Watch};
use narrows_scenario::{Campaign, Kind, Refusal, load};

use crate::args::{Compare as Args, EngineName, Format};
use crate::live;
use crate::output::{print, print_json, say};
use crate::progress::{Bar, cancel_flag};
use crate::status::{Outcome, Status};

pub fn compare(args: &Args) -> Outcome {
    let engine = live::engine(EngineName::Live)?;
    let sim = live::engine(EngineName::Sim)?;
    let campaign = cells(args)?;
    let options = CompareOptions {
        repetitions: args.seeds,
        again: args.again,
        output: super::output(args.out.as_deref()),
        origin: super::origin(command(args)),
    };
    let (found, dir) = {
        let bar = Bar::new(&campaign.name);
        let watch = Watch {
            cancel: cancel_flag(),
            progress: &|progress| bar.hear(progress),
        };
        narrows::compare(&*sim, &*engine, &campaign, &options, &watch)?
    };
    match args.format {
        Format::Text => print(&comparison_table(&found)),
        Format::Json => print_json(&serde_json::to_value(&found).unwrap_or_default()),
    }
    if let Some(dir) = dir {
        let page = pages::again(&dir)?;
        say!("results in {}, in {FILE} and compare.csv", dir.display());
        say!("page: {}", page.display());
    }
    Ok(if !found.complete {
        Status::Interrupted
    } else if found.cells.iter().any(|c| c.error.is_some()) {
        Status::Failed
    } else if args.check && !found.passed() {
        Status::OutOfTolerance
    } else if !found.trusted() {
        Status::NotTrustworthy
    } else {
        Status::Done
    })
}

/// A campaign's cells, or a scenario as the only one.
fn cells(args: &Args) -> Result<Campaign, Refusal> {
    let loaded = load(&args.name)?;
    let mut campaign = match loaded.kind()? {
        Kind::Campaign => loaded.campaign(&args.sets)?,
        Kind::Scenario => {
            let mut draft = loaded.draft()?;
            for set in &args.sets {
                draft.set(set)?;
            }
            Campaign::of_one(draft.check()?)
        }
    };
    campaign.only(&args.only)?;
    Ok(campaign)
}

/// What repeats it, as it was typed.
fn command(args: &Args) -> Vec<String> {
    let mut words = ["narrows", "compare", &args.name]
        .map(str::to_owned)
        .to_vec();
    super::repeated(&mut words, "--only", &args.only);
    words.extend(["--seeds".to_owned(), args.seeds.to_string()]);
    words.extend(["--again".to_owned(), args.again.to_string()]);
    super::repeated(&mut words, "--set", &args.sets);
    words.extend(args.check.then(|| "--check".to_owned()));
    words
}
