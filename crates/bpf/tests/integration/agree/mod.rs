//! A recorded connection against `narrows-tcp`: the same segments at the same
//! times, the same ACKs; what each reckons of them is compared at every call of
//! the congestion control.

mod tally;
mod timeline;

use crate::recorded::calls::Trace;
use crate::recorded::packets::Packet;
use narrows_bpf::Record;
use narrows_cc::{Answer, CaState, Call, CwndEvent};
use narrows_tcp::testkit::{Mutant, Replay, Timer};
use narrows_tcp::{EcnMode, TcpConfig};
use narrows_units::Instant;
use narrows_wire::{Ip, Tcp, TcpFlags};

pub use tally::Held;
use timeline::{Event, timeline};

/// A packet's headers, read.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    pub ip: Ip,
    pub tcp: Tcp,
    /// Bytes of both headers.
    pub length: usize,
    /// Payload bytes.
    pub payload: u32,
}

impl Headers {
    pub fn of(packet: &Packet) -> Option<Self> {
        let ip = Ip::parse(&packet.bytes).ok()?;
        let tcp = Tcp::parse(packet.bytes.get(ip.header_len..)?).ok()?;
        let length = ip.header_len + tcp.header_len;
        Some(Self {
            ip,
            tcp,
            length,
            payload: packet.len - length as u32,
        })
    }
}

/// The call that a record is of; `None` for those that concern a receiver.
fn call(record: &Record) -> Option<Call> {
    use CwndEvent::{EcnIsCe, EcnNoCe};
    let of_receiver = [
        Call::Release,
        Call::CwndEvent(EcnIsCe),
        Call::CwndEvent(EcnNoCe),
    ];
    crate::recorded::calls::call(record).filter(|call| !of_receiver.contains(call))
}

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

/// Replays the connection and compares; by a wrong rule, if one is named.
pub fn hold(name: &str, trace: &Trace, packets: &[Packet], mutant: Option<Mutant>) -> Held {
    let mut held = Held::new(name);
    let records: Vec<Record> = trace
        .records
        .iter()
        .filter(|r| !r.sample && call(r).is_some())
        .cloned()
        .collect();
    let syn = packets.iter().find(|p| p.egress).expect("a SYN");
    let read = Headers::of(syn).expect("a segment");
    let offset = read.tcp.options.timestamps.map_or(0, |t| t.0);
    let offset = offset.wrapping_sub((syn.sent_ns / 1_000_000) as u32);
    let iss = read.tcp.seq;
    let fin = packets.iter().filter(|p| p.egress).find_map(|p| {
        let h = Headers::of(p)?;
        h.tcp
            .flags
            .has(TcpFlags::FIN)
            .then(|| h.tcp.seq.wrapping_add(h.payload))
    });
    let mut config = TcpConfig::new(
        (read.ip.source, read.tcp.source_port).into(),
        (read.ip.destination, read.tcp.destination_port).into(),
        trace.spec.clone(),
    );
    config.host.tick = narrows_units::Duration::ZERO;
    config.ecn = match read.tcp.flags.ace() {
        0 => EcnMode::Off,
        0b011 => EcnMode::Classic,
        _ => EcnMode::AccEcn,
    };
    let mut player = Player {
        replay: Replay::new(config, iss, offset),
        fin,
        held: &mut held,
    };
    if let Some(mutant) = mutant {
        player.replay.follow(mutant);
    }
    player.replay.open(at(syn.sent_ns));
    for event in timeline(&records, packets, read.tcp.source_port) {
        player.play(&event);
    }
    held
}

struct Player<'a> {
    replay: Replay,
    fin: Option<u32>,
    held: &'a mut Held,
}

impl Player<'_> {
    fn play(&mut self, event: &Event<'_>) {
        match event {
            Event::Ack {
                calls,
                packet,
                headers,
            } => {
                let now = at(calls[0].facts.now_ns);
                self.written(now, calls[0].raw.write_seq);
                self.script(calls);
                let kept = &packet.bytes[..headers.length.min(packet.bytes.len())];
                self.replay.receive(now, kept, headers.payload);
                self.compare(calls);
            }
            Event::Unexplained { calls } => {
                for record in *calls {
                    self.held.unexplained(record);
                }
            }
            Event::Timeout { calls, timer } => {
                let now = at(calls[0].facts.now_ns);
                self.fire(now, *timer);
                self.script(calls);
                self.replay.time_out(now, *timer);
                self.compare(calls);
            }
            Event::Sent {
                calls,
                packet,
                headers,
                write_seq,
                alone,
            } => {
                let now = at(packet.sent_ns);
                if *alone {
                    self.replay.settle();
                }
                self.written(now, *write_seq);
                let seq = headers.tcp.seq;
                let old = self.replay.is_old(seq);
                let state = self.replay.ca_state();
                let timer = self.replay.timer().map(|t| t.0);
                if *alone && old && timer == Some(Timer::Reorder) && !self.replay.is_lost(seq) {
                    self.fire(now, Timer::Reorder);
                    self.replay.time_out(now, Timer::Reorder);
                    self.compare(&[]);
                }
                let probe = *alone
                    && timer == Some(Timer::LossProbe)
                    && state < CaState::Recovery
                    && (old || self.replay.window_is_full());
                if probe {
                    self.fire(now, Timer::LossProbe);
                }
                self.script(calls);
                let segment = match packet.segment {
                    0 => headers.payload,
                    n => u32::from(n),
                };
                let fin = headers.tcp.flags.has(TcpFlags::FIN);
                self.replay
                    .transmit(now, seq, headers.payload, segment, fin, probe);
                self.compare(calls);
            }
        }
    }

    /// A timer of the kernel fired: when would ours have?
    fn fire(&mut self, now: Instant, timer: Timer) {
        let own = self.replay.timer();
        self.held.timer(timer, now, own);
    }

    fn written(&mut self, now: Instant, write_seq: u32) {
        let end = match self.fin {
            Some(fin) if (write_seq.wrapping_sub(fin) as i32) > 0 => {
                self.replay.closed();
                fin
            }
            _ => write_seq,
        };
        self.replay.written(now, end);
    }

    fn script(&mut self, calls: &[Record]) {
        self.replay.script(calls.iter().filter_map(|r| {
            let answer = Answer {
                decision: r.decision,
                returned: r.answer,
            };
            Some((call(r)?, answer))
        }));
    }

    /// Lines up the kernel's calls and ours.
    fn compare(&mut self, calls: &[Record]) {
        let ours = self.replay.calls();
        let mut next = 0;
        for record in calls {
            let Some(theirs) = call(record) else { continue };
            let found = ours[next..].iter().position(|c| c.0.same_hook(&theirs));
            let Some(found) = found else {
                self.held.missing(record, &theirs);
                continue;
            };
            for extra in &ours[next..next + found] {
                self.held.extra(record, extra);
            }
            next += found;
            let (own, facts) = &ours[next];
            next += 1;
            self.held.call(record, &theirs, own, facts);
        }
        for extra in &ours[next..] {
            self.held.stray(extra);
        }
    }
}
