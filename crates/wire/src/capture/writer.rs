//! Writing pcapng, one block at a time.

use std::io::{self, Write};

use narrows_units::Instant;

use super::pcapng::{
    APPLICATION, BYTE_ORDER, COMMENT, ENHANCED, FLAGS, IF_NAME, IF_TSRESOL, INTERFACE, PACKET_ID,
    SECTION,
};
use super::{Direction, Interface};

/// One packet on its way into a capture.
#[derive(Clone, Copy, Debug)]
pub struct ToWrite<'a> {
    /// When it was seen; the file counts from 1970, the run from its epoch.
    pub at: Instant,
    /// Headers and the stored prefix of the payload, as the interface's link
    /// type has them.
    pub bytes: &'a [u8],
    /// Zeros that follow `bytes` on the wire; written out, up to the snap
    /// length.
    pub zero_tail: u32,
    /// Bytes after those on the wire that are not at hand: they count in its length and
    /// are not written.
    pub cut: u32,
    /// The packet's identity within the run.
    pub id: Option<u64>,
    /// Which way it went.
    pub direction: Option<Direction>,
    /// A note, such as the cause of a mark or drop.
    pub comment: Option<&'a str>,
}

/// A pcapng file in the making: little-endian, stamps in nanoseconds.
///
/// Each block reaches `W` whole, so a file that is cut short by a crash is
/// readable up to its last packet.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: W,
    snaplens: Vec<u32>,
    block: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Starts a section that names `application` as its writer.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(out: W, application: &str) -> io::Result<Self> {
        let mut writer = Self {
            out,
            snaplens: Vec::new(),
            block: Vec::new(),
        };
        writer.begin(SECTION);
        writer.word(BYTE_ORDER);
        writer.word(1); // version 1.0: major, then minor
        writer.word(u32::MAX); // the section's length is not known yet
        writer.word(u32::MAX);
        writer.option(APPLICATION, application.as_bytes());
        writer.end()?;
        Ok(writer)
    }

    /// Describes a further interface; returns the number to write packets
    /// with. Possible at any time.
    ///
    /// # Errors
    /// When the underlying writer fails.
    pub fn add_interface(&mut self, interface: &Interface) -> io::Result<usize> {
        self.begin(INTERFACE);
        self.word(u32::from(interface.link.0));
        self.word(interface.snaplen);
        self.option(IF_NAME, interface.name.as_bytes());
        self.option(IF_TSRESOL, &[9]);
        self.end()?;
        self.snaplens.push(match interface.snaplen {
            0 => u32::MAX,
            n => n,
        });
        Ok(self.snaplens.len() - 1)
    }

    /// Writes a packet seen at `interface`.
    ///
    /// # Errors
    /// When the underlying writer fails, or no such interface was added.
    pub fn write(&mut self, interface: usize, packet: &ToWrite<'_>) -> io::Result<()> {
        let Some(&snaplen) = self.snaplens.get(interface) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the capture has no such interface",
            ));
        };
        let at_hand = packet.bytes.len() as u32 + packet.zero_tail;
        let captured = at_hand.min(snaplen);
        self.begin(ENHANCED);
        self.word(interface as u32);
        let stamp = packet.at.as_nanos();
        self.word((stamp >> 32) as u32);
        self.word(stamp as u32);
        self.word(captured);
        self.word(at_hand.saturating_add(packet.cut));
        let start = self.block.len();
        let stored = packet.bytes.len().min(captured as usize);
        self.block.extend_from_slice(&packet.bytes[..stored]);
        // The tail's zeros and the padding to four bytes alike.
        let padded = (captured as usize).next_multiple_of(4);
        self.block.resize(start + padded, 0);
        if let Some(direction) = packet.direction {
            let bits: u32 = match direction {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            self.option(FLAGS, &bits.to_le_bytes());
        }
        if let Some(id) = packet.id {
            self.option(PACKET_ID, &id.to_le_bytes());
        }
        if let Some(comment) = packet.comment {
            self.option(COMMENT, comment.as_bytes());
        }
        self.end()
    }

    /// Flushes and gives the underlying writer back.
    ///
    /// # Errors
    /// When the underlying writer fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.word(kind);
        self.word(0); // the length, known at the end
    }

    fn word(&mut self, word: u32) {
        self.block.extend_from_slice(&word.to_le_bytes());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        // A value longer than its length field can say is cut.
        let value = &value[..value.len().min(0xffff)];
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block
            .extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn end(&mut self) -> io::Result<()> {
        self.word(0); // opt_endofopt, allowed where there were none as well
        let total = self.block.len() as u32 + 4;
        self.word(total);
        self.block[4..8].copy_from_slice(&total.to_le_bytes());
        self.out.write_all(&self.block)
    }
}
