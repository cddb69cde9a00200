//! A capture read by chunks against the same one read record by record.

use std::io::{self, Read};

use narrows_wire::capture::{CaptureReader, Chunk};

/// An input that gives few bytes at a time, another number each time.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 % 97 + 1;
        let n = self.1.min(self.0.len()).min(buffer.len());
        let (now, later) = self.0.split_at(n);
        buffer[..n].copy_from_slice(now);
        self.0 = later;
        Ok(n)
    }
}

/// Chunks hold what single reads give, and end as they do.
fn chunks_agree(mut single: CaptureReader<impl Read>, mut many: CaptureReader<impl Read>) {
    let mut chunk = Chunk::default();
    loop {
        match many.read_chunk(&mut chunk) {
            Ok(true) => {
                assert!(!chunk.is_empty());
                for (at, record) in chunk.records().enumerate() {
                    assert_eq!(chunk.ip_packet(at), record.ip_packet());
                    assert_eq!(chunk.interface(at), record.interface);
                    assert_eq!(single.read().expect("as the chunk has it"), Some(record));
                }
            }
            Ok(false) => {
                assert!(chunk.is_empty());
                assert_eq!(single.read().expect("the end"), None);
                return;
            }
            Err(error) => {
                let wanted = single.read().expect_err("what the chunk ended with");
                assert_eq!(error.to_string(), wanted.to_string());
                return;
            }
        }
    }
}

/// Reads a capture file in both ways, the whole of it and as few bytes come.
pub fn chunks(bytes: &[u8]) {
    let of = || CaptureReader::new(bytes);
    if let (Ok(single), Ok(many)) = (of(), of()) {
        chunks_agree(single, many);
    }
    let few = CaptureReader::new(Drops(bytes, bytes.len() % 89));
    if let (Ok(single), Ok(many)) = (of(), few) {
        chunks_agree(single, many);
    }
}
