//! What a prober takes from packets that come.

use std::net::IpAddr;

use narrows_units::Instant;
use narrows_wire::{Icmp, Ip, Tcp, TcpFlags, ip};

use super::{Prober, Stage};
use crate::message::{Kind, Message, Range, Record};
use crate::probe::{Addresses, Over, Way, is_whole, payload, reset};

impl Prober {
    /// Takes a packet that came to its machine.
    pub fn receive(&mut self, now: Instant, packet: &[u8]) {
        let Ok(ip) = Ip::parse(packet) else { return };
        if ip.destination != self.settings.own.ip() || self.stage == Stage::Done {
            return;
        }
        if matches!(ip.protocol, ip::ICMP | ip::ICMPV6) {
            return self.take_error(&ip, packet);
        }
        let to_us = Addresses::of(packet).is_some_and(|ends| ends.destination == self.settings.own);
        if !to_us || !is_whole(packet) {
            return;
        }
        if let Some((message, true)) = payload(packet).and_then(Message::parse) {
            if message.session == self.session.number {
                match message.kind {
                    Kind::Welcome => return self.take_welcome(now, ip.protocol, message),
                    Kind::Records => return self.take_records(now, message.body),
                    _ => {}
                }
            }
        }
        if let Some((id, intact)) = self.session.identify(packet, false) {
            if let Some((Way::Back, probe)) = self.log.shot(id) {
                let sent = self.sent(id, Way::Back, probe);
                self.log.came(id, &sent, packet, intact);
            }
        } else if self.stage == Stage::Alone && ip.source == self.settings.target.ip() {
            self.alone.reached = true;
            let tcp = packet.get(ip.header_len..).map(Tcp::parse);
            if let Some(Ok(tcp)) = tcp.filter(|_| ip.protocol == ip::TCP) {
                if tcp.flags.has(TcpFlags::SYN) {
                    self.reset = Some(reset(self.ends(), tcp.ack));
                }
            }
        }
    }

    fn take_welcome(&mut self, now: Instant, protocol: u8, message: Message<'_>) {
        let over = match protocol {
            ip::UDP => Over::Udp,
            _ => Over::Tcp,
        };
        if self.stage != Stage::Reaching {
            return;
        }
        if self.welcomed == [false; 2] {
            self.session.token = message.token;
            self.over = over;
            self.unanswered = self.hellos.len();
        }
        self.welcomed[over as usize] = true;
        let hello = usize::from(message.id).checked_sub(1);
        if let Some(sent) = hello.and_then(|at| self.hellos.get(at)) {
            self.round_trip = self.round_trip.max(now.since(*sent));
        }
        if self.welcomed == [true; 2] {
            self.queue.clear();
            self.deadline = now;
        }
    }

    fn take_records(&mut self, now: Instant, body: &[u8]) {
        let Some((range, mut rest)) = Range::parse(body) else {
            return;
        };
        let wanted = self.fetch.0;
        let answers = range.quoted == wanted.quoted && range.first == wanted.first;
        if self.stage != Stage::Asking || !answers || range.last > wanted.last {
            return;
        }
        while let Some((record, next)) = Record::parse(rest) {
            rest = next;
            let Some((way, probe)) = self.log.shot(record.id) else {
                continue;
            };
            let sent = self.sent(record.id, way, probe);
            match (range.quoted, way) {
                (false, Way::Forward) => {
                    self.log.came(record.id, &sent, record.bytes, record.intact);
                }
                (true, Way::Back) => {
                    if let Some((router, quoted)) = record.bytes.split_first_chunk::<16>() {
                        let router = IpAddr::from(*router).to_canonical();
                        self.log.quoted(record.id, router, &sent, quoted);
                    }
                }
                _ => {}
            }
        }
        self.deadline = now;
        if range.last == wanted.last {
            self.asked();
        } else {
            let first = range.last + 1;
            self.fetch = (Range { first, ..wanted }, 0);
        }
    }

    /// An ICMP error about a probe.
    fn take_error(&mut self, ip: &Ip, packet: &[u8]) {
        let above = packet.get(ip.header_len..).unwrap_or_default();
        let Some((error, quoted)) = Icmp::quoted(ip.protocol, above) else {
            return;
        };
        let ours = Addresses::of(quoted).is_some_and(|ends| {
            ends.destination.ip() == self.settings.target.ip()
                && ends.source.ip() == self.settings.own.ip()
        });
        let from_host = ip.source == self.settings.target.ip();
        if !ours || !(error == Icmp::TimeExceeded || from_host) {
            return;
        }
        if from_host && error == Icmp::PortUnreachable && self.stage == Stage::Reaching {
            self.refusals += 1;
        }
        if let Some((id, _)) = self.session.identify(quoted, true) {
            if let Some((Way::Forward, probe)) = self.log.shot(id) {
                self.alone.reached |= from_host;
                let sent = self.sent(id, Way::Forward, probe);
                self.log.quoted(id, ip.source, &sent, quoted);
            }
        }
    }
}
