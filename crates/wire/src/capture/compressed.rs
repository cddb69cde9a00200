//! Captures that are compressed as a whole, as archives and `tcpdump -z` leave them.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::CaptureError;

/// As many bytes as distinguish the formats.
const MAGIC: usize = 6;

/// What `input` holds when it is decompressed: gzip (RFC 1952) and zstd (RFC 8878, with
/// windows up to 100 MiB), of as many members or frames as there are, and anything else
/// as it is. No more is read ahead than decompressing takes.
///
/// # Errors
/// When the input cannot be read, or is compressed in a way that is not read here.
pub fn decompressed<'a>(mut input: impl Read + 'a) -> Result<Box<dyn Read + 'a>, CaptureError> {
    let mut head = Vec::with_capacity(MAGIC);
    input.by_ref().take(MAGIC as u64).read_to_end(&mut head)?;
    let unread = |name, program| Err(CaptureError::Compressed { name, program });
    let kind = match head[..] {
        [0x1f, 0x8b, ..] => Kind::Gzip,
        // A frame, or one of those that are to be skipped (§3.1.2).
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Kind::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0] => return unread("xz", "xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => return unread("bzip2", "bzip2"),
        [0x04, 0x22, 0x4d, 0x18, ..] => return unread("lz4", "lz4"),
        _ => Kind::Plain,
    };
    let input = Cursor::new(head).chain(input);
    Ok(match kind {
        Kind::Plain => Box::new(input),
        Kind::Gzip => Box::new(MultiGzDecoder::new(input)),
        Kind::Zstd => Box::new(Zstd {
            source: BufReader::new(input),
            decoder: FrameDecoder::new(),
        }),
    })
}

enum Kind {
    Plain,
    Gzip,
    Zstd,
}

/// All zstd frames of an input, one after the other.
struct Zstd<R> {
    source: BufReader<R>,
    decoder: FrameDecoder,
}

impl<R: Read> Zstd<R> {
    /// Goes on to the next frame; `false` at the end.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            let skipped = match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => u64::from(length),
                Err(error) => return Err(io::Error::other(error)),
            };
            let mut rest = self.source.by_ref().take(skipped);
            if io::copy(&mut rest, &mut io::sink())? < skipped {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(false)
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.decoder.read(bytes)?;
            if read > 0 || bytes.is_empty() {
                return Ok(read);
            }
            if self.decoder.is_finished() {
                if !self.next_frame()? {
                    return Ok(0);
                }
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.source, one);
                decoded.map_err(io::Error::other)?;
            }
        }
    }
}
