//! `narrows run`.

use narrows::report::pages::{self, RunPage};
use narrows::report::table::{run_json, run_table};
use narrows::scenario::{Draft, load};
use narrows::{RunOptions, Watch, run_scenario};

use crate::args::{Format, Run};
use crate::new_file;
use crate::output::{message, print, print_json};
use crate::progress::{Bar, cancel_flag_of_runs};
use crate::status::{Outcome, Status};

pub fn run(args: &Run) -> Outcome {
    let engine = narrows::EngineName::from(args.engine).engine(args.kernel.as_deref())?;
    let mut draft = match &args.name {
        Some(name) => load(name)?.draft()?,
        None => {
            let test = args.test.as_deref();
            Draft::with_mixes(&args.links.0, &args.flows, &args.apps, test, &args.mixes)?
        }
    };
    for set in &args.sets {
        draft.set(set)?;
    }
    if let Some(seed) = args.seed {
        draft.set(&format!("seed={seed}"))?;
    }
    let plan = draft.check()?;
    for note in draft.notes() {
        message!("narrows: {note}");
    }
    if let Some(file) = &args.save {
        let made = new_file::make("--save", file)?;
        new_file::write(made, file, &plan.to_toml())?;
    }
    let options = RunOptions {
        seed: None,
        output: super::output(args.out.as_deref()),
        origin: super::origin(command(args)),
    };
    let result = {
        let bar = Bar::new(&plan.name);
        let watch = Watch {
            cancel: cancel_flag_of_runs(),
            progress: &|progress| bar.update(progress),
        };
        run_scenario(&*engine, &plan, &options, &watch)?
    };
    match args.format {
        Format::Text => print(&run_table(&result)),
        Format::Json => print_json(&run_json(&result)),
    }
    if let Some(dir) = &result.dir {
        // What was just measured need not be read again. A signal while it was written ends
        // the program: no page then.
        if !result.record.digest.is_empty() {
            pages::write_run(dir, &result, &RunPage::default())?;
        }
        super::finish(dir)?;
    }
    Ok(if !result.record.complete {
        Status::Interrupted
    } else if result.record.verdict.trusted() {
        Status::Done
    } else {
        Status::NotTrustworthy
    })
}

/// What repeats the run: all that decides about its data, as it was typed.
fn command(args: &Run) -> Vec<String> {
    let mut words = vec!["narrows".to_owned(), "run".to_owned()];
    words.extend(args.name.clone());
    let test: Vec<String> = args.test.iter().cloned().collect();
    for (option, values) in [
        ("--link", &args.links.0),
        ("--flow", &args.flows),
        ("--app", &args.apps),
        ("--test", &test),
        ("--mix", &args.mixes),
        ("--set", &args.sets),
    ] {
        super::repeated(&mut words, option, values);
    }
    words.extend(super::engine_words(args.engine));
    super::repeated(&mut words, "--kernel", &args.kernel);
    super::repeated(&mut words, "--seed", &args.seed.map(|n| n.to_string()));
    words
}
