//! Digests of data files.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::FileRecord;
use crate::Error;

/// Reads `name` below `dir` for its length and digest.
pub(super) fn of_file(dir: &Path, name: &str) -> Result<FileRecord, Error> {
    let (bytes, sha256) = of_path(&dir.join(name))?;
    Ok(FileRecord {
        name: name.to_owned(),
        bytes,
        sha256,
    })
}

/// The length of the file `path`, and its SHA-256 in hexadecimal.
pub(crate) fn of_path(path: &Path) -> Result<(u64, String), Error> {
    let mut reader = File::open(path).map_err(Error::io("read", path))?;
    let (bytes, sha256) = pass(&mut reader, &mut io::sink()).map_err(|failed| match failed {
        Failed::Read(e) | Failed::Write(e) => Error::io("read", path)(e),
    })?;
    Ok((bytes, sha256))
}

/// At which end passing on failed.
pub(crate) enum Failed {
    /// Where it came from.
    Read(io::Error),
    /// Where it went.
    Write(io::Error),
}

/// Passes all that `from` has on to `to`: its length, and its SHA-256 in hexadecimal.
pub(crate) fn pass(from: &mut impl Read, to: &mut dyn Write) -> Result<(u64, String), Failed> {
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok((bytes, hex(&hash.finalize()))),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Failed::Read(e)),
        };
        hash.update(&buffer[..n]);
        to.write_all(&buffer[..n]).map_err(Failed::Write)?;
        bytes += n as u64;
    }
}

/// The SHA-256 of `bytes`, in hexadecimal.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives what is in it, one by one.
    struct Answers(Vec<io::Result<&'static [u8]>>);

    impl Read for Answers {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.remove(0)?;
            buffer[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    #[test]
    fn a_read_that_a_signal_interrupts_is_made_again_and_another_error_ends_it() {
        let interrupted = || Err(io::ErrorKind::Interrupted.into());
        let mut to = Vec::new();
        let mut from = Answers(vec![Ok(b"ab"), interrupted(), Ok(b"c"), Ok(b"")]);
        let Ok((bytes, sha256)) = pass(&mut from, &mut to) else {
            panic!("it was read to its end");
        };
        assert_eq!((bytes, to.as_slice()), (3, b"abc".as_slice()));
        // FIPS 180-2, appendix B.1.
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256, of_abc);
        assert_eq!(of_bytes(b"abc"), of_abc);

        let broken = Err(io::ErrorKind::UnexpectedEof.into());
        let mut from = Answers(vec![Ok(b"ab"), broken, Ok(b"")]);
        let failed = pass(&mut from, &mut io::sink());
        assert!(matches!(failed, Err(Failed::Read(_))));
    }
}
