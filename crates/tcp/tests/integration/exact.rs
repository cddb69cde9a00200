//! Whatever the path does, each end reads exactly what the other wrote, and
//! both close.

use crate::pipe::{Path, Pipe, config};
use narrows_tcp::{
    AccEcnOptionUse, EcnMode, HostModel, ReceiveBuffer, TcpConfig, TcpEvent, TcpState,
};
use narrows_units::{Duration, Rng};

/// What one end writes: real bytes and runs of zeros, as one stream.
struct Writer {
    pieces: Vec<(Vec<u8>, u64)>,
    at: usize,
    offset: u64,
    whole: Vec<u8>,
}

impl Writer {
    fn new(rng: &mut Rng, pieces: u32) -> Self {
        let mut w = Self {
            pieces: Vec::new(),
            at: 0,
            offset: 0,
            whole: Vec::new(),
        };
        for _ in 0..pieces {
            let n = rng.below(3000);
            let data: Vec<u8> = (0..n).map(|_| rng.draw_u64() as u8).collect();
            let zeros = u64::from(rng.below(40_000));
            w.whole.extend_from_slice(&data);
            w.whole.resize(w.whole.len() + zeros as usize, 0);
            w.pieces.push((data, zeros));
        }
        w
    }

    /// Writes what fits; answers whether all was written.
    fn write(&mut self, end: &mut narrows_tcp::Connection) -> bool {
        while let Some((data, zeros)) = self.pieces.get(self.at) {
            let len = data.len() as u64;
            if self.offset < len {
                let n = end.write(&data[self.offset as usize..]);
                self.offset += n as u64;
                if self.offset < len {
                    return false;
                }
            }
            self.offset += end.write_zeros(len + zeros - self.offset);
            if self.offset < len + zeros {
                return false;
            }
            self.at += 1;
            self.offset = 0;
        }
        true
    }
}

fn vary(rng: &mut Rng, c: &mut TcpConfig) {
    c.sack = rng.below(8) > 0;
    c.timestamps = rng.below(8) > 0;
    c.window_scaling = rng.below(8) > 0;
    c.nagle = rng.below(2) > 0;
    c.mtu = [1500, 1500, 1280, 9000][rng.below(4) as usize];
    c.fast_open = rng.below(2) > 0;
    c.send_buffer = [1 << 30, 20_000, 100_000][rng.below(3) as usize];
    c.ecn = [
        EcnMode::Off,
        EcnMode::Classic,
        EcnMode::AccEcn,
        EcnMode::Auto,
    ][rng.below(4) as usize];
    c.accecn_option = [
        AccEcnOptionUse::Off,
        AccEcnOptionUse::Minimum,
        AccEcnOptionUse::Full,
    ][rng.below(3) as usize];
    if rng.below(3) == 0 {
        c.receive_buffer = ReceiveBuffer::Fixed(u64::from(3_000 + rng.below(60_000)));
    }
    if rng.below(3) == 0 {
        c.host.segmentation = HostModel::TSO;
    }
    if rng.below(4) == 0 {
        c.host.gro = Some(narrows_tcp::Gro {
            hold: Duration::from_micros(50),
            max_segments: 17,
        });
    }
    c.host.tick = Duration::from_millis(u64::from(rng.below(5)));
    c.host.pacing = [
        narrows_tcp::PacingUse::AsAlgorithm,
        narrows_tcp::PacingUse::Always,
        narrows_tcp::PacingUse::Fq,
    ][rng.below(3) as usize];
    c.time_wait = Duration::from_secs(300);
}

/// The cookie that the server gives the client.
fn cookie(v6: bool) -> Option<narrows_wire::tcp::FastOpenCookie> {
    let (mut c, mut s) = config("reno", v6);
    c.fast_open = true;
    s.fast_open = true;
    let mut pipe = Pipe::new(c, s, [Path::default(); 2], 0);
    pipe.open();
    let until = pipe.now + Duration::from_secs(1);
    while pipe.step(until) {}
    pipe.ends[0].fast_open_cookie()
}

fn run(seed: u64) {
    let mut rng = Rng::for_name(seed, "case");
    let cc = ["reno", "cubic", "prague"][rng.below(3) as usize];
    let v6 = rng.below(2) > 0;
    let (mut client, mut server) = config(cc, v6);
    vary(&mut rng, &mut client);
    if rng.below(2) > 0 {
        client.fast_open_cookie = cookie(v6);
    }
    vary(&mut rng, &mut server);
    let mut path = || Path {
        delay: Duration::from_micros(u64::from(100 + rng.below(50_000))),
        rate: [0, 125_000, 1_250_000, 12_500_000][rng.below(4) as usize],
        limit: [0, 10, 100][rng.below(3) as usize],
        loss: [0, 5, 30, 150][rng.below(4) as usize],
        duplicate: [0, 20][rng.below(2) as usize],
        reorder: [0, 100][rng.below(2) as usize],
        jitter: Duration::from_millis(30),
        mark: [0, 20, 500][rng.below(3) as usize],
    };
    let paths = [path(), path()];
    let mut writers = [Writer::new(&mut rng, 12), Writer::new(&mut rng, 4)];
    let mut pipe = Pipe::new(client, server, paths, seed);
    pipe.ends[0].open(pipe.now);
    let mut got = [Vec::new(), Vec::new()];
    let until = pipe.now + Duration::from_secs(3_000);
    let mut steps = 0u64;
    loop {
        for (i, writer) in writers.iter_mut().enumerate() {
            if pipe.ends[i].state() != TcpState::Listen && writer.write(&mut pipe.ends[i]) {
                pipe.ends[i].close(pipe.now);
            }
            // A lazy reader fills its window now and then.
            if pipe.rng.below(4) == 0 || pipe.ends[i].readable() < 2_000 {
                pipe.ends[i].read_into(10_000, &mut got[i]);
            }
        }
        pipe.flush();
        steps += 1;
        let done = pipe.ends.iter().all(narrows_tcp::Connection::is_closed);
        if done || !pipe.step(until) {
            break;
        }
        assert!(steps < 3_000_000, "seed {seed}: no end");
    }
    for i in 0..2 {
        pipe.ends[i].read_into(u64::MAX, &mut got[i]);
        let want = &writers[1 - i].whole;
        let timed_out = pipe
            .events
            .iter()
            .flatten()
            .any(|(_, e)| *e == TcpEvent::TimedOut || *e == TcpEvent::Reset);
        assert!(
            got[i] == *want,
            "seed {seed} {cc}: end {i} read {} of {} bytes, states {:?} {:?}, at {}, timed out {timed_out}, paths {paths:?}",
            got[i].len(),
            want.len(),
            pipe.ends[0].state(),
            pipe.ends[1].state(),
            pipe.now,
        );
        assert_eq!(
            pipe.ends[i].state(),
            TcpState::Closed,
            "seed {seed}: end {i} at {}",
            pipe.now
        );
        assert_eq!(
            pipe.events[i]
                .iter()
                .filter(|(_, e)| *e == TcpEvent::Closed)
                .count(),
            1,
            "seed {seed}"
        );
        assert_eq!(
            pipe.events[i]
                .iter()
                .filter(|(_, e)| *e == TcpEvent::PeerClosed)
                .count(),
            1,
            "seed {seed}"
        );
    }
    assert_eq!(pipe.pool.outstanding(), pipe.in_flight(), "seed {seed}");
}

#[test]
fn every_byte_arrives_whatever_the_path_does() {
    for seed in 0..250 {
        run(seed);
    }
}

#[test]
fn marks_are_counted_once_and_all() {
    for seed in 0..20 {
        let (mut c, mut s) = config("prague", seed % 2 == 1);
        c.ecn = EcnMode::AccEcn;
        s.ecn = EcnMode::AccEcn;
        let path = Path {
            delay: Duration::from_millis(5),
            rate: 1_250_000,
            loss: if seed < 10 { 0 } else { 10 },
            mark: 10 * (seed as u32 + 1),
            ..Path::default()
        };
        let back = Path {
            delay: Duration::from_millis(5),
            ..Path::default()
        };
        let mut pipe = Pipe::new(c, s, [path, back], seed);
        pipe.open();
        pipe.ends[0].write_zeros(3_000_000);
        pipe.ends[0].close(pipe.now);
        let until = pipe.now + Duration::from_secs(60);
        while pipe.step(until) && pipe.ends[0].state() != TcpState::FinWait2 {
            pipe.ends[1].read(u64::MAX);
            pipe.flush();
        }
        assert_eq!(pipe.ends[0].state(), TcpState::FinWait2);
        let sample = pipe.ends[0].sample(pipe.now);
        assert!(pipe.marked(0) > 0);
        assert_eq!(
            u64::from(pipe.ends[1].received_ce()),
            pipe.marked(0),
            "seed {seed}"
        );
        assert_eq!(sample.delivered_ce, pipe.marked(0), "seed {seed}");
        // SYN, 2072 segments, FIN on the last.
        assert_eq!(
            sample.delivered,
            1 + 3_000_000u64.div_ceil(if seed % 2 == 1 { 1428 } else { 1448 }),
            "seed {seed}"
        );
    }
}
