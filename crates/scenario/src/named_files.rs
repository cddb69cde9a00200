//! The files that elements name: recordings of rates and rules of boxes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::campaign::{Shelf, no_such_file};

/// The files that the elements of a plan name, as they were read: for each name, as the element
/// spells it, the contents. A plan as a scenario file ([`Plan::to_toml`](crate::Plan::to_toml))
/// has the names alone; with these it can be read where no such files are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFiles(BTreeMap<String, String>);

impl NamedFiles {
    /// Reads the file `name` on `shelf` and keeps it.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub(crate) fn read(&mut self, name: &str, shelf: &dyn Shelf) -> Result<&str, String> {
        let bytes = shelf.open(name)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.0.insert(name.to_owned(), text);
        Ok(&self.0[name])
    }
}

impl Shelf for NamedFiles {
    fn open(&self, path: &str) -> Result<Vec<u8>, String> {
        let text = self.0.get(path).ok_or_else(no_such_file)?;
        Ok(text.clone().into_bytes())
    }
}
