//! Measurement signals in the packets of a device.

use std::fmt;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use libbpf_rs::{MapCore, MapFlags, Object, OpenObject};
use narrows_efm::SignalSpec;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use zerocopy::IntoBytes;

use crate::device::{Attached, FilterPriority};
use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::ring::Ring;
use crate::{SignalCounters, SignalOptions};

/// Bytes of an Ethernet header, and of what loopback has in its place.
pub(crate) const ETHERNET: u32 = 14;
/// Types of devices with one (`ARPHRD_ETHER`, `ARPHRD_LOOPBACK`).
const WITH_ETHERNET: [u16; 2] = [1, 772];
/// Types of devices without any header before the network's: raw IP, tunnels of
/// IP in IP, SIT and GRE, none (`ARPHRD_RAWIP`, `TUNNEL`, `TUNNEL6`, `SIT`,
/// `IPGRE`, `IP6GRE`, `NONE`).
const WITHOUT: [u16; 7] = [519, 768, 769, 776, 778, 823, 65_534];

/// Bytes of the ring buffer of a trace: 40,000 packets.
const RING: u32 = 4 << 20;
/// The least that a kernel takes: a page.
const RING_OFF: u32 = 4096;

/// Flags of `struct nw_mark_settings`.
const FILTER_HOST: u32 = 1;
const FILTER_PORT: u32 = 2;

/// Odd numbers by which the programs hash connections.
const SEEDS: u64 = 3;
/// 64-bit words of `struct nw_mark_counters`.
const COUNTERS: usize = 19;

const PROGRAMS: &str = "the programs that mark packets";

/// Marks the TCP connections that begin at a device, on either end, while it is
/// attached. Dropping it detaches it.
pub struct SignalProgram {
    ring: Option<Ring>,
    attached: Attached,
}

impl fmt::Debug for SignalProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalProgram")
            .field("tcx", &self.is_tcx())
            .finish_non_exhaustive()
    }
}

impl SignalProgram {
    /// Attaches to both sides of device `ifindex` of the *calling thread's*
    /// network namespace: by tcx, or by clsact where the kernel has no tcx. The
    /// device may have an Ethernet header or none.
    ///
    /// Profiles of which [`SignalSpec::counts_packets`] is true leave packets that are
    /// to be cut in several unmarked: set the device's `gso_max_segs` to 1.
    ///
    /// # Errors
    /// If the device does not exist or is of another type, the kernel refuses,
    /// the caller is not root, or the profile has L or E and the device forwards.
    pub fn attach(ifindex: u32, spec: &SignalSpec) -> Result<Self, BpfError> {
        Self::attach_with(ifindex, spec, &SignalOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`SignalProgram::attach`].
    pub fn attach_with(
        ifindex: u32,
        spec: &SignalSpec,
        options: &SignalOptions,
    ) -> Result<Self, BpfError> {
        let device = Device::of(ifindex, "mark packets at")?;
        if spec.needs_socket() && device.forwards() {
            return Err(BpfError::Refused {
                what: format!("mark `{spec}` at {}", device.name),
                why: "L and E need the sockets of the connections, and this device forwards \
                      those of other hosts; run it at the host that sends, or take a profile \
                      without L and E"
                    .to_owned(),
            });
        }
        let object = load(spec, device.net_at, options)?;
        let ring = if options.trace {
            Some(Ring::of(&object, "nw_trace", "read the trace of marks")?)
        } else {
            None
        };
        let attached = Attached::new(
            object,
            ifindex,
            !options.clsact,
            FilterPriority::Signals,
            PROGRAMS,
        )?;
        Ok(Self { ring, attached })
    }

    /// Whether it is attached by tcx.
    pub fn is_tcx(&self) -> bool {
        self.attached.is_tcx()
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn counters(&self) -> Result<SignalCounters, BpfError> {
        Ok(counters(self.attached.object())?.0)
    }

    /// Records of a trace that found no room.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn untraced(&self) -> Result<u64, BpfError> {
        Ok(counters(self.attached.object())?.1)
    }

    /// Hands over the records of a trace since the last call, in order, each the bytes
    /// of a `struct nw_mark_record` of bpf/mark.h, and answers how many that were. Does
    /// not wait.
    ///
    /// # Errors
    /// If the ring buffer cannot be read.
    pub fn poll(&mut self, each: impl FnMut(Vec<u8>)) -> Result<usize, BpfError> {
        match &self.ring {
            Some(ring) => ring.poll(|bytes| Ok(bytes.to_vec()), each),
            None => Ok(0),
        }
    }
}

/// What must be known of a device.
pub(crate) struct Device {
    pub name: String,
    /// Bytes before the network header.
    pub net_at: u32,
}

impl Device {
    /// Device `ifindex`, to which `what` is to be done.
    pub(crate) fn of(ifindex: u32, what: &str) -> Result<Self, BpfError> {
        let all = getifaddrs().map_err(|e| BpfError::Io(e.into()))?;
        // A device has an entry for itself and one for each address. One that
        // has no hardware address has no header of its own either.
        let mut entries = all
            .filter(|e| if_nametoindex(e.interface_name.as_str()).ok() == Some(ifindex))
            .peekable();
        let name = entries.peek().map(|e| e.interface_name.clone());
        let name = name.ok_or_else(|| BpfError::Refused {
            what: format!("{what} device {ifindex}"),
            why: "there is no such device in this network namespace".to_owned(),
        })?;
        let kind = entries.find_map(|e| Some(e.address?.as_link_addr()?.hatype()));
        let net_at = match kind {
            Some(kind) if WITH_ETHERNET.contains(&kind) => ETHERNET,
            Some(kind) if !WITHOUT.contains(&kind) => {
                return Err(BpfError::Refused {
                    what: format!("{what} {name}"),
                    why: format!(
                        "devices of type {kind} (ARPHRD) are not known; Ethernet, loopback, TUN \
                         and tunnels of IP are"
                    ),
                });
            }
            _ => 0,
        };
        Ok(Self { name, net_at })
    }

    /// Whether packets of others go on from it.
    fn forwards(&self) -> bool {
        ["ipv4", "ipv6"].into_iter().any(|family| {
            let path = format!("/proc/sys/net/{family}/conf/{}/forwarding", self.name);
            fs::read_to_string(path).is_ok_and(|value| value.trim() == "1")
        })
    }
}

/// Loads both programs for one kind of device.
pub(crate) fn load(
    spec: &SignalSpec,
    net_at: u32,
    options: &SignalOptions,
) -> Result<Object, BpfError> {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/mark.bpf.o"));
    let mut object = libbpf::open("mark", bytes)?;
    prepare(&mut object, spec, net_at, options).map_err(|e| refused("set up marks", &e))?;
    libbpf::load(object, &format!("load {PROGRAMS} with `{spec}`"))
}

/// Writes `struct nw_mark_settings` into the object.
fn prepare(
    object: &mut OpenObject,
    spec: &SignalSpec,
    net_at: u32,
    options: &SignalOptions,
) -> libbpf_rs::Result<()> {
    let mut settings = spec.params().as_bytes().to_vec();
    let of_ports = if options.ports.is_empty() {
        0
    } else {
        FILTER_PORT
    };
    let filter = options.host.map_or(0, |_| FILTER_HOST) | of_ports;
    settings.extend_from_slice(&net_at.to_ne_bytes());
    settings.extend_from_slice(&filter.to_ne_bytes());
    let host = match options.host {
        Some(IpAddr::V4(address)) => address.to_ipv6_mapped().octets(),
        Some(IpAddr::V6(address)) => address.octets(),
        None => [0; 16],
    };
    settings.extend_from_slice(&host);
    for i in 0..SEEDS {
        // Drawn anew for each process and each hasher.
        let seed = RandomState::new().hash_one(i) | 1;
        settings.extend_from_slice(&seed.to_ne_bytes());
    }
    settings.extend_from_slice(&u32::from(options.trace).to_ne_bytes());
    settings.extend_from_slice(&u32::from(spec.needs_socket()).to_ne_bytes());
    let mut ports = [0u64; 1024];
    for port in &options.ports {
        // The program has them as they are in a packet.
        let port = u16::from_ne_bytes(port.to_be_bytes());
        ports[usize::from(port >> 6)] |= 1 << (port & 63);
    }
    settings.extend(ports.iter().flat_map(|word| word.to_ne_bytes()));
    for mut map in object.maps_mut() {
        match &*map.name().to_string_lossy() {
            ".rodata.nw" => {
                if let Some(value) = map.initial_value_mut() {
                    value[..settings.len()].copy_from_slice(&settings);
                }
            }
            "nw_trace" => map.set_max_entries(if options.trace { RING } else { RING_OFF })?,
            _ => {}
        }
    }
    Ok(())
}

/// What the programs of `object` have done, and records that found no room.
pub(crate) fn counters(object: &Object) -> Result<(SignalCounters, u64), BpfError> {
    let what = "read the counters of marks";
    let map = object.maps().find(|m| m.name() == "nw_counters");
    let cpus = map
        .map(|m| m.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY))
        .transpose()
        .map_err(|e| refused(what, &e))?
        .flatten()
        .unwrap_or_default();
    Ok(sum(&cpus))
}

/// Adds up `struct nw_mark_counters` of all CPUs. The second number counts records of a
/// trace that found no room.
fn sum(cpus: &[Vec<u8>]) -> (SignalCounters, u64) {
    let mut sum = [0u64; COUNTERS];
    for cpu in cpus {
        for (total, word) in sum.iter_mut().zip(cpu.chunks_exact(8)) {
            let word = <[u8; 8]>::try_from(word).map_or(0, u64::from_ne_bytes);
            *total = total.wrapping_add(word);
        }
    }
    let mut set = [0; 8];
    set.copy_from_slice(&sum[3..11]);
    let counters = SignalCounters {
        flows: sum[0],
        evicted: sum[18],
        announced: sum[1],
        marked: sum[2],
        set,
        segmented: sum[11],
        segments: sum[12],
        without_socket: sum[13],
        refused: sum[14],
        passed_over: sum[16],
        other: sum[17],
    };
    (counters, sum[15])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_cpus_are_added_up() {
        let cpu = |from: u64| (from..from + 19).flat_map(u64::to_ne_bytes).collect();
        let (counters, untraced) = sum(&[cpu(1), cpu(101)]);
        assert_eq!((counters.flows, counters.evicted), (102, 138));
        assert_eq!((counters.set[0], counters.set[7]), (108, 122));
        assert_eq!(
            (untraced, counters.passed_over, counters.other),
            (132, 134, 136)
        );
    }
}
