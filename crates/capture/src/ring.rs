//! A packet socket and the ring of blocks that the kernel fills for it
//! (packet(7); Linux, Documentation/networking/packet_mmap.rst).
//!
//! No crate has a safe form of this ring, so its unsafe code is here and only
//! here. Its argument is that a block belongs to one side at a time. A word at
//! its head says to whom: the kernel writes to a block only while the word says
//! `TP_STATUS_KERNEL`, and this program makes a slice of it only while the word
//! has the bit `TP_STATUS_USER`. The word itself is read and written as an
//! atomic, with acquire and release, and is never inside such a slice.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::libc;

/// Where in a block the word stands that says whose it is.
const STATUS: usize =
    offset_of!(libc::tpacket_block_desc, hdr) + offset_of!(libc::tpacket_hdr_v1, block_status);
/// Where what is read of a block begins: after that word.
pub(crate) const READ_FROM: usize = STATUS + size_of::<u32>();

/// A packet socket with its ring.
#[derive(Debug)]
pub(crate) struct Ring {
    socket: OwnedFd,
    map: NonNull<u8>,
    blocks: usize,
    block_bytes: usize,
    /// The block that the kernel fills next, or has filled.
    at: usize,
}

// SAFETY: the mapping belongs to the ring alone and is valid in every thread;
// whoever has the ring has the only way to it.
unsafe impl Send for Ring {}

/// What the kernel has counted since it was asked last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Packets in all, those that found no room too.
    pub packets: u32,
    /// Packets that found no room.
    pub dropped: u32,
}

impl Ring {
    /// A socket that sees no packets yet, with `blocks` blocks of `block_bytes`
    /// (a multiple of the page size). A block that is not full is handed over
    /// `retire_ms` milliseconds after it was begun.
    pub fn new(blocks: usize, block_bytes: usize, retire_ms: u32) -> io::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the call takes no pointers. Protocol 0 takes no packets.
        let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        checked(socket)?;
        // SAFETY: the descriptor was just opened, and nobody else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req3 {
            tp_block_size: block_bytes as libc::c_uint,
            tp_block_nr: blocks as libc::c_uint,
            // Blocks hold frames of any length; the kernel only checks that
            // these two agree with the size of all blocks.
            tp_frame_size: block_bytes as libc::c_uint,
            tp_frame_nr: blocks as libc::c_uint,
            tp_retire_blk_tov: retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping at an address that the kernel chooses; it covers
        // the ring exactly, whose size the kernel has accepted above.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * block_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or_else(|| io::Error::other("a map at 0"))?;
        Ok(Self {
            socket,
            map,
            blocks,
            block_bytes,
            at: 0,
        })
    }

    /// Takes `bytes` bytes of each packet from now on; with 0, no packets.
    pub fn keep(&self, bytes: u32) -> io::Result<()> {
        // One instruction of classic BPF: return `bytes`.
        let mut program = [libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: bytes,
        }];
        let filter = libc::sock_fprog {
            len: 1,
            filter: program.as_mut_ptr(),
        };
        // The program outlives the call, which copies it.
        set(
            &self.socket,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            &filter,
        )
    }

    /// Sees only what comes in. The loopback device shows everything twice.
    pub fn ignore_outgoing(&self) -> io::Result<()> {
        let on: libc::c_int = 1;
        let name = libc::PACKET_IGNORE_OUTGOING;
        set(&self.socket, libc::SOL_PACKET, name, &on)
    }

    /// Sees frames for other hosts too, as long as the socket is open.
    pub fn promiscuous(&self, device: u32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: device as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let name = libc::PACKET_ADD_MEMBERSHIP;
        set(&self.socket, libc::SOL_PACKET, name, &request)
    }

    /// Sees the packets of a device from now on.
    pub fn bind(&self, device: u32) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as libc::c_ushort,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: device as libc::c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address is a whole `sockaddr_ll`, and its size is given.
        checked(unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        })
    }

    /// What the kernel has counted since the last call.
    pub fn counts(&self) -> io::Result<Counts> {
        let mut counts = libc::tpacket_stats_v3 {
            tp_packets: 0,
            tp_drops: 0,
            tp_freeze_q_cnt: 0,
        };
        let mut length = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: both pointers are to values that outlive the call, and the
        // length is that of the first.
        checked(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        })?;
        Ok(Counts {
            packets: counts.tp_packets,
            dropped: counts.tp_drops,
        })
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: `at` is below `blocks`, so the word is inside the mapping,
        // which lives as long as the ring; it is aligned, as blocks are by
        // pages; and both sides touch it by atomic operations alone.
        unsafe {
            AtomicU32::from_ptr(
                self.map
                    .add(self.at * self.block_bytes + STATUS)
                    .as_ptr()
                    .cast(),
            )
        }
    }

    /// The bytes of the next block after its first [`READ_FROM`], if the kernel
    /// has handed it over. It stays until [`release`](Self::release).
    pub fn filled(&self) -> Option<&[u8]> {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the bytes are inside the mapping. The block is ours, as the
        // word said, so nobody writes to them until it is given back; that takes
        // the ring mutably, and so no slice is left then.
        Some(unsafe {
            slice::from_raw_parts(
                self.map
                    .add(self.at * self.block_bytes + READ_FROM)
                    .as_ptr(),
                self.block_bytes - READ_FROM,
            )
        })
    }

    /// Gives the block that was read back to the kernel.
    pub fn release(&mut self) {
        let ours = self.status().load(Ordering::Relaxed) & libc::TP_STATUS_USER != 0;
        if ours {
            self.status()
                .store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.at = (self.at + 1) % self.blocks;
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that was made for this ring, and no slice
        // of it outlives the ring.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.blocks * self.block_bytes) };
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets an option of a socket to a plain C value.
fn set<T>(socket: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer is to a whole value that outlives the call, and its
    // size is given. What a pointer inside it leads to lives as long.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
}
