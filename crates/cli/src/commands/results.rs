//! `narrows diff`, `narrows report` and `narrows plot`: what is done with
//! results that lie in folders.

use narrows::Error;
use narrows::report::{pages, plot as figures};
use narrows::results::{flent, open};

use crate::args::{Diff, Drawing, Format, Plot, Report, Width};
use crate::output::{print, print_json};
use crate::status::{Outcome, Status};

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
        print(&pages::again(dir)?.display().to_string());
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
