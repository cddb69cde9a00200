//! Window against marking probability, closed through the state machine.

use crate::pipe::{Path, Pipe, config};
use narrows_tcp::EcnMode;
use narrows_units::Duration;

/// Mean window over a long run in which each data packet is marked with
/// probability `per_mille`.
fn mean_window(cc: &str, ecn: EcnMode, per_mille: u32, seed: u64) -> f64 {
    let (mut c, mut s) = config(cc, false);
    c.ecn = ecn;
    s.ecn = ecn;
    let up = Path {
        delay: Duration::from_millis(10),
        mark: per_mille,
        ..Path::default()
    };
    let down = Path {
        delay: Duration::from_millis(10),
        ..Path::default()
    };
    let mut pipe = Pipe::new(c, s, [up, down], seed);
    pipe.open();
    pipe.ends[0].write_zeros(1 << 30);
    let begin = pipe.now + Duration::from_secs(10);
    let until = pipe.now + Duration::from_secs(70);
    let (mut sum, mut n) = (0u64, 0u64);
    let mut next = begin;
    while pipe.step(until) {
        pipe.ends[1].read(u64::MAX);
        pipe.flush();
        while pipe.now >= next {
            sum += u64::from(pipe.ends[0].sample(pipe.now).cwnd);
            n += 1;
            next += Duration::from_millis(7);
        }
    }
    sum as f64 / n as f64
}

/// A DCTCP-like control that reduces by half of α per round would hold
/// W·p = 2. Linux's hold of CWR for a round and the wait for the next mark
/// after it make that 1 + √3 = 2.73 (a fluid model of the two phases); whole
/// segments cost some of it at small windows.
#[test]
fn prague_holds_one_plus_root_three_over_p() {
    let w = mean_window("prague variant 2020", EcnMode::AccEcn, 30, 1);
    let product = w * 0.03;
    assert!((2.73 * 0.93..2.73 * 1.05).contains(&product), "{product}");
}

/// RFC 5681's window halved once per marked round: W = √(3/2p), 1.22/√p
/// (Mathis et al. 1997), by classic and by accurate feedback alike.
#[test]
fn reno_holds_the_square_root_law_with_either_feedback() {
    for ecn in [EcnMode::Classic, EcnMode::AccEcn] {
        let w = mean_window("reno", ecn, 10, 1);
        let product = w * 0.1;
        assert!((1.22 * 0.93..1.22 * 1.07).contains(&product), "{product}");
    }
}
