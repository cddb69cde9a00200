//! The connections that a box in the kernel tracks.

use std::net::IpAddr;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, Object};
use narrows_mmb::kept_for;
use narrows_wire::FlowKey;
use nix::time::{ClockId, clock_gettime};

use crate::BoxConnection;
use crate::error::BpfError;
use crate::libbpf::refused;

/// Entries that are asked for at once.
const BATCH: u32 = 4096;

/// Bytes of `struct nw_mmb_flow`.
const FLOW: usize = 40;
/// Where `struct nw_mmb_connection` has when its last packet came, the TCP flags, how many rules
/// and which, when it began, and its packets.
const LAST_ACTIVE: usize = FLOW;
const FLAGS: usize = 73;
const RULES: usize = 88;
const RULE: usize = 92;
const BEGUN: usize = 160;
const PACKETS: usize = 168;

const READING: &str = "read the connections of the box";

/// The connections of a loaded object, with the identifiers of their rules, without those that were idle for too long.
pub(crate) fn connections(object: &Object) -> Result<Vec<BoxConnection>, BpfError> {
    let Some(map) = object.maps().find(|m| m.name() == "nw_mmb_connections") else {
        return Ok(Vec::new());
    };
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(|e| BpfError::Refused {
        what: READING.to_owned(),
        why: e.to_string(),
    })?;
    let now = Duration::from(now);
    let entries = map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
    let entries = entries.map_err(|e| refused(READING, &e))?;
    let all = entries.filter_map(|(key, value)| connection(&key, &value, now));
    let kept = |c: &BoxConnection| {
        let kept = kept_for(c.forward.protocol, c.flags);
        c.idle < Duration::from_nanos(kept.as_nanos())
    };
    Ok(all.filter(kept).collect())
}

/// `struct nw_mmb_connection` with its key.
fn connection(key: &[u8], value: &[u8], now: Duration) -> Option<BoxConnection> {
    let long = |at: usize| {
        let bytes = value.get(at..at + 8)?;
        bytes.try_into().ok().map(u64::from_ne_bytes)
    };
    let word = |at: usize| {
        let bytes = value.get(at..at + 4)?;
        bytes.try_into().ok().map(u32::from_ne_bytes)
    };
    // The kernel's coarse clock is behind by a tick at most.
    let since = |at: usize| Some(now.saturating_sub(Duration::from_nanos(long(at)?)));
    let rules = (0..word(RULES)? as usize).map(|i| Some(word(RULE + 4 * i)? as usize));
    Some(BoxConnection {
        forward: flow(key)?,
        reverse: flow(value)?,
        flags: [*value.get(FLAGS)?, *value.get(FLAGS + 1)?],
        packets: long(PACKETS)?,
        age: since(BEGUN)?,
        idle: since(LAST_ACTIVE)?,
        rules: rules.collect::<Option<_>>()?,
    })
}

/// `struct nw_mmb_flow`.
fn flow(bytes: &[u8]) -> Option<FlowKey> {
    let v6 = *bytes.get(37)? != 0;
    let address = |at: usize| -> Option<IpAddr> {
        let bytes = bytes.get(at..at + 16)?;
        Some(match v6 {
            true => <[u8; 16]>::try_from(bytes).ok()?.into(),
            false => <[u8; 4]>::try_from(&bytes[..4]).ok()?.into(),
        })
    };
    let port = |at: usize| {
        let bytes = bytes.get(at..at + 2)?;
        bytes.try_into().ok().map(u16::from_be_bytes)
    };
    Some(FlowKey {
        source: address(0)?,
        destination: address(16)?,
        source_port: port(32)?,
        destination_port: port(34)?,
        protocol: *bytes.get(36)?,
    })
}
