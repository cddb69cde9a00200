//! Packets of devices as they pass.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{self, SystemTime};

use narrows_capture::{ANY, Block, Capture, CaptureError, Options, device_name, wait};
use narrows_results::Error;
use narrows_units::{Duration, Instant};
use narrows_wire::capture::{Direction, Record};
use narrows_wire::link::LinkType;

use super::points::Observation;

/// How long it may take to notice a request to stop.
const PATIENCE: time::Duration = time::Duration::from_millis(100);
/// Packets are handed over this long after they passed, at the latest.
const LAG: Duration = Duration::from_millis(50);
/// Blocks that are read of one device before the next one has its turn.
const BLOCKS_AT_A_TIME: usize = 16;
/// How long packets that were seen are waited for at the end, in steps of 10 ms.
const LAST_STEPS: u32 = 50;

/// What is watched, and the taps of its packets.
struct Watched {
    capture: Capture,
    /// The tap of the one device, or of what all devices together have lost.
    tap: Option<usize>,
    /// Where all devices are watched, those that have shown packets, and their taps.
    devices: Vec<(u32, usize)>,
}

impl Watched {
    fn of<W: Write>(capture: Capture, watch: &mut Observation<W>) -> Self {
        let tap = (capture.name() != ANY).then(|| watch.tap(capture.name()));
        Self {
            capture,
            tap,
            devices: Vec::new(),
        }
    }

    /// Says how many packets found no room.
    fn count_dropped<W: Write>(&mut self, watch: &mut Observation<W>) -> Result<(), Error> {
        let dropped = self.capture.statistics().map_err(refused)?.dropped;
        if dropped > 0 && self.tap.is_none() {
            self.tap = Some(watch.tap(ANY));
        }
        if let Some(tap) = self.tap {
            watch.dropped(tap, dropped);
        }
        Ok(())
    }

    /// Passes on the packets that came since the last call; whether there were any.
    fn pass_on<W: Write>(&mut self, watch: &mut Observation<W>) -> bool {
        let all = self.capture.name() == ANY;
        let Some(block) = self.capture.block() else {
            return false;
        };
        match self.tap {
            Some(tap) if !all => pass_on(watch, &block, |_, _| tap),
            _ => pass_on(watch, &block, |device, watch| {
                let known = self.devices.iter().find(|(index, _)| *index == device);
                match known {
                    Some((_, tap)) => *tap,
                    None => {
                        let tap = watch.tap(&device_name(device));
                        self.devices.push((device, tap));
                        tap
                    }
                }
            }),
        }
        true
    }
}

impl<W: Write> Observation<W> {
    /// Observes the packets of `devices` until `stop`, until `duration` is over, until
    /// enough was seen, or until one of them is gone, whose name it gives; `promiscuous` also those that
    /// are for other machines. Calls `begun` once all are open.
    ///
    /// # Errors
    /// When a device cannot be watched.
    pub fn watch(
        &mut self,
        devices: &[String],
        promiscuous: bool,
        duration: Option<Duration>,
        stop: &AtomicBool,
        begun: impl FnOnce(),
    ) -> Result<Option<String>, Error> {
        let options = Options { promiscuous };
        let opened = devices.iter().map(|n| Capture::open(n, &options));
        let captures = opened.collect::<Result<Vec<_>, _>>().map_err(refused)?;
        let captures = captures.into_iter().map(|c| Watched::of(c, self));
        let captures = captures.collect();
        let end = duration.map(|d| time::Instant::now() + time::Duration::from_nanos(d.as_nanos()));
        begun();
        watch(captures, self, end, stop)
    }
}

fn watch<W: Write>(
    mut captures: Vec<Watched>,
    watch: &mut Observation<W>,
    end: Option<time::Instant>,
    stop: &AtomicBool,
) -> Result<Option<String>, Error> {
    let over = |watch: &Observation<W>| {
        watch.is_over()
            || stop.load(Ordering::Relaxed)
            || end.is_some_and(|end| time::Instant::now() >= end)
    };
    let wrong = |source| Error::Engine(format!("packets could not be waited for: {source}"));
    let mut gone = None;
    while gone.is_none() && !over(watch) {
        let left = end.map(|end| end.saturating_duration_since(time::Instant::now()));
        let patience = left.map_or(PATIENCE, |l| l.min(PATIENCE));
        let waited = wait(captures.iter().map(|w| &w.capture), patience);
        gone = waited.map_err(wrong)?.map(str::to_owned);
        for watched in &mut captures {
            for _ in 0..BLOCKS_AT_A_TIME {
                if !watched.pass_on(watch) {
                    break;
                }
            }
            watched.count_dropped(watch)?;
        }
        watch.passes(before(SystemTime::now(), LAG));
        watch.draw();
    }
    for watched in &captures {
        watched.capture.stop().map_err(refused)?;
    }
    for watched in &mut captures {
        for _ in 0..LAST_STEPS {
            while watched.pass_on(watch) {}
            if watch.is_over() || watched.capture.is_drained().map_err(refused)? {
                break;
            }
            std::thread::sleep(time::Duration::from_millis(10));
        }
        watched.count_dropped(watch)?;
    }
    Ok(gone)
}

/// Passes on every packet of a block, each at the tap of its device.
fn pass_on<W: Write>(
    watch: &mut Observation<W>,
    block: &Block<'_>,
    mut tap_of: impl FnMut(u32, &mut Observation<W>) -> usize,
) {
    for frame in block.frames() {
        if watch.is_over() {
            break;
        }
        let tap = tap_of(frame.device, watch);
        let bytes = frame.packet.unwrap_or_default();
        let record = Record {
            interface: 0,
            interface_name: "",
            at: Some(frame.at),
            original_len: frame.cut.saturating_add(bytes.len() as u32),
            bytes,
            link: LinkType::RAW,
            id: None,
            direction: Some(match frame.outgoing {
                true => Direction::Outbound,
                false => Direction::Inbound,
            }),
            comment: None,
        };
        watch.packet(tap, &record, frame.vlan);
    }
}

/// A device that cannot be watched is refused before anything is written.
fn refused(error: CaptureError) -> Error {
    match error {
        CaptureError::NoPermission(_) => Error::NoPermission(error.to_string()),
        error => Error::Refused(error.to_string()),
    }
}

fn before(now: SystemTime, lag: Duration) -> Instant {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since.map_or(0, |d| d.as_nanos() as u64);
    Instant::from_nanos(nanos.saturating_sub(lag.as_nanos()))
}
