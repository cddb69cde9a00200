//! What a name means: a file, an entry of the catalogue, or several.

use std::path::Path;

use narrows_scenario::{Campaign, Collection, FileKind, Glob, Loaded, Refusal, catalog, load};

/// Whether `name` is a pattern for names of the catalogue, and no file's.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '{']) && !Path::new(name).is_file()
}

/// Campaigns that run one after the other.
#[derive(Clone, Debug)]
pub struct Campaigns {
    /// The collection that they are of, if it was named.
    pub collection: Option<Collection>,
    /// Their files.
    pub files: Vec<Loaded>,
}

/// The campaigns that `name` means: a file's, an entry's, a collection's, or those whose names
/// fit a pattern.
///
/// # Errors
/// When there is none, or what there is cannot be read.
pub fn campaigns(name: &str) -> Result<Campaigns, Refusal> {
    if !is_pattern(name) {
        let file = load(name)?;
        if file.kind()? != FileKind::Collection {
            return Ok(Campaigns {
                collection: None,
                files: vec![file],
            });
        }
        let collection = file.collection()?;
        let files = collection.campaigns.iter().map(|name| file.beside(name));
        return Ok(Campaigns {
            files: files.collect::<Result<_, _>>()?,
            collection: Some(collection),
        });
    }
    let glob = Glob::parse(name)?;
    let mut found = Vec::new();
    for entry in catalog::entries().filter(|e| glob.matches(e.name)) {
        let loaded = Loaded::from(entry);
        if loaded.kind()? == FileKind::Campaign {
            found.push(loaded);
        }
    }
    if found.is_empty() {
        let found = format!("`{name}`, which fits no campaign");
        return Err(
            Refusal::new("", found, "a pattern of names in the catalogue")
                .with_help("`narrows list` shows the catalogue"),
        );
    }
    Ok(Campaigns {
        collection: None,
        files: found,
    })
}

/// The cells of a campaign that `only` fits, or a scenario as the only one, with the
/// values of `sets` (`key=value`): what a comparison is made of.
///
/// # Errors
/// When there is no such file or entry, or what there is cannot be run.
pub fn cells(name: &str, sets: &[String], only: &[String]) -> Result<Campaign, Refusal> {
    let loaded = load(name)?;
    let mut campaign = match loaded.kind()? {
        FileKind::Campaign | FileKind::Collection => loaded.campaign(sets)?,
        FileKind::Scenario => {
            let mut draft = loaded.draft()?;
            for set in sets {
                draft.set(set)?;
            }
            Campaign::of_one(draft.check()?)
        }
    };
    campaign.only(only)?;
    Ok(campaign)
}
