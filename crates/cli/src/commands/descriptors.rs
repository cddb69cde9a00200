//! `narrows import` and `narrows export`: descriptors of other tools.

use std::io::Write;
use std::path::Path;

use narrows::{Error, descriptors};

use crate::args::{Export, Import};
use crate::output::{message, print};
use crate::status::{Outcome, Status};

pub fn import(args: &Import) -> Outcome {
    let imported = descriptors::import(&args.file, args.format.map(Into::into))?;
    for note in &imported.notes {
        message!("narrows: {}", on_a_line(note));
    }
    put(args.out.as_deref(), &imported.plan.to_toml())?;
    Ok(Status::Done)
}

pub fn export(args: &Export) -> Outcome {
    let written = descriptors::export(&args.name, &args.sets, args.format.into())?;
    for lost in &written.lost {
        message!(
            "narrows: not in the file: {}",
            on_a_line(&format!("{}: {}", lost.what, lost.why))
        );
    }
    put(args.out.as_deref(), &written.text)?;
    Ok(Status::Done)
}

/// A text from a file, without what a terminal would obey.
fn on_a_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn put(out: Option<&Path>, text: &str) -> Result<(), Error> {
    let Some(path) = out else {
        print(text);
        return Ok(());
    };
    let io = |verb| {
        let path = path.to_path_buf();
        move |source| Error::Io { verb, path, source }
    };
    let mut file = narrows::files::create_new(path).map_err(io("create"))?;
    file.write_all(text.as_bytes()).map_err(io("write"))
}
