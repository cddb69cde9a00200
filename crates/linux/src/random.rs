//! What nobody else can know.

use std::fs::File;
use std::io::{self, Read};

/// Bytes from the kernel's generator.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
