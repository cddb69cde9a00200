//! `narrows compare`.

use narrows::load::cells;
use narrows::report::{pages, table::comparison_table};
use narrows::results::comparison::FILE;
use narrows::{CompareOptions, EngineName, Watch};

use crate::args::{Compare as Args, Format};
use crate::output::{message, print, print_json};
use crate::progress::{Bar, cancel_flag};
use crate::status::{Outcome, Status};

pub fn compare(args: &Args) -> Outcome {
    let engine = EngineName::Live.engine()?;
    let sim = EngineName::Sim.engine()?;
    let campaign = cells(&args.name, &args.sets, &args.only)?;
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
            progress: &|progress| bar.update(progress),
        };
        narrows::compare(&*sim, &*engine, &campaign, &options, &watch)?
    };
    match args.format {
        Format::Text => print(&comparison_table(&found)),
        Format::Json => print_json(&serde_json::to_value(&found).unwrap_or_default()),
    }
    if let Some(dir) = dir {
        let page = pages::again(&dir)?;
        message!("results in {}, in {FILE} and compare.csv", dir.display());
        message!("page: {}", page.display());
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
