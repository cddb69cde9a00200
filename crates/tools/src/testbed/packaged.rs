//! The program that machines get: a package or an executable, with its checksum.

use std::fs;
use std::path::{Path, PathBuf};

use narrows_results::Error;
use sha2::{Digest, Sha256};

/// Bytes of a program at most (our choice): one without optimisation has some 250 million.
const MOST: u64 = 512 << 20;

/// A program of one release.
#[derive(Clone)]
pub struct Program {
    pub(super) bytes: Vec<u8>,
    /// `narrows.deb` or `narrows`.
    pub(super) file: &'static str,
    /// Its checksum, SHA-256 in hexadecimal.
    pub sha256: String,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({}, {})", self.file, self.sha256)
    }
}

impl Program {
    /// The package (`.deb`) or executable at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is neither.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io {
            verb: "read",
            path: path.to_path_buf(),
            source,
        };
        let facts = fs::metadata(path).map_err(io)?;
        let refused = |what: &str| {
            Err(Error::Refused(format!(
                "--program: found `{}`, {what}, but a Debian package or an executable of Linux is \
                 expected here (`make deb` builds the package)",
                path.display()
            )))
        };
        if !facts.is_file() || facts.len() > MOST {
            return refused("which is no file of at most 512 MiB");
        }
        Self::of(fs::read(path).map_err(io)?).map_or_else(|| refused("which is neither"), Ok)
    }

    /// That of these bytes; `None` if they are neither.
    pub fn of(bytes: Vec<u8>) -> Option<Self> {
        // deb(5), elf(5).
        let file = match &bytes {
            b if b.starts_with(b"!<arch>\ndebian-binary") => "narrows.deb",
            b if b.starts_with(b"\x7fELF") => "narrows",
            _ => return None,
        };
        let digest = Sha256::digest(&bytes);
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self {
            bytes,
            file,
            sha256,
        })
    }

    /// This program.
    ///
    /// # Errors
    /// When the system does not say where it is, or it cannot be read.
    pub fn own() -> Result<Self, Error> {
        let path = std::env::current_exe();
        let path: PathBuf =
            path.map_err(|e| Error::Engine(format!("finding this program: {e}")))?;
        Self::read(&path)
    }
}
