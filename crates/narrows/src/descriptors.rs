//! Topologies and service descriptors of other tools: files of them as scenarios, and scenarios as
//! files of them.

use std::path::{Path, PathBuf};

use narrows_descriptors as descriptors;
pub use narrows_descriptors::{Flat, Format, Imported, Lost, Target, Written};
use narrows_scenario::{LONGEST_FILE, Loaded, Plan, Refusal, load};

/// Reads the descriptor at `path`; without a format it is guessed. Files that it names are read
/// below its own folder alone.
///
/// # Errors
/// When it cannot be read, and what is wrong in it.
pub fn import(path: &Path, format: Option<Format>) -> Result<Imported, Refusal> {
    let name = path.display().to_string();
    if !path.is_file() {
        // Entries of the catalogue are scenarios already.
        let found = format!("`{name}`, which is no file");
        return Err(Refusal::new("", found, "a file with a descriptor"));
    }
    let loaded = load(&name)?;
    imported(path, text(&loaded)?, format)
}

/// The hosts and links of `name` and all else of its plan: a scenario, by its file or its name in the
/// catalogue, with the values of `sets`, or a descriptor; and what there is to know of it, a sentence
/// each.
///
/// # Errors
/// When it cannot be read, and what is wrong in it.
pub fn plan(name: &str, sets: &[String]) -> Result<(Plan, Vec<String>), Refusal> {
    let loaded = load(name)?;
    let text = text(&loaded)?;
    let Some(format) = descriptors::guess(text) else {
        let mut draft = loaded.draft()?;
        for set in sets {
            draft.set(set)?;
        }
        let plan = draft.check()?;
        return Ok((plan, draft.notes().to_vec()));
    };
    no_sets(sets)?;
    let imported = imported(Path::new(name), text, Some(format))?;
    Ok((imported.plan, imported.notes))
}

fn no_sets(sets: &[String]) -> Result<(), Refusal> {
    let Some(set) = sets.first() else {
        return Ok(());
    };
    let found = format!("`{set}` for a descriptor");
    let refusal = Refusal::new("--set", found, "values of a scenario");
    Err(refusal.with_help("`narrows import` makes one of it"))
}

fn imported(path: &Path, text: &str, format: Option<Format>) -> Result<Imported, Refusal> {
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    descriptors::import(&path.display().to_string(), text, &folder, format)
}

/// What a scenario or a descriptor was written as.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file.
    pub written: Written,
    /// What a descriptor that was read has, and no scenario can have, and what else to know, a
    /// sentence each.
    pub notes: Vec<String>,
}

/// Writes what `name` is for `target`: a scenario, by its file or its name in the catalogue, with
/// the values of `sets` (`key=value`), or a descriptor, which is read first. Intents of NEMO become a
/// descriptor of virtual functions as they are, with the ports that lead out.
///
/// # Errors
/// When it cannot be read, and what is wrong in it.
pub fn export(name: &str, sets: &[String], target: Target) -> Result<Exported, Refusal> {
    let alone = |written| Exported {
        written,
        notes: Vec::new(),
    };
    let loaded = load(name)?;
    let text = text(&loaded)?;
    let Some(format) = descriptors::guess(text) else {
        let mut draft = loaded.draft()?;
        for set in sets {
            draft.set(set)?;
        }
        let written = written(&draft.check_topology()?, target);
        return Ok(Exported {
            notes: not_read_again(&written, target).into_iter().collect(),
            written,
        });
    };
    no_sets(sets)?;
    let osm = target == Target::Osm;
    if format == Format::Nemo && (osm || target == Target::Sol006) {
        return of_services(name, text, osm).map(alone);
    }
    let imported = imported(Path::new(name), text, Some(format))?;
    let written = written(&imported.plan, target);
    let mut notes = imported.notes;
    notes.extend(not_read_again(&written, target));
    Ok(Exported { written, notes })
}

/// That a file which `import` reads otherwise is too long for that.
fn not_read_again(written: &Written, target: Target) -> Option<String> {
    let is_read = matches!(target, Target::Containerlab | Target::Nemo);
    let length = written.text.len();
    (is_read && length > LONGEST_FILE).then(|| {
        format!(
            "the file has {length} bytes: `narrows import` reads files of at most {LONGEST_FILE} \
             bytes, and not this one"
        )
    })
}

/// The file, with what this machine lacks where that can be found out.
fn written(plan: &Plan, target: Target) -> Written {
    match target {
        Target::Shell => {
            #[cfg(target_os = "linux")]
            let lacks = narrows_linux::machine::missing_disciplines().unwrap_or_default();
            #[cfg(not(target_os = "linux"))]
            let lacks = Vec::new();
            descriptors::export_script(plan, &lacks)
        }
        other => descriptors::export(plan, other),
    }
}

fn of_services(name: &str, text: &str, osm: bool) -> Result<Written, Refusal> {
    let services = descriptors::services(name, text)?;
    match &services[..] {
        [service] => Ok(descriptors::export_service(service, osm)),
        several => {
            let names: Vec<_> = several.iter().map(|one| one.name.as_str()).collect();
            let found = format!(
                "{} nodes that are created: {}",
                names.len(),
                names.join(", ")
            );
            let allowed = "one, as a file has one descriptor";
            Err(Refusal::new(name, found, allowed))
        }
    }
}

fn text(loaded: &Loaded) -> Result<&str, Refusal> {
    std::str::from_utf8(&loaded.bytes).map_err(|error| {
        let good = error.valid_up_to();
        let text = std::str::from_utf8(&loaded.bytes[..good]).unwrap_or("");
        let found = format!("the byte 0x{:02x}", loaded.bytes[good]);
        let (name, allowed) = (loaded.name.as_str(), "a text in UTF-8");
        let refusal = Refusal::in_text((name, text), good..good, "file", found, allowed);
        match loaded.bytes[..] {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => refusal.with_help(format!(
                "`iconv -f UTF-16 -t UTF-8 {name}` makes one of UTF-16"
            )),
            _ => refusal,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_import_does_not_read_again_is_named() {
        let written = |length| Written {
            text: " ".repeat(length),
            lost: Vec::new(),
        };
        let (longest, longer) = (written(LONGEST_FILE), written(LONGEST_FILE + 1));
        for target in [Target::Containerlab, Target::Nemo] {
            assert_eq!(not_read_again(&longest, target), None);
            let note = not_read_again(&longer, target);
            assert!(note.is_some_and(|note| note.contains("narrows import")));
        }
        assert_eq!(not_read_again(&longer, Target::Shell), None);
    }
}
