//! Captures through a box.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use narrows_core::{DOWN, Port, UP};
use narrows_mmb::Direction;
use narrows_results::Error;
use narrows_units::Instant;
use narrows_wire::FlowKey;
use narrows_wire::capture::{
    CaptureReader, Direction as Seen, Interface, PcapngWriter, Record, ToWrite, decompressed,
};
use narrows_wire::link::LinkType;
use serde::Serialize;

use super::{Session, refused};

/// What became of a packet of a capture.
#[derive(Debug, Serialize)]
pub struct ExplainedPacket {
    /// Its number in the capture, from 1, as Wireshark counts.
    number: usize,
    /// Source and destination as it came.
    packet: String,
    /// The interface by which it came.
    interface: &'static str,
    /// The rules that it matches, from 1.
    matches: Vec<usize>,
    /// Those that applied to it because of its connection.
    of_connection: Vec<usize>,
    /// Its direction in a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    /// What became of it.
    outcome: &'static str,
    /// Bytes of IP that differ from those that came; of a header that got longer or shorter,
    /// all behind it.
    changed: Vec<usize>,
    /// Source and destination as it left, if others.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
}

impl fmt::Display for ExplainedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>5}  {} by {}: ",
            self.number, self.packet, self.interface
        )?;
        match &self.matches[..] {
            [] => f.write_str("matches no rule")?,
            rules => write!(f, "matches {}", list(rules))?,
        }
        if !self.of_connection.is_empty() {
            write!(f, ", is of a connection of {}", list(&self.of_connection))?;
        }
        if let Some(direction) = self.direction {
            write!(f, " ({direction})")?;
        }
        write!(f, "; {}", self.outcome)?;
        if !self.changed.is_empty() {
            write!(f, ", bytes {}", ranges(&self.changed))?;
        }
        match &self.left {
            Some(left) => write!(f, ", leaves as {left}"),
            None => Ok(()),
        }
    }
}

fn list(numbers: &[usize]) -> String {
    let numbers: Vec<_> = numbers.iter().map(usize::to_string).collect();
    numbers.join(", ")
}

/// `1, 10-11` for 1, 10 and 11.
fn ranges(bytes: &[usize]) -> String {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for byte in bytes {
        match all.last_mut() {
            Some((_, last)) if *last + 1 == *byte => *last = *byte,
            _ => all.push((*byte, *byte)),
        }
    }
    let shown = all.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// What became of a capture.
#[derive(Debug, Default, Serialize)]
pub struct Replayed {
    /// Packets that went into the box.
    packets: u64,
    /// Packets that left it as they came.
    unchanged: u64,
    /// Packets that left it changed.
    changed: u64,
    /// Packets that did not leave it.
    dropped: u64,
    /// Frames that are no IP, which are left out.
    no_ip: u64,
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} packets: {} left as they came, {} changed, {} dropped; {} frames are no IP",
            self.packets, self.unchanged, self.changed, self.dropped, self.no_ip
        )
    }
}

/// The EtherType of an Ethernet frame, as the kernel has it: one of IEEE 802.3 that has a length there is
/// `ETH_P_802_2` (include/uapi/linux/if_ether.h).
fn ether_type(record: &Record<'_>) -> Option<u16> {
    const ETH_P_802_3_MIN: u16 = 0x0600;
    const ETH_P_802_2: u16 = 0x0004;
    let bytes = record.bytes.get(12..14)?;
    let field = u16::from_be_bytes([bytes[0], bytes[1]]);
    let is = record.link == LinkType::ETHERNET;
    is.then_some(if field < ETH_P_802_3_MIN {
        ETH_P_802_2
    } else {
        field
    })
}

/// A packet on its way through.
struct Passing {
    /// The type of a frame that is not IP.
    frame: Option<u16>,
    number: usize,
    at: Instant,
    port: Port,
    came: Vec<u8>,
    bytes: Vec<u8>,
    cut: u32,
    dropped: bool,
}

/// Which end of each flow is inside: unless the capture says which way its packets went,
/// the end that sent the flow's first packet.
#[derive(Default)]
struct Ways(BTreeMap<FlowKey, Port>);

impl Ways {
    fn of(&mut self, bytes: &[u8], seen: Option<Seen>) -> Port {
        match seen {
            Some(Seen::Outbound) => return UP,
            Some(Seen::Inbound) => return DOWN,
            None => {}
        }
        let Some(key) = FlowKey::of(bytes) else {
            return UP;
        };
        if self.0.contains_key(&key.reversed()) && key != key.reversed() {
            return DOWN;
        }
        *self.0.entry(key).or_insert(UP)
    }
}

fn ends(bytes: &[u8]) -> String {
    match FlowKey::of(bytes) {
        Some(key) => {
            let end = |end| std::net::SocketAddr::from(end).to_string();
            format!(
                "{} > {} protocol {}",
                end((key.source, key.source_port)),
                end((key.destination, key.destination_port)),
                key.protocol
            )
        }
        None => "no readable IP".to_owned(),
    }
}

impl Session {
    /// Sends the packets of a capture through the box, Ethernet frames that hold no IP too, and each with what
    /// became of it to `each`. How many frames held no IP.
    fn through(
        &mut self,
        path: &Path,
        mut each: impl FnMut(&Session, &Passing) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let wrong = |e: &dyn fmt::Display| refused(format!("`{}`: {e}", path.display()));
        let file = File::open(path).map_err(|e| wrong(&e))?;
        let input = decompressed(file).map_err(|e| wrong(&e))?;
        let mut reader = CaptureReader::new(input).map_err(|e| wrong(&e))?;
        let (mut number, mut no_ip) = (0, 0);
        let mut ways = Ways::default();
        let mut epoch = None;
        while let Some(record) = reader.read().map_err(|e| wrong(&e))? {
            number += 1;
            let at = record.at.unwrap_or(Instant::ZERO);
            let Some(ip) = record.ip_packet() else {
                no_ip += 1;
                if let Some(frame) = ether_type(&record) {
                    let port = ways.of(&[], record.direction);
                    let len = record.original_len as usize;
                    let dropped = self.middlebox.process_frame(port, frame, len).is_some();
                    let passing = Passing {
                        frame: Some(frame),
                        number,
                        at,
                        port,
                        came: Vec::new(),
                        bytes: Vec::new(),
                        cut: 0,
                        dropped,
                    };
                    each(self, &passing)?;
                }
                continue;
            };
            let start = *epoch.get_or_insert(at);
            let port = ways.of(ip, record.direction);
            let came = ip.to_vec();
            let (mut bytes, mut cut) = (came.clone(), record.cut());
            let now = Instant::ZERO + at.since(start);
            let outcome = self.middlebox.process(now, port, &mut bytes, &mut cut);
            let passing = Passing {
                frame: None,
                number,
                at,
                port,
                came,
                bytes,
                cut,
                dropped: outcome.dropped.is_some(),
            };
            each(self, &passing)?;
        }
        Ok(no_ip)
    }

    pub(super) fn explain(&mut self, path: &Path) -> Result<Vec<ExplainedPacket>, Error> {
        let mut explained = Vec::new();
        self.through(path, |session, passing| {
            let middlebox = &session.middlebox;
            let matches: Vec<_> = middlebox.last_matched().collect();
            if passing.frame.is_some() && matches.is_empty() {
                return Ok(());
            }
            let applied = middlebox.last_applied();
            let (came, bytes) = (&passing.came, &passing.bytes);
            let dropped = passing.dropped;
            let most = came.len().max(bytes.len());
            let changed = (0..most).filter(|at| !dropped && came.get(*at) != bytes.get(*at));
            let left = ends(bytes);
            let frame = passing
                .frame
                .map(|kind| format!("frame of EtherType {kind:#06x}"));
            let left = frame.clone().unwrap_or(left);
            let packet = frame.unwrap_or_else(|| ends(came));
            explained.push(ExplainedPacket {
                number: passing.number,
                interface: if passing.port == UP {
                    "inside"
                } else {
                    "outside"
                },
                of_connection: applied.filter(|rule| !matches.contains(rule)).collect(),
                matches,
                direction: middlebox.last_direction().map(|direction| match direction {
                    Direction::Forward => "forward",
                    Direction::Reverse => "reverse",
                }),
                changed: changed.collect(),
                outcome: match dropped {
                    true => "dropped",
                    false if came == bytes => "passes",
                    false => "changed",
                },
                left: (!dropped && left != packet).then_some(left),
                packet,
            });
            Ok(())
        })?;
        Ok(explained)
    }

    pub(super) fn replay(&mut self, read: &Path, write: &Path) -> Result<Replayed, Error> {
        let same = |path: &Path| std::fs::canonicalize(path).ok();
        if same(read).is_some() && same(read) == same(write) {
            let write = write.display();
            return Err(refused(format!("`{write}` is the capture that is read")));
        }
        let unwritten = |e: std::io::Error| refused(format!("`{}`: {e}", write.display()));
        let out = BufWriter::new(narrows_files::create(write).map_err(unwritten)?);
        let application = concat!("narrows ", env!("CARGO_PKG_VERSION"));
        let mut out = PcapngWriter::new(out, application).map_err(unwritten)?;
        let interface = Interface {
            name: "mmb".to_owned(),
            link: LinkType::RAW,
            snaplen: 0,
        };
        let interface = out.add_interface(&interface).map_err(unwritten)?;
        let mut replayed = Replayed::default();
        replayed.no_ip = self.through(read, |_, passing| {
            if passing.frame.is_some() {
                return Ok(());
            }
            replayed.packets += 1;
            if passing.dropped {
                replayed.dropped += 1;
                return Ok(());
            }
            match passing.bytes == passing.came {
                true => replayed.unchanged += 1,
                false => replayed.changed += 1,
            }
            let packet = ToWrite {
                at: passing.at,
                bytes: &passing.bytes,
                zero_tail: 0,
                cut: passing.cut,
                id: None,
                direction: Some(match passing.port {
                    UP => Seen::Outbound,
                    _ => Seen::Inbound,
                }),
                comment: None,
            };
            out.write(interface, &packet).map_err(unwritten)
        })?;
        let mut out = out.finish().map_err(unwritten)?;
        std::io::Write::flush(&mut out).map_err(unwritten)?;
        Ok(replayed)
    }
}
