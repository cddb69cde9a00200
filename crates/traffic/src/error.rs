//! What is wrong in a file of a mix, and where.

use std::fmt;

/// A mistake in a mix or flow file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixError {
    /// The file, as it was named.
    pub file: String,
    /// Line and column, from 1.
    pub at: (usize, usize),
    /// The key, as `flows/2/kind`; empty where there is none.
    pub key: String,
    /// What was found.
    pub found: String,
    /// What is allowed there.
    pub allowed: String,
}

impl fmt::Display for MixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.at;
        write!(f, "{}:{line}:{column}: ", self.file)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "found {}; allowed is {}", self.found, self.allowed)
    }
}

impl std::error::Error for MixError {}

impl MixError {
    /// That `fault` of a document, in the file `file`.
    pub(crate) fn of(file: &str, fault: narrows_yaml::Fault) -> Self {
        Self {
            file: file.to_owned(),
            at: fault.at,
            key: String::new(),
            found: fault.found,
            allowed: fault.allowed,
        }
    }
}
