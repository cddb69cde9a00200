//! Loads Narrows' congestion controls and host hooks into the Linux kernel.
//!
//! [`ControlLoader::load`] registers the C of `narrows-cc` as a congestion control of
//! the running kernel (BPF `struct_ops`), under a name that sockets choose with
//! `setsockopt(TCP_CONGESTION)` in any network namespace. [`Ect1::attach`]
//! gives packets of its sockets the L4S codepoint, and [`SignalProgram::attach`] puts the
//! signals of `narrows-efm` into packets at a device, [`BoxProgram::attach`] the rules of
//! `narrows-mmb`. [`Loaded::attach_transfer`] makes
//! DA-LBE flows of a control group's connections. [`Record`]s hold what each
//! hook received and decided; the tests keep such and run them through the native build.
//! [`Lead`] leads a control group's connections to a port of loopback.
//! [`Bursts`] counts how many segments TCP handed over at once.
//!
//! ```no_run
//! let machine = narrows_bpf::survey();
//! for lack in &machine.lacks {
//!     println!("{lack}");
//! }
//! ```
//!
//! # Kernels
//!
//! The objects hold names of fields, not places, so one build serves all
//! kernels with BTF; what differs between them is found out when loading.
//!
//! | Kernel | What differs | What is done |
//! |---|---|---|
//! | before 5.13 | no atomics that answer, few writable fields | refused by the kernel's verifier |
//! | before 6.0 | no `bpf_setsockopt` in `init` | loading fails, with the verifier's word for it |
//! | before 6.4 | no links for `struct_ops`: a registration outlives its process | registered by map, taken back on drop |
//! | before 6.6 | no tcx | clsact |
//! | before 6.10 | `cong_control(sk, rs)`; later `(sk, ack, flag, rs)` | a program for each |
//! | before 6.18 | no Accurate ECN, no `received_ce` | DCTCP-style feedback, see [`EcnFlags`] |
//! | with a hook `cwnd_event_tx_start` | that event has a hook of its own | both are filled in |
//!
//! # Built in
//!
//! A kernel may have been compiled with our controls (src/built_in, the same hooks):
//! [`ControlLoader::load`] then registers the one that is there, and neither BTF nor
//! libbpf is needed.
//!
//! # State
//!
//! An algorithm's state is in the socket's `icsk_ca_priv`: 104 bytes, at hand
//! without a look-up, zeroed by the kernel before `init`. A larger one is in socket
//! storage, as are the parameters of sockets of which options were set, and what is
//! not the algorithm's: the number of the socket in a trace, the wish for ECT(1),
//! DCTCP's echo. Hooks that the stack calls before `init` are passed over.

#![deny(unsafe_code)]

mod built_in;
mod error;
mod goal;
mod loaded;
mod record;
mod registration;
#[cfg(feature = "testkit")]
pub mod testkit;

#[cfg(not(all(target_os = "linux", feature = "load", bpf_objects)))]
mod absent;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod box_connections;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod box_program;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod box_rules;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod box_tables;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod burst;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod control;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod device;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod ect1;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
#[allow(unsafe_code)]
mod grace;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod lead;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod libbpf;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod ring;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod signal_program;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod survey;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
#[allow(unsafe_code)]
mod tcx;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod transfer;

use std::time::Duration;

use narrows_wire::FlowKey;

#[cfg(not(all(target_os = "linux", feature = "load", bpf_objects)))]
pub use absent::{
    BoxProgram, Bursts, Ect1, Lead, Origins, SignalProgram, Transfer, held_by_kernel, survey,
};
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use box_program::BoxProgram;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use burst::Bursts;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use ect1::Ect1;
pub use error::BpfError;
pub use goal::{TransferGoal, TransferTally};
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use lead::{Lead, Origins};
pub use loaded::{ControlLoader, Loaded, SocketOptions};
pub use narrows_efm::SignalCounters;
pub use record::{Hook, RawSocket, Record};
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use signal_program::SignalProgram;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use survey::{held_by_kernel, survey};
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use transfer::Transfer;

/// What a control asks of the handshake (flags of `struct
/// tcp_congestion_ops`), and what feedback it works with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EcnFlags {
    /// Nothing: the namespace's settings decide (`net.ipv4.tcp_ecn`). A control
    /// that needs Accurate ECN runs only where they brought it about.
    #[default]
    None,
    /// `TCP_CONG_NEEDS_ECN`: the handshake asks for classic ECN. A control
    /// that needs marks gets DCTCP-style feedback: at the receiver, which must
    /// run the same control, ECE follows the mark of every packet (RFC 8257
    /// §3.2).
    Classic,
    /// `TCP_CONG_NEEDS_ACCECN` too: Accurate ECN (RFC 9768), from Linux 6.18.
    /// A kernel that does not know the flag gets [`EcnFlags::Classic`], and
    /// [`Loaded::ecn`] says so.
    AccEcn,
}

/// What a control reports through its ring buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trace {
    /// Nothing.
    #[default]
    Off,
    /// What a run reports: of each socket the round trip of an ACK with its
    /// state, at most once in a millisecond; every change of the state machine,
    /// every reduction that is taken back, and every decision that is an event
    /// (the end of slow start).
    State,
    /// Every call of every hook.
    Full,
}

/// Which connections a [`SignalProgram`] marks, and how it is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalOptions {
    /// Only connections with this end.
    pub host: Option<std::net::IpAddr>,
    /// Only connections with one of these ports at either end; all if empty.
    pub ports: Vec<u16>,
    /// Report every packet of a marked flow, see [`SignalProgram::poll`].
    pub trace: bool,
    /// By clsact, also where the kernel has tcx.
    pub clsact: bool,
}

/// What a [`BoxProgram`] has counted. A bundle of segments counts as so many packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoxTotals {
    /// Packets of IP that came by either side.
    pub packets: u64,
    /// Of these, dropped by a rule.
    pub dropped: u64,
    /// Dropped because their IP header cannot be read.
    pub malformed: u64,
    /// Packets whose TCP options were not all changed: they could not be read, there was no room for
    /// more, or the packet was a fragment.
    pub options_unchanged: u64,
    /// What is not IP, and passes.
    pub other: u64,
    /// Dropped because they match more rules than there is room for: 64.
    pub overmatched: u64,
    /// Dropped because the kernel did not let them be written.
    pub unwritten: u64,
    /// Bundles of several segments.
    pub bundles: u64,
    /// Dropped because no port was free for their connection, or because its packets would have
    /// looked like another one's.
    pub ports_used_up: u64,
    /// Dropped because there was no room for their connection.
    pub table_full: u64,
    /// ICMP errors about a connection.
    pub related: u64,
    /// Dropped because a rule translates and nobody knows to which connection they belong: later
    /// fragments before whose packet's first one none went on, or whose connection was forgotten.
    pub stray_fragments: u64,
    /// First fragments dropped because a rule translates and there was no room to follow their packet.
    pub fragments_full: u64,
    /// Dropped fragments that hide what is above IP (RFC 1858 §3).
    pub tiny_fragments: u64,
    /// Connections without an answer that made room for others when the table was full.
    pub evicted: u64,
    /// Frames that are not IP, dropped by a rule.
    pub frames_dropped: u64,
    /// Connections that are tracked, those that were idle for too long until the next sweep.
    pub connections: u64,
}

/// A connection that a [`BoxProgram`] tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxConnection {
    /// Of packets that go as the first one did, as they come.
    pub forward: FlowKey,
    /// Of those of the other direction, as they come.
    pub reverse: FlowKey,
    /// TCP flags seen, forward and reverse.
    pub flags: [u8; 2],
    /// Packets of both directions. A bundle of segments counts as so many.
    pub packets: u64,
    /// Since its first packet.
    pub age: Duration,
    /// Since its last one.
    pub idle: Duration,
    /// Its rules, from 1.
    pub rules: Vec<usize>,
}

/// Priority and handle of the clsact filters that mark packets.
pub const SIGNAL_PRIORITY: u32 = 2;
/// How the names of the programs that mark packets begin.
pub const SIGNAL_PROGRAM: &str = "nw_mark_";

/// What this machine can load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The kernel describes its types (`/sys/kernel/btf/vmlinux`).
    pub btf: bool,
    /// A congestion control of ours was loaded and registered.
    pub struct_ops: bool,
    /// The flag for Accurate ECN was accepted.
    pub accecn: bool,
    /// Programs attach by tcx, otherwise by clsact.
    pub tcx: bool,
    /// One sentence for each thing that is not there.
    pub lacks: Vec<String>,
}

/// Most characters of a registered name (`TCP_CA_NAME_MAX` less its end).
pub const NAME_MAX: usize = 15;

/// The kernel's own rule for such names (`bpf_obj_name_cpy`, kernel/bpf/syscall.c).
fn check_name(name: &str) -> Result<(), BpfError> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if (1..=NAME_MAX).contains(&name.len()) && name.chars().all(letters) {
        Ok(())
    } else {
        Err(BpfError::Name(name.to_owned()))
    }
}

/// Why this build can load nothing into a kernel, with what to install; `None` where it can.
pub fn not_built() -> Option<&'static str> {
    let built = cfg!(all(target_os = "linux", feature = "load", bpf_objects));
    (!built).then_some(error::NOT_BUILT)
}

/// A run's threads hand them on.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Loaded>();
    is_send::<Ect1>();
    is_send::<SignalProgram>();
    is_send::<BoxProgram>();
    is_send::<Transfer>();
    is_send::<Lead>();
    is_send::<Origins>();
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_kernel_would_cut_or_refuse_is_refused() {
        for good in ["p", "nw7k2q_prague", "123456789012345"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "1234567890123456", "a b", "ä", "nw7k2q-prague"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
