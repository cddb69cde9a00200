//! A path that changes nothing and keeps a copy of every packet.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use narrows_wire::{FlowKey, Ip, ip};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::Namespace;

/// A TCP packet as it was on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    pub flow: FlowKey,
    /// Whether the client sent it.
    pub forth: bool,
    /// The three usable bits of byte 12, and AE below them.
    pub bits: u8,
    /// Byte 13.
    pub flags: u8,
    pub payload: usize,
    /// Whether the checksum over pseudo-header, header and payload is right.
    pub sound: bool,
}

impl Passed {
    fn of(bytes: &[u8], forth: bool) -> Option<Self> {
        let header = Ip::parse(bytes).ok()?;
        if header.protocol != ip::TCP {
            return None;
        }
        let tcp = bytes.get(header.header_len..header.total_len)?;
        Some(Self {
            flow: FlowKey::of(bytes)?,
            forth,
            bits: tcp[12] & 0x0f,
            flags: tcp[13],
            payload: tcp.len() - usize::from(tcp[12] >> 4) * 4,
            sound: checksum(bytes, tcp) == 0xffff,
        })
    }

    pub fn is_syn(&self) -> bool {
        self.flags & 2 != 0
    }
}

/// The sum that RFC 9293 §3.1 wants to be all ones, worked out here so that it
/// does not rest on the code under test.
fn checksum(packet: &[u8], tcp: &[u8]) -> u16 {
    let addresses = match packet[0] >> 4 {
        4 => &packet[12..20],
        _ => &packet[8..40],
    };
    let mut sum = 6 + tcp.len() as u64;
    for part in [addresses, tcp] {
        for pair in part.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u64::from(u16::from_be_bytes([pair[0], low]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Two hosts with a TUN device `tun0` each, 10.9.0.1 and 10.9.0.2 (fd09::1 and
/// fd09::2), and the path between them.
pub struct Wire {
    pub client: Namespace,
    pub server: Namespace,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Passed>>>,
}

impl Wire {
    /// Each packet takes `delay` in either direction.
    pub fn start(delay: Duration) -> Result<Self, String> {
        let client = Namespace::new()?;
        let server = Namespace::new()?;
        let near = client.tun(1)?;
        let far = server.tun(2)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || carry(delay, &near, &far, &stopped));
        Ok(Self {
            client,
            server,
            stop,
            thread: Some(thread),
        })
    }

    /// One segment in each packet that hands to the device.
    pub fn one_segment(&self) {
        for host in [&self.client, &self.server] {
            host.ip("link set tun0 gso_max_segs 1")
                .expect("a device takes gso_max_segs");
        }
    }

    /// Ends the path and says what passed.
    pub fn stop(mut self) -> Vec<Passed> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("the path runs once");
        thread.join().expect("the path ended well")
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn carry(delay: Duration, near: &OwnedFd, far: &OwnedFd, stop: &AtomicBool) -> Vec<Passed> {
    let mut passed = Vec::new();
    let mut queue = VecDeque::<(Instant, bool, Vec<u8>)>::new();
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        while queue.front().is_some_and(|(due, _, _)| *due <= now) {
            let (_, forth, bytes) = queue.pop_front().expect("it is there");
            // A device that is gone loses what it is given.
            let _ = nix::unistd::write(if forth { far } else { near }, &bytes);
        }
        let wait = queue
            .front()
            .map_or(Duration::from_millis(20), |(due, _, _)| {
                due.saturating_duration_since(Instant::now())
            });
        let mut fds = [near, far].map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None);
        let ready = fds.map(|fd| fd.any().unwrap_or(false));
        for (ready, fd, forth) in [(ready[0], near, true), (ready[1], far, false)] {
            if !ready {
                continue;
            }
            let n = nix::unistd::read(fd, &mut buffer).unwrap_or(0);
            passed.extend(Passed::of(&buffer[..n], forth));
            queue.push_back((Instant::now() + delay, forth, buffer[..n].to_vec()));
        }
    }
    passed
}
