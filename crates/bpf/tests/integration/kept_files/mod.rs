//! Traces that are kept beside the tests, and what holds for a file of any kind.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A kind of trace: how it is read and written.
pub struct Kind<T> {
    pub folder: &'static str,
    pub read: fn(&mut dyn io::Read) -> io::Result<T>,
    pub write: fn(&T, &mut Vec<u8>) -> io::Result<()>,
}

impl<T: Debug + PartialEq> Kind<T> {
    /// The files in the folder, in order of their names.
    pub fn files(&self) -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder);
        let mut files: Vec<_> = fs::read_dir(folder)
            .expect("the traces are there")
            .map(|e| e.expect("an entry").path())
            .filter(|p| p.extension().is_some_and(|e| e == "gz"))
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", self.folder);
        files
    }

    pub fn open(&self, path: &Path) -> T {
        let mut file = File::open(path).expect("a trace can be opened");
        (self.read)(&mut file).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// A trace is read as it was written, and refused when it is damaged.
    pub fn survives_a_file(&self, trace: &T) {
        let mut bytes = Vec::new();
        (self.write)(trace, &mut bytes).expect("written");
        assert_eq!((self.read)(&mut &*bytes).expect("read"), *trace);
        assert!((self.read)(&mut &bytes[..bytes.len() / 2]).is_err());
        assert!((self.read)(&mut &b"no trace"[..]).is_err());
    }
}
