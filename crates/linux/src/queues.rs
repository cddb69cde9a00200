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

/// Major and minor number of a discipline or a class, as tc writes them: `1:` is (1, 0).
pub type TcId = (u16, u16);

/// What is put on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcKind {
    /// A queueing discipline.
    Queue,
    /// A class of one.
    Class,
    /// A filter, of those with a lower priority the first, for packets of a protocol
    /// (`ETH_P_IP` and its like, linux/if_ether.h).
    Filter {
        /// Its place among the filters of a discipline.
        priority: u16,
        /// Which packets it looks at.
        protocol: u16,
    },
}

/// Where it is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcPlace {
    /// What it is.
    pub kind: TcKind,
    /// What it is attached to.
    pub parent: TcId,
    /// Its own number; of a filter (0, 0).
    pub id: TcId,
}

impl TcPlace {
    /// The device's own discipline, as `1:`.
    pub const ROOT: Self = Self {
        kind: TcKind::Queue,
        // TC_H_ROOT of linux/pkt_sched.h.
        parent: (u16::MAX, u16::MAX),
        id: (1, 0),
    };
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

    /// Puts `part` on a device: a discipline, a class of one, or what leads packets to a class.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn put_queue(&self, device: u32, part: Qdisc<'_>, place: TcPlace) -> io::Result<()> {
        // TCA_OPTIONS and NLA_F_NESTED of linux/rtnetlink.h, linux/netlink.h.
        const OPTIONS: u16 = 2;
        const NESTED: u16 = 0x8000;
        let kind = OPTIONS | if part.nested { NESTED } else { 0 };
        let handle = |(major, minor)| TcHandle { major, minor };
        let mut message = TcMessage::default();
        message.header.index = device as i32;
        message.header.parent = handle(place.parent);
        message.header.handle = handle(place.id);
        if let TcKind::Filter { priority, protocol } = place.kind {
            // Both in one word, the protocol as it is on the wire (net/sched/cls_api.c).
            message.header.info = u32::from(priority) << 16 | u32::from(protocol.to_be());
        }
        message.attributes = vec![
            TcAttribute::Kind(part.kind.to_owned()),
            TcAttribute::Other(DefaultNla::new(kind, part.options.to_vec())),
        ];
        let put = match place.kind {
            TcKind::Queue => RouteNetlinkMessage::NewQueueDiscipline(message),
            TcKind::Class => RouteNetlinkMessage::NewTrafficClass(message),
            TcKind::Filter { .. } => RouteNetlinkMessage::NewTrafficFilter(message),
        };
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
