//! Sockets by netlink: `NETLINK_SOCK_DIAG` (sock_diag(7)).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use narrows_packet::TcpInfo;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::tcp_info::parse_tcp_info;

/// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` and `NLM_F_DUMP` (linux/netlink.h).
const REQUEST_ONE: u16 = 0x001;
const DUMP: u16 = 0x100 | 0x200;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `struct inet_diag_req_v2` and of the `struct inet_diag_sockid` at
/// its end (linux/inet_diag.h).
const REQUEST: usize = 56;
const SOCKET_ID: usize = 48;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// Extensions asked for, as bit (number − 1) of `idiag_ext`: `INET_DIAG_INFO`
/// 2, `INET_DIAG_VEGASINFO` 3, `INET_DIAG_CONG` 4, `INET_DIAG_SKMEMINFO` 7.
const EXTENSIONS: u8 = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6;
const ATTRIBUTE_INFO: u16 = 2;
const ATTRIBUTE_VEGASINFO: u16 = 3;
const ATTRIBUTE_CONG: u16 = 4;
const ATTRIBUTE_SKMEMINFO: u16 = 7;
/// Sockets that have data to send or to get: bit by number of the state,
/// ESTABLISHED 1, SYN_SENT 2, FIN_WAIT1 4, CLOSE_WAIT 8, LAST_ACK 9,
/// CLOSING 11.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;
/// Bytes read at once: more than the kernel puts into one answer (32 KiB).
const READ: usize = 64 << 10;
/// How long an answer may take, in milliseconds: the kernel answers at once,
/// and a sampler must not outlive its run.
const PATIENCE_MS: i64 = 500;

/// One TCP socket, as the kernel showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagSocket {
    /// Its own address.
    pub local: SocketAddr,
    /// Its peer's.
    pub remote: SocketAddr,
    /// `struct tcp_info`.
    pub info: TcpInfo,
    /// Its congestion control, by the kernel's name.
    pub congestion_control: String,
    /// The answer to `INET_DIAG_VEGASINFO` (or what the congestion control
    /// gives in its place): the control's own figures; empty if it has none.
    pub control_info: Vec<u8>,
    /// Bytes of memory that the socket's unacknowledged data takes
    /// (`SK_MEMINFO_WMEM_QUEUED`), if known.
    pub send_memory: Option<u32>,
    /// Bytes of memory that its received data takes (`SK_MEMINFO_RMEM_ALLOC`),
    /// if known.
    pub receive_memory: Option<u32>,
}

/// A netlink socket that lists the TCP sockets of the namespace that it was
/// opened in.
#[derive(Debug)]
pub struct Diag {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens it in the namespace of the calling thread.
    ///
    /// # Errors
    /// If the kernel has no `NETLINK_SOCK_DIAG`.
    pub fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        setsockopt(
            &socket,
            sockopt::ReceiveTimeout,
            &TimeVal::milliseconds(PATIENCE_MS),
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; READ],
        })
    }

    /// All connected TCP sockets over IPv4 and IPv6. The kernel walks through
    /// its whole table of connections for it, which all namespaces share: half
    /// a millisecond of one processor for each family where it has 262,144
    /// buckets.
    ///
    /// # Errors
    /// If the kernel refuses, or does not answer in time.
    pub fn tcp_sockets(&mut self) -> io::Result<Vec<DiagSocket>> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            self.ask(DUMP, family as u8, &[0; SOCKET_ID], &mut found)?;
        }
        Ok(found)
    }

    /// The connected TCP socket with these addresses, if there is one: a few
    /// microseconds.
    ///
    /// # Errors
    /// If the kernel refuses, or does not answer in time.
    pub fn tcp_socket(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<DiagSocket>> {
        let family = match local {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let mut found = Vec::new();
        match self.ask(0, family as u8, &socket_id(local, remote), &mut found) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
            // Where there is no connection the kernel shows who listens.
            Ok(()) => Ok(found.pop().filter(|s| STATES >> s.info.state & 1 == 1)),
        }
    }

    /// Asks for one socket or, with [`DUMP`], for all.
    fn ask(
        &mut self,
        flags: u16,
        family: u8,
        id: &[u8; SOCKET_ID],
        found: &mut Vec<DiagSocket>,
    ) -> io::Result<()> {
        self.sequence += 1;
        let request = request(flags, family, id, self.sequence);
        send(self.socket.as_raw_fd(), &request, MsgFlags::empty())?;
        loop {
            let len = match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            for (kind, sequence, body) in Messages(&self.buffer[..len]) {
                if sequence != self.sequence {
                    continue; // Left over from a dump that was given up.
                }
                match kind {
                    DONE => return Ok(()),
                    ERROR => return Err(error(body)),
                    BY_FAMILY => {
                        found.extend(parse(body));
                        if flags != DUMP {
                            return Ok(()); // No `DONE` follows one socket.
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

/// What `NLMSG_ERROR` carries: a negated errno.
fn error(body: &[u8]) -> io::Error {
    let code = body.first_chunk().map_or(0, |b| i32::from_ne_bytes(*b));
    io::Error::from_raw_os_error(code.saturating_neg())
}

/// `struct inet_diag_sockid`: both ports and addresses, any device, and
/// `INET_DIAG_NOCOOKIE`.
fn socket_id(local: SocketAddr, remote: SocketAddr) -> [u8; SOCKET_ID] {
    let mut id = [0; SOCKET_ID];
    id[..2].copy_from_slice(&local.port().to_be_bytes());
    id[2..4].copy_from_slice(&remote.port().to_be_bytes());
    for (at, end) in [(4, local), (20, remote)] {
        match end.ip() {
            IpAddr::V4(ip) => id[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => id[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    id[40..].fill(0xff);
    id
}

fn request(flags: u16, family: u8, id: &[u8; SOCKET_ID], sequence: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend((REQUEST_ONE | flags).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    // sdiag_family, sdiag_protocol (IPPROTO_TCP), idiag_ext, pad, states.
    bytes.extend([family, 6, EXTENSIONS, 0]);
    bytes.extend(STATES.to_ne_bytes());
    bytes.extend(id);
    bytes
}

/// The messages of one read: kind, sequence number and what follows the header.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u16, u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header: &[u8; HEADER] = self.0.first_chunk()?;
        let len = u32::from_ne_bytes(*header.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let sequence = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]);
        let body = self.0.get(HEADER..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, sequence, body))
    }
}

/// The attributes of a message: kind and value.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header: &[u8; 4] = self.0.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]);
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// Reads one `inet_diag_msg`; `None` if it is cut short or has no `tcp_info`.
fn parse(body: &[u8]) -> Option<DiagSocket> {
    let message: &[u8; MESSAGE] = body.first_chunk()?;
    let port = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let (local, remote) = (
        SocketAddr::new(address(message[0], &message[8..24])?, port(4)),
        SocketAddr::new(address(message[0], &message[24..40])?, port(6)),
    );
    let mut info = None;
    let (mut congestion_control, mut control_info) = (String::new(), Vec::new());
    let (mut send_memory, mut receive_memory) = (None, None);
    for (kind, value) in Attributes(&body[MESSAGE..]) {
        match kind {
            ATTRIBUTE_INFO => info = parse_tcp_info(value),
            ATTRIBUTE_CONG => {
                let name = value.split(|b| *b == 0).next().unwrap_or_default();
                congestion_control = String::from_utf8_lossy(name).into_owned();
            }
            ATTRIBUTE_SKMEMINFO => {
                // SK_MEMINFO_RMEM_ALLOC is word 0, SK_MEMINFO_WMEM_QUEUED 5.
                let word = |n: usize| {
                    let bytes = value.get(4 * n..)?.first_chunk()?;
                    Some(u32::from_ne_bytes(*bytes))
                };
                (receive_memory, send_memory) = (word(0), word(5));
            }
            // The kernel numbers what its controls give as VEGASINFO or as one
            // of the numbers behind it (DCTCPINFO 9, BBRINFO 16).
            ATTRIBUTE_VEGASINFO | 9 | 16 => control_info = value.to_vec(),
            _ => {}
        }
    }
    Some(DiagSocket {
        local,
        remote,
        info: info?,
        congestion_control,
        control_info,
        send_memory,
        receive_memory,
    })
}

/// An address of `struct inet_diag_sockid`. A socket of family IPv6 may speak
/// IPv4 with a mapped address, as programs that listen on both do.
fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    if i32::from(family) == AddressFamily::Inet as i32 {
        return Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into());
    }
    Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_of_a_connection_are_found_with_their_control() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let sockets = match Diag::open().and_then(|mut d| d.tcp_sockets()) {
            Ok(sockets) => sockets,
            Err(e) => {
                eprintln!("skipped: sample::diag: this machine has no sock_diag: {e}");
                return;
            }
        };
        for end in [&near, &far] {
            let local = end.local_addr().unwrap();
            let found = sockets.iter().find(|s| s.local == local).unwrap();
            assert_eq!(found.remote, end.peer_addr().unwrap());
            assert_eq!(found.info.state, 1, "ESTABLISHED");
            assert!(found.info.snd_cwnd > 0 && found.info.snd_mss > 0);
            assert!(!found.congestion_control.is_empty());
            assert!(found.receive_memory.is_some() && found.send_memory.is_some());
            let mut diag = Diag::open().unwrap();
            let alone = diag.tcp_socket(local, found.remote).unwrap().unwrap();
            assert_eq!((alone.local, alone.remote), (local, found.remote));
            assert_eq!(alone.congestion_control, found.congestion_control);
            // Only a listener is there for it, and for the last nobody.
            let nobody = SocketAddr::new(local.ip(), 1);
            for local in [listener.local_addr().unwrap(), nobody] {
                assert_eq!(diag.tcp_socket(local, nobody).unwrap(), None);
            }
        }
        assert!(sockets.iter().all(|s| s.info.state != 10), "no listeners");
    }

    #[test]
    fn cut_and_strange_messages_are_passed_over() {
        assert_eq!(Messages(&[0; 15]).count(), 0);
        // A length shorter than its header, or longer than what was read.
        let mut message = request(DUMP, 2, &[0; SOCKET_ID], 7);
        assert_eq!(Messages(&message).count(), 1);
        for wrong in [0_u32, 15, 5_000] {
            message[..4].copy_from_slice(&wrong.to_ne_bytes());
            assert_eq!(Messages(&message).count(), 0, "{wrong}");
        }
        for len in 0..=MESSAGE + 4 {
            assert_eq!(parse(&vec![2; len]), None, "no tcp_info in {len} bytes");
        }
        assert_eq!(Attributes(&[3, 0, 2, 0]).count(), 0);
        assert_eq!(Attributes(&[4, 0, 2, 0, 9]).count(), 1);
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        let mapped = "::ffff:10.0.0.1".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!(address(10, &mapped), Some("10.0.0.1".parse().unwrap()));
        let six = "fd00::1".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!(address(10, &six), Some("fd00::1".parse().unwrap()));
        assert_eq!(address(2, &six[..4]), Some("253.0.0.0".parse().unwrap()));
    }
}
