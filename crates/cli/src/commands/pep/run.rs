//! `narrows pep run`: a command whose connections go by a proxy.

use narrows::pep::{self, Parent, Run, RunRequest, Way};
use narrows::scenario::Refusal;
use narrows::units::{Duration, Value};

use crate::args::{PepRun, PepWay};
use crate::output::message;
use crate::status::{Outcome, Status};

pub fn run(args: &PepRun) -> Outcome {
    let refuse =
        |key: &str, word: &str, allowed: &str| Refusal::new(key, format!("`{word}`"), allowed);
    let allowed = "an address such as 10.0.0.1 or [2001:db8::1]:8803";
    let proxy = pep::read_socket(&args.via, Some(pep::PORT));
    let proxy = proxy.ok_or_else(|| refuse("--via", &args.via, allowed))?;
    let patience = Duration::parse(&args.patience).filter(|time| !time.is_zero());
    let patience =
        patience.ok_or_else(|| refuse("--patience", &args.patience, Duration::ALLOWED))?;
    let or_directly = !args.only;
    let options = RunRequest {
        parent: Parent {
            proxy,
            patience,
            or_directly,
        },
        way: args.by.map(|way| match way {
            PepWay::Kernel => Way::Kernel,
            PepWay::Preload => Way::Preload,
        }),
        command: args.command.clone(),
    };
    let mut said = false;
    let ended = Run::open(&options).and_then(|run| {
        if let Some(why) = run.without_kernel() {
            message!(
                "narrows: connections are led from within the command, as {why}. Programs that \
                 are static, set-user-ID or call the kernel by themselves go directly"
            );
        }
        run.run(&mut |counters| {
            if counters.direct > 0 && !std::mem::replace(&mut said, true) {
                message!("narrows: {proxy} is missing or refuses: connections go directly");
            }
        })
    });
    Ok(match ended {
        Ok(ended) => {
            let counters = &ended.counters;
            message!(
                "narrows: {} connections were opened, {} went without {proxy}, {} were refused",
                counters.opened,
                counters.direct,
                counters.refused
            );
            Status::Command(ended.code)
        }
        Err(error) => {
            message!("narrows: {error}");
            pep::hindrance(&error).into()
        }
    })
}
