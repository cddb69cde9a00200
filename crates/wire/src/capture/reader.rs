//! Reading pcap and pcapng, whichever a file turns out to be.

use std::io::{self, Read};
use std::ops::Range;

use narrows_units::Instant;

use super::pcapng::{
    BYTE_ORDER, COMMENT, ENHANCED, FLAGS, IF_NAME, IF_TSOFFSET, IF_TSRESOL, INTERFACE, PACKET,
    PACKET_ID, SECTION, SIMPLE,
};
use super::window::Window;
use super::{Direction, Interface};
use crate::link::{self, LinkType};

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
    #[error("this is neither pcap nor pcapng")]
    NotACapture,
    /// The file ends inside a block; what came before is good.
    #[error("the capture ends inside a block")]
    Truncated,
    /// A field contradicts the format.
    #[error("the capture's {0} is not valid")]
    Invalid(&'static str),
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Index into [`CaptureReader::interfaces`].
    pub interface: usize,
    /// The interface's name; empty if the file gives none.
    pub interface_name: &'a str,
    /// When it was seen; `None` for pcapng's simple packets, which say nothing.
    pub at: Option<Instant>,
    /// Its length on the wire.
    pub original_len: u32,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// How it starts.
    pub link: LinkType,
    /// The writer's identity for it, if given.
    pub id: Option<u64>,
    /// Which way it went, if given.
    pub direction: Option<Direction>,
    /// The first comment, if it is UTF-8.
    pub comment: Option<&'a str>,
}

impl<'a> Record<'a> {
    /// What was kept of the IP packet in it; `None` if it holds none.
    pub fn ip_packet(&self) -> Option<&'a [u8]> {
        link::ip_packet(self.link, self.bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn u32(self, b: &[u8]) -> u32 {
        let b = [b[0], b[1], b[2], b[3]];
        match self {
            Self::Little => u32::from_le_bytes(b),
            Self::Big => u32::from_be_bytes(b),
        }
    }

    fn u16(self, b: &[u8]) -> u16 {
        let b = [b[0], b[1]];
        match self {
            Self::Little => u16::from_le_bytes(b),
            Self::Big => u16::from_be_bytes(b),
        }
    }

    fn u64(self, b: &[u8]) -> u64 {
        let (first, second) = (u64::from(self.u32(b)), u64::from(self.u32(&b[4..])));
        match self {
            Self::Little => second << 32 | first,
            Self::Big => first << 32 | second,
        }
    }
}

/// How an interface counts time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// As `if_tsresol` writes it.
    resolution: u8,
    /// Seconds to add.
    offset: i64,
}

impl Clock {
    /// pcapng's default: microseconds since 1970.
    const DEFAULT: Self = Self {
        resolution: 6,
        offset: 0,
    };

    fn instant(self, stamp: u64) -> Instant {
        // What nearly all files have; the general rule divides 128 bits.
        if let (9, 0) = (self.resolution, self.offset) {
            return Instant::from_nanos(stamp);
        }
        if let (6, 0, Some(ns)) = (self.resolution, self.offset, stamp.checked_mul(1_000)) {
            return Instant::from_nanos(ns);
        }
        let exponent = u32::from(self.resolution & 0x7f);
        let stamp = u128::from(stamp) * 1_000_000_000;
        let ns = if self.resolution & 0x80 != 0 {
            stamp.checked_shr(exponent).unwrap_or(0)
        } else {
            10u128.checked_pow(exponent).map_or(0, |unit| stamp / unit)
        };
        let offset = i128::from(self.offset) * 1_000_000_000;
        let ns = i128::try_from(ns)
            .unwrap_or(i128::MAX)
            .saturating_add(offset);
        Instant::from_nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
    }
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Pcap { nanos: bool },
    Pcapng,
}

/// Reads packets one by one from a pcap or pcapng file, of either byte order
/// and any resolution of time. Needs no more memory than its largest packet.
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
        reader.interfaces.push(Interface {
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

    /// The next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// When the file is cut or contradicts its format; what was read before
    /// is good.
    pub fn read(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if let Format::Pcap { nanos } = self.format {
            return self.read_pcap(nanos);
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

    fn read_pcap(&mut self, nanos: bool) -> Result<Option<Record<'_>>, CaptureError> {
        let mut head = [0; 16];
        if !self.fill(&mut head)? {
            return Ok(None);
        }
        let word = |i: usize| self.order.u32(&head[4 * i..]);
        let (seconds, fraction, captured, original_len) = (word(0), word(1), word(2), word(3));
        if captured > MAX_BLOCK {
            return Err(CaptureError::Invalid("packet length"));
        }
        self.load(captured)?;
        let unit = if nanos { 1 } else { 1_000 };
        let ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit;
        Ok(Some(Record {
            interface: 0,
            interface_name: &self.interfaces[0].name,
            at: Some(Instant::from_nanos(ns)),
            original_len,
            bytes: self.block(),
            link: self.interfaces[0].link,
            id: None,
            direction: None,
            comment: None,
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
        self.interfaces.push(interface);
        self.clocks.push(clock);
        Ok(())
    }

    fn enhanced(&self) -> Result<Record<'_>, CaptureError> {
        let Some(head) = self.block().get(..20) else {
            return Err(CaptureError::Invalid("packet block length"));
        };
        self.stamped(self.order.u32(head), head)
    }

    /// The obsolete packet block: 16 bits of interface and 16 of drop count
    /// where the enhanced one has 32 of interface.
    fn old_packet(&self) -> Result<Record<'_>, CaptureError> {
        let Some(head) = self.block().get(..20) else {
            return Err(CaptureError::Invalid("packet block length"));
        };
        self.stamped(u32::from(self.order.u16(head)), head)
    }

    fn stamped(&self, interface: u32, head: &[u8]) -> Result<Record<'_>, CaptureError> {
        let interface = self.known(interface)?;
        let stamp =
            u64::from(self.order.u32(&head[4..])) << 32 | u64::from(self.order.u32(&head[8..]));
        let captured = self.order.u32(&head[12..]) as usize;
        let bytes = self
            .block()
            .get(20..20 + captured)
            .ok_or(CaptureError::Invalid("packet length"))?;
        let mut record = Record {
            interface,
            interface_name: &self.interfaces[interface].name,
            at: Some(self.clocks[interface].instant(stamp)),
            original_len: self.order.u32(&head[16..]),
            bytes,
            link: self.interfaces[interface].link,
            id: None,
            direction: None,
            comment: None,
        };
        let options = self.block().get(20 + captured.next_multiple_of(4)..);
        for (code, value) in Options(self.order, options.unwrap_or_default()) {
            match (code, value.len()) {
                (COMMENT, _) if record.comment.is_none() => {
                    record.comment = std::str::from_utf8(value).ok();
                }
                (FLAGS, 4) => {
                    record.direction = match self.order.u32(value) & 3 {
                        1 => Some(Direction::Inbound),
                        2 => Some(Direction::Outbound),
                        _ => None,
                    }
                }
                (PACKET_ID, 8) => record.id = Some(self.order.u64(value)),
                _ => {}
            }
        }
        Ok(record)
    }

    fn simple(&self) -> Result<Record<'_>, CaptureError> {
        let Some(head) = self.block().get(..4) else {
            return Err(CaptureError::Invalid("packet block length"));
        };
        let interface = self.known(0)?;
        let original_len = self.order.u32(head);
        let snaplen = match self.interfaces[interface].snaplen {
            0 => u32::MAX,
            n => n,
        };
        let bytes = self
            .block()
            .get(4..4 + original_len.min(snaplen) as usize)
            .ok_or(CaptureError::Invalid("packet length"))?;
        Ok(Record {
            interface,
            interface_name: &self.interfaces[interface].name,
            at: None,
            original_len,
            bytes,
            link: self.interfaces[interface].link,
            id: None,
            direction: None,
            comment: None,
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

/// The options of a block; ends at the first that is cut.
struct Options<'a>(Order, &'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.1.get(..4)?;
        let code = self.0.u16(head);
        let len = usize::from(self.0.u16(&head[2..]));
        let value = self.1.get(4..4 + len)?;
        self.1 = self
            .1
            .get(4 + len.next_multiple_of(4)..)
            .unwrap_or_default();
        (code != 0).then_some((code, value))
    }
}
