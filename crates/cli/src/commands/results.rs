//! `narrows diff`, `narrows report` and `narrows plot`: what is done with
//! results that lie in folders.

use std::path::Path;

use narrows::Error;
use narrows::report::{pages, plot as figures};
use narrows::results::{Results, RunRecord, flent};

use crate::args::{Diff, Drawing, Format, Plot, Report, Width};
use crate::output::{message, print, print_json};
use crate::status::{Outcome, Status};

/// Opens results, and says so if they are not finished.
fn open(dir: &Path) -> Result<Results, Error> {
    let results = narrows::results::open(dir)?;
    say_unfinished(dir, results.record());
    Ok(results)
}

fn say_unfinished(dir: &Path, record: &RunRecord) {
    if record.is_unfinished() {
        message!(
            "narrows: {} is not finished: its run goes on, or was killed, or had no room on its \
             disk; what is in it is not the whole",
            dir.display()
        );
    }
}

pub fn diff(args: &Diff) -> Outcome {
    let diff = narrows::diff(&open(&args.a)?, &open(&args.b)?)?;
    match args.format {
        Format::Text => print(&diff.table()),
        Format::Json => print_json(&serde_json::to_value(&diff).unwrap_or_default()),
    }
    Ok(Status::Done)
}

pub fn report(args: &Report) -> Outcome {
    for dir in &args.dirs {
        let (page, record) = pages::again(dir)?;
        say_unfinished(dir, &record);
        print(&page.display().to_string());
    }
    Ok(Status::Done)
}

pub fn plot(args: &Plot) -> Outcome {
    let format = match args.drawing {
        Drawing::Svg => figures::Format::Svg,
        Drawing::Png => figures::Format::Png,
        Drawing::Pdf => figures::Format::Pdf,
        Drawing::Flent => return flent_files(args),
    };
    let frame = match args.width {
        Width::Column => figures::Frame::COLUMN,
        Width::Page => figures::Frame::PAGE,
        Width::Screen => figures::Frame::SCREEN,
    };
    let results = open(&args.dir)?;
    let out = args.out.clone().unwrap_or_else(|| args.dir.join("figures"));
    let choice = figures::Choice {
        figure: args.figure.clone(),
        metrics: args.metrics.clone(),
        against: args.against.clone(),
        by: args.by.clone(),
    };
    for file in figures::write(&results, &out, format, &frame, &choice)? {
        print(&file.display().to_string());
    }
    Ok(Status::Done)
}

fn flent_files(args: &Plot) -> Outcome {
    if let Some(figure) = &args.figure {
        let why = format!("--figure {figure}: a file for Flent holds all data, and no figure");
        return Err(Error::Refused(why).into());
    }
    for file in flent::write(&open(&args.dir)?, args.out.as_deref())? {
        print(&file.display().to_string());
    }
    Ok(Status::Done)
}
