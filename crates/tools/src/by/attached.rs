//! Connections that a process had before: switched while nothing is being recovered, and
//! set back in the end.
//!
//! A descriptor is duplicated for the moment of a call, so that a connection closes when its
//! program closes it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use narrows_bpf::{BpfError, Transfer, TransferGoal};
use narrows_linux::socket_option::tcp_info;
use narrows_linux::system_calls::{descriptor_of, open_process};
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{getsockopt, setsockopt};

/// States in which a connection can send (include/net/tcp_states.h).
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;
/// `TCP_CA_Open`: nothing is lost, reordered or marked.
const OPEN: u8 = 0;

/// The sockets of a process, by inode.
#[derive(Debug)]
pub(super) struct Sockets {
    /// The control's registered name.
    control: OsString,
    /// What it is to be without us where that is not known.
    default: OsString,
    /// What it was before.
    switched: BTreeMap<u64, OsString>,
    /// No TCP, or done.
    known: BTreeSet<u64>,
}

impl Sockets {
    pub(super) fn new(control: &str) -> Self {
        let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        Self {
            control: control.into(),
            default: default.unwrap_or_default().trim().into(),
            switched: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// How many connections were switched.
    pub(super) fn switched(&self) -> u64 {
        self.switched.len() as u64
    }

    /// Makes those connections of `pid` that are not part of `transfer` part of it, but
    /// for those that are just recovering from something: their turn comes later.
    ///
    /// # Errors
    /// If the kernel takes one for no socket.
    pub(super) fn switch(
        &mut self,
        pid: u32,
        transfer: &Transfer,
        goal: &TransferGoal,
    ) -> Result<(), BpfError> {
        for (inode, socket) in self.of(pid) {
            let Some(info) = tcp_info(&socket) else {
                self.known.insert(inode);
                continue;
            };
            if !matches!(info.state, ESTABLISHED | CLOSE_WAIT) || info.ca_state != OPEN {
                continue;
            }
            let Ok(former) = getsockopt(&socket, TcpCongestion) else {
                continue;
            };
            self.known.insert(inode);
            if former == self.control {
                continue;
            }
            let counted = |bytes: Option<u64>| bytes.unwrap_or(0);
            let (acked, received) = (counted(info.bytes_acked), counted(info.bytes_received));
            transfer.adopt(socket.as_fd(), goal, acked, received)?;
            // One that was closed meanwhile needs none.
            if setsockopt(&socket, TcpCongestion, &self.control).is_ok() {
                self.switched.insert(inode, former);
            }
        }
        Ok(())
    }

    /// Gives the connections of `pid` the control that they had.
    pub(super) fn set_back(&mut self, pid: u32) {
        self.known.clear();
        for (inode, socket) in self.of(pid) {
            let ours = getsockopt(&socket, TcpCongestion).is_ok_and(|now| now == self.control);
            if ours {
                let former = self.switched.get(&inode).unwrap_or(&self.default);
                // One that was closed meanwhile needs none.
                let _ = setsockopt(&socket, TcpCongestion, former);
            }
        }
    }

    /// Duplicates of the sockets of `pid` that are not known yet.
    fn of(&self, pid: u32) -> Vec<(u64, OwnedFd)> {
        let Ok(process) = open_process(pid) else {
            return Vec::new();
        };
        let entries = fs::read_dir(format!("/proc/{pid}/fd"));
        let entries = entries.into_iter().flatten().flatten();
        let sockets = entries.filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let inode = target.to_str()?.strip_prefix("socket:[")?;
            let inode = inode.strip_suffix(']')?.parse().ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            (!self.known.contains(&inode)).then_some((inode, number))
        });
        sockets
            .filter_map(|(inode, fd)| Some((inode, descriptor_of(&process, fd).ok()?)))
            .collect()
    }
}
