//! Fetches by QUIC on the loopback interface, and who gets none.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use narrows_linux::Clock;
use narrows_linux::datagrams::DatagramSocket;
use narrows_quic::{Connection, QuicConfig, QuicControl, QuicEvent, STREAM_WINDOW};
use narrows_traffic::{Sends, Transfer};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::Ecn;
use nix::errno::Errno;

use super::super::receiver::Step;
use super::super::token::{NONCE, Secret, Token};
use super::super::wire::{OPENING, Opening, Request, SetOptions};
use super::served::{Listening, Served};
use super::*;

const BYTES: u64 = 1_234_567;

/// How long a test waits at most.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

fn secret(nonce: u8) -> Secret {
    let token = Token::of(b"0123456789abcdef");
    token.secret(&[[nonce; NONCE], [2; NONCE]])
}

/// A session of as many objects.
fn request(objects: usize) -> Request {
    let object = Transfer {
        set: 0,
        instance: 0,
        start: Duration::ZERO,
        sends: Sends::Get(BYTES),
    };
    Request {
        interval_ns: 1_000_000_000,
        lasts_ns: 1_000_000_000,
        sets: vec![SetOptions {
            class: 0,
            control: Some("quic:cubic".to_owned()),
        }],
        transfers: vec![object; objects],
    }
}

/// A server's port, and where it is.
fn served(clock: Clock) -> (Served, super::super::wire::QuicPort) {
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (listening, port) = Listening::at(here, &secret(1)).unwrap();
    (Served::new(listening, here, clock), port)
}

/// Has both ends go on until the step of the client is `until`, or for `PATIENCE`.
fn drive(served: &mut Served, fetch: &mut Fetch, objects: usize, clock: &Clock) -> Step {
    let request = request(objects);
    let mut room = vec![0; narrows_linux::datagrams::LARGEST];
    let until = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < until {
        served.receive(&request);
        served.go_on(&request);
        let step = fetch.ready(clock, &mut room);
        if step != Step::Goes {
            fetch.close(clock.now());
            served.receive(&request);
            return step;
        }
    }
    Step::Goes
}

fn fetches(port: super::super::wire::QuicPort, nonce: u8) -> Fetches {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    Fetches::new(server, &port, &secret(nonce)).unwrap()
}

fn open(fetches: &Fetches, number: u32, clock: &Clock) -> Fetch {
    let none = std::collections::BTreeSet::new();
    fetches
        .open(number, QuicControl::Cubic, 0, clock, &none)
        .unwrap()
}

#[test]
fn an_object_is_fetched_to_the_byte_and_its_connection_leaves_nothing() {
    let clock = Clock::starting_now();
    let (mut served, port) = served(clock);
    let fetches = fetches(port, 1);
    for number in 0..3 {
        let mut fetch = open(&fetches, number, &clock);
        let step = drive(&mut served, &mut fetch, 3, &clock);
        assert_eq!((step, fetch.received), (Step::Over, BYTES), "{number}");
    }
    assert_eq!(served.connections(), 0);
    let samples = served.sample(clock.now());
    let of: u64 = samples.iter().map(|sample| sample.bytes).sum();
    assert_eq!(of, 3 * BYTES);
    let sample = samples[0];
    assert!(sample.cwnd > 0 && sample.pmtu > 1_200, "{sample:?}");
    assert_eq!(sample.rttvar_us, None);
    assert_eq!(served.close(), [(0, BYTES), (1, BYTES), (2, BYTES)]);
}

#[test]
fn a_first_packet_without_the_proof_of_its_transfer_is_dropped_without_an_answer() {
    let clock = Clock::starting_now();
    let (mut served, port) = served(clock);
    let fetches = fetches(port, 1);
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (stranger, _) = DatagramSocket::bound(here, false).unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port.port));
    let mut room = vec![0; narrows_linux::datagrams::LARGEST];
    // Of another session, of a transfer that is not there, and without any sense.
    let ids = [
        id_of(&secret(3), 0),
        id_of(&secret(1), 1),
        [0; ID],
        id_of(&secret(1), u32::MAX),
    ];
    for id in ids {
        let mut first = first_packet(&clock, to, id);
        stranger.send(to, 0, &first).unwrap();
        // Nor is what only looks like one, with a version of which a server would tell its own.
        first[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]);
        stranger.send(to, 0, &first).unwrap();
    }
    for garbage in [&[][..], &[0x40; 30], &[0xc0; 1_200], &[0xff; 60_000]] {
        stranger.send(to, 0, garbage).unwrap();
    }
    for _ in 0..3 {
        served.receive(&request(1));
    }
    assert_eq!(served.connections(), 0);
    assert_eq!(stranger.receive(&mut room), Err(Errno::EAGAIN));
    // The transfer is still to be had.
    let mut fetch = open(&fetches, 0, &clock);
    let step = drive(&mut served, &mut fetch, 1, &clock);
    assert_eq!((step, fetch.received), (Step::Over, BYTES));
}

#[test]
fn a_transfer_has_one_connection_whoever_repeats_its_first_packet() {
    let clock = Clock::starting_now();
    let (mut served, port) = served(clock);
    let mut fetch = open(&fetches(port, 1), 0, &clock);
    let step = drive(&mut served, &mut fetch, 1, &clock);
    assert_eq!((step, fetch.received), (Step::Over, BYTES));
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (stranger, _) = DatagramSocket::bound(here, false).unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port.port));
    let mut room = vec![0; narrows_linux::datagrams::LARGEST];
    let again = first_packet(&clock, to, id_of(&secret(1), 0));
    stranger.send(to, 0, &again).unwrap();
    served.receive(&request(1));
    assert_eq!(served.connections(), 0);
    assert_eq!(stranger.receive(&mut room), Err(Errno::EAGAIN));
}

#[test]
fn a_first_packet_of_another_address_is_dropped_even_with_its_proof() {
    let clock = Clock::starting_now();
    let (mut served, port) = served(clock);
    let elsewhere = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0));
    let (socket, _) = DatagramSocket::bound(elsewhere, false).unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port.port));
    let first = first_packet(&clock, to, id_of(&secret(1), 0));
    socket.send(to, 0, &first).unwrap();
    served.receive(&request(1));
    assert_eq!(served.connections(), 0);
    let mut room = vec![0; narrows_linux::datagrams::LARGEST];
    assert_eq!(socket.receive(&mut room), Err(Errno::EAGAIN));
}

/// A client of QUIC that takes any certificate and addresses its first packets to `id`.
fn stranger(clock: &Clock, to: SocketAddr, id: [u8; ID]) -> Connection {
    let config = QuicConfig {
        local: SocketAddr::from((Ipv4Addr::LOCALHOST, 9)),
        remote: to,
        control: QuicControl::Cubic,
        ecn: false,
        dscp: 0,
        mtu: MTU,
        window: STREAM_WINDOW,
        spin: false,
        flow: None,
        tls: Some(Arc::new(narrows_live::tls::client(|_| true).unwrap())),
    };
    let mut connection = Connection::client(config, clock.epoch(), Rng::for_name(1, "stranger"));
    connection.address_first(&id);
    connection.open(clock.now());
    connection
}

fn first_packet(clock: &Clock, to: SocketAddr, id: [u8; ID]) -> Vec<u8> {
    let mut connection = stranger(clock, to, id);
    let (_, payload) = connection.poll_payload(clock.now()).unwrap();
    payload.to_vec()
}

/// What a client gets that has a first packet of a right one and says `opening` on its stream.
fn received(opening: &[u8]) -> (u64, bool) {
    let clock = Clock::starting_now();
    let (mut served, port) = served(clock);
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (socket, _) = DatagramSocket::bound(here, false).unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port.port));
    let mut client = stranger(&clock, to, id_of(&secret(1), 0));
    let mut room = vec![0; narrows_linux::datagrams::LARGEST];
    let (mut bytes, mut said) = (0, false);
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        assert!(std::time::Instant::now() < until, "{bytes} bytes");
        let now: Instant = clock.now();
        client.on_timeout(now);
        if !said {
            let taken = client.write(opening);
            // No more is kept of a client.
            assert!(taken <= OPENING as u64, "{taken}");
            said = taken > 0 && client.finish();
        }
        while let Some((_, payload)) = client.poll_payload(now) {
            socket.send(to, 0, payload).unwrap();
        }
        served.receive(&request(2));
        served.go_on(&request(2));
        while let Ok(Some(got)) = socket.receive(&mut room) {
            client.receive_payload(clock.now(), Ecn::NotEct, &room[..got.len]);
        }
        while let Some(event) = client.poll_event() {
            match event {
                QuicEvent::Readable => {
                    let (read, ended) = client.read(u64::MAX, None);
                    bytes += read;
                    if ended {
                        return (bytes, said);
                    }
                }
                QuicEvent::Closed | QuicEvent::Broken(_) => return (bytes, said),
                _ => {}
            }
        }
    }
}

#[test]
fn a_stream_without_the_key_of_its_transfer_gets_nothing() {
    let key = stream_key(&secret(1));
    assert_eq!(received(&Opening::Flow(0).to_bytes(&key)), (BYTES, true));
    let other = stream_key(&secret(3));
    let short = &Opening::Flow(0).to_bytes(&key)[..OPENING - 1];
    for wrong in [
        &Opening::Flow(0).to_bytes(&other)[..],
        &Opening::Flow(1).to_bytes(&key)[..],
        &Opening::Time(0).to_bytes(&key)[..],
        &[0; OPENING],
        short,
    ] {
        assert_eq!(received(wrong), (0, true), "{wrong:?}");
    }
}

#[test]
fn no_more_is_kept_of_a_client_than_what_it_has_to_say() {
    // As much as it may send ahead is checked where it is written.
    assert_eq!(received(&[0; 100 * OPENING]), (0, true));
}

#[test]
fn a_client_takes_no_other_certificate_than_the_one_that_was_proven_to_it() {
    let clock = Clock::starting_now();
    let (mut real, port) = served(clock);
    // Another server has the same secret and thus the same ids, and its own certificate.
    let (mut other, fake) = served(clock);
    let fake = super::super::wire::QuicPort {
        port: fake.port,
        ..port
    };
    let mut fetch = open(&fetches(fake, 1), 0, &clock);
    let step = drive(&mut other, &mut fetch, 1, &clock);
    let Step::Broke(why) = step else {
        panic!("{step:?}");
    };
    assert!(why.contains("certificate"), "{why}");
    assert_eq!(fetch.received, 0);
    // It was not asked for the object either.
    assert_eq!(other.close(), []);
    let mut fetch = open(&fetches(port, 1), 0, &clock);
    let step = drive(&mut real, &mut fetch, 1, &clock);
    assert_eq!((step, fetch.received), (Step::Over, BYTES));
}

#[test]
fn a_client_that_stands_still_keeps_no_other_waiting() {
    let clock = Clock::starting_now();
    let (mut served, port) = served(clock);
    let fetches = fetches(port, 1);
    let still = open(&fetches, 0, &clock);
    let mut fetch = open(&fetches, 1, &clock);
    let step = drive(&mut served, &mut fetch, 2, &clock);
    assert_eq!((step, fetch.received), (Step::Over, BYTES));
    assert_eq!((served.connections(), still.received), (1, 0));
}
