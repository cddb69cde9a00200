//! `narrows pmtud`: the size that a path carries.

use crate::args::Pmtud;
use crate::status::Outcome;

#[cfg(not(target_os = "linux"))]
pub fn pmtud(args: &Pmtud) -> Outcome {
    let _ = args;
    let why = "the path's MTU is found by Linux's sockets, and this is not Linux";
    Err(narrows::Error::Engine(why.to_owned()).into())
}

#[cfg(target_os = "linux")]
pub use here::pmtud;

#[cfg(target_os = "linux")]
mod here {
    use std::io::Write;
    use std::net::SocketAddr;

    use narrows::pmtud::{
        self, Arena, PathMtu, ProbeRequest, Progress, ServeRequest, ServerSettings,
    };
    use narrows::{Error, files};
    use serde_json::Value;

    use super::{Outcome, Pmtud};
    use crate::args::{Format, PmtudArena, PmtudCommand, PmtudProbe, PmtudServe};
    use crate::output::{message, print, print_json};
    use crate::progress::cancel_flag;
    use crate::status::Status;

    pub fn pmtud(args: &Pmtud) -> Outcome {
        match &args.command {
            PmtudCommand::Probe(args) => probe(args),
            PmtudCommand::Serve(args) => serve(args),
            PmtudCommand::Arena(args) => arena(args),
        }
    }

    fn probe(args: &PmtudProbe) -> Outcome {
        let wanted = |address: &SocketAddr| match (args.ipv4, args.ipv6) {
            (true, _) => address.is_ipv4(),
            (_, true) => address.is_ipv6(),
            _ => true,
        };
        let mut request = ProbeRequest::new(&args.host, &args.search, args.tracepath, wanted)?;
        request.reports = !args.ignore_reports;
        request.rfc_timers = args.rfc_timers;
        request.max = args.max;
        // Before anything is sent: a search is not lost for a file that cannot be had.
        if let Some(path) = &args.out {
            files::append(path).map_err(|source| io_error("open", path, source))?;
        }
        let found = pmtud::probe(&request, cancel_flag(), &mut |progress| match progress {
            Progress::Greeting => message!("narrows: looking for the server"),
            Progress::Searched(0) => message!("narrows: looking for a size that arrives"),
            Progress::Searched(done) => message!("narrows: search {done}"),
        })?;
        let Some(found) = found else {
            return Ok(Status::Interrupted);
        };
        show(
            args.format,
            &found.to_string(),
            serde_json::to_value(&found),
        )?;
        if let Some(path) = &args.out {
            keep(path, &found)?;
        }
        Ok(match found.mtu {
            0 => Status::Failed,
            _ => Status::Done,
        })
    }

    /// Adds a result to a file.
    fn keep(path: &std::path::Path, found: &PathMtu) -> Result<(), Error> {
        let written = files::append(path).and_then(|mut file| writeln!(file, "{}", found.line()));
        written.map_err(|source| io_error("write", path, source))
    }

    fn io_error(verb: &'static str, path: &std::path::Path, source: std::io::Error) -> Error {
        Error::Io {
            verb,
            path: path.to_path_buf(),
            source,
        }
    }

    fn serve(args: &PmtudServe) -> Outcome {
        let settings = ServerSettings {
            per_client: args.per_client,
            in_all: args.in_all,
            tokens: args.tokens,
        };
        let request = ServeRequest::new(&args.addresses, settings, args.user.clone())?;
        let counts = pmtud::serve(&request, cancel_flag(), |at| {
            let at: Vec<_> = at.iter().map(SocketAddr::to_string).collect();
            message!("narrows: answering at {} until Ctrl-C", at.join(" and "));
        })?;
        show(
            args.format,
            &counts.to_string(),
            serde_json::to_value(counts),
        )
    }

    fn arena(args: &PmtudArena) -> Outcome {
        let arena = Arena::run(args.seed, args.paths, args.packets);
        show(
            args.format,
            &arena.to_string(),
            serde_json::to_value(&arena),
        )?;
        Ok(match arena.check() {
            Err(why) if args.check => {
                message!("narrows: {why}");
                Status::OutOfTolerance
            }
            _ => Status::Done,
        })
    }

    fn show(format: Format, text: &str, value: serde_json::Result<Value>) -> Outcome {
        match format {
            Format::Text => print(text),
            Format::Json => print_json(&value.map_err(|e| Error::Engine(e.to_string()))?),
        }
        Ok(Status::Done)
    }
}
