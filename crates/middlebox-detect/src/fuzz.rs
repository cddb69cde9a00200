//! Packets of any kind at both ends: passed over, and nothing else.

use std::net::SocketAddr;

use narrows_fuzz::Corpus;
use narrows_pep::Cookies;
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{Ecn, Icmp};

use crate::fixture::ends;
use crate::message::{Kind, Message, Range, Record};
use crate::probe::{Addresses, Over, Probe, Session, Shape, Way};
use crate::{Prober, ProberSettings, Responder, ResponderSettings, Stage};

const RUNS: u32 = 20_000;
const KEY: [u8; 32] = [5; 32];

fn session() -> Session {
    Session {
        number: 77,
        token: Cookies::new(KEY).of(ends().source.ip()),
    }
}

fn responder() -> Responder {
    let settings = ResponderSettings {
        own: ends().destination,
        clients: vec!["0.0.0.0/0".parse().unwrap()],
        calls: Vec::new(),
    };
    Responder::new(settings, KEY)
}

/// What messages have in them.
fn bodies() -> Vec<Vec<u8>> {
    let mut order = Probe::new(Shape::SynData, Ecn::Ect1).encode().to_vec();
    order.extend_from_slice(&[15, 160]);
    order.resize(88, 0);
    let range = Range {
        quoted: false,
        first: 1,
        last: 200,
    };
    let mut records = range.write().to_vec();
    let seen = Probe::new(Shape::Syn, Ecn::Ect0).packet(Way::Forward, 3, session(), ends());
    for id in 1..4 {
        let record = Record {
            id,
            intact: true,
            bytes: &seen,
        };
        assert!(record.write(&mut records, 1_200));
    }
    records.resize(400, 0);
    vec![order, records]
}

fn message(kind: Kind, body: &[u8]) -> Vec<u8> {
    let Session { number, token } = session();
    let message = Message {
        spin: false,
        kind,
        session: number,
        token,
        id: 3,
        body,
    };
    message.write(0)
}

/// Whatever a client with a token says: no answer is longer than the request.
#[test]
fn fuzz_requests() {
    let mut responder = responder();
    let mut answered = 0;
    let mut now = Instant::ZERO;
    Corpus::of(bodies()).run(RUNS, |body| {
        now += Duration::from_millis(1);
        for kind in [Kind::Order, Kind::Fetch, Kind::Hello] {
            let body = &body[..body.len().min(1_200)];
            let request = message(kind, body);
            for over in Over::BOTH {
                let packet = session().carry(over, Way::Forward, ends(), &request);
                if let Some(answer) = responder.receive(now, &packet) {
                    assert!(answer.len() <= packet.len());
                    answered += 1;
                }
            }
        }
    });
    assert!(answered > RUNS, "{answered}");
}

/// Whatever a responder says, the prober comes to an end.
#[test]
fn fuzz_answers() {
    let Addresses {
        source,
        destination,
    } = ends();
    let mut step = 0;
    let mut prober = None;
    Corpus::of(bodies()).run(RUNS, |body| {
        let settings = ProberSettings::new(source, destination);
        let rng = Rng::for_name(step / 200, "prober");
        let prober = prober.get_or_insert_with(|| Prober::new(settings, rng));
        let now = Instant::ZERO + Duration::from_millis(10 * (step % 20_000));
        step += 1;
        while prober.poll(now).is_some() {}
        let number = prober.session().number;
        let kind = match prober.stage() {
            Stage::Reaching => Kind::Welcome,
            _ => Kind::Records,
        };
        let answer = Message {
            spin: false,
            kind,
            session: number,
            token: [1; 16],
            id: 1,
            body: &body[..body.len().min(1_200)],
        };
        let back = ends().reversed();
        let answer = answer.write(0);
        prober.receive(now, &session().carry(Over::Udp, Way::Back, back, &answer));
    });
    let mut prober = prober.expect("it has run");
    let mut now = Instant::ZERO + Duration::from_secs(1_000);
    while let Some(wake) = prober.next_wake() {
        now = now.max(wake);
        while prober.poll(now).is_some() {}
    }
    assert!(prober.detection().is_some());
}

/// Bytes of any kind in place of packets, at both ends.
#[test]
fn fuzz_packets() {
    let mut seeds = Vec::new();
    let addresses = |ends: Addresses| [ends.source, ends.destination].map(|a: SocketAddr| a.ip());
    for (way, ends) in [(Way::Forward, ends()), (Way::Back, ends().reversed())] {
        for shape in [Shape::Udp, Shape::Segment, Shape::Syn] {
            let probe = Probe::new(shape, Ecn::Ce).packet(way, 1, session(), ends);
            let mut error = Vec::new();
            let [from, _] = addresses(ends);
            Icmp::TimeExceeded.report(&mut error, from, &probe, 0);
            seeds.extend([probe, error]);
        }
        for body in bodies() {
            let request = message(Kind::Fetch, &body);
            seeds.push(session().carry(Over::Tcp, way, ends, &request));
        }
    }
    let settings = ProberSettings::new(ends().source, ends().destination);
    let mut prober = Prober::new(settings, Rng::for_name(1, "prober"));
    let mut responder = responder();
    Corpus::of(seeds).run(RUNS, |bytes| {
        prober.receive(Instant::ZERO, bytes);
        if let Some(answer) = responder.receive(Instant::ZERO, bytes) {
            assert!(answer.len() <= bytes.len());
        }
    });
}
