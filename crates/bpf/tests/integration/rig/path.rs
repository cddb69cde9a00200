//! A bottleneck in one direction and a delay in both.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::Namespace;

/// What stands between client and server.
#[derive(Clone, Debug)]
pub struct Path {
    /// Bits per second from client to server.
    pub rate: u64,
    /// One way.
    pub delay: Duration,
    /// Most waiting time in the bottleneck's queue.
    pub queue: Duration,
    /// Packets that can be marked are, if they would wait longer.
    pub mark: Option<Duration>,
    /// Data packets from client to server that are lost, counted from 1.
    pub lose: Vec<u64>,
    /// From this data packet on nothing passes for so long.
    pub holes: Vec<(u64, Duration)>,
    /// From this data packet on everything waits for so long.
    pub stalls: Vec<(u64, Duration)>,
    /// This data packet comes so much later than its turn.
    pub late: Vec<(u64, Duration)>,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            rate: 20_000_000,
            delay: Duration::from_millis(5),
            queue: Duration::from_millis(50),
            mark: None,
            lose: Vec::new(),
            holes: Vec::new(),
            stalls: Vec::new(),
            late: Vec::new(),
        }
    }
}

/// What passed from client to server.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Packets with payload by ECN field as it came in: not-ECT, ECT(1),
    /// ECT(0), CE.
    pub data: [u64; 4],
    /// The same of packets without payload, handshake apart.
    pub acks: [u64; 4],
    /// The ECN field of each SYN.
    pub syn: Vec<u8>,
    /// The TCP flags of each SYN, AE as bit 8.
    pub syn_flags: Vec<u16>,
    /// Packets marked on the way.
    pub marked: u64,
    /// Packets lost on the way.
    pub lost: u64,
    /// Packets from the server, and those with the flag ECE of these.
    pub back: u64,
    /// See `back`.
    pub back_ece: u64,
}

/// The two hosts and the path.
pub struct Rig {
    pub client: Namespace,
    pub server: Namespace,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

impl Rig {
    /// Builds hosts and path.
    pub fn start(path: Path) -> Result<Self, String> {
        let client = Namespace::new()?;
        let server = Namespace::new()?;
        let near = client.tun(1)?;
        let far = server.tun(2)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || relay(&path, &near, &far, &stopped));
        Ok(Self {
            client,
            server,
            stop,
            thread: Some(thread),
        })
    }

    /// Ends the path and says what passed.
    pub fn stop(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("the path runs once");
        thread.join().expect("the path ended well")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Packet {
    due: Instant,
    bytes: Vec<u8>,
}

fn relay(path: &Path, near: &OwnedFd, far: &OwnedFd, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let (mut forth, mut back) = (VecDeque::<Packet>::new(), VecDeque::<Packet>::new());
    let mut late = VecDeque::<Packet>::new();
    let mut free = Instant::now();
    let (mut hole, mut stall) = (free, free);
    let mut data = 0;
    let mut buffer = [0; 2000];
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        for (queue, to) in [(&mut late, far), (&mut forth, far), (&mut back, near)] {
            while queue.front().is_some_and(|p| p.due <= now) {
                let packet = queue.pop_front().expect("it is there");
                // A device that is gone loses what it is given.
                let _ = nix::unistd::write(to, &packet.bytes);
            }
        }
        let due = [late.front(), forth.front(), back.front()];
        let due = due.into_iter().flatten().map(|p| p.due).min();
        let wait = due.map_or(Duration::from_millis(20), |d| {
            d.saturating_duration_since(Instant::now())
        });
        let mut fds = [near, far].map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None);
        let ready = fds.map(|fd| fd.any().unwrap_or(false));
        if ready[0] {
            let n = nix::unistd::read(near, &mut buffer).unwrap_or(0);
            let now = Instant::now();
            let mut bytes = buffer[..n].to_vec();
            let Some(packet) = TcpPacket::at(&bytes) else {
                continue;
            };
            packet.count(&mut seen);
            data += u64::from(packet.payload > 0);
            if packet.payload > 0 {
                let span = |list: &[(u64, Duration)]| {
                    let found = list.iter().find(|h| h.0 == data);
                    found.map(|h| now + h.1)
                };
                hole = span(&path.holes).unwrap_or(hole);
                stall = span(&path.stalls).unwrap_or(stall);
            }
            let lost = packet.payload > 0 && path.lose.contains(&data);
            let waits = free.saturating_duration_since(now);
            if now < hole || lost || waits > path.queue {
                seen.lost += 1;
                continue;
            }
            if path.mark.is_some_and(|mark| waits > mark) && packet.ecn != 0 {
                seen.marked += 1;
                set_ce(&mut bytes);
            }
            let nanos = bytes.len() as u64 * 8 * 1_000_000_000 / path.rate;
            free = free.max(now).max(stall) + Duration::from_nanos(nanos);
            let mut due = free + path.delay;
            let mut queue = &mut forth;
            if let Some((_, more)) = path.late.iter().find(|l| packet.payload > 0 && l.0 == data) {
                due += *more;
                queue = &mut late;
            }
            queue.push_back(Packet { due, bytes });
        }
        if ready[1] {
            let n = nix::unistd::read(far, &mut buffer).unwrap_or(0);
            let now = Instant::now();
            if let Some(packet) = TcpPacket::at(&buffer[..n]) {
                seen.back += 1;
                seen.back_ece += u64::from(packet.flags & 0x40 != 0);
            }
            if now >= hole {
                back.push_back(Packet {
                    due: now + path.delay,
                    bytes: buffer[..n].to_vec(),
                });
            }
        }
    }
    seen
}

/// The fields of a TCP packet that tests check.
pub struct TcpPacket {
    pub ecn: u8,
    pub flags: u16,
    pub payload: usize,
    pub to_port: u16,
}

impl TcpPacket {
    pub fn at(bytes: &[u8]) -> Option<Self> {
        let (ecn, header, protocol) = match bytes.first()? >> 4 {
            4 => (bytes[1] & 3, usize::from(bytes[0] & 15) * 4, bytes[9]),
            6 => (bytes[1] >> 4 & 3, 40, bytes[6]),
            _ => return None,
        };
        if protocol != 6 {
            return None;
        }
        let tcp = bytes.get(header..)?;
        let flags = u16::from_be_bytes([tcp[12], tcp[13]]);
        Some(Self {
            ecn,
            flags: flags & 0x1ff,
            to_port: u16::from_be_bytes([tcp[2], tcp[3]]),
            payload: tcp.len() - usize::from(flags >> 12) * 4,
        })
    }

    fn count(&self, seen: &mut Seen) {
        if self.flags & 2 != 0 {
            seen.syn.push(self.ecn);
            seen.syn_flags.push(self.flags);
        } else if self.payload > 0 {
            seen.data[usize::from(self.ecn)] += 1;
        } else {
            seen.acks[usize::from(self.ecn)] += 1;
        }
    }
}

/// Sets CE, and corrects the header's checksum (RFC 1624).
fn set_ce(bytes: &mut [u8]) {
    if bytes[0] >> 4 == 6 {
        bytes[1] |= 0x30;
        return;
    }
    let old = u16::from_be_bytes([bytes[0], bytes[1]]);
    bytes[1] |= 3;
    let new = u16::from_be_bytes([bytes[0], bytes[1]]);
    let sum = u16::from_be_bytes([bytes[10], bytes[11]]);
    let mut sum = u32::from(!sum) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
