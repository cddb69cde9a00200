//! `narrows web`: the page, and its HTTP interface.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use narrows::Error;
use narrows::scenario::Refusal;
use narrows_web::{Options, Server};

use super::store;
use crate::args::Web;
use crate::output::{message, print};
use crate::progress::cancel_flag;
use crate::status::{Failure, Outcome, Status};

pub fn web(args: &Web) -> Outcome {
    let (folder, document) = served(args.what.as_deref())?;
    if args.listen.is_unspecified() && args.hosts.is_empty() {
        let allowed =
            "an address of this machine, or --host with a name by which others ask for it";
        let found = format!("`{}`, which is every address,", args.listen);
        return Err(Refusal::new("--listen", found, allowed).into());
    }
    let end = cancel_flag();
    let listen = SocketAddr::new(args.listen, args.port);
    let server = Server::bind(Options {
        folder: folder.clone(),
        store: store::place(None),
        document,
        listen,
        hosts: args.hosts.clone(),
    });
    let server = server.map_err(|error| cannot(&error, &format!("listen at {listen}")))?;
    if !server.address().ip().is_loopback() {
        message!(
            "narrows: other machines reach {}, and what goes there is not encrypted; \
             ssh -L is better",
            server.address()
        );
    }
    if !server.has_page() {
        message!("narrows: built without the page (`make web` builds it); HTTP works all the same");
    }
    print(&format!("{}\n", server.url()));
    message!("narrows: serves {}; Ctrl-C ends it", folder.display());
    if !args.no_open && server.has_page() {
        open(&server.url_for_once());
    }
    server.serve(end).map_err(|error| cannot(&error, "serve"))?;
    Ok(Status::Done)
}

/// The folder, and the document in it that is opened first.
fn served(what: Option<&Path>) -> Result<(PathBuf, Option<String>), Refusal> {
    let what = what.unwrap_or(Path::new("."));
    let refuse =
        |found: String| Refusal::new("", found, "a folder, or a scenario's or campaign's file");
    let shown = format!("`{}`", what.display());
    let facts = std::fs::metadata(what).map_err(|e| refuse(format!("{shown}: {e}")))?;
    if facts.is_dir() {
        return Ok((what.to_path_buf(), None));
    }
    let name = what.file_name().and_then(|name| name.to_str());
    let name = name
        .filter(|name| name.ends_with(".toml"))
        .ok_or_else(|| refuse(shown))?;
    let folder = what
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).to_path_buf();
    Ok((folder, Some(name.to_owned())))
}

fn cannot(error: &io::Error, what: &str) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::NoPermission(format!("cannot {what}: {error}")),
        _ => Error::Engine(format!("cannot {what}: {error}")),
    }
    .into()
}

/// Opens a browser where there is one.
fn open(url: &str) {
    let shown = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let opener = match std::env::consts::OS {
        "macos" => "open",
        _ if shown => "xdg-open",
        _ => return,
    };
    // The address is printed: where this fails, nothing is lost.
    let _ = Command::new(opener)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
}
