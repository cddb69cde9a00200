//! How much a transfer is.

use std::fs;
use std::io;
use std::path::Path;

use narrows_scenario::Refusal;

use super::MOST_BYTES;

pub(super) const ALLOWED: &str = "1 byte to 1 PiB";

/// The bytes of a file, or of all files below a folder. Links are not followed.
///
/// # Errors
/// When something cannot be read, or it is nothing.
pub fn size_of(path: &Path) -> Result<u64, Refusal> {
    let refused = |found: String| {
        let allowed = format!("a file or folder of {ALLOWED}");
        Refusal::new("--size-of", found, allowed)
    };
    let shown = path.display();
    // What is named may itself be a link.
    let found = fs::canonicalize(path).and_then(|path| below(&path));
    let bytes = found.map_err(|e| refused(format!("`{shown}`, which cannot be read: {e}")))?;
    match bytes {
        1..=MOST_BYTES => Ok(bytes),
        _ => Err(refused(format!("`{shown}`, which is {bytes} bytes"))),
    }
}

fn below(path: &Path) -> io::Result<u64> {
    let facts = fs::symlink_metadata(path)?;
    if facts.is_file() {
        return Ok(facts.len());
    }
    if !facts.is_dir() {
        return Ok(0);
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        bytes += below(&entry?.path())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_as_large_as_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("one"), [0; 1000]).unwrap();
        fs::write(at("a/b/two"), [0; 234]).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(at("one"), at("a/link")).unwrap();
        assert_eq!(size_of(folder.path()).unwrap(), 1234);
        assert_eq!(size_of(&at("one")).unwrap(), 1000);
        fs::write(at("none"), []).unwrap();
        for (name, part) in [("none", "0 bytes"), ("nothere", "cannot be read")] {
            let said = size_of(&at(name)).unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
