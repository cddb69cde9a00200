//! `narrows import` and `narrows export`: descriptors of other tools.

use std::path::Path;

use narrows::descriptors;

use crate::args::{Export, Import};
use crate::new_file;
use crate::output::{message, on_a_line, print};
use crate::status::{Failure, Outcome, Status};

pub fn import(args: &Import) -> Outcome {
    let imported = descriptors::import(&args.file, args.format.map(Into::into))?;
    let notes = imported.notes.iter().map(|note| on_a_line(note));
    put(args.out.as_deref(), &imported.plan.to_toml(), notes)?;
    Ok(Status::Done)
}

pub fn export(args: &Export) -> Outcome {
    let exported = descriptors::export(&args.name, &args.sets, args.format.into())?;
    let lost = exported.written.lost.iter().map(|lost| {
        let lost = on_a_line(&format!("{}: {}", lost.what, lost.why));
        format!("not in the file: {lost}")
    });
    let notes = exported.notes.iter().map(|note| on_a_line(note));
    let notes = notes.chain(lost);
    put(args.out.as_deref(), &exported.written.text, notes)?;
    Ok(Status::Done)
}

/// Writes `text` to a new file, or prints it, with `notes` about it on standard error.
fn put(out: Option<&Path>, text: &str, notes: impl Iterator<Item = String>) -> Result<(), Failure> {
    // A file that exists is refused before notes about its content are printed.
    let file = out.map(|path| new_file::make("--out", path)).transpose()?;
    for note in notes {
        message!("narrows: {note}");
    }
    match file.zip(out) {
        Some((file, path)) => new_file::write(file, path, text),
        None => {
            print(text);
            Ok(())
        }
    }
}
