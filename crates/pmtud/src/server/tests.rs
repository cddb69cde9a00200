use narrows_fuzz::Corpus;

use super::*;

const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

fn server() -> Server {
    Server::new(ServerSettings::default(), [9; 32])
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn message(kind: MessageKind, size: u16, token: [u8; TOKEN_LEN]) -> [u8; MESSAGE_LEN] {
    let message = Message {
        kind,
        size,
        number: 5,
        token,
    };
    message.write()
}

/// The token that `from` is given.
fn welcomed(server: &mut Server, now: Instant, from: IpAddr) -> [u8; TOKEN_LEN] {
    let hello = message(MessageKind::Hello, 0, [0; TOKEN_LEN]);
    let welcome = server.receive(now, from, &hello, 32).expect("a welcome");
    assert_eq!(welcome.len, 32);
    let read = Message::parse(&welcome.bytes).expect("a message");
    assert_eq!((read.kind, read.number), (MessageKind::Welcome, 5));
    read.token
}

#[test]
fn a_probe_is_answered_with_its_size_and_as_long_as_it_asks_for() {
    let mut server = server();
    let token = welcomed(&mut server, at(0), NEAR);
    for (wanted, len, answer) in [
        (0, 1_472, 32),
        (1_472, 1_472, 1_472),
        (1_300, 1_472, 1_300),
        (9_000, 1_472, 1_472),
        (9_000, 32, 32),
    ] {
        let probe = message(MessageKind::Probe, wanted, token);
        let got = server.receive(at(1), NEAR, &probe, len).expect("an answer");
        assert_eq!(got.len, answer, "{wanted} of {len}");
        let read = Message::parse(&got.bytes).expect("a message");
        assert_eq!(
            (read.kind, u32::from(read.size)),
            (MessageKind::Answer, len)
        );
        assert_eq!((read.number, read.token), (5, token));
    }
}

#[test]
fn a_token_is_of_its_address_its_time_and_its_server() {
    let mut server = server();
    let token = welcomed(&mut server, at(299), NEAR);
    let probe = message(MessageKind::Probe, 0, token);
    let answers = |server: &mut Server, now, from| server.receive(now, from, &probe, 100).is_some();
    assert!(answers(&mut server, at(299), NEAR));
    assert!(!answers(&mut server, at(299), OTHER), "another address");
    assert!(answers(&mut server, at(599), NEAR), "the period after it");
    assert!(!answers(&mut server, at(600), NEAR), "long ago");
    let mut other = Server::new(ServerSettings::default(), [8; 32]);
    assert!(!answers(&mut other, at(299), NEAR), "another server's");
    assert_eq!(server.counts().unauthenticated, 2);
    for at_byte in 0..TOKEN_LEN {
        let mut wrong = token;
        wrong[at_byte] ^= 1;
        let probe = message(MessageKind::Probe, 0, wrong);
        assert_eq!(server.receive(at(299), NEAR, &probe, 100), None);
    }
}

#[test]
fn answers_and_welcomes_are_not_answered_so_that_two_servers_never_talk() {
    let mut server = server();
    let token = welcomed(&mut server, at(0), NEAR);
    for kind in [MessageKind::Welcome, MessageKind::Answer] {
        let bytes = message(kind, 0, token);
        assert_eq!(server.receive(at(0), NEAR, &bytes, 100), None);
    }
    assert_eq!(server.counts().malformed, 2);
}

/// How many of so many datagrams in one second are answered.
fn answered(server: &mut Server, now: Instant, from: IpAddr, message: &[u8], sent: u32) -> u32 {
    let answers = (0..sent).filter(|_| server.receive(now, from, message, 32).is_some());
    answers.count() as u32
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn one_client_takes_no_more_than_its_rate_and_nothing_of_others() {
    let mut server = server();
    let mut probes = |second, from: &str| {
        let (now, from) = (at(second), address(from));
        let token = server.token(from, 0);
        let probe = message(MessageKind::Probe, 0, token);
        answered(&mut server, now, from, &probe, 2_000)
    };
    assert_eq!(probes(0, "192.0.2.1"), 500);
    assert_eq!(probes(0, "192.0.2.2"), 500);
    assert_eq!(probes(1, "192.0.2.1"), 500, "a second later");
    assert_eq!(probes(2, "2001:db8::1"), 500);
    assert_eq!(probes(2, "2001:db8::ffff:1"), 0, "the same /64");
    assert_eq!(probes(2, "2001:db8:0:1::1"), 500);
    let many = (0..100).map(|n| probes(3, &format!("198.51.100.{n}")));
    assert_eq!(many.sum::<u32>(), 10_000, "in all");
}

#[test]
fn who_has_no_token_takes_nothing_of_those_who_have_one() {
    let mut server = server();
    let token = welcomed(&mut server, at(0), NEAR);
    let hello = message(MessageKind::Hello, 0, [0; TOKEN_LEN]);
    let forged = message(MessageKind::Probe, 0, [7; TOKEN_LEN]);
    let probe = message(MessageKind::Probe, 0, token);
    // In one second: from its own address, from the others', and from very many.
    for from in [OTHER, NEAR] {
        assert_eq!(answered(&mut server, at(1), from, &forged, 100_000), 0);
        assert_eq!(answered(&mut server, at(1), from, &hello, 100_000), 20);
    }
    let third = address("192.0.2.3");
    assert_eq!(answered(&mut server, at(1), third, &hello, 1), 1, "others");
    let spoofed = |n: u32| IpAddr::from((0x0a00_0000 + n).to_be_bytes());
    let welcomed = (0..100_000).filter(|n| {
        let got = server.receive(at(1), spoofed(*n), &hello, 32);
        got.is_some()
    });
    assert_eq!(welcomed.count(), 1_000 - 41, "tokens in all");
    assert_eq!(
        answered(&mut server, at(1), NEAR, &probe, 2_000),
        500,
        "who has a token goes on as if there were none of them"
    );
    let counts = server.counts();
    assert_eq!((counts.unauthenticated, counts.limited), (200_000, 1_500));
    assert!(counts.tokens_limited > 100_000, "{counts:?}");
}

/// `FUZZ_RUNS=1000000 cargo test -p narrows-pmtud fuzz_` for a million.
#[test]
fn fuzz_requests_are_never_answered_with_more_than_they_have() {
    let token = welcomed(&mut server(), at(0), NEAR);
    let padded = |kind, size, len: usize| {
        let mut bytes = message(kind, size, token).to_vec();
        bytes.resize(len, 0);
        bytes
    };
    let corpus = Corpus::of([
        padded(MessageKind::Hello, 0, 32),
        padded(MessageKind::Hello, 0, 200),
        padded(MessageKind::Probe, 0, 32),
        padded(MessageKind::Probe, 65_535, 300),
        padded(MessageKind::Probe, 200, 400),
        padded(MessageKind::Answer, 200, 400),
    ]);
    let settings = ServerSettings {
        per_client: u32::MAX,
        in_all: u32::MAX,
        tokens: u32::MAX,
    };
    let mut server = Server::new(settings, [9; 32]);
    let mut second = 0;
    corpus.run(20_000, |input| {
        let len = input.len();
        // A second for each, so that no rate keeps an answer back; tokens hold that long.
        second = (second + 1) % 300;
        if let Some(answer) = server.receive(at(second), NEAR, input, len as u32) {
            assert!(usize::from(answer.len) <= len && answer.len >= 32);
            let asked = Message::parse(input).expect("a message");
            assert!(asked.kind == MessageKind::Hello || asked.token == token);
        }
    });
    let counts = server.counts();
    assert!(counts.answered > 100 && counts.welcomed > 100, "{counts:?}");
}
