//! What a prober and a responder tell each other: a byte for the kind of message, one for its
//! identifier, then what it has; and the same bytes as a packet.

#![no_main]

#[allow(dead_code)] // The crate's own parser, of which each end uses its part.
#[path = "../../crates/middlebox-detect/src/message.rs"]
mod message;

use std::net::SocketAddr;

use libfuzzer_sys::fuzz_target;
use message::{Kind, Message, Range, Record};
use narrows_middlebox_detect::{Prober, ProberSettings, Responder, ResponderSettings};
use narrows_pep::Cookies;
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{Ip, IpFields, UdpFields, ip, udp};

const KEY: [u8; 32] = [5; 32];
const KINDS: [Kind; 7] = [
    Kind::Hello,
    Kind::Welcome,
    Kind::Order,
    Kind::Fetch,
    Kind::Records,
    Kind::Probe,
    Kind::Call,
];

fn ends() -> (SocketAddr, SocketAddr) {
    let parse = |text: &str| text.parse().expect("an address");
    (parse("10.0.0.1:4000"), parse("10.0.0.2:5000"))
}

/// A datagram.
fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let (mut above, mut bytes) = (Vec::new(), Vec::new());
    let fields = UdpFields {
        source_port: from.port(),
        destination_port: to.port(),
    };
    fields.write(&mut above, from.ip(), to.ip(), payload, 0);
    IpFields {
        source: from.ip(),
        destination: to.ip(),
        traffic_class: 0,
        ttl: 64,
        protocol: ip::UDP,
        ident: 0,
    }
    .write(&mut bytes, above.len());
    bytes.extend_from_slice(&above);
    bytes
}

/// What is read is written so that it reads the same.
fn reads_as_written(bytes: &[u8]) {
    if let Some((message, _)) = Message::parse(bytes) {
        let written = message.write(0);
        assert_eq!(Message::parse(&written), Some((message, true)));
    }
    let Some((range, mut rest)) = Range::parse(bytes) else {
        return;
    };
    assert_eq!(Range::parse(&range.write()), Some((range, &[][..])));
    while let Some((record, next)) = Record::parse(rest) {
        assert!(next.len() < rest.len());
        let mut written = Vec::new();
        assert!(record.write(&mut written, rest.len()));
        assert_eq!(Record::parse(&written), Some((record, &[][..])));
        rest = next;
    }
}

/// No answer is longer than the request, whatever a client with a token says.
fn ask(responder: &mut Responder, now: Instant, packet: &[u8]) {
    if let Some(answer) = responder.receive(now, packet) {
        assert!(answer.len() <= packet.len());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (client, server) = ends();
    let settings = ResponderSettings {
        own: server,
        clients: vec!["0.0.0.0/0".parse().expect("a network")],
        calls: Vec::new(),
    };
    let mut responder = Responder::new(settings, KEY);
    let mut prober = Prober::new(ProberSettings::new(client, server), Rng::for_name(1, "fuzz"));
    let mut now = Instant::ZERO;
    reads_as_written(bytes);
    ask(&mut responder, now, bytes);
    prober.receive(now, bytes);
    let [kind, id, body @ ..] = bytes else { return };
    let body = &body[..body.len().min(1_200)];
    // The prober's session is in the first packet that it sends.
    let hello = prober.poll(now).expect("a prober begins");
    let header = Ip::parse(&hello).expect("a packet").header_len + udp::HEADER_LEN;
    let session = Message::parse(&hello[header..]).map_or(0, |(message, _)| message.session);
    let message = Message {
        spin: kind & 0x80 != 0,
        kind: KINDS[usize::from(*kind & 0x7f) % KINDS.len()],
        session,
        token: Cookies::new(KEY).of(client.ip()),
        id: (*id).into(),
        body,
    };
    let payload = message.write(0);
    reads_as_written(&payload);
    for _ in 0..3 {
        now += Duration::from_millis(10);
        ask(&mut responder, now, &datagram(client, server, &payload));
        while responder.poll(now).is_some() {}
        prober.receive(now, &datagram(server, client, &payload));
        while prober.poll(now).is_some() {}
    }
});
