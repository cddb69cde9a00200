//! The kernel's UDP sockets, whose datagrams have their traffic class, ECN field included, and the time
//! at which they arrived; and what the path says of those that were sent.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockType, SockaddrIn, SockaddrIn6,
    SockaddrStorage, getsockname, recvmsg, sendmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;

use crate::socket_option;
use crate::tcp_options::{OptionError, bind_to, family, open, sized};

/// Bytes of the largest datagram.
pub const LARGEST: usize = 1 << 16;

/// Bytes of memory for datagrams that were not read yet: 5 ms of small ones at
/// 1 Gbit/s, with the kernel's 768 bytes of bookkeeping for each.
const MEMORY: usize = 16 << 20;

/// A UDP socket.
#[derive(Debug)]
pub struct DatagramSocket {
    fd: OwnedFd,
    ipv4: bool,
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A datagram that arrived, whose bytes are where they were read to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// From whom.
    pub from: SocketAddr,
    /// Its traffic class: DSCP and ECN field.
    pub class: u8,
    /// When it arrived, by the time of day.
    pub stamp: Option<TimeSpec>,
    /// Bytes.
    pub len: usize,
}

/// What the path, or this host, says of a datagram that was sent (ip(7), `IP_RECVERR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// Where it was to go.
    pub to: Option<SocketAddr>,
    /// What became of it: `EMSGSIZE` where it is too long, `ECONNREFUSED` where nobody has the port, `EACCES`
    /// where a filter forbids it.
    pub error: Errno,
    /// Of one that is too long: bytes of an IP packet that are not.
    pub mtu: Option<u32>,
    /// Who says it, by ICMP; `None` where it is this host.
    pub reporter: Option<IpAddr>,
    /// Bytes of the datagram's payload that the report quotes, of which as many were read as there was room for.
    pub quoted: usize,
}

impl DatagramSocket {
    /// A socket at `local`, and whether it has memory enough to be read now and
    /// then only. Datagrams bear the time of their arrival and their traffic class; they are
    /// not fragmented unless it `fragments`.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn bound(local: SocketAddr, fragments: bool) -> Result<(Self, bool), OptionError> {
        let socket = Self {
            fd: open(family(local), SockType::Datagram)?,
            ipv4: local.is_ipv4(),
        };
        let fd = &socket.fd;
        let read = match socket.ipv4 {
            true => setsockopt(fd, sockopt::IpRecvTos, &true),
            false => setsockopt(fd, sockopt::Ipv6RecvTClass, &true),
        };
        read.map_err(OptionError::of("read the traffic class"))?;
        if !fragments {
            let set = socket_option::never_fragment(fd, socket.ipv4);
            set.map_err(OptionError::io("have datagrams whole"))?;
        }
        // For root of the namespace's owner; others get what the machine's
        // net.core.rmem_max allows, and are read at every datagram.
        let enough = setsockopt(fd, sockopt::RcvBufForce, &MEMORY).is_ok();
        if !enough {
            let _ = setsockopt(fd, sockopt::RcvBuf, &MEMORY);
        }
        // Datagrams already on their way when the sender is held up are not
        // lost in its own host: that is the path's to do.
        let _ = sized(fd, sockopt::SndBufForce, sockopt::SndBuf, MEMORY);
        // Without it, a datagram's time is that of its reading.
        let _ = setsockopt(fd, sockopt::ReceiveTimestampns, &true);
        bind_to(fd, local)?;
        Ok((socket, enough))
    }

    /// Its own address, with the port that it has got.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local(&self) -> nix::Result<SocketAddr> {
        let local: SockaddrStorage = getsockname(self.fd.as_raw_fd())?;
        socket_addr(local).ok_or(Errno::EAFNOSUPPORT)
    }

    /// Sends a datagram with a traffic class.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn send(&self, to: SocketAddr, class: u8, bytes: &[u8]) -> nix::Result<()> {
        let wide = i32::from(class);
        let control = if self.ipv4 {
            [ControlMessage::Ipv4Tos(&class)]
        } else {
            [ControlMessage::Ipv6TClass(&wide)]
        };
        let (to, iov) = (SockaddrStorage::from(to), [IoSlice::new(bytes)]);
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg(self.fd.as_raw_fd(), &iov, &control, flags, Some(&to)).map(|_| ())
    }

    /// The next datagram, of which as much is read as `buffer` has room for; `None` for one whose sender has no
    /// address.
    ///
    /// # Errors
    /// `EAGAIN` where there is none, and what an ICMP message said of an earlier one.
    pub fn receive(&self, buffer: &mut [u8]) -> nix::Result<Option<Received>> {
        let mut control = cmsg_space!(TimeSpec, i32);
        let mut slices = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let fd = self.fd.as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), flags)?;
        let (mut class, mut stamp) = (0, None);
        for part in message.cmsgs().into_iter().flatten() {
            match part {
                ControlMessageOwned::ScmTimestampns(at) => stamp = Some(at),
                ControlMessageOwned::Ipv4Tos(tos) => class = tos,
                ControlMessageOwned::Ipv6TClass(wide) => class = wide as u8,
                _ => {}
            }
        }
        let from = message.address.and_then(socket_addr);
        Ok(from.map(|from| Received {
            from,
            class,
            stamp,
            len: message.bytes,
        }))
    }

    /// From now on keeps what the path says of datagrams for [`path_report`](Self::path_report).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn keep_path_reports(&self) -> nix::Result<()> {
        match self.ipv4 {
            true => setsockopt(&self.fd, sockopt::Ipv4RecvErr, &true),
            false => setsockopt(&self.fd, sockopt::Ipv6RecvErr, &true),
        }
    }

    /// The next error that the path reported; what it quotes of the datagram is read to `quote`.
    ///
    /// # Errors
    /// `EAGAIN` where there is none.
    pub fn path_report(&self, quote: &mut [u8]) -> nix::Result<Option<PathReport>> {
        // With the time and the traffic class, which come before it.
        let mut control = cmsg_space!(TimeSpec, i32, libc::sock_extended_err, libc::sockaddr_in6);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let fd = self.fd.as_raw_fd();
        let mut slices = [IoSliceMut::new(quote)];
        let message = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), flags)?;
        let (to, quoted) = (message.address.and_then(socket_addr), message.bytes);
        let by_icmp = |said: &libc::sock_extended_err| {
            matches!(
                said.ee_origin,
                libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6
            )
        };
        let said = message.cmsgs()?.filter_map(|part| match part {
            ControlMessageOwned::Ipv4RecvErr(said, by) => {
                let by =
                    by.map(|by| IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(by.sin_addr.s_addr))));
                Some((said, by.filter(|_| by_icmp(&said))))
            }
            ControlMessageOwned::Ipv6RecvErr(said, by) => {
                let by = by.map(|by| IpAddr::V6(by.sin6_addr.s6_addr.into()));
                Some((said, by.filter(|_| by_icmp(&said))))
            }
            _ => None,
        });
        Ok(said.last().map(|(said, reporter)| {
            let error = match is_forbidden(&said) {
                true => Errno::EACCES,
                false => Errno::from_raw(said.ee_errno as i32),
            };
            PathReport {
                to,
                error,
                mtu: (error == Errno::EMSGSIZE).then_some(said.ee_info),
                reporter,
                quoted,
            }
        }))
    }
}

/// Whether a router says that it may not forward: codes 9, 10 and 13 of ICMP's "destination unreachable"
/// (RFC 1122 section 3.2.2.1, RFC 1812 section 5.2.7.1), which Linux calls unreachable (net/ipv4/icmp.c,
/// `icmp_err_convert`).
fn is_forbidden(said: &libc::sock_extended_err) -> bool {
    const UNREACHABLE: u8 = 3;
    said.ee_origin == libc::SO_EE_ORIGIN_ICMP
        && said.ee_type == UNREACHABLE
        && matches!(said.ee_code, 9 | 10 | 13)
}

/// An address as the kernel gives it.
pub fn socket_addr(address: SockaddrStorage) -> Option<SocketAddr> {
    let four = |a: &SockaddrIn| SocketAddr::V4((*a).into());
    let six = |a: &SockaddrIn6| SocketAddr::V6((*a).into());
    let found = address.as_sockaddr_in().map(four);
    found.or_else(|| address.as_sockaddr_in6().map(six))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, UdpSocket};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    fn bound(ipv4: bool) -> DatagramSocket {
        let local: SocketAddr = match ipv4 {
            true => (Ipv4Addr::LOCALHOST, 0).into(),
            false => (Ipv6Addr::LOCALHOST, 0).into(),
        };
        DatagramSocket::bound(local, false).expect("a socket").0
    }

    fn address(socket: &DatagramSocket) -> SocketAddr {
        let clone = socket.as_fd().try_clone_to_owned().expect("a descriptor");
        UdpSocket::from(clone).local_addr().expect("an address")
    }

    fn wait(socket: &DatagramSocket) {
        let mut files = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut files, PollTimeout::from(5_000_u16)).expect("waited");
    }

    fn versions() -> Vec<bool> {
        match crate::sysctl::has_ipv6() {
            true => vec![true, false],
            false => vec![true],
        }
    }

    #[test]
    fn a_datagram_arrives_with_its_traffic_class_and_a_time() {
        for ipv4 in versions() {
            let (near, far) = (bound(ipv4), bound(ipv4));
            near.send(address(&far), 0xb8 | 1, b"abc").expect("sent");
            wait(&far);
            let mut room = [0; 16];
            let got = far
                .receive(&mut room)
                .expect("received")
                .expect("an address");
            assert_eq!((got.class, got.len), (0xb8 | 1, 3));
            assert_eq!(got.from, address(&near));
            assert!(got.stamp.is_some());
            assert_eq!(&room[..3], b"abc");
            assert_eq!(far.receive(&mut room), Err(Errno::EAGAIN));
        }
    }

    #[test]
    fn the_path_says_that_nobody_has_a_port() {
        for ipv4 in versions() {
            let near = bound(ipv4);
            near.keep_path_reports().expect("kept");
            assert_eq!(near.path_report(&mut []), Err(Errno::EAGAIN));
            let nobody = address(&bound(ipv4));
            near.send(nobody, 0, b"abc").expect("sent");
            wait(&near);
            let mut quote = [0; 8];
            let report = near.path_report(&mut quote).expect("one").expect("one");
            assert_eq!(report.error, Errno::ECONNREFUSED);
            assert_eq!((report.to, report.mtu), (Some(nobody), None));
            assert_eq!(report.reporter, Some(nobody.ip()));
            assert_eq!(&quote[..report.quoted], b"abc");
        }
    }

    #[test]
    fn of_a_datagram_that_is_too_long_for_its_device_the_path_says_how_long_it_may_be() {
        const MTU: u32 = 1_400;
        let Ok(namespace) = crate::Namespace::new(&crate::RunId::random(), "datagrams") else {
            eprintln!("skipped: datagrams: no network namespace can be made here");
            return;
        };
        let Ok(tun) = crate::Tun::new(&namespace, "tun0", MTU) else {
            eprintln!("skipped: datagrams: no TUN device can be made here");
            return;
        };
        let own = Ipv4Addr::new(10, 0, 0, 1);
        namespace
            .add_address(tun.index(), own.into(), 24)
            .expect("an address");
        let bound = || DatagramSocket::bound((own, 0).into(), false);
        let (near, _) = namespace.run(bound).expect("entered").expect("a socket");
        near.keep_path_reports().expect("kept");
        let far = SocketAddr::from(([10, 0, 0, 2], 9));
        // What the device takes, with headers of IP and UDP.
        let fits = MTU as usize - 28;
        assert_eq!(near.send(far, 0, &vec![0; fits]), Ok(()));
        assert_eq!(near.path_report(&mut []), Err(Errno::EAGAIN));
        assert_eq!(near.send(far, 0, &vec![0; fits + 1]), Err(Errno::EMSGSIZE));
        let report = near.path_report(&mut []).expect("one").expect("one");
        assert_eq!((report.error, report.mtu), (Errno::EMSGSIZE, Some(MTU)));
        assert_eq!(report.reporter, None);
    }
}
