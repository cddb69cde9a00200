//! `narrows traffic`: traffic mixes.

use narrows::Error;
use narrows::traffic::{self, Shown};
use serde_json::Value;

use crate::args::{Format, Traffic, TrafficCommand, TrafficShow};
use crate::output::{print, print_json};
use crate::status::{Outcome, Status};

pub fn traffic(args: &Traffic) -> Outcome {
    match &args.command {
        TrafficCommand::Show(args) => show(args),
        #[cfg(target_os = "linux")]
        TrafficCommand::Serve(args) => here::serve(args),
        #[cfg(target_os = "linux")]
        TrafficCommand::Run(args) => here::run(args),
        #[cfg(not(target_os = "linux"))]
        TrafficCommand::Serve(_) | TrafficCommand::Run(_) => {
            let why = "mixes are run over Linux's sockets, and this is not Linux";
            Err(Error::Engine(why.to_owned()).into())
        }
    }
}

fn show(args: &TrafficShow) -> Outcome {
    let shown = Shown::of(&traffic::read(&args.mix)?);
    printed(
        args.format,
        &shown.to_string(),
        serde_json::to_value(&shown),
    )?;
    Ok(Status::Done)
}

fn printed(format: Format, text: &str, value: serde_json::Result<Value>) -> Result<(), Error> {
    match format {
        Format::Text => print(text),
        Format::Json => print_json(&value.map_err(|e| Error::Engine(e.to_string()))?),
    }
    Ok(())
}

#[cfg(target_os = "linux")]
mod here {
    use std::net::SocketAddr;
    use std::path::Path;

    use narrows::files;
    use narrows::traffic::{RunRequest, ServeLimits, Token, TrafficServer};

    use super::{Error, Outcome, Status, printed, traffic};
    use crate::args::{TrafficRun, TrafficServe};
    use crate::new_file;
    use crate::output::message;
    use crate::progress::cancel_flag;

    pub(super) fn serve(args: &TrafficServe) -> Outcome {
        let limits = ServeLimits {
            sessions: args.sessions as usize,
            transfers: args.transfers as usize,
            rate: args.rate,
            lasts: args.longest,
        };
        let token = Token::read(&args.token)?;
        let server = TrafficServer::new(&args.addresses, limits, token)?.giving_up_rights();
        let counts = server.serve(cancel_flag(), |at| {
            let at: Vec<_> = at.iter().map(SocketAddr::to_string).collect();
            message!(
                "narrows: serving mixes at {} until Ctrl-C",
                at.join(" and ")
            );
        })?;
        printed(
            args.format,
            &counts.to_string(),
            serde_json::to_value(counts),
        )?;
        Ok(Status::Done)
    }

    pub(super) fn run(args: &TrafficRun) -> Outcome {
        let mix = traffic::read(&args.mix)?;
        let wanted = |address: &SocketAddr| match (args.ipv4, args.ipv6) {
            (true, _) => address.is_ipv4(),
            (_, true) => address.is_ipv6(),
            _ => true,
        };
        for note in &mix.notes {
            message!("narrows: {note}");
        }
        let (transfers, time) = (mix.transfers(), mix.time);
        let token = Token::read(&args.token)?;
        let mut request = RunRequest::new(mix, &args.server, token, wanted)?;
        request.offsets = args.offsets.into();
        request.seed = args.seed;
        request.dscp.clone_from(&args.dscp);
        request.ecn.clone_from(&args.ecn);
        request.control.clone_from(&args.cc);
        request.grace = args.grace;
        // Before anything is sent: a run is not lost for a folder that cannot be had.
        let csv = args.csv.as_deref().map(new_folder).transpose()?;
        let influx = args.influx.as_deref();
        let influx = influx
            .map(|path| new_file::make("--influx", path))
            .transpose()?;
        let result = traffic::run(&request, cancel_flag(), || {
            message!("narrows: {transfers} transfers in {time}");
        });
        let result = result.inspect_err(|_| {
            // An empty file is not to stand in the way of the next run.
            if let Some(path) = &args.influx {
                let _ = std::fs::remove_file(path);
            }
        })?;
        if let Some(folder) = csv {
            for (name, text) in [("udp.csv", result.udp_csv()), ("tcp.csv", result.tcp_csv())] {
                let path = folder.join(name);
                new_file::write(new_file::make("--csv", &path)?, &path, &text)?;
            }
        }
        if let (Some(file), Some(path)) = (influx, &args.influx) {
            new_file::write(file, path, &result.influx(&args.measurement))?;
        }
        printed(
            args.format,
            &result.to_string(),
            serde_json::to_value(&result),
        )?;
        Ok(match result.whole {
            true => Status::Done,
            false if cancel_flag().load(std::sync::atomic::Ordering::SeqCst) => Status::Interrupted,
            false => Status::Failed,
        })
    }

    fn new_folder(path: &Path) -> Result<&Path, Error> {
        files::create_dir_all(path).map_err(Error::io("create", path))?;
        let mut entries = std::fs::read_dir(path).map_err(Error::io("read", path))?;
        match entries.next() {
            Some(_) => Err(Error::NotEmpty(path.to_path_buf())),
            None => Ok(path),
        }
    }
}
