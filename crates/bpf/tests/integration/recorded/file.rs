//! What all files of traces begin with, inside of their gzip stream:
//!
//! | Bytes | Meaning |
//! |---|---|
//! | 8 | which trace it is, and the format's number |
//! | 2 + n | length (little-endian) and text: the rules that decided, in words |
//! | 2 + n | the same: the release of the kernel that ran them |

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// The bytes of a head.
///
/// # Errors
/// If a text is longer than the head can say.
pub fn head(magic: [u8; 8], rules: &str, kernel: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::from(magic);
    for text in [rules, kernel] {
        let len =
            u16::try_from(text.len()).map_err(|_| damaged("a text in its head is too long"))?;
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    Ok(bytes)
}

/// Takes the head off `rest`; the rules' words and the kernel's release.
///
/// # Errors
/// If it does not begin with `magic`, or ends within its head.
pub fn take_head(rest: &mut &[u8], magic: [u8; 8]) -> io::Result<(String, String)> {
    *rest = rest
        .strip_prefix(&magic)
        .ok_or_else(|| damaged("it does not begin as one"))?;
    Ok((text(rest)?, text(rest)?))
}

fn text(rest: &mut &[u8]) -> io::Result<String> {
    let (len, more) = rest.split_first_chunk().ok_or_else(cut_short)?;
    let (text, more) = more
        .split_at_checked(usize::from(u16::from_le_bytes(*len)))
        .ok_or_else(cut_short)?;
    *rest = more;
    String::from_utf8(text.to_vec()).map_err(|_| damaged("its head is not text"))
}

/// Writes `bytes` as the gzip stream that a file is.
///
/// # Errors
/// If `out` cannot be written.
pub fn pack(bytes: &[u8], out: impl Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::best());
    gzip.write_all(bytes)?;
    gzip.finish()?.flush()?;
    Ok(())
}

/// Reads the gzip stream that a file is.
///
/// # Errors
/// If `input` cannot be read, or is none.
pub fn unpack(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(input).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Why a file is no trace.
pub fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The same, of one that ends where it should not.
pub fn cut_short() -> io::Error {
    damaged("it is cut short or too long")
}
