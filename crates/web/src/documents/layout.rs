//! Where nodes are drawn: a file beside the document, so that the document itself stays as it is.

use std::fs;
use std::path::PathBuf;
use std::sync::PoisonError;

use super::{Documents, Id, Layout, path};
use crate::error::{Answer, ApiError};

/// What stands behind a document's name.
const ENDING: &str = ".layout.json";

/// Nodes of a layout; a scenario has fewer.
const MOST: usize = 10_000;

/// The longest file of a layout.
const LONGEST: u64 = 1 << 20;

/// The path of a document's layout below the folder.
fn beside(document: &std::path::Path) -> PathBuf {
    let mut path = document.as_os_str().to_owned();
    path.push(ENDING);
    PathBuf::from(path)
}

impl Documents {
    /// The layout of a document; empty where there is none that can be read.
    pub(super) fn layout(&self, id: &Id) -> Layout {
        match id {
            Id::Catalog(entry) => {
                let layouts = self
                    .of_catalogue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                layouts.get(entry.name).cloned().unwrap_or_default()
            }
            Id::File(document) => {
                let read = || {
                    let full = path::existing(self.root(), &beside(document))?;
                    let facts = fs::metadata(&full).ok()?;
                    let short = facts.is_file() && facts.len() <= LONGEST;
                    let text = short.then(|| fs::read(full).ok()).flatten()?;
                    serde_json::from_slice(&text).ok()
                };
                read().unwrap_or_default()
            }
        }
    }

    /// Keeps the layout of the document called `name`.
    pub(super) fn put_layout(&self, name: &str, layout: Layout) -> Answer<()> {
        let finite = layout
            .nodes
            .values()
            .all(|at| at.x.is_finite() && at.y.is_finite());
        if !finite || layout.nodes.len() > MOST {
            return Err(ApiError::unusable(format!(
                "a layout has at most {MOST} nodes, at finite places"
            )));
        }
        match self.id(name)? {
            Id::Catalog(entry) => {
                let mut layouts = self
                    .of_catalogue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                layouts.insert(entry.name.to_owned(), layout);
                Ok(())
            }
            Id::File(document) => {
                // A layout of nothing would stay behind.
                self.read(&document)?;
                let full = path::writable(self.root(), &beside(&document));
                let full =
                    full.ok_or_else(|| ApiError::unusable("there is no place for a layout"))?;
                let mut text = serde_json::to_vec_pretty(&layout).map_err(ApiError::internal)?;
                text.push(b'\n');
                self.write(&full, &text)
            }
        }
    }
}
