//! TCP Fast Open between two ends: cold, then warm.

use crate::pipe::{Path, Pipe, config};
use narrows_tcp::{Connection, ReceiveBuffer, TcpState};
use narrows_units::{Duration, Instant};
use narrows_wire::tcp::FastOpenCookie;
use narrows_wire::{Ip, Tcp, TcpFlags};

const ONE_WAY: Duration = Duration::from_millis(10);

/// One request of 200 bytes and one answer of 5000; answers when the whole
/// answer was read, after the opening, and the cookie. Drops the `n`th packet
/// of end `from` if asked to.
fn exchange(
    v6: bool,
    cookie: Option<FastOpenCookie>,
    drop: Option<(usize, u32)>,
) -> (Duration, Option<FastOpenCookie>, Pipe) {
    let (mut c, mut s) = config("reno", v6);
    c.fast_open = true;
    s.fast_open = true;
    s.fast_open_key = 42;
    c.fast_open_cookie = cookie;
    let path = Path {
        delay: ONE_WAY,
        ..Path::default()
    };
    let mut pipe = Pipe::new(c, s, [path, path], 1);
    let mut seen = [0, 0];
    if let Some((end, n)) = drop {
        pipe.filter = Some(Box::new(move |_, from, _| {
            seen[from] += 1;
            from != end || seen[from] != n
        }));
    }
    let start = pipe.now;
    pipe.ends[0].write(&[7; 200]);
    pipe.open();
    pipe.ends[0].close(pipe.now);
    let mut answered = false;
    let mut got = Vec::new();
    let mut request = Vec::new();
    let mut done = Instant::ZERO;
    let until = start + Duration::from_secs(30);
    while pipe.step(until) && !pipe.ends.iter().any(Connection::is_closed) {
        pipe.ends[1].read_into(u64::MAX, &mut request);
        if request.len() == 200 && !answered {
            answered = true;
            pipe.ends[1].write(&[9; 5000]);
            pipe.ends[1].close(pipe.now);
        }
        pipe.ends[0].read_into(u64::MAX, &mut got);
        if got.len() == 5000 && done == Instant::ZERO {
            done = pipe.now;
        }
        pipe.flush();
    }
    assert_eq!(request, [7; 200]);
    assert_eq!(got, [9; 5000]);
    assert!(matches!(
        pipe.ends[0].state(),
        TcpState::TimeWait | TcpState::Closed
    ));
    let cookie = pipe.ends[0].fast_open_cookie();
    (done.since(start), cookie, pipe)
}

#[test]
fn a_cookie_saves_a_round_trip() {
    for v6 in [false, true] {
        let (cold, cookie, _) = exchange(v6, None, None);
        assert_eq!(cold, ONE_WAY * 4);
        assert!(cookie.is_some());
        let (warm, _, pipe) = exchange(v6, cookie, None);
        assert_eq!(warm, ONE_WAY * 2);
        assert_eq!(pipe.ends[0].sample(pipe.now).retransmits, 0);
        assert_eq!(pipe.ends[1].sample(pipe.now).retransmits, 0);
    }
}

#[test]
fn every_single_loss_of_a_warm_exchange_is_repaired() {
    let (_, cookie, _) = exchange(false, None, None);
    for end in 0..2 {
        for n in 1..8 {
            exchange(false, cookie, Some((end, n)));
        }
    }
}

#[test]
fn a_wrong_cookie_costs_nothing_but_the_round_trip() {
    let wrong = FastOpenCookie::new(&[1; 8]);
    let (time, cookie, _) = exchange(false, wrong, None);
    assert_eq!(time, ONE_WAY * 4);
    assert!(cookie.is_some() && cookie != wrong);
}

#[test]
fn the_syn_carries_the_request() {
    let (_, cookie, _) = exchange(false, None, None);
    let (mut c, s) = config("reno", false);
    c.fast_open = true;
    c.fast_open_cookie = cookie;
    let mut pipe = Pipe::new(c, s, [Path::default(); 2], 1);
    pipe.ends[0].write(&[7; 3000]);
    pipe.ends[0].open(pipe.now);
    let packet = pipe.ends[0].poll_transmit(pipe.now, &mut pipe.pool);
    let packet = packet.expect("a SYN");
    let ip = Ip::parse(&packet.bytes).expect("an IP header");
    let tcp = Tcp::parse(&packet.bytes[ip.header_len..]).expect("a TCP header");
    assert!(tcp.flags.has(TcpFlags::SYN));
    // 1460 less the most that options may take.
    assert_eq!(ip.total_len - ip.header_len - tcp.header_len, 1420);
    assert!(packet.len() <= 1500);
}

#[test]
fn a_server_that_begins_early_may_fill_the_window_of_the_syn() {
    let (_, cookie, _) = exchange(false, None, None);
    let (mut c, mut s) = config("reno", false);
    (c.fast_open, s.fast_open) = (true, true);
    s.fast_open_key = 42;
    c.fast_open_cookie = cookie;
    // Three full segments, from the first byte after the server's SYN on.
    c.receive_buffer = ReceiveBuffer::Fixed(3 * 1448);
    let path = Path {
        delay: ONE_WAY,
        ..Path::default()
    };
    let mut pipe = Pipe::new(c, s, [path, path], 1);
    pipe.ends[0].write(&[7; 200]);
    pipe.open();
    let until = pipe.now + Duration::from_secs(1);
    while pipe.ends[1].readable() == 0 && pipe.step(until) {}
    pipe.ends[1].write_zeros(20_000);
    pipe.flush();
    assert_eq!(pipe.ends[1].state(), TcpState::SynReceived);
    assert_eq!(pipe.ends[1].unsent(), 20_000 - 3 * 1448);
}
