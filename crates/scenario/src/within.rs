//! Files in and below a folder, and none beyond it.

use std::path::{Component, Path};

use crate::campaign::Shelf;
use crate::load::Beside;

/// The files in and below a folder, for those who are not trusted to name others.
pub(crate) struct Within<'a>(pub(crate) &'a Path);

impl Within<'_> {
    /// That `path` stays in the folder.
    fn stays(&self, path: &str) -> Result<(), String> {
        let down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(path).components().all(down) {
            return Err("it leads out of the folder".to_owned());
        }
        let folder = match self.0.as_os_str().is_empty() {
            true => Path::new("."),
            false => self.0,
        };
        let real = |path: &Path| path.canonicalize().map_err(|e| e.to_string());
        match real(&folder.join(path))?.starts_with(real(folder)?) {
            true => Ok(()),
            false => Err("a symbolic link leads out of the folder".to_owned()),
        }
    }
}

impl Shelf for Within<'_> {
    fn open(&self, path: &str) -> Result<Vec<u8>, String> {
        self.stays(path)?;
        Beside(self.0).open(path)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_of_the_folder_is_no_file_in_it() {
        let at = tempfile::tempdir().expect("a folder");
        let folder = at.path().join("in");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(at.path().join("out.csv"), "secret").expect("a file");
        std::fs::write(folder.join("own.csv"), "own").expect("a file");
        std::os::unix::fs::symlink(at.path().join("out.csv"), folder.join("link.csv"))
            .expect("a link");
        let shelf = Within(&folder);
        assert_eq!(shelf.open("own.csv"), Ok(b"own".to_vec()));
        assert_eq!(shelf.open("./own.csv"), Ok(b"own".to_vec()));
        let absolute = at.path().join("out.csv").to_string_lossy().into_owned();
        for path in ["../out.csv", "link.csv", &absolute, "in/../../out.csv"] {
            let why = shelf.open(path).expect_err(path);
            assert!(why.contains("leads out"), "{path}: {why}");
        }
    }
}
