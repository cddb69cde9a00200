//! Small queues that get no word of packets that have left, and the send
//! buffer that they depend on.

use crate::pipe::{Path, Pipe, config};
use narrows_tcp::{
    EcnMode, HostModel, Segmentation, SendBuffer, SmallQueues, TcpConfig, TcpEvent, TcpState,
};
use narrows_units::Duration;

/// Bursts of a kernel before v5.12, which waits for an ACK within half a round trip.
const OLD_TSO: Segmentation = Segmentation::Tso {
    min_segments: 2,
    gso_max_bytes: 65_536,
    defer: Duration::from_secs(1),
};

fn path(delay_ms: u64, mark: u32) -> Path {
    Path {
        delay: Duration::from_millis(delay_ms),
        rate: 1_000_000_000 / 8,
        mark,
        ..Path::default()
    }
}

/// Mbit/s read in a minute's last fifty seconds, from an application that
/// always has more to write.
fn bulk(pipe: &mut Pipe) -> f64 {
    pipe.open();
    let half = pipe.now + Duration::from_secs(10);
    let until = pipe.now + Duration::from_secs(60);
    let mut bytes = 0;
    while pipe.step(until) {
        while pipe.ends[0].write_zeros(1 << 20) > 0 {
            pipe.flush();
        }
        let n = pipe.ends[1].read(u64::MAX);
        if pipe.now >= half {
            bytes += n;
        }
        pipe.flush();
    }
    bytes as f64 * 8.0 / 50e6
}

fn with(cc: &str, mark: u32, change: impl Fn(&mut TcpConfig)) -> (f64, Pipe) {
    let (mut c, mut s) = config(cc, false);
    for end in [&mut c, &mut s] {
        end.ecn = EcnMode::AccEcn;
        end.host.segmentation = OLD_TSO;
        end.host.send_buffer = HostModel::AUTO_SEND_BUFFER;
        change(end);
    }
    let mut pipe = Pipe::new(c, s, [path(15, mark), path(15, 0)], 1);
    let rate = bulk(&mut pipe);
    (rate, pipe)
}

/// heistp/l4s-tests, scenario 6: beside marks of about 2.5 % Reno had half the
/// rate that its window law gives, CUBIC nearly all of its own.
#[test]
fn a_window_of_three_is_stuck_where_nobody_reports_packets_that_left() {
    let unreported = |c: &mut TcpConfig| c.host.small_queues = HostModel::UNREPORTED;
    let (reno, _) = with("reno", 25, |_| {});
    let (stuck_reno, _) = with("reno", 25, unreported);
    let (cubic, _) = with("cubic", 25, |_| {});
    let (stuck_cubic, _) = with("cubic", 25, unreported);
    assert!(
        stuck_reno < 0.75 * reno && stuck_reno > 0.3 * reno,
        "{reno} {stuck_reno}"
    );
    assert!(stuck_cubic > 0.75 * cubic, "{cubic} {stuck_cubic}");
}

/// With larger segments in memory a single burst fills what may wait. (0.83 of the rate; without
/// PSH at the ends of writes, which lets the receiver acknowledge at once, it would be 0.7.)
#[test]
fn larger_segments_in_memory_hold_more_back() {
    let of = |segment_bytes| {
        with("cubic", 25, |c| {
            c.host.small_queues = SmallQueues::Unreported { segment_bytes };
        })
        .0
    };
    let (small, large) = (of(2304), of(4352));
    assert!(large < 0.9 * small, "{small} {large}");
}

#[test]
fn large_windows_lose_nothing_to_small_queues() {
    for cc in ["reno", "cubic"] {
        let (free, _) = with(cc, 1, |_| {});
        let (unreported, _) = with(cc, 1, |c| c.host.small_queues = HostModel::UNREPORTED);
        assert!(
            (0.9..1.1).contains(&(unreported / free)),
            "{cc}: {free} {unreported}"
        );
    }
}

#[test]
fn a_writer_sleeps_until_a_third_of_the_buffer_is_free() {
    let (mut c, s) = config("reno", false);
    c.host.segmentation = HostModel::TSO;
    c.host.send_buffer = HostModel::AUTO_SEND_BUFFER;
    c.cwnd_clamp = 10;
    let mut pipe = Pipe::new(c, s, [path(15, 0), path(15, 0)], 1);
    pipe.open();
    let until = pipe.now + Duration::from_secs(5);
    while pipe.ends[0].state() != TcpState::Established && pipe.step(until) {}
    // Ten segments, each in memory of 4352 bytes, twice: three pieces of 22 segments, half
    // of the first window, begin before 87 040 bytes are full.
    let piece = 22 * 1448;
    assert_eq!(pipe.ends[0].write_zeros(1 << 20), 3 * piece);
    assert_eq!(pipe.ends[0].write_zeros(1), 0, "asleep");
    pipe.flush();
    let woken = |p: &Pipe| {
        let mine = p.events[0].iter();
        mine.filter(|(_, e)| *e == TcpEvent::Writable).count()
    };
    while woken(&pipe) == 0 && pipe.step(until) {
        pipe.ends[1].read(u64::MAX);
        pipe.flush();
    }
    assert_eq!(woken(&pipe), 1);
    let left = pipe.ends[0].unacknowledged();
    assert!((45_000..=2 * 87_040 / 3).contains(&left), "{left}");
    // A whole piece goes in where less than one is free.
    // Half of the window that the receiver has opened since is 28 segments.
    assert_eq!(pipe.ends[0].write_zeros(1 << 20), 28 * 1448);
}

#[test]
fn the_buffer_grows_with_the_window_up_to_its_limit() {
    let most = |max| {
        let (mut c, s) = config("reno", false);
        c.host.segmentation = HostModel::TSO;
        c.host.send_buffer = SendBuffer::Auto { max };
        let mut pipe = Pipe::new(c, s, [path(15, 0), path(15, 0)], 1);
        pipe.open();
        let until = pipe.now + Duration::from_secs(2);
        let mut most = 0;
        while pipe.step(until) {
            pipe.ends[0].write_zeros(1 << 24);
            pipe.ends[1].read(u64::MAX);
            pipe.flush();
            most = most.max(pipe.ends[0].unacknowledged());
        }
        most
    };
    let piece = 45 * 1448;
    let (small, large) = (most(200_000), most(4 << 20));
    assert!((150_000..200_000 + piece).contains(&small), "{small}");
    assert!(((3 << 20)..(4 << 20) + piece).contains(&large), "{large}");
}
