//! `narrows compare`.

use narrows::load::cells;
use narrows::report::{pages, table::comparison_table};
use narrows::results::comparison::FILE;
use narrows::scenario::Refusal;
use narrows::{CompareOptions, Watch};

use crate::args::{Compare as Args, EngineName, Format};
use crate::output::{message, print, print_json};
use crate::progress::{Bar, cancel_flag_of_runs};
use crate::status::{Outcome, Status};

pub fn compare(args: &Args) -> Outcome {
    if args.against == EngineName::Live {
        let allowed = "`sim` or `kernel`, whose runs repeat";
        return Err(Refusal::new("--against", "`live`", allowed).into());
    }
    if args.engine == args.against {
        let allowed = "two different engines for --engine and --against";
        return Err(Refusal::new("--engine", "the same engine twice", allowed).into());
    }
    // Of a kernel one side only can be; where none is, the first refuses it.
    let kernel = args.kernel.as_deref();
    let (of_engine, of_against) = match args.against {
        EngineName::Kernel => (None, kernel),
        EngineName::Sim | EngineName::Live => (kernel, None),
    };
    let engine = narrows::EngineName::from(args.engine).engine(of_engine)?;
    let sim = narrows::EngineName::from(args.against).engine(of_against)?;
    let campaign = cells(&args.name, &args.sets, &args.only)?;
    let options = CompareOptions {
        repetitions: args.seeds,
        again: args.again,
        jobs: args.jobs.map_or(0, |n| n as usize),
        output: super::output(args.out.as_deref()),
        origin: super::origin(command(args)),
    };
    let (found, dir) = {
        let bar = Bar::new(&campaign.name);
        let watch = Watch {
            cancel: cancel_flag_of_runs(),
            progress: &|progress| bar.update(progress),
        };
        narrows::compare(&*sim, &*engine, &campaign, &options, &watch)?
    };
    match args.format {
        Format::Text => print(&comparison_table(&found)),
        Format::Json => print_json(&serde_json::to_value(&found).unwrap_or_default()),
    }
    if let Some(dir) = dir {
        let (page, _) = pages::again(&dir)?;
        message!("results in {}, in {FILE} and compare.csv", dir.display());
        message!("page: {}", page.display());
    }
    Ok(if !found.complete {
        Status::Interrupted
    } else if found.cells.iter().any(|c| c.error.is_some()) {
        Status::Failed
    } else if args.check && !found.passed() {
        Status::OutOfTolerance
    } else if !found.verdict().trusted() {
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
    let others = [
        ("--engine", args.engine, EngineName::Live),
        ("--against", args.against, EngineName::Sim),
    ];
    for (option, engine, by_default) in others {
        if engine != by_default {
            words.extend([option.to_owned(), engine.word().to_owned()]);
        }
    }
    super::repeated(&mut words, "--kernel", &args.kernel);
    words.extend(["--again".to_owned(), args.again.to_string()]);
    if let Some(jobs) = args.jobs {
        words.extend(["--jobs".to_owned(), jobs.to_string()]);
    }
    super::repeated(&mut words, "--set", &args.sets);
    words.extend(args.check.then(|| "--check".to_owned()));
    words
}
