//! `narrows selftest`: whether this installation gives the results that it should.

use narrows::selftest;
use serde_json::json;

use crate::args::{Format, Selftest};
use crate::output::{print, print_json};
use crate::status::{Outcome, Status};

pub fn selftest(args: &Selftest) -> Outcome {
    let as_text = !args.digests && args.format == Format::Text;
    let outcomes = selftest::run(&mut |outcome| {
        if as_text {
            print(&line(outcome));
        }
    })?;
    if args.digests {
        print_json(&selftest::digests(&outcomes));
        return Ok(Status::Done);
    }
    let wrong = outcomes
        .iter()
        .filter(|o| !o.differences.is_empty())
        .count();
    let wall_s: f64 = outcomes.iter().map(|o| o.wall_s).sum();
    match args.format {
        Format::Json => print_json(&json!({
            "version": crate::VERSION,
            "ok": wrong == 0,
            "runs": outcomes,
        })),
        Format::Text => print(&match wrong {
            0 => format!(
                "all {} runs are as they should be ({wall_s:.1} s)",
                outcomes.len()
            ),
            n => format!(
                "{n} of {} runs differ: do not trust what this installation computes; install it \
                 again, and if that does not help, report it with this table",
                outcomes.len()
            ),
        }),
    }
    Ok(match wrong {
        0 => Status::Done,
        _ => Status::Failed,
    })
}

fn line(outcome: &selftest::Outcome) -> String {
    let how = match outcome.differences.is_empty() {
        true => "ok",
        false => "DIFFERS",
    };
    let mut text = format!("{how:<7}  {:<12}  {}", outcome.name, outcome.about);
    for difference in &outcome.differences {
        text.push_str(&format!("\n           {difference}"));
    }
    text
}
