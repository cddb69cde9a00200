//! `narrows mmb detect` and `respond`: which boxes stand on a path.

#[cfg(target_os = "linux")]
pub(super) use here::{detect, respond};
#[cfg(not(target_os = "linux"))]
pub(super) use nowhere::{detect, respond};

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use crate::args::Mmb;
    use crate::status::Outcome;

    pub fn detect(_: &Mmb, _: &[&str]) -> Outcome {
        let why = "paths can be looked at on Linux only";
        Err(narrows::Error::Engine(why.to_owned()).into())
    }

    pub fn respond(args: &Mmb, words: &[&str]) -> Outcome {
        detect(args, words)
    }
}

#[cfg(target_os = "linux")]
mod here {
    use narrows::Error;
    use narrows::mmb::{self, PathStage, RespondRequest};
    use serde_json::Value;

    use crate::args::{Format, Mmb};
    use crate::output::{message, print, print_json};
    use crate::progress::cancel_flag;
    use crate::status::{Outcome, Status};

    /// Looks for boxes on the path to a host.
    pub fn detect(args: &Mmb, words: &[&str]) -> Outcome {
        let stop = cancel_flag();
        let found = mmb::detect(words, stop, &mut |stage| match stage {
            PathStage::Reaching => message!("narrows: looking for a responder"),
            PathStage::Probing(1) => message!("narrows: probing"),
            PathStage::Probing(round) => message!("narrows: probing, round {round}"),
            PathStage::Locating => message!("narrows: asking routers where the boxes stand"),
            PathStage::Alone => message!("narrows: no responder answers; asking routers"),
            PathStage::Asking | PathStage::Done => {}
        })?;
        let Some(found) = found else {
            return Ok(Status::Interrupted);
        };
        show(args, &found.to_string(), serde_json::to_value(&found))
    }

    /// Answers probers until a signal.
    pub fn respond(args: &Mmb, words: &[&str]) -> Outcome {
        let request = RespondRequest::parse(words)?;
        let own = request.own;
        let stop = cancel_flag();
        let counts = mmb::respond(request, stop, || {
            message!("narrows: answering at {own} until Ctrl-C");
        })?;
        show(args, &counts.to_string(), serde_json::to_value(counts))
    }

    fn show(args: &Mmb, text: &str, value: serde_json::Result<Value>) -> Outcome {
        match args.format {
            Format::Text => print(text),
            Format::Json => print_json(&value.map_err(|e| Error::Engine(e.to_string()))?),
        }
        Ok(Status::Done)
    }
}
