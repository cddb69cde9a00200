//! Bulk transfers over a bottleneck.

use crate::pipe::{Path, Pipe, config};
use narrows_core::{Endpoint, RecoveryEvent};
use narrows_tcp::{Gro, HostModel, PacingUse, TcpConfig, TcpEvent};
use narrows_units::{Duration, Instant};

/// Sends zeros from the client for ten seconds; answers Mbit/s read in the
/// last five.
fn bulk(pipe: &mut Pipe) -> f64 {
    pipe.open();
    let start = pipe.now;
    let until = start + Duration::from_secs(10);
    let half = start + Duration::from_secs(5);
    pipe.ends[0].write_zeros(1 << 30);
    let mut bytes = 0;
    while pipe.step(until) {
        let n = pipe.ends[1].read(u64::MAX);
        if pipe.now >= half {
            bytes += n;
        }
        pipe.flush();
    }
    bytes as f64 * 8.0 / 5e6
}

fn path(mbit: u64, delay_ms: u64, limit: usize) -> Path {
    Path {
        delay: Duration::from_millis(delay_ms),
        rate: mbit * 125_000,
        limit,
        ..Path::default()
    }
}

fn count(pipe: &Pipe, wanted: RecoveryEvent) -> usize {
    pipe.events[0]
        .iter()
        .filter(|(_, e)| *e == TcpEvent::Recovery(wanted))
        .count()
}

#[test]
fn reno_fills_a_bottleneck_and_repairs_its_losses_fast() {
    for v6 in [false, true] {
        let (c, s) = config("reno", v6);
        let mut pipe = Pipe::new(c, s, [path(50, 10, 100), path(1000, 10, 0)], 1);
        let rate = bulk(&mut pipe);
        // 1448 of 1514 bytes (1428 with IPv6).
        let ideal = if v6 {
            50.0 * 1428.0 / 1514.0
        } else {
            50.0 * 1448.0 / 1514.0
        };
        assert!(rate > 0.9 * ideal && rate <= ideal * 1.001, "{rate}");
        assert!(count(&pipe, RecoveryEvent::FastRetransmit) > 2);
        assert_eq!(count(&pipe, RecoveryEvent::RetransmissionTimeout), 0);
        assert_eq!(count(&pipe, RecoveryEvent::SpuriousUndo), 0);
        let sample = pipe.ends[0].sample(pipe.now);
        assert_eq!(
            sample.retransmits,
            pipe.lost(0),
            "no needless retransmission"
        );
    }
}

#[test]
fn no_more_waits_to_be_sent_than_the_low_water_mark_says() {
    const MARK: u64 = 60_000;
    let (mut c, s) = config("reno", false);
    c.unsent_low_water = Some(MARK);
    let mut pipe = Pipe::new(c, s, [path(50, 10, 100), path(1000, 10, 0)], 1);
    pipe.open();
    let until = pipe.now + Duration::from_secs(5);
    let (mut read, mut most) = (0, 0);
    while pipe.step(until) {
        let client = &mut pipe.ends[0];
        let room = Endpoint::room(client);
        assert!(room <= MARK && (room == 0 || room > MARK / 2), "{room}");
        client.write_zeros(room);
        pipe.flush();
        let info = pipe.ends[0].info(pipe.now);
        most = most.max(u64::from(info.notsent_bytes.unwrap_or(u32::MAX)));
        read += pipe.ends[1].read(u64::MAX);
        pipe.flush();
    }
    assert!((MARK / 2..=MARK).contains(&most), "{most} bytes waited");
    let mbit = read as f64 * 8.0 / 5e6;
    assert!(mbit > 0.85 * 50.0 * 1448.0 / 1514.0, "{mbit}");
}

#[test]
fn large_segments_open_the_receive_window_as_small_ones_do() {
    for mtu in [1500, 6500, 9000, 20_000, 65_535] {
        let (mut c, mut s) = config("reno", false);
        (c.mtu, s.mtu) = (mtu, mtu);
        let mut pipe = Pipe::new(c, s, [path(100, 10, 200), path(1000, 10, 0)], 1);
        let rate = bulk(&mut pipe);
        let ideal = 100.0 * f64::from(mtu - 52) / f64::from(mtu + 14);
        assert!(rate > 0.95 * ideal, "{mtu}: {rate} of {ideal}");
        let limited = pipe.ends[0].limited().0;
        assert!(limited < Duration::from_millis(200), "{mtu}: {limited:?}");
    }
}

#[test]
fn nothing_is_lost_without_a_limit() {
    let (c, s) = config("reno", false);
    let mut pipe = Pipe::new(c, s, [path(50, 10, 0), path(1000, 10, 0)], 1);
    bulk(&mut pipe);
    let sample = pipe.ends[0].sample(pipe.now);
    assert_eq!(sample.retransmits, 0);
    assert_eq!(
        pipe.events[0]
            .iter()
            .filter(|(_, e)| matches!(e, TcpEvent::Recovery(_)))
            .count(),
        0
    );
    assert!(
        pipe.ends[0].limited().0 < Duration::from_millis(50),
        "{:?}",
        pipe.ends[0].limited()
    );
    assert!(pipe.now > Instant::ZERO);
}

#[test]
fn a_receiver_in_steady_state_acknowledges_every_second_segment() {
    let (c, s) = config("reno", false);
    let mut pipe = Pipe::new(c, s, [path(50, 10, 100), path(1000, 10, 0)], 1);
    bulk(&mut pipe);
    let ratio = pipe.packets(1) as f64 / pipe.packets(0) as f64;
    assert!((0.5..0.56).contains(&ratio), "{ratio}");
}

/// One change of the host at a time, none of which may cost throughput.
fn rate_with(change: impl Fn(&mut TcpConfig), cc: &str) -> (f64, Pipe) {
    let (mut c, mut s) = config(cc, false);
    change(&mut c);
    change(&mut s);
    let mut pipe = Pipe::new(c, s, [path(100, 5, 100), path(1000, 5, 0)], 1);
    let rate = bulk(&mut pipe);
    (rate, pipe)
}

#[test]
fn the_host_model_changes_bursts_and_acks_and_not_the_rate() {
    let ideal = 100.0 * 1448.0 / 1514.0;
    for cc in ["reno", "cubic"] {
        let (plain, p) = rate_with(|_| {}, cc);
        let (tso, _) = rate_with(|c| c.host.segmentation = HostModel::TSO, cc);
        let (paced, _) = rate_with(|c| c.host.pacing = PacingUse::Always, cc);
        let (fq, _) = rate_with(|c| c.host.pacing = PacingUse::Fq, cc);
        let (gro, g) = rate_with(
            |c| {
                c.host.gro = Some(Gro {
                    hold: Duration::from_micros(500),
                    max_segments: 17,
                });
            },
            cc,
        );
        for rate in [plain, tso, paced, fq, gro] {
            assert!(rate > 0.9 * ideal, "{cc}: {plain} {tso} {paced} {fq} {gro}");
        }
        assert!(g.packets(1) * 3 < p.packets(1) * 2, "ACKs are thinned");
    }
}

#[test]
fn what_limits_a_sender_is_told() {
    let (c, mut s) = config("reno", false);
    s.receive_buffer = narrows_tcp::ReceiveBuffer::Fixed(20_000);
    let mut pipe = Pipe::new(c, s, [path(50, 10, 0), path(1000, 10, 0)], 1);
    let rate = bulk(&mut pipe);
    // 20 000 bytes in 20 ms and a little.
    assert!((6.0..8.1).contains(&rate), "{rate}");
    let (window, buffer, application) = pipe.ends[0].limited();
    assert!(window > Duration::from_secs(8), "{window}");
    assert!(buffer + application < Duration::from_millis(100));

    let (mut c, s) = config("reno", false);
    c.send_buffer = 20_000;
    let mut pipe = Pipe::new(c, s, [path(50, 10, 0), path(1000, 10, 0)], 1);
    pipe.open();
    let until = pipe.now + Duration::from_secs(5);
    while pipe.step(until) {
        pipe.ends[0].write_zeros(1 << 20);
        pipe.ends[1].read(u64::MAX);
        pipe.flush();
    }
    let (window, buffer, application) = pipe.ends[0].limited();
    assert!(
        buffer > Duration::from_secs(3),
        "{window} {buffer} {application}"
    );

    let (c, s) = config("reno", false);
    let mut pipe = Pipe::new(c, s, [path(50, 10, 0), path(1000, 10, 0)], 1);
    pipe.open();
    let begin = pipe.now;
    for _ in 0..2 {
        pipe.ends[0].write_zeros(10_000);
        pipe.flush();
        let until = pipe.now + Duration::from_secs(1);
        while pipe.step(until) {}
        pipe.now = until;
    }
    // A round trip and the transmission of 10 kB, twice, with a second before
    // the second: data in flight is no lack of data (`tcpi_busy_time`).
    let info = pipe.ends[0].info(pipe.now);
    let busy = Duration::from_micros(info.busy_time.unwrap());
    assert!((42..60).contains(&(busy.as_micros() / 1000)), "{busy}");
    let (window, buffer, application) = info.limited(pipe.now.since(begin)).unwrap();
    assert_eq!((window, buffer), (Duration::ZERO, Duration::ZERO));
    assert_eq!(application + busy, pipe.now.since(begin));
    let limited = pipe.ends[0].limited().2;
    assert!(
        limited > Duration::from_millis(930) && limited < Duration::from_secs(1),
        "{limited}"
    );
}
