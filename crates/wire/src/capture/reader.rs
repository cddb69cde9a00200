//! Reading pcap and pcapng, whichever a file turns out to be.

use std::io::{self, Read};
use std::ops::Range;

use narrows_units::Instant;

use super::Interface;
use super::order::Order;
use super::pcapng::{
    BYTE_ORDER, Clock, ENHANCED, IF_NAME, IF_TSOFFSET, IF_TSRESOL, INTERFACE, Options, PACKET,
    SECTION, SIMPLE,
};
use super::record::{Held, Record};
use super::window::Window;
use crate::link::LinkType;

/// The most bytes that one record or block may claim. Real ones stay below
/// 256 KiB (tcpdump's largest snap length) but for long option lists.
const MAX_BLOCK: u32 = 16 << 20;

/// pcap with stamps in microseconds and in nanoseconds.
const PCAP_MICROS: u32 = 0xa1b2_c3d4;
const PCAP_NANOS: u32 = 0xa1b2_3c4d;

/// Why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file could not be read at all.
    #[error("the capture cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Neither pcap nor pcapng.
    #[error("this is neither pcap nor pcapng, nor one of them compressed with gzip or zstd")]
    NotACapture,
    /// Compressed in a way that is not read here.
    #[error(
        "this is compressed with {name}, and only gzip and zstd are read here; \
         decompress it first: {program} -dc FILE | narrows observe -r -"
    )]
    Compressed {
        /// The format.
        name: &'static str,
        /// The program that decompresses it.
        program: &'static str,
    },
    /// The file ends inside a block; what came before is good.
    #[error("the capture ends inside a block")]
    Truncated,
    /// A field contradicts the format.
    #[error("the capture's {0} is not valid")]
    Invalid(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Pcap { nanos: bool },
    Pcapng,
}

/// Reads packets from a pcap or pcapng file, of either byte order and any
/// resolution of time. Needs no more memory than what is read ahead, or its
/// largest packet.
#[derive(Debug)]
pub struct CaptureReader<R: Read> {
    window: Window<R>,
    format: Format,
    order: Order,
    interfaces: Vec<Interface>,
    clocks: Vec<Clock>,
    /// Where the current section's interfaces start in `interfaces`.
    section: usize,
    /// The body of the block that was read last.
    block: Range<usize>,
    /// The packet that was read last.
    held: Option<Held>,
}

impl<R: Read> CaptureReader<R> {
    /// Reads the file's head. `input` need not be buffered; it is read ahead,
    /// but never waited for longer than the next packet takes.
    ///
    /// # Errors
    /// When it is no capture, or ends inside the head.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut reader = Self {
            window: Window::new(input),
            format: Format::Pcapng,
            order: Order::Little,
            interfaces: Vec::new(),
            clocks: Vec::new(),
            section: 0,
            block: 0..0,
            held: None,
        };
        let mut magic = [0; 4];
        if !reader.fill(&mut magic)? {
            return Err(CaptureError::NotACapture);
        }
        if u32::from_be_bytes(magic) == SECTION {
            reader.section_header()?;
            return Ok(reader);
        }
        let known = |order: Order| match order.u32(&magic) {
            PCAP_MICROS => Some((order, false)),
            PCAP_NANOS => Some((order, true)),
            _ => None,
        };
        let (order, nanos) = known(Order::Little)
            .or_else(|| known(Order::Big))
            .ok_or(CaptureError::NotACapture)?;
        reader.order = order;
        reader.format = Format::Pcap { nanos };
        let mut head = [0; 20];
        reader.must_fill(&mut head)?;
        reader.add(Interface {
            name: String::new(),
            // The upper half says whether frames end with a check sequence.
            link: LinkType(order.u32(&head[16..]) as u16),
            snaplen: order.u32(&head[12..]),
        });
        Ok(reader)
    }

    /// The interfaces met so far. pcap has one, without a name.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Those of them that the current section of the file has described so far: a
    /// pcapng file may be several, one after the other, and each counts from 0.
    pub fn section(&self) -> &[Interface] {
        &self.interfaces[self.section..]
    }

    /// The next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// When the file is cut or contradicts its format; what was read before
    /// is good.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        self.advance()?;
        Ok(self.record())
    }

    /// Goes on to the next packet, which is then the [record](Self::record).
    ///
    /// # Errors
    /// As [`read`](Self::read) has them.
    pub fn advance(&mut self) -> Result<(), CaptureError> {
        self.held = None;
        self.held = self.next_packet()?;
        Ok(())
    }

    /// The packet that was read last; `None` at the end of the file.
    #[inline]
    pub fn record(&self) -> Option<Record<'_>> {
        let held = self.held.as_ref()?;
        Some(held.record(self.window.all(), self.order, &self.interfaces))
    }

    /// A packet of a pcap file by what is before it; its bytes begin at
    /// `start`.
    #[inline]
    fn pcap_head(&self, head: &[u8; 16], nanos: bool, start: usize) -> Held {
        let word = |i: usize| self.order.u32(&head[4 * i..]);
        let unit = if nanos { 1 } else { 1_000 };
        let ns = u64::from(word(0)) * 1_000_000_000 + u64::from(word(1)) * unit;
        Held {
            interface: 0,
            at: Some(Instant::from_nanos(ns)),
            original_len: word(3),
            start,
            kept: word(2),
            options: 0,
        }
    }

    fn add(&mut self, interface: Interface) {
        self.interfaces.push(interface);
    }

    fn next_packet(&mut self) -> Result<Option<Held>, CaptureError> {
        if let Format::Pcap { nanos } = self.format {
            return self.pcap_record(nanos);
        }
        loop {
            let mut kind = [0; 4];
            if !self.fill(&mut kind)? {
                return Ok(None);
            }
            if u32::from_be_bytes(kind) == SECTION {
                self.section_header()?;
                continue;
            }
            let mut length = [0; 4];
            self.must_fill(&mut length)?;
            self.rest_of_block(self.order.u32(&length), 8)?;
            match self.order.u32(&kind) {
                INTERFACE => self.interface()?,
                ENHANCED => return self.enhanced().map(Some),
                PACKET => return self.old_packet().map(Some),
                SIMPLE => return self.simple().map(Some),
                _ => {}
            }
        }
    }

    fn pcap_record(&mut self, nanos: bool) -> Result<Option<Held>, CaptureError> {
        let mut head = [0; 16];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let packet = self.pcap_head(&head, nanos, 0);
        if packet.kept > MAX_BLOCK {
            return Err(CaptureError::Invalid("packet length"));
        }
        self.load(packet.kept)?;
        Ok(Some(Held {
            start: self.block.start,
            ..packet
        }))
    }

    /// Reads a section header whose type has been read.
    fn section_header(&mut self) -> Result<(), CaptureError> {
        let mut head = [0; 8];
        self.must_fill(&mut head)?;
        self.order = if Order::Little.u32(&head[4..]) == BYTE_ORDER {
            Order::Little
        } else if Order::Big.u32(&head[4..]) == BYTE_ORDER {
            Order::Big
        } else {
            return Err(CaptureError::Invalid("byte-order mark"));
        };
        self.rest_of_block(self.order.u32(&head), 12)?;
        if self.block().len() < 12 {
            return Err(CaptureError::Invalid("section header length"));
        }
        if self.order.u16(self.block()) != 1 {
            return Err(CaptureError::Invalid("major version"));
        }
        self.section = self.interfaces.len();
        Ok(())
    }

    /// Reads what is left of a block of `total` bytes of which `already` were
    /// read, and takes the closing length off.
    fn rest_of_block(&mut self, total: u32, already: u32) -> Result<(), CaptureError> {
        if total % 4 != 0 || total < already + 4 || total > MAX_BLOCK {
            return Err(CaptureError::Invalid("block length"));
        }
        self.load(total - already)?;
        let body = self.block().len() - 4;
        if self.order.u32(&self.block()[body..]) != total {
            return Err(CaptureError::Invalid("closing block length"));
        }
        self.block.end -= 4;
        Ok(())
    }

    fn interface(&mut self) -> Result<(), CaptureError> {
        let Some(options) = self.block().get(8..) else {
            return Err(CaptureError::Invalid("interface block length"));
        };
        let mut interface = Interface {
            name: String::new(),
            link: LinkType(self.order.u16(self.block())),
            snaplen: self.order.u32(&self.block()[4..]),
        };
        let mut clock = Clock::DEFAULT;
        for (code, value) in Options(self.order, options) {
            match (code, value) {
                (IF_NAME, name) => interface.name = String::from_utf8_lossy(name).into_owned(),
                (IF_TSRESOL, &[resolution]) => clock.resolution = resolution,
                (IF_TSOFFSET, offset) if offset.len() == 8 => {
                    clock.offset = self.order.u64(offset) as i64;
                }
                _ => {}
            }
        }
        self.add(interface);
        self.clocks.push(clock);
        Ok(())
    }

    fn enhanced(&self) -> Result<Held, CaptureError> {
        let Some(head) = self.block().get(..20) else {
            return Err(CaptureError::Invalid("packet block length"));
        };
        self.stamped(self.order.u32(head), head)
    }

    /// The obsolete packet block: 16 bits of interface and 16 of drop count
    /// where the enhanced one has 32 of interface.
    fn old_packet(&self) -> Result<Held, CaptureError> {
        let Some(head) = self.block().get(..20) else {
            return Err(CaptureError::Invalid("packet block length"));
        };
        self.stamped(u32::from(self.order.u16(head)), head)
    }

    fn stamped(&self, interface: u32, head: &[u8]) -> Result<Held, CaptureError> {
        let interface = self.known(interface)?;
        let stamp =
            u64::from(self.order.u32(&head[4..])) << 32 | u64::from(self.order.u32(&head[8..]));
        let kept = self.order.u32(&head[12..]);
        let room = (self.block.len() - 20) as u32;
        if kept > room {
            return Err(CaptureError::Invalid("packet length"));
        }
        Ok(Held {
            interface,
            at: Some(self.clocks[interface].instant(stamp)),
            original_len: self.order.u32(&head[16..]),
            start: self.block.start + 20,
            kept,
            options: room.saturating_sub(kept.next_multiple_of(4)),
        })
    }

    fn simple(&self) -> Result<Held, CaptureError> {
        let Some(head) = self.block().get(..4) else {
            return Err(CaptureError::Invalid("packet block length"));
        };
        let interface = self.known(0)?;
        let original_len = self.order.u32(head);
        let snaplen = match self.interfaces[interface].snaplen {
            0 => u32::MAX,
            n => n,
        };
        let kept = original_len.min(snaplen);
        if kept as usize > self.block.len() - 4 {
            return Err(CaptureError::Invalid("packet length"));
        }
        Ok(Held {
            interface,
            at: None,
            original_len,
            start: self.block.start + 4,
            kept,
            options: 0,
        })
    }

    /// The index in all interfaces of number `n` of this section.
    fn known(&self, n: u32) -> Result<usize, CaptureError> {
        let index = self.section.saturating_add(n as usize);
        if index < self.interfaces.len() {
            Ok(index)
        } else {
            Err(CaptureError::Invalid("interface number"))
        }
    }

    /// The body of the block that was read last.
    fn block(&self) -> &[u8] {
        self.window.get(self.block.clone())
    }

    /// Makes the next `n` bytes the block.
    fn load(&mut self, n: u32) -> Result<(), CaptureError> {
        self.block = self
            .window
            .next(n as usize)?
            .ok_or(CaptureError::Truncated)?;
        Ok(())
    }

    /// Fills `buffer`; false if the input ends before its first byte.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, CaptureError> {
        let Some(range) = self.window.next(buffer.len())? else {
            return Ok(false);
        };
        buffer.copy_from_slice(self.window.get(range));
        Ok(true)
    }

    fn must_fill(&mut self, buffer: &mut [u8]) -> Result<(), CaptureError> {
        match self.fill(buffer)? {
            true => Ok(()),
            false => Err(CaptureError::Truncated),
        }
    }
}
