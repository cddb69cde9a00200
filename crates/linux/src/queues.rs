//! Queueing disciplines of a namespace's devices.

use std::io;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use nix::libc;

use super::Namespace;
use crate::LinuxError;

/// A queueing discipline to be put on a device.
#[derive(Clone, Copy, Debug)]
pub struct Qdisc<'a> {
    /// What it is called, `fq_codel`.
    pub kind: &'a str,
    /// The value of `TCA_OPTIONS` (linux/rtnetlink.h).
    pub options: &'a [u8],
    /// Whether that consists of attributes (`NLA_F_NESTED`, linux/netlink.h).
    pub nested: bool,
}

impl Namespace {
    /// Whether the kernel knows the queueing discipline `kind`, found by
    /// putting one on a device and taking it off again.
    pub fn knows_queue(&self, device: u32, kind: &str) -> Result<bool, LinuxError> {
        let mut message = TcMessage::default();
        message.header.index = device as i32;
        message.header.parent = TcHandle::ROOT;
        let put = {
            let mut message = message.clone();
            message.attributes = vec![TcAttribute::Kind(kind.to_owned())];
            RouteNetlinkMessage::NewQueueDiscipline(message)
        };
        match self.order(put, NLM_F_CREATE | NLM_F_REPLACE) {
            Ok(()) => {
                let off = RouteNetlinkMessage::DelQueueDiscipline(message);
                self.order(off, 0)
                    .map_err(|e| self.refused(format!("{kind} cannot be taken off"), e))?;
                Ok(true)
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                Err(self.refused(format!("queueing discipline {kind}"), e))
            }
            // It is there and wants parameters.
            Err(_) => Ok(true),
        }
    }

    /// Puts `discipline` on a device: as its root, or inside of the one that
    /// is there.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn put_queue(&self, device: u32, discipline: Qdisc<'_>, inside: bool) -> io::Result<()> {
        // TCA_OPTIONS and NLA_F_NESTED of linux/rtnetlink.h, linux/netlink.h.
        const OPTIONS: u16 = 2;
        const NESTED: u16 = 0x8000;
        let kind = OPTIONS | if discipline.nested { NESTED } else { 0 };
        let mut message = TcMessage::default();
        message.header.index = device as i32;
        // The only class of a token bucket is its first (`tbf_walk`).
        (message.header.parent, message.header.handle) = match inside {
            false => (TcHandle::ROOT, TcHandle { major: 1, minor: 0 }),
            true => (
                TcHandle { major: 1, minor: 1 },
                TcHandle { major: 2, minor: 0 },
            ),
        };
        message.attributes = vec![
            TcAttribute::Kind(discipline.kind.to_owned()),
            TcAttribute::Other(DefaultNla::new(kind, discipline.options.to_vec())),
        ];
        let put = RouteNetlinkMessage::NewQueueDiscipline(message);
        self.order(put, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// What the kernel reports of all queueing disciplines here: a `tcmsg` with
    /// its attributes each.
    pub fn queues(&self) -> Result<Vec<Vec<u8>>, LinuxError> {
        let request = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        let answers = self.netlink().dump_bytes(request);
        answers.map_err(|e| self.refused("its queueing disciplines cannot be listed", e))
    }
}
