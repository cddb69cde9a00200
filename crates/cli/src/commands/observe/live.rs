//! Packets of devices as they pass.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{self, SystemTime};

use narrows_capture::{Block, Capture, CaptureError, Options, SNAPLEN, wait};
use narrows_lab::LabError;
use narrows_units::{Duration, Instant};
use narrows_wire::capture::{Direction, Interface, PcapngWriter, ToWrite};
use narrows_wire::link::LinkType;

use super::read::Takes;
use super::watch::Watch;
use crate::args::Observe;

/// How long it may take to notice that somebody wants to stop.
const PATIENCE: time::Duration = time::Duration::from_millis(100);
/// Packets are handed over this long after they passed, at the latest.
const LAG: Duration = Duration::from_millis(50);
/// Blocks that are read of one device before the next one has its turn.
const BLOCKS_AT_A_TIME: usize = 16;
/// How long packets that were seen are waited for at the end, in steps of 10 ms.
const LAST_STEPS: u32 = 50;

/// The capture that is written while devices are watched.
struct Written {
    writer: PcapngWriter<BufWriter<File>>,
    /// The number of each device in it.
    interfaces: Vec<usize>,
}

/// Observes the packets of devices until `stop`, until `duration` is over, or
/// until enough was seen.
///
/// # Errors
/// When a device cannot be watched, or goes away.
pub fn watch<W: Write>(
    args: &Observe,
    watch: &mut Watch<W>,
    duration: Option<Duration>,
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let options = Options {
        promiscuous: args.promiscuous,
    };
    let opened = args.interfaces.iter().map(|n| Capture::open(n, &options));
    let mut captures = opened.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let taps: Vec<_> = captures.iter().map(|c| watch.tap(c.name())).collect();
    let file = args.write.as_deref();
    let mut file = file.map(|path| create(path, &captures)).transpose()?;
    let began = time::Instant::now();
    let end = duration.map(|d| began + time::Duration::from_nanos(d.as_nanos()));
    if !args.top {
        let until = duration.map_or("until Ctrl-C".to_owned(), |d| format!("for {d}"));
        eprintln!("narrows: observing {}, {until}", args.interfaces.join(", "));
    }
    let over = |watch: &Watch<W>| {
        watch.is_over()
            || stop.load(Ordering::Relaxed)
            || end.is_some_and(|end| time::Instant::now() >= end)
    };
    let wrong = |source| LabError::Engine(format!("packets could not be waited for: {source}"));
    while !over(watch) {
        let left = end.map(|end| end.saturating_duration_since(time::Instant::now()));
        wait(&captures, left.map_or(PATIENCE, |l| l.min(PATIENCE))).map_err(wrong)?;
        for (at, capture) in captures.iter_mut().enumerate() {
            for _ in 0..BLOCKS_AT_A_TIME {
                let Some(block) = capture.block() else { break };
                tell(watch, taps[at], &block, at, file.as_mut())?;
            }
            let statistics = capture.statistics().map_err(refused)?;
            watch.dropped(taps[at], statistics.dropped);
        }
        watch.passes(before(SystemTime::now(), LAG));
        watch.draw();
    }
    for capture in &captures {
        capture.stop().map_err(refused)?;
    }
    for (at, capture) in captures.iter_mut().enumerate() {
        for _ in 0..LAST_STEPS {
            while let Some(block) = capture.block() {
                tell(watch, taps[at], &block, at, file.as_mut())?;
            }
            if watch.is_over() || capture.is_drained().map_err(refused)? {
                break;
            }
            std::thread::sleep(time::Duration::from_millis(10));
        }
        watch.dropped(taps[at], capture.statistics().map_err(refused)?.dropped);
    }
    if let Some(Written { writer, .. }) = file {
        let ended = writer.finish().and_then(|mut out| out.flush());
        ended.map_err(|source| unwritten(args.write.as_deref(), source))?;
    }
    Ok(())
}

/// Tells of every packet of a block.
fn tell<W: Write>(
    watch: &mut Watch<W>,
    tap: usize,
    block: &Block<'_>,
    device: usize,
    mut file: Option<&mut Written>,
) -> Result<(), LabError> {
    for frame in block.frames() {
        if watch.is_over() {
            break;
        }
        let taken = watch.packet(tap, frame.packet, Some(frame.at), None);
        let (Some(file), Some(bytes), true) = (file.as_deref_mut(), frame.packet, taken) else {
            continue;
        };
        let packet = ToWrite {
            at: frame.at,
            bytes,
            zero_tail: frame.original_len.saturating_sub(bytes.len() as u32),
            id: None,
            direction: Some(if frame.outgoing {
                Direction::Outbound
            } else {
                Direction::Inbound
            }),
            comment: None,
        };
        let written = file.writer.write(file.interfaces[device], &packet);
        written.map_err(|source| unwritten(None, source))?;
    }
    Ok(())
}

fn create(path: &Path, captures: &[Capture]) -> Result<Written, LabError> {
    let made = || -> io::Result<Written> {
        let out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        let mut writer = PcapngWriter::new(out, concat!("narrows ", env!("CARGO_PKG_VERSION")))?;
        let interfaces = captures.iter().map(|capture| {
            writer.add_interface(&Interface {
                name: capture.name().to_owned(),
                link: LinkType::RAW,
                snaplen: SNAPLEN,
            })
        });
        let interfaces = interfaces.collect::<io::Result<_>>()?;
        Ok(Written { writer, interfaces })
    };
    made().map_err(|source| unwritten(Some(path), source))
}

fn unwritten(path: Option<&Path>, source: io::Error) -> LabError {
    LabError::Io {
        verb: "write",
        path: path.unwrap_or(Path::new("the capture")).to_path_buf(),
        source,
    }
}

/// A device that cannot be watched is refused before anything is written.
fn refused(error: CaptureError) -> LabError {
    LabError::Refused(error.to_string())
}

fn before(now: SystemTime, lag: Duration) -> Instant {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since.map_or(0, |d| d.as_nanos() as u64);
    Instant::from_nanos(nanos.saturating_sub(lag.as_nanos()))
}
