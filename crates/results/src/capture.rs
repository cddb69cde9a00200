//! Packet captures of a run: one pcapng file each, written while it goes on, as
//! `NAME.pcapng.part` until the run has ended.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use narrows_core::{EntityId, Event, EventSink, Packet};
use narrows_files::Whole;
use narrows_scenario::{CapturePoint, Plan};
use narrows_units::Instant;
use narrows_wire::capture::{Direction, Interface, PcapngWriter, ToWrite};
use narrows_wire::link::LinkType;

use crate::Error;

/// Folder of captures below a results folder.
pub(crate) const CAPTURES: &str = "captures";

/// The captures of a run. Stamps count from the run's epoch, which is at
/// 1970.
pub(crate) struct Captures(Vec<Capture>);

struct Capture {
    at: EntityId,
    name: String,
    writer: PcapngWriter<Whole>,
    /// The first error of writing; nothing is written after it.
    failed: Option<io::Error>,
}

impl Captures {
    /// Opens the files of `plan`'s captures below `dir`; `names` are the run's.
    pub(crate) fn create(plan: &Plan, names: &[String], dir: &Path) -> Result<Self, Error> {
        let (mut captures, mut files) = (Vec::new(), BTreeSet::new());
        for capture in &plan.captures {
            let entity = match &capture.at {
                CapturePoint::Tap(name) => name.clone(),
                CapturePoint::Host(host) => format!("host/{}", plan.host(*host).name),
            };
            let at = names
                .iter()
                .position(|n| *n == entity)
                .ok_or_else(|| output(&capture.name, format!("the run has no {entity}")))?;
            let folder = dir.join(CAPTURES);
            narrows_files::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
            let file = crate::folder::file_name(&capture.name);
            let path = folder.join(format!("{file}.pcapng"));
            if !files.insert(file) {
                let why = format!("another one is called {} too", path.display());
                return Err(output(&capture.name, why));
            }
            let file = Whole::begin(&path)?;
            let application = concat!("narrows ", env!("CARGO_PKG_VERSION"));
            let mut writer =
                PcapngWriter::new(file, application).map_err(Error::io("write", &path))?;
            writer
                .add_interface(&Interface {
                    name: entity,
                    link: LinkType::RAW,
                    snaplen: capture.snaplen,
                })
                .map_err(Error::io("write", &path))?;
            captures.push(Capture {
                at: EntityId(at as u32),
                name: capture.name.clone(),
                writer,
                failed: None,
            });
        }
        Ok(Self(captures))
    }

    fn seen(&mut self, now: Instant, at: EntityId, direction: Direction, packet: &Packet) {
        for capture in self.0.iter_mut().filter(|c| c.at == at) {
            if capture.failed.is_some() {
                continue;
            }
            let to_write = ToWrite {
                at: now,
                bytes: &packet.bytes,
                zero_tail: packet.zero_tail,
                cut: 0,
                id: Some(packet.id.0),
                direction: Some(direction),
                comment: None,
            };
            capture.failed = capture.writer.write(0, &to_write).err();
        }
    }

    /// Closes the files.
    pub(crate) fn finish(self) -> Result<(), Error> {
        for capture in self.0 {
            if let Some(error) = capture.failed {
                return Err(output(&capture.name, error.to_string()));
            }
            let file = capture.writer.finish();
            file.map_err(|e| output(&capture.name, e.to_string()))?
                .keep()?;
        }
        Ok(())
    }
}

fn output(capture: &str, why: String) -> Error {
    Error::Output {
        what: format!("the capture `{capture}`"),
        why,
    }
}

impl EventSink for Captures {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Tapped {
                tap,
                forward,
                packet,
            } => {
                let direction = if forward {
                    Direction::Outbound
                } else {
                    Direction::Inbound
                };
                self.seen(now, tap, direction, packet);
            }
            Event::Sent { host, packet } => {
                self.seen(now, host, Direction::Outbound, packet);
            }
            Event::Received { host, packet } => {
                self.seen(now, host, Direction::Inbound, packet);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use narrows_core::PacketId;
    use narrows_scenario::NameTable;
    use narrows_wire::capture::CaptureReader;

    use super::*;
    use crate::scripted::{at, plan};

    fn packet(id: u64) -> Packet {
        Packet {
            id: PacketId(id),
            bytes: vec![0x45; 20],
            zero_tail: 80,
            ..Packet::default()
        }
    }

    /// The packets of a capture: its interface, when, which, and which way.
    fn read(dir: &Path, name: &str) -> Vec<(String, Instant, u64, Direction)> {
        let file = fs::File::open(dir.join(CAPTURES).join(name)).unwrap();
        let mut reader = CaptureReader::new(file).unwrap();
        let mut packets = Vec::new();
        while let Some(record) = reader.read().unwrap() {
            assert_eq!(record.original_len, 100);
            packets.push((
                record.interface_name.to_owned(),
                record.at.unwrap(),
                record.id.unwrap(),
                record.direction.unwrap(),
            ));
        }
        packets
    }

    #[test]
    fn a_capture_has_what_passes_its_place_and_its_name_once_it_is_whole() {
        let (dir, plan) = (tempfile::tempdir().unwrap(), plan());
        let names = NameTable::of(&plan);
        let id = |name: &str| names.id(name).unwrap();
        let (client, server, mid) = (id("host/client"), id("host/server"), id("tap/mid"));
        let mut captures = Captures::create(&plan, names.as_slice(), dir.path()).unwrap();
        let (up, down) = (packet(1), packet(2));
        let sent = |host, packet| Event::Sent { host, packet };
        let received = |host, packet| Event::Received { host, packet };
        let tapped = |forward, packet| Event::Tapped {
            tap: mid,
            packet,
            forward,
        };
        for (ms, event) in [
            (1, sent(client, &up)),
            (11, tapped(true, &up)),
            (12, received(server, &up)),
            (13, sent(server, &down)),
            (14, tapped(false, &down)),
            (24, received(client, &down)),
        ] {
            captures.record(at(ms), event);
        }
        let names = || {
            let entries = fs::read_dir(dir.path().join(CAPTURES)).unwrap();
            let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
            names.collect::<BTreeSet<_>>().into_iter().collect()
        };
        let unfinished: Vec<String> = names();
        assert_eq!(unfinished, ["mid.pcapng.part", "near-end.pcapng.part"]);
        captures.finish().unwrap();
        let finished: Vec<String> = names();
        assert_eq!(finished, ["mid.pcapng", "near-end.pcapng"]);
        let row = |place: &str, ms, id, way| (place.to_owned(), at(ms), id, way);
        assert_eq!(
            read(dir.path(), "near-end.pcapng"),
            [
                row("host/client", 1, 1, Direction::Outbound),
                row("host/client", 24, 2, Direction::Inbound),
            ]
        );
        assert_eq!(
            read(dir.path(), "mid.pcapng"),
            [
                row("tap/mid", 11, 1, Direction::Outbound),
                row("tap/mid", 14, 2, Direction::Inbound),
            ]
        );
    }

    #[test]
    fn captures_that_would_share_a_file_or_have_no_place_are_not_begun() {
        let dir = tempfile::tempdir().unwrap();
        let mut plan = plan();
        let names = NameTable::of(&plan);
        plan.captures[1].name = "-near-end".to_owned();
        let refused = Captures::create(&plan, names.as_slice(), dir.path())
            .err()
            .unwrap();
        let text = refused.to_string();
        assert!(text.contains("near-end.pcapng too"), "{text}");
        let refused = Captures::create(&plan, &[], dir.path()).err().unwrap();
        let text = refused.to_string();
        assert!(text.contains("the run has no host/client"), "{text}");
    }
}
