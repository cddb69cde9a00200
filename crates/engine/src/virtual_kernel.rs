//! Which kernel in virtual time it was: `virtual_kernel` of `run.json`.

use serde::{Deserialize, Serialize};

/// What a kernel in virtual time was built from and with. A release does not tell an edited
/// tree from the one that it was copied from; this does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualKernel {
    /// Its name among those that were built: the release and the beginning of a SHA-256 over the
    /// source, the configuration, the changes and the controls.
    pub id: String,
    /// What the kernel calls itself (`uname -r`).
    pub release: String,
    /// Where its source came from: a package with its version, or a folder.
    pub source: String,
    /// SHA-256, in hexadecimal, of that source: of the package's file, or of the names and
    /// contents of the tree's files. Empty, as the next three, where it was built before this
    /// was kept.
    #[serde(default)]
    pub source_sha256: String,
    /// SHA-256, in hexadecimal, of its configuration, the file `config`.
    #[serde(default)]
    pub config_sha256: String,
    /// The compiler, as it names itself in the kernel's configuration.
    #[serde(default)]
    pub compiler: String,
    /// The version of pahole, which made the descriptions of its types.
    #[serde(default)]
    pub pahole: String,
    /// SHA-256, in hexadecimal, of the texts of Narrows' congestion controls in it. Empty in
    /// descriptions from before it was kept.
    #[serde(default)]
    pub controls_digest: String,
    /// The names of the changes that were made to the copy of its source.
    pub changes: Vec<String>,
}

impl VirtualKernel {
    /// In words: `7.3.4-0123456789ab (linux-source-7.3 7.3.4-1~bpo13+1)`.
    pub fn line(&self) -> String {
        format!("{} ({})", self.id, self.source)
    }

    /// What it was made from and with, each with what it is called; empty where that is not known.
    pub fn details(&self) -> [(&'static str, String); 7] {
        [
            ("source", self.source.clone()),
            ("SHA-256 of the source", self.source_sha256.clone()),
            ("changes", self.changes.join(", ")),
            ("SHA-256 of the configuration", self.config_sha256.clone()),
            ("SHA-256 of the controls", self.controls_digest.clone()),
            ("compiler", self.compiler.clone()),
            ("pahole", self.pahole.clone()),
        ]
    }

    /// What of [`details`](Self::details) is not the same in `other`.
    pub fn differs_in(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.details().into_iter().zip(other.details());
        let apart = pairs.filter(|(here, there)| here.1 != there.1);
        apart.map(|(here, _)| here.0).collect()
    }
}
