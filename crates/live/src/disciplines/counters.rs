//! What queueing disciplines have counted over the steady window.
//!
//! The kernel counts packets, bytes and drops of each discipline, and some
//! count their marks. How long packets waited it does not report.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use narrows_linux::netlink::attribute;
use narrows_linux::{Clock, Namespace};
use narrows_scenario::Window;
use narrows_units::Instant;

use crate::LiveError;

/// Where the disciplines of an element are.
#[derive(Clone, Debug)]
pub(crate) struct KernelQueue {
    /// The element's full name.
    pub element: String,
    /// Its disciplines as tc calls them, the outer one first.
    pub kinds: Vec<&'static str>,
    /// The namespace and the index of the device that they are on.
    pub namespace: Namespace,
    pub device: u32,
}

/// What the disciplines of an element counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets that left.
    pub packets: u64,
    /// Their bytes, the Ethernet header included.
    pub bytes: u64,
    /// Packets that were dropped, for whatever reason.
    pub drops: u64,
    /// Packets that were marked CE, where the discipline counts them.
    pub marks: Option<u64>,
}

impl Counted {
    /// What was counted since `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(before.packets),
            bytes: self.bytes.saturating_sub(before.bytes),
            drops: self.drops.saturating_sub(before.drops),
            marks: self.marks.map(|m| m - before.marks.unwrap_or(0).min(m)),
        }
    }
}

impl KernelQueue {
    /// What has been counted by now.
    pub(crate) fn read(&self) -> Result<Counted, LiveError> {
        let mut counted = Counted::default();
        for message in self.namespace.queues()? {
            let Some(stats) = QdiscStats::of(&message).filter(|t| t.device == self.device) else {
                continue;
            };
            if stats.is_root {
                counted.packets = stats.packets;
                counted.bytes = stats.bytes;
                counted.drops = stats.drops;
            }
            if let Some(marks) = stats.marks {
                *counted.marks.get_or_insert(0) += marks;
            }
        }
        Ok(counted)
    }
}

/// A thread that reads the counters at both ends of a window.
pub(crate) struct Watching {
    stop: Option<Sender<()>>,
    reader: Option<JoinHandle<Result<Vec<Counted>, LiveError>>>,
}

impl Watching {
    /// Starts it over `places`; nothing where there are none.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        places: Vec<KernelQueue>,
        clock: Clock,
        window: Window,
    ) -> Result<Self, LiveError> {
        if places.is_empty() {
            return Ok(Self {
                stop: None,
                reader: None,
            });
        }
        let (stop, stopped) = channel::<()>();
        let wait = move |at: Instant| {
            let left = clock.until_epoch() + at.since(clock.now());
            let left = std::time::Duration::from_nanos(left.as_nanos());
            matches!(stopped.recv_timeout(left), Err(RecvTimeoutError::Timeout))
        };
        let work = move || {
            let all = || {
                places
                    .iter()
                    .map(KernelQueue::read)
                    .collect::<Result<Vec<_>, _>>()
            };
            wait(window.from);
            let before = all()?;
            wait(window.to);
            let pairs = all()?;
            Ok(pairs
                .iter()
                .zip(&before)
                .map(|(now, before)| now.since(before))
                .collect())
        };
        let thread = std::thread::Builder::new().name("disciplines".to_owned());
        let reader = thread
            .spawn(work)
            .map_err(|e| LiveError::refused("reading queueing disciplines: a thread", e))?;
        Ok(Self {
            stop: Some(stop),
            reader: Some(reader),
        })
    }

    /// Ends it: what was counted at each place, in their order.
    ///
    /// # Errors
    /// When the kernel did not answer.
    pub fn stop(mut self) -> Result<Vec<Counted>, LiveError> {
        self.stop = None;
        let ended = self.reader.take().map(JoinHandle::join);
        match ended {
            None => Ok(Vec::new()),
            Some(Ok(counted)) => counted,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// A discipline's counters, as the kernel reports them.
struct QdiscStats {
    device: u32,
    is_root: bool,
    packets: u64,
    bytes: u64,
    drops: u64,
    marks: Option<u64>,
}

impl QdiscStats {
    /// Reads a `tcmsg` (linux/rtnetlink.h: family and padding, then index,
    /// handle, parent and info of 32 bits each) and its attributes: TCA_KIND 1,
    /// TCA_STATS2 7, in which TCA_STATS_BASIC 1 (bytes of 64 bits, packets of
    /// 32), TCA_STATS_QUEUE 3 (length, backlog, drops, …), TCA_STATS_APP 4 and
    /// TCA_STATS_PKT64 8.
    fn of(message: &[u8]) -> Option<Self> {
        const HEADER: usize = 20;
        const ROOT: u32 = u32::MAX;
        let attributes = message.get(HEADER..)?;
        let kind = attribute(attributes, 1)?;
        let kind = std::str::from_utf8(kind).ok()?.trim_end_matches('\0');
        let counters = attribute(attributes, 7)?;
        let basic = attribute(counters, 1)?;
        let queue = attribute(counters, 3)?;
        let app = attribute(counters, 4).unwrap_or_default();
        Some(Self {
            device: word(message, 4)?,
            is_root: word(message, 12)? == ROOT,
            bytes: long(basic, 0)?,
            packets: attribute(counters, 8)
                .and_then(|all| long(all, 0))
                .or(word(basic, 8).map(u64::from))?,
            drops: word(queue, 8)?.into(),
            marks: match kind {
                "cake" => cake_marks(app),
                _ => marks_at(kind).and_then(|at| word(app, at)).map(u64::from),
            },
        })
    }
}

/// Where a discipline's own counters have the packets that it marked
/// (linux/pkt_sched.h: struct tc_fq_codel_xstats, tc_codel_xstats,
/// tc_pie_xstats, tc_red_xstats, tc_dualpi2_xstats, tc_fq_pie_xstats).
fn marks_at(kind: &str) -> Option<usize> {
    match kind {
        "fq_codel" | "red" => Some(12),
        "codel" | "dualpi2" => Some(24),
        "pie" => Some(36),
        "fq_pie" => Some(16),
        _ => None,
    }
}

/// What all tins of cake have marked: TCA_CAKE_STATS_TIN_STATS 10, in which each tin is an
/// attribute with TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS 8 in it.
fn cake_marks(app: &[u8]) -> Option<u64> {
    let tins = attribute(app, 10)?;
    let each = (1..=MOST_TINS).map_while(|tin| attribute(tins, tin));
    Some(
        each.filter_map(|tin| word(attribute(tin, 8)?, 0))
            .map(u64::from)
            .sum(),
    )
}

/// Tins of cake at most (`CAKE_MAX_TINS`, net/sched/sch_cake.c), which count from 1.
const MOST_TINS: u16 = 8;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|b| u32::from_ne_bytes(*b))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|b| u64::from_ne_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: &str, app: &[u32]) -> Vec<u8> {
        let words = |all: &[u32]| {
            all.iter()
                .flat_map(|w| w.to_ne_bytes())
                .collect::<Vec<u8>>()
        };
        let basic = [&7_000_000_000u64.to_ne_bytes()[..], &5u32.to_ne_bytes()].concat();
        let counters = [
            attribute(1, &basic),
            attribute(3, &words(&[1, 1514, 9, 0, 0])),
            attribute(4, &words(app)),
        ]
        .concat();
        let mut message = words(&[0, 3, 0x10000, u32::MAX, 2]);
        message.extend(attribute(1, format!("{kind}\0").as_bytes()));
        message.extend(attribute(7 | 0x8000, &counters));
        message
    }

    #[test]
    fn counters_are_read_where_the_kernel_has_them() {
        let read = QdiscStats::of(&message("fq_codel", &[0, 1514, 0, 42])).unwrap();
        assert_eq!((read.device, read.is_root), (3, true));
        assert_eq!((read.bytes, read.packets), (7_000_000_000, 5));
        assert_eq!((read.drops, read.marks), (9, Some(42)));
        assert_eq!(QdiscStats::of(&message("pfifo", &[])).unwrap().marks, None);
    }

    #[test]
    fn marks_of_cake_are_those_of_all_its_tins() {
        let tin = |marks: u32| attribute(8, &marks.to_ne_bytes());
        let tins = [attribute(1, &tin(5)), attribute(2, &tin(37))].concat();
        let app = [attribute(2, &[0; 4]), attribute(10, &tins)].concat();
        assert_eq!(cake_marks(&app), Some(42));
        assert_eq!(cake_marks(&app[..8]), None);
    }

    #[test]
    fn what_is_cut_off_is_no_discipline() {
        let whole = message("codel", &[0; 9]);
        for length in 0..60 {
            assert!(QdiscStats::of(&whole[..length]).is_none(), "{length}");
        }
    }
}
