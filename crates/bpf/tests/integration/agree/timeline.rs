//! What happened to a connection, in order.

use std::collections::VecDeque;

use crate::recorded::packets::Packet;
use narrows_bpf::{Hook, Record};
use narrows_tcp::testkit::Timer;
use narrows_wire::TcpFlags;

use super::Headers;

/// One thing that happened, and the calls of hooks in the course of it.
#[derive(Debug)]
pub enum Event<'a> {
    /// A packet came.
    Ack {
        calls: &'a [Record],
        packet: &'a Packet,
        headers: Headers,
    },
    /// The kernel processed an ACK that was not recorded.
    Unexplained { calls: &'a [Record] },
    /// A timer fired.
    Timeout { calls: &'a [Record], timer: Timer },
    /// A packet left.
    Sent {
        calls: &'a [Record],
        packet: &'a Packet,
        headers: Headers,
        /// How far the application had written, as the next call shows.
        write_seq: u32,
        /// It left on its own, not in answer to an ACK or a timeout.
        alone: bool,
    },
}

/// So long after an ACK or a timeout began what leaves is in answer to it, ns.
const ANSWER: u64 = 300_000;

/// Sorts calls and packets into events.
pub fn timeline<'a>(records: &'a [Record], packets: &'a [Packet], port: u16) -> Vec<Event<'a>> {
    let mut came = VecDeque::new();
    let mut left = VecDeque::new();
    for packet in packets {
        let Some(headers) = Headers::of(packet) else {
            continue;
        };
        let flags = headers.tcp.flags;
        if packet.egress && headers.tcp.source_port == port {
            let carries = headers.payload > 0 || flags.has(TcpFlags::FIN);
            if carries && !flags.has(TcpFlags::SYN) {
                left.push_back((packet, headers));
            }
        } else if !packet.egress && headers.tcp.destination_port == port {
            came.push_back((packet, headers));
        }
    }
    let mut events = Vec::new();
    let mut from = 0;
    // Calls before a transmission that belong to it.
    let mut own = 0..0;
    let mut busy_until = 0;
    let mut write_seq = 0;
    loop {
        let group = next_group(&records[from..]);
        let begins = group.first().map_or(u64::MAX, |r| r.raw.ktime_ns);
        if let Some((packet, headers)) = left.front().copied() {
            if packet.passed_ns < begins {
                left.pop_front();
                events.push(Event::Sent {
                    calls: &records[own.clone()],
                    packet,
                    headers,
                    write_seq: group.first().map_or(write_seq, |r| r.raw.write_seq),
                    alone: packet.passed_ns > busy_until,
                });
                own = 0..0;
                continue;
            }
        }
        let Some(first) = group.first() else {
            return events;
        };
        write_seq = first.raw.write_seq;
        let calls = from..from + group.len();
        from = calls.end;
        let last = group[group.len() - 1].raw.ktime_ns;
        let has = |hook: Hook| group.iter().any(|r| r.hook == hook);
        if has(Hook::InAckEvent) || has(Hook::Init) {
            busy_until = last + ANSWER;
            let calls = &records[calls];
            events.push(match acked_by(&mut came, group) {
                Some((packet, headers)) => Event::Ack {
                    calls,
                    packet,
                    headers,
                },
                None => Event::Unexplained { calls },
            });
        } else if has(Hook::SetState) || has(Hook::Ssthresh) {
            busy_until = last + ANSWER;
            let lost = |r: &Record| r.hook == Hook::SetState && r.argument == 4;
            let timer = if group.iter().any(lost) {
                Timer::Retransmit
            } else {
                Timer::Reorder
            };
            events.push(Event::Timeout {
                calls: &records[calls],
                timer,
            });
        } else if own.is_empty() {
            own = calls;
        } else {
            own.end = calls.end;
        }
    }
}

/// The calls of one ACK, timeout or transmission: TCP reads its clock once
/// for each.
fn next_group(records: &[Record]) -> &[Record] {
    let Some(first) = records.first() else {
        return &[];
    };
    let same = |r: &&Record| r.facts.now_ns == first.facts.now_ns;
    let mut n = records.iter().take_while(same).count();
    // A retransmission leaves with the time of the ACK or timeout that it
    // answers, and a write after an idle time reads no clock; what belongs
    // to a transmission comes last.
    let sends = |r: &Record| r.hook == Hook::CwndEvent && r.argument <= 1;
    while n > 1 && sends(&records[n - 1]) {
        n -= 1;
    }
    &records[..n]
}

/// The packet that was processed: what waited for the socket may have been
/// merged with a later ACK.
fn acked_by<'a>(
    came: &mut VecDeque<(&'a Packet, Headers)>,
    group: &[Record],
) -> Option<(&'a Packet, Headers)> {
    let last = group.last()?;
    let una = last.facts.snd_una;
    while let Some((packet, headers)) = came.pop_front() {
        let ahead = headers.tcp.ack.wrapping_sub(una) as i32;
        if ahead == 0 {
            return Some((packet, headers));
        }
        if ahead > 0 {
            came.push_front((packet, headers));
            return None;
        }
    }
    None
}
