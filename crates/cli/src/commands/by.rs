//! `narrows by`: connections of a command that yield as far as a deadline allows.

#[cfg(target_os = "linux")]
mod figures;

use narrows::by::{ByOptions, TransferOf, control, deadline, size_of};
use narrows::scenario::Refusal;
use narrows::units::{Bytes, Value};

use crate::args::By;
use crate::output::message;
use crate::status::{Outcome, Status};

pub fn by(args: &By) -> Outcome {
    let options = options(args)?;
    if options.size.is_none() {
        message!(
            "narrows: without --size or --size-of nobody knows how fast that is: connections \
             yield until the time and are best effort from then on"
        );
    }
    run(args, &options)
}

fn options(args: &By) -> Result<ByOptions, Refusal> {
    let whose = match args.attach {
        Some(pid) => TransferOf::Process(pid),
        None => TransferOf::Command(args.command.clone()),
    };
    let mut options = ByOptions::new(deadline(&args.time)?, whose);
    options.size = match (&args.size, &args.size_of) {
        (Some(word), _) => {
            let refused = || Refusal::new("--size", format!("`{word}`"), Bytes::ALLOWED);
            Some(Bytes::parse(word).ok_or_else(refused)?.get())
        }
        (None, Some(path)) => Some(size_of(path)?),
        (None, None) => None,
    };
    let mut words = Vec::new();
    for (name, value) in [("over", &args.over), ("policy", &args.policy)] {
        words.extend(value.iter().flat_map(|value| [name, value.as_str()]));
    }
    for set in &args.sets {
        let pair = set.split_once('=').ok_or_else(|| {
            let allowed = "NAME=VALUE, such as kp=600";
            Refusal::new("--set", format!("`{set}`"), allowed)
        })?;
        words.extend([pair.0, pair.1]);
    }
    options.control = control(words)?;
    Ok(options)
}

#[cfg(not(target_os = "linux"))]
fn run(_: &By, _: &ByOptions) -> Outcome {
    message!("narrows: `narrows by` loads a congestion control into Linux, and this is not Linux");
    Ok(Status::NOT_MADE)
}

#[cfg(target_os = "linux")]
fn run(args: &By, options: &ByOptions) -> Outcome {
    use narrows::by::{OpenError, hindrance, open};

    use crate::gauge::Gauge;

    let begun = std::time::Instant::now();
    let mut gauge = Gauge::new(args.no_gauge);
    let ended = open(options).and_then(|by| {
        let ended = by.run(&mut |reading, notes| {
            for note in notes {
                gauge.clear();
                message!("narrows: {note}");
            }
            gauge.show(&figures::line(reading));
        });
        Ok(ended?)
    });
    drop(gauge);
    Ok(match ended {
        Ok(ended) => {
            if let Some(error) = &ended.failed {
                message!("narrows: connections were not controlled to the end: {error}");
            }
            message!("narrows: {}", figures::summary(&ended, begun.elapsed()));
            Status::Command(ended.code)
        }
        Err(OpenError::Refused(refusal)) => return Err(refusal.into()),
        Err(OpenError::Failed(error)) => {
            message!("narrows: {error}");
            hindrance(&error).into()
        }
        Err(error) => {
            message!("narrows: {error}");
            Status::NOT_MADE
        }
    })
}
