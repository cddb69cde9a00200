//! Collections: campaigns that are run together, and whose findings are one page.

use schemars::JsonSchema;

use crate::document::{More, Optional, Required, Whole};
use crate::names::is_name;
use crate::refusal::Refusal;
use crate::tree;

/// Campaigns that are run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// `l4s-tests/risk`.
    pub name: String,
    /// What it shows, in a line.
    pub title: Option<String>,
    /// What it is, in a paragraph.
    pub about: Option<String>,
    /// Where its campaigns come from.
    pub source: Option<String>,
    /// The campaigns in order: names of the catalogue, or files.
    pub campaigns: Vec<String>,
}

/// Campaigns that are run together.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Collection")]
pub(crate) struct Document {
    /// The version of the format: 1.
    #[allow(dead_code)] // It is checked before the rest is read.
    version: Required<Whole<1, 1>>,
    /// `collection`.
    #[allow(dead_code)]
    kind: Required<Kind>,
    /// Its name, such as `l4s-tests/risk`.
    name: Required<String>,
    /// What it shows, in a line.
    title: Optional<String>,
    /// What it is, in a paragraph.
    about: Optional<String>,
    /// Where its campaigns come from.
    source: Optional<String>,
    /// The campaigns, in the order in which they are run and shown.
    #[serde(default)]
    #[schemars(required)]
    campaigns: More<String>,
}

/// What a collection's file is.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "CollectionKind")]
enum Kind {
    Collection,
}

impl Collection {
    /// Refuses campaigns, by their names, that would share a folder, or have that of a file of
    /// the collection's own.
    ///
    /// # Errors
    /// The first name that is refused.
    pub fn check_names(&self, names: &[&str]) -> Result<(), Refusal> {
        const OWN: [&str; 3] = ["run.json", "collection.json", "report.html"];
        for (i, name) in names.iter().enumerate() {
            let mut others = names[..i].iter().chain(&names[i + 1..]).chain(&OWN);
            let taken = others.find(|other| {
                let below = name.strip_prefix(**other);
                below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            if let Some(other) = taken {
                let found = format!("a campaign called `{name}` beside `{other}`");
                let allowed = "names that make folders of their own";
                return Err(Refusal::new(&self.name, found, allowed));
            }
        }
        Ok(())
    }

    /// Reads the bytes of a collection's file; `name` is its name in messages.
    ///
    /// # Errors
    /// The first thing that is wrong with it. Whether its campaigns are there is seen when they
    /// are opened.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Refusal> {
        let root = tree::read(name, bytes)?;
        root.is_kind("collection", "`kind = \"collection\"`")?;
        let (given, places) = crate::document::read::<Document>(&root)?;
        let allowed = "a name such as \"l4s-tests/risk\"";
        let called = places.required(&given, "name", &given.name, allowed)?;
        if called.is_empty() || called.len() > 200 || !called.split('/').all(is_name) {
            return Err(places.refuse(called, allowed));
        }
        let mut campaigns: Vec<String> = Vec::new();
        for at in given.campaigns.iter() {
            if campaigns.contains(at) {
                let found = format!("`{}` for the second time", tree::clipped(at));
                return Err(places.found(at, found, "each campaign once"));
            }
            campaigns.push(at.to_string());
        }
        if campaigns.is_empty() {
            let allowed = "at least one campaign, such as \"l4s-tests/s6\"";
            return Err(places.missing(&given, "campaigns", allowed));
        }
        let text = |at: &Optional<String>| at.as_deref().cloned();
        Ok(Self {
            name: called.to_string(),
            title: text(&given.title),
            about: text(&given.about),
            source: text(&given.source),
            campaigns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rest: &str) -> Result<Collection, String> {
        let text = format!("version = 1\nkind = \"collection\"\n{rest}");
        Collection::read("all.toml", text.as_bytes()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_collection_has_its_campaigns_in_order() {
        let read = read("name = \"mine/all\"\ncampaigns = [\"b\", \"a.toml\"]\n").expect("one");
        assert_eq!(read.name, "mine/all");
        assert_eq!(read.campaigns, ["b", "a.toml"]);
    }

    #[test]
    fn a_collection_without_campaigns_or_with_one_twice_is_refused() {
        for (rest, says) in [
            ("name = \"all\"\n", "at least one campaign"),
            ("name = \"all\"\ncampaigns = []\n", "at least one campaign"),
            (
                "name = \"all\"\ncampaigns = [\"a\", \"a\"]\n",
                "`a` for the second time",
            ),
            ("name = \"../all\"\ncampaigns = [\"a\"]\n", "a name such as"),
            ("campaigns = [\"a\"]\n", "name"),
            (
                "name = \"all\"\ncampaigns = [\"a\"]\ncell = \"x\"\n",
                "cell",
            ),
        ] {
            let refusal = read(rest).expect_err(rest);
            assert!(refusal.contains(says), "{rest}: {refusal}");
        }
    }
}
