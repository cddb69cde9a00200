//! `narrows up`, `down`, `enter` and `status`: a topology that stays.

#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
pub use here::{down, enter, status, up};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{down, enter, status, up};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use crate::args::{Down, Enter, TopologyStatus, Up};
    use crate::status::Outcome;

    fn refuse() -> Outcome {
        let why = "a topology stays in Linux's network namespaces, and this is not Linux";
        Err(narrows::Error::Engine(why.to_owned()).into())
    }

    pub fn up(_: &Up) -> Outcome {
        refuse()
    }

    pub fn down(_: &Down) -> Outcome {
        refuse()
    }

    pub fn enter(_: &Enter) -> Outcome {
        refuse()
    }

    pub fn status(_: &TopologyStatus) -> Outcome {
        refuse()
    }
}

#[cfg(target_os = "linux")]
mod here {
    use std::process::Command;

    use narrows::scenario::load;
    use narrows::up::{self, EnterError, Raised, UpOptions};
    use narrows::{Error, scenario::Plan};
    use serde_json::json;

    use super::table;
    use crate::args::{Down, Enter, Format, TopologyStatus, Up};
    use crate::call;
    use crate::output::{message, print, print_json};
    use crate::status::{Outcome, Status};

    /// What the process in the background ends its output with once the topology is up.
    const UP: char = '\u{4}';

    pub fn up(args: &Up) -> Outcome {
        match args.foreground || args.background {
            true => hold(args),
            false => start(),
        }
    }

    /// Starts this program again, to hold the topology in the background, and waits until it
    /// is up.
    fn start() -> Outcome {
        let failed =
            |e: std::io::Error| Error::Engine(format!("starting what holds the topology: {e}"));
        let (program, words) = call::again().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(words);
        // After the command's name, for there may be a `--` later.
        command.args(["up", "--background"]);
        command.args(call::words().into_iter().skip(2));
        let (said, mut child) = up::start(&mut command).map_err(failed)?;
        if let Some((said, _)) = said.split_once(UP) {
            print(said);
            return Ok(Status::Done);
        }
        let ended = child.wait().map_err(failed)?;
        // It has printed why.
        let code = ended.code().and_then(|code| u8::try_from(code).ok());
        Ok(Status::Command(code.unwrap_or(1)))
    }

    fn plan(args: &Up) -> Result<Plan, narrows::scenario::Refusal> {
        let mut draft = load(&args.scenario)?.draft()?;
        for set in &args.sets {
            draft.set(set)?;
        }
        if let Some(seed) = args.seed {
            draft.set(&format!("seed={seed}"))?;
        }
        let plan = draft.check_topology()?;
        for note in draft.notes() {
            message!("narrows: {note}");
        }
        Ok(plan)
    }

    /// Builds the topology and holds it.
    fn hold(args: &Up) -> Outcome {
        let failed = |e: std::io::Error| Error::Engine(format!("going into the background: {e}"));
        let options = UpOptions {
            plan: plan(args)?,
            scenario: args.scenario.clone(),
            name: args.name.clone(),
        };
        if args.background {
            up::detach().map_err(failed)?;
        }
        let Some(raised) = up::raise(&options)? else {
            return Ok(Status::Interrupted);
        };
        for note in &raised.notes {
            message!("narrows: {note}");
        }
        say(args.format, &raised);
        if args.background {
            print(&UP.to_string());
            // Who has started it has gone.
            if crate::output::status() != Status::Done {
                return Ok(Status::Interrupted);
            }
            up::into_background(&raised).map_err(failed)?;
        }
        raised.hold()?;
        Ok(Status::Done)
    }

    fn say(format: Format, raised: &Raised) {
        match format {
            Format::Text => print(&table::built(&raised.record)),
            Format::Json => print_json(&json!(raised.record)),
        }
    }

    pub fn down(args: &Down) -> Outcome {
        let down = up::down(args.name.as_deref())?;
        for line in &down.removed {
            message!("narrows: {line}");
        }
        print(&format!("{} is down", down.name));
        Ok(Status::Done)
    }

    pub fn enter(args: &Enter) -> Outcome {
        match up::enter(&args.host, &args.command) {
            Ok(code) => Ok(Status::Command(code)),
            Err(EnterError::Refused(refusal)) => Err(refusal.into()),
            Err(error) => {
                message!("narrows: {error}");
                Ok(error.hindrance().into())
            }
        }
    }

    pub fn status(args: &TopologyStatus) -> Outcome {
        let found = up::status(args.name.as_deref())?;
        match args.format {
            Format::Text if found.is_empty() => print("no topology is up"),
            Format::Text => {
                let texts: Vec<String> = found.iter().map(table::status).collect();
                print(&texts.join("\n"));
            }
            Format::Json => {
                let all = found.iter().map(|topology| {
                    json!({
                        "name": topology.name,
                        "condition": topology.condition,
                        "holder": topology.holder,
                        "topology": topology.record,
                        "figures": topology.figures,
                    })
                });
                print_json(&all.collect());
            }
        }
        Ok(Status::Done)
    }
}
