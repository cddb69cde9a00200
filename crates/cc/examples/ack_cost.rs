//! What an ACK costs natively: `pkts_acked`, then `cong_avoid` or `cong_control`, in
//! nanoseconds and by what CUBIC's costs in the same run.

use std::hint::black_box;
use std::time::Instant;

use narrows_cc::{ControlMode, ControlSpec, Controller, Facts, Flags, names};

/// ACKs of one measurement, and measurements, of which the fastest counts.
const ACKS: u32 = 200_000;
const TRIES: u32 = 15;
/// Round trip, and what the path delivers in it.
const RTT_US: u32 = 20_000;
const SEGMENTS: u32 = 100;

/// Nanoseconds for each of [`ACKS`] ACKs of a path that delivers evenly.
fn measure(words: &str) -> f64 {
    let mut cc = Controller::new(&ControlSpec::parse(words).expect("a known algorithm"));
    let mut f = Facts {
        now_ns: 1_000_000_000,
        mss: 1448,
        cwnd: SEGMENTS,
        ssthresh: 50,
        srtt_us: RTT_US << 3,
        min_rtt_us: RTT_US,
        rtt_us: RTT_US + 500,
        acked_sacked: 2,
        in_flight: SEGMENTS,
        rs_delivered: SEGMENTS as i32,
        rs_interval_us: RTT_US,
        rs_prior_in_flight: SEGMENTS,
        flags: Flags::CWND_LIMITED,
        ..Facts::default()
    };
    cc.init(&f).apply(&mut f);
    let start = Instant::now();
    for _ in 0..ACKS {
        f.now_ns += u64::from(RTT_US) * 2_000 / u64::from(SEGMENTS);
        f.delivered = f.delivered.wrapping_add(2);
        f.rs_prior_delivered = f.delivered.wrapping_sub(SEGMENTS);
        f.snd_una = f.snd_una.wrapping_add(2 * 1448);
        f.snd_nxt = f.snd_una.wrapping_add(SEGMENTS * 1448);
        let sampled = cc.pkts_acked(&f);
        sampled.apply(&mut f);
        let decided = match cc.mode() {
            ControlMode::Window => cc.cong_avoid(&f, 2),
            ControlMode::Rate => cc.cong_control(&f),
        };
        black_box(&decided);
        f.cwnd = decided.cwnd().unwrap_or(f.cwnd).clamp(50, 200);
        f.pacing_rate = decided.pacing_rate().unwrap_or(f.pacing_rate);
    }
    start.elapsed().as_nanos() as f64 / f64::from(ACKS)
}

fn main() {
    let mut all: Vec<String> = names().into_iter().map(str::to_owned).collect();
    all.extend(["bbr variant v1", "bbr variant linux-v3"].map(str::to_owned));
    let mut best = vec![f64::INFINITY; all.len()];
    // One after the other in each try, so that all see the same machine.
    for _ in 0..TRIES {
        for (least, words) in best.iter_mut().zip(&all) {
            *least = least.min(measure(words));
        }
    }
    let cubic = all.iter().position(|words| words == "cubic");
    let cubic = cubic.map_or(f64::NAN, |at| best[at]);
    println!("  {:<22} {:>8} {:>10}", "control", "ns", "by cubic");
    for (words, ns) in all.iter().zip(&best) {
        println!("  {words:<22} {ns:>8.1} {:>10.2}", ns / cubic);
    }
}
