//! Measurement signals in the packets of a device.

use std::fmt;
use std::fs;
use std::net::IpAddr;

use libbpf_rs::{MapCore, MapFlags, Object, OpenObject, ProgramInput};
use narrows_efm::Spec;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;

use crate::MarkOptions;
use crate::device::{Attached, Place};
use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::mark_record::{MarkCounters, MarkRecord};
use crate::ring::Ring;

/// Bytes of an Ethernet header, and of what loopback has in its place.
const ETHERNET: u32 = 14;
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

const PROGRAMS: &str = "the programs that mark packets";

/// Marks the TCP connections that begin at a device, on either end, while it is
/// attached. Dropping it detaches it.
pub struct Mark {
    ring: Option<Ring>,
    attached: Attached,
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mark")
            .field("tcx", &self.is_tcx())
            .finish_non_exhaustive()
    }
}

impl Mark {
    /// Attaches to both sides of device `ifindex` of the *calling thread's*
    /// network namespace: by tcx, or by clsact where the kernel has no tcx. The
    /// device may have an Ethernet header or none.
    ///
    /// Profiles of which [`Spec::counts_packets`] is true leave packets that are
    /// to be cut in several unmarked: set the device's `gso_max_segs` to 1.
    ///
    /// # Errors
    /// If the device does not exist or is of another type, the kernel refuses,
    /// the caller is not root, or the profile has L or E and the device forwards.
    pub fn attach(ifindex: u32, spec: &Spec) -> Result<Self, BpfError> {
        Self::attach_with(ifindex, spec, &MarkOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Mark::attach`].
    pub fn attach_with(ifindex: u32, spec: &Spec, options: &MarkOptions) -> Result<Self, BpfError> {
        let device = Device::of(ifindex)?;
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
        let attached = Attached::new(object, ifindex, !options.clsact, Place::Mark, PROGRAMS)?;
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
    pub fn counters(&self) -> Result<MarkCounters, BpfError> {
        counters(self.attached.object())
    }

    /// Hands over what a trace has told since the last call, in order, and
    /// answers how many records that were. Does not wait.
    ///
    /// # Errors
    /// If the ring buffer cannot be read or holds what is no record.
    pub fn poll(&mut self, each: impl FnMut(MarkRecord)) -> Result<usize, BpfError> {
        match &self.ring {
            Some(ring) => ring.poll(MarkRecord::from_bytes, each),
            None => Ok(0),
        }
    }
}

/// What must be known of a device.
struct Device {
    name: String,
    /// Bytes before the network header.
    net_at: u32,
}

impl Device {
    fn of(ifindex: u32) -> Result<Self, BpfError> {
        let all = getifaddrs().map_err(|e| BpfError::Io(e.into()))?;
        // A device has an entry for itself and one for each address. One that
        // has no hardware address has no header of its own either.
        let mut entries = all
            .filter(|e| if_nametoindex(e.interface_name.as_str()).ok() == Some(ifindex))
            .peekable();
        let name = entries.peek().map(|e| e.interface_name.clone());
        let name = name.ok_or_else(|| BpfError::Refused {
            what: format!("mark packets at device {ifindex}"),
            why: "there is no such device in this network namespace".to_owned(),
        })?;
        let kind = entries.find_map(|e| Some(e.address?.as_link_addr()?.hatype()));
        let net_at = match kind {
            Some(kind) if WITH_ETHERNET.contains(&kind) => ETHERNET,
            Some(kind) if !WITHOUT.contains(&kind) => {
                return Err(BpfError::Refused {
                    what: format!("mark packets at {name}"),
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
fn load(spec: &Spec, net_at: u32, options: &MarkOptions) -> Result<Object, BpfError> {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/mark.bpf.o"));
    let mut object = libbpf::open(bytes)?;
    prepare(&mut object, spec, net_at, options).map_err(|e| refused("set up marks", &e))?;
    libbpf::load(object, &format!("load {PROGRAMS} with `{spec}`"))
}

/// Writes `struct nw_mark_settings` into the object.
fn prepare(
    object: &mut OpenObject,
    spec: &Spec,
    net_at: u32,
    options: &MarkOptions,
) -> libbpf_rs::Result<()> {
    let mut settings = spec.params().to_bytes().to_vec();
    let filter = options.host.map_or(0, |_| FILTER_HOST) | options.port.map_or(0, |_| FILTER_PORT);
    settings.extend_from_slice(&net_at.to_ne_bytes());
    settings.extend_from_slice(&filter.to_ne_bytes());
    let host = match options.host {
        Some(IpAddr::V4(address)) => address.to_ipv6_mapped().octets(),
        Some(IpAddr::V6(address)) => address.octets(),
        None => [0; 16],
    };
    settings.extend_from_slice(&host);
    settings.extend_from_slice(&options.port.unwrap_or(0).to_be_bytes());
    settings.extend_from_slice(&u16::from(options.trace).to_ne_bytes());
    settings.extend_from_slice(&u32::from(spec.needs_socket()).to_ne_bytes());
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

fn counters(object: &Object) -> Result<MarkCounters, BpfError> {
    let what = "read the counters of marks";
    let map = |name: &str| object.maps().find(|m| m.name() == name);
    let cpus = map("nw_counters")
        .map(|m| m.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY))
        .transpose()
        .map_err(|e| refused(what, &e))?
        .flatten()
        .unwrap_or_default();
    let present = map("nw_flows").map_or(0, |m| m.keys().count() as u64);
    Ok(MarkCounters::sum(&cpus, present))
}

/// What a run of the programs costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkCost {
    /// Nanoseconds for a packet that leaves.
    pub out_ns: u64,
    /// Nanoseconds for one that arrives.
    pub in_ns: u64,
}

/// Measures `spec` by the kernel's own test runs: an established flow of
/// `packet`s, Ethernet frames, of which `repeat` leave and arrive. The first two
/// are its SYN, which leaves, and its SYN-ACK, which arrives.
///
/// # Errors
/// If the kernel refuses, or the caller is not root.
pub fn mark_cost(
    spec: &Spec,
    syn: &[u8],
    syn_ack: &[u8],
    leaving: &[u8],
    arriving: &[u8],
    repeat: u32,
) -> Result<MarkCost, BpfError> {
    let object = load(spec, ETHERNET, &MarkOptions::default())?;
    let run = |ingress: bool, frame: &[u8], repeat: u32| {
        let section = if ingress { "tcx/ingress" } else { "tcx/egress" };
        let what = "measure the programs that mark packets";
        let program = object.progs_mut().find(|p| p.section() == section);
        let program = program.ok_or_else(|| BpfError::Refused {
            what: what.to_owned(),
            why: "the object has no such program".to_owned(),
        })?;
        let input = ProgramInput {
            data_in: Some(frame),
            repeat,
            ..ProgramInput::default()
        };
        let output = program.test_run(input).map_err(|e| refused(what, &e))?;
        Ok::<_, BpfError>(output.duration.as_nanos() as u64)
    };
    run(false, syn, 1)?;
    run(true, syn_ack, 1)?;
    Ok(MarkCost {
        out_ns: run(false, leaving, repeat)?,
        in_ns: run(true, arriving, repeat)?,
    })
}
