//! Mixes from files.

use std::io::{ErrorKind, Read};
use std::path::Path;

use narrows_results::Error;
use narrows_traffic::{MAX_BYTES, Mix};

/// Most flow files of a folder (our choice).
const MAX_FILES: usize = 10_000;

/// The mix of a mix file, of a flow file, or of the flow files (`*.yaml`, `*.yml`) in a folder.
///
/// # Errors
/// If something cannot be read, or holds a mistake: file, line and column, what was found and what
/// is allowed.
pub fn read(path: &Path) -> Result<Mix, Error> {
    let refused = |error: narrows_traffic::MixError| Error::Refused(error.to_string());
    if !path.is_dir() {
        let text = text(path)?;
        return Mix::read(&path.display().to_string(), &text).map_err(refused);
    }
    let io = |source| Error::Io {
        verb: "read",
        path: path.to_path_buf(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        let ends = file.extension().and_then(|end| end.to_str());
        if matches!(ends, Some("yaml" | "yml")) {
            paths.push(file);
        }
        if paths.len() > MAX_FILES {
            let why = format!("{} has more than {MAX_FILES} files", path.display());
            return Err(Error::Refused(why));
        }
    }
    paths.sort();
    if paths.is_empty() {
        let why = format!("{} has no flow file: no *.yaml", path.display());
        return Err(Error::Refused(why));
    }
    let files: Vec<_> = paths
        .iter()
        .map(|file| Ok((file.display().to_string(), text(file)?)))
        .collect::<Result<_, Error>>()?;
    Mix::of_files(
        files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    )
    .map_err(refused)
}

/// The text of a regular file of no more than the longest mix.
fn text(path: &Path) -> Result<String, Error> {
    let io = |source| Error::Io {
        verb: "read",
        path: path.to_path_buf(),
        source,
    };
    let refused = |what: String| Error::Refused(format!("{}: {what}", path.display()));
    let file = path.canonicalize().and_then(narrows_files::open_regular);
    let file = file.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => refused(error.to_string()),
        _ => Error::input(path)(error),
    })?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    if bytes.len() > MAX_BYTES {
        return Err(refused(format!(
            "it has more than the {MAX_BYTES} bytes of the longest mix"
        )));
    }
    String::from_utf8(bytes).map_err(|_| refused("it is no text in UTF-8".to_owned()))
}
