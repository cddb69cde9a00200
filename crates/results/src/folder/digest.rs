//! Digests of data files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::FileRecord;
use crate::Error;

/// Reads `name` below `dir` for its length and digest.
pub(super) fn of_file(dir: &Path, name: &str) -> Result<FileRecord, Error> {
    let path = dir.join(name);
    let mut reader = BufReader::new(File::open(&path).map_err(Error::io("read", &path))?);
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = reader.read(&mut buffer).map_err(Error::io("read", &path))?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        bytes += n as u64;
    }
    Ok(FileRecord {
        name: name.to_owned(),
        bytes,
        sha256: hex(&hash.finalize()),
    })
}

/// One digest for all of `files`, over their names and their own digests.
pub fn of_all(files: &[FileRecord]) -> String {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(format!("{}  {}\n", file.sha256, file.name));
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
