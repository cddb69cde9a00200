//! One packet of a capture.

use narrows_units::Instant;

use super::order::Order;
use super::pcapng::{COMMENT, FLAGS, Options, PACKET_ID};
use super::{Direction, Interface};
use crate::link::{self, LinkType};

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

    /// How many bytes of the frame were not kept.
    pub fn cut(&self) -> u32 {
        self.original_len.saturating_sub(self.bytes.len() as u32)
    }
}

/// Where a packet stands among the bytes that were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub interface: usize,
    pub at: Option<Instant>,
    pub original_len: u32,
    /// Its first byte.
    pub start: usize,
    /// How many of its bytes were kept.
    pub kept: u32,
    /// Bytes of options, which begin at the next multiple of 4 bytes.
    pub options: u32,
}

impl Held {
    /// The packet, among the bytes and interfaces that it was read with.
    #[inline(always)]
    pub fn record<'a>(
        &self,
        bytes: &'a [u8],
        order: Order,
        interfaces: &'a [Interface],
    ) -> Record<'a> {
        let interface = &interfaces[self.interface];
        let end = self.start + self.kept as usize;
        let mut record = Record {
            interface: self.interface,
            interface_name: &interface.name,
            at: self.at,
            original_len: self.original_len,
            bytes: &bytes[self.start..end],
            link: interface.link,
            id: None,
            direction: None,
            comment: None,
        };
        if self.options > 0 {
            let begin = self.start + self.kept.next_multiple_of(4) as usize;
            let options = &bytes[begin..begin + self.options as usize];
            record.take(Options(order, options), order);
        }
        record
    }
}

impl<'a> Record<'a> {
    #[inline(never)]
    fn take(&mut self, options: Options<'a>, order: Order) {
        for (code, value) in options {
            match (code, value.len()) {
                (COMMENT, _) if self.comment.is_none() => {
                    self.comment = std::str::from_utf8(value).ok();
                }
                (FLAGS, 4) => {
                    self.direction = match order.u32(value) & 3 {
                        1 => Some(Direction::Inbound),
                        2 => Some(Direction::Outbound),
                        _ => None,
                    }
                }
                (PACKET_ID, 8) => self.id = Some(order.u64(value)),
                _ => {}
            }
        }
    }
}
