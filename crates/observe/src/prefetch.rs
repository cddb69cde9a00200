//! Brings what is kept of flows near, for several packets at once.
//!
//! What is kept of a flow stands in some twenty lines of the cache, in boxes of
//! which one holds the address of the next. Where flows are many, these lines
//! are far away when a packet comes, and a packet that is observed alone waits
//! for one after the other. So the lines of several packets are asked for
//! together, level by level: a core has a score of such requests under way at a
//! time. A line is asked for by reading a word of it. Nothing depends on what
//! is read, and nothing is changed.

use std::hint::black_box;

use crate::classify::Ends;
use crate::flow::Estimators;
use crate::table::Table;

/// Packets whose flows are brought near together. What 16 packets need, some
/// 25 lines of 64 bytes each, is within a first-level cache of 32 KiB.
pub const TOGETHER: usize = 16;

/// Flows from which it pays. What fewer flows need, some 2 KiB of each, stays
/// within a third-level cache, and the core's own looking ahead hides most of
/// the wait for that.
pub(crate) const FROM: u32 = 1 << 13;

/// Brings flows near that are in the table.
pub(crate) fn flows<'a>(table: &Table, ends: impl Iterator<Item = &'a Ends>) {
    let mut hashes = [0; TOGETHER];
    let mut packets = 0;
    for (hash, ends) in hashes.iter_mut().zip(ends) {
        *hash = table.hash(ends);
        packets += 1;
    }
    let hashes = &hashes[..packets];
    let mut read = 0u64;
    let mut add = |words: u64| read = read.wrapping_add(words);
    // Where in the index.
    hashes.iter().for_each(|h| add(table.touch_index(*h)));
    // The flows themselves.
    let mut found = [u32::MAX; TOGETHER];
    for (found, hash) in found.iter_mut().zip(hashes) {
        if let Some(flow) = table.likely(*hash) {
            *found = flow;
            add(table.flow(flow).touch());
        }
    }
    let flows = || found[..packets].iter().filter(|f| **f != u32::MAX);
    // What they point at, and what that points at.
    flows().for_each(|at| add(table.touch_links(*at)));
    flows().for_each(|at| add(table.flow(*at).estimators.touch_boxes()));
    flows().for_each(|at| add(table.flow(*at).estimators.touch_far()));
    black_box(read);
}

/// Brings near what estimators point at.
pub(crate) fn estimators<'a>(all: impl Iterator<Item = &'a Estimators> + Clone) {
    let mut read = 0u64;
    all.clone()
        .for_each(|e| read = read.wrapping_add(e.touch()));
    all.clone()
        .for_each(|e| read = read.wrapping_add(e.touch_boxes()));
    all.for_each(|e| read = read.wrapping_add(e.touch_far()));
    black_box(read);
}
