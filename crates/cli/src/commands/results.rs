//! `narrows diff`, `narrows report` and `narrows plot`: what is done with
//! results that lie in folders.

use narrows_lab::{
    LabError, diff as lab_diff, flent, plot as lab_plot, report as lab_report, results::open,
};

use crate::args::{Diff, Drawing, Format, Plot, Report, Width};
use crate::output::{print, print_json};
use crate::status::{Outcome, Status};

pub fn diff(args: &Diff) -> Outcome {
    let diff = lab_diff(&open(&args.a)?, &open(&args.b)?)?;
    match args.format {
        Format::Text => print(&diff.table()),
        Format::Json => print_json(&serde_json::to_value(&diff).unwrap_or_default()),
    }
    Ok(Status::Done)
}

pub fn report(args: &Report) -> Outcome {
    for dir in &args.dirs {
        print(&lab_report::again(dir)?.display().to_string());
    }
    Ok(Status::Done)
}

pub fn plot(args: &Plot) -> Outcome {
    let format = match args.drawing {
        Drawing::Svg => lab_plot::Format::Svg,
        Drawing::Png => lab_plot::Format::Png,
        Drawing::Pdf => lab_plot::Format::Pdf,
        Drawing::Flent => return flent_files(args),
    };
    let frame = match args.width {
        Width::Column => lab_plot::Frame::COLUMN,
        Width::Page => lab_plot::Frame::PAGE,
        Width::Screen => lab_plot::Frame::SCREEN,
    };
    let results = open(&args.dir)?;
    let out = args.out.clone().unwrap_or_else(|| args.dir.join("figures"));
    let choice = lab_plot::Choice {
        figure: args.figure.clone(),
        metrics: args.metrics.clone(),
        against: args.against.clone(),
        by: args.by.clone(),
    };
    for file in lab_plot::write(&results, &out, format, &frame, &choice)? {
        print(&file.display().to_string());
    }
    Ok(Status::Done)
}

fn flent_files(args: &Plot) -> Outcome {
    if let Some(figure) = &args.figure {
        let why = format!("--figure {figure}: a file for Flent holds all data, and no figure");
        return Err(LabError::Refused(why).into());
    }
    for file in flent::write(&open(&args.dir)?, args.out.as_deref())? {
        print(&file.display().to_string());
    }
    Ok(Status::Done)
}
