//! `narrows pep serve`.

use std::path::Path;

use narrows::pep::{self, Config, ListenerConfig, Log, PORT};
use narrows::scenario::Refusal;

use crate::args::{LogFormat, PepServe};
use crate::output::{message, print};
use crate::status::{Outcome, Status};

pub fn serve(args: &PepServe) -> Outcome {
    let config = match &args.config {
        Some(file) => Config::load(file)?,
        None => quick(args)?,
    };
    if args.check {
        pep::check(&config)?;
        let count = config.listeners.len();
        let file = args.config.as_deref().map(Path::display);
        if let Some(file) = file {
            print(&format!("{file}: nothing is wrong, {count} listeners\n"));
        }
        return Ok(Status::Done);
    }
    let details = args.details;
    let log = match args.log {
        LogFormat::Text => Log::Text { details },
        LogFormat::Json => Log::Json { details },
    };
    Ok(match pep::serve(config, log) {
        Ok(_) => Status::Done,
        Err(error) => {
            message!("narrows: {error}");
            match error.is_of_rights() {
                true => Status::NoPermission,
                false => Status::Failed,
            }
        }
    })
}

/// The configuration that options say.
fn quick(args: &PepServe) -> Result<Config, Refusal> {
    let mut config = Config {
        user: args.user.clone(),
        status: args.status.clone(),
        ..Config::default()
    };
    for word in &args.listen {
        let at = pep::read_socket(word, Some(PORT)).ok_or_else(|| {
            let allowed = "an address such as 10.0.0.1 or [2001:db8::1]:8803";
            Refusal::new("--listen", format!("`{word}`"), allowed)
        })?;
        let listener = ListenerConfig::plain(at, &args.clients, &args.to)?;
        config.listeners.push(listener);
    }
    Ok(config)
}
