//! The state of a TCP socket by netlink: `NETLINK_SOCK_DIAG` (sock_diag(7)).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use narrows_core::TcpInfo;
use netlink_packet_core::NLMSG_ERROR;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::tcp_info::parse_tcp_info;
use crate::netlink::{HEADER, Messages, attribute, error_in};

/// `SOCK_DIAG_BY_FAMILY` (linux/sock_diag.h).
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` (linux/netlink.h).
const REQUEST_ONE: u16 = 0x001;
/// Bytes of `struct inet_diag_req_v2` and of the `struct inet_diag_sockid` at
/// its end (linux/inet_diag.h).
const REQUEST: usize = 56;
const SOCKET_ID: usize = 48;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// `INET_DIAG_INFO`; asked for as bit (number − 1) of `idiag_ext`.
const ATTRIBUTE_INFO: u16 = 2;
/// Sockets that have data to send or to get: bit by number of the state,
/// ESTABLISHED 1, SYN_SENT 2, FIN_WAIT1 4, CLOSE_WAIT 8, LAST_ACK 9,
/// CLOSING 11.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;
/// Bytes read at once: more than the kernel puts into one answer (32 KiB).
const READ: usize = 64 << 10;
/// How long an answer may take, in milliseconds: the kernel answers at once,
/// and a sampler must not outlive its run.
const PATIENCE_MS: i64 = 500;

/// A netlink socket that shows the TCP sockets of the namespace that it was
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

    /// The state of the connected TCP socket with these addresses, if there is one: a
    /// few microseconds.
    ///
    /// # Errors
    /// If the kernel refuses, or does not answer in time.
    pub fn tcp_info(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<TcpInfo>> {
        let family = match local {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        self.sequence += 1;
        let request = request(family as u8, &socket_id(local, remote), self.sequence);
        send(self.socket.as_raw_fd(), &request, MsgFlags::empty())?;
        loop {
            let len = match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            for (kind, sequence, body) in Messages::new(&self.buffer[..len]) {
                match kind {
                    _ if sequence != self.sequence => {} // An answer that came too late.
                    // Where there is no connection the kernel shows who listens.
                    BY_FAMILY => return Ok(parse(body).filter(|i| STATES >> i.state & 1 == 1)),
                    NLMSG_ERROR => {
                        let error = error_in(body);
                        let none = error.kind() == io::ErrorKind::NotFound;
                        return if none { Ok(None) } else { Err(error) };
                    }
                    _ => {}
                }
            }
        }
    }
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

fn request(family: u8, id: &[u8; SOCKET_ID], sequence: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_ONE.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    // sdiag_family, sdiag_protocol (IPPROTO_TCP), idiag_ext, pad, states.
    bytes.extend([family, 6, 1 << (ATTRIBUTE_INFO - 1), 0]);
    bytes.extend(STATES.to_ne_bytes());
    bytes.extend(id);
    bytes
}

/// Reads one `inet_diag_msg`; `None` if it is cut short or has no `tcp_info`.
fn parse(body: &[u8]) -> Option<TcpInfo> {
    parse_tcp_info(attribute(body.get(MESSAGE..)?, ATTRIBUTE_INFO)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_connection_is_found_by_its_addresses() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let mut diag = match Diag::open() {
            Ok(diag) => diag,
            Err(e) => {
                eprintln!("skipped: sample::diag: this machine has no sock_diag: {e}");
                return;
            }
        };
        for end in [&near, &far] {
            let (local, remote) = (end.local_addr().unwrap(), end.peer_addr().unwrap());
            let info = diag.tcp_info(local, remote).unwrap().unwrap();
            assert_eq!(info.state, 1, "ESTABLISHED");
            assert!(info.snd_cwnd > 0 && info.snd_mss > 0);
            // Only a listener is there for it, and for the last nobody.
            let nobody = SocketAddr::new(local.ip(), 1);
            for local in [listener.local_addr().unwrap(), nobody] {
                assert_eq!(diag.tcp_info(local, nobody).unwrap(), None);
            }
        }
    }

    #[test]
    fn a_message_that_is_cut_short_has_no_tcp_info() {
        for len in 0..=MESSAGE + 4 {
            assert_eq!(parse(&vec![2; len]), None, "no tcp_info in {len} bytes");
        }
    }
}
