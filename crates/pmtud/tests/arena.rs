//! Every search over the same paths, drawn from rates that were measured in the field.
//!
//! `cargo test -p narrows-pmtud --test arena -- --nocapture` prints the table;
//! `ARENA_PATHS` says how many paths are drawn with each seed.

use std::collections::VecDeque;

use narrows_pmtud::{Discovery, Report, Search, Settings, State};
use narrows_units::{Duration, Instant, Rng};

/// A path: what it carries, and what it does to datagrams.
#[derive(Clone, Copy, Debug)]
struct Path {
    largest: u16,
    /// Whether packet-too-big reports arrive.
    reports: bool,
    /// Of a million datagrams, lost one way.
    loss: u32,
    rtt: Duration,
}

/// MTUs below Ethernet's that tunnels and access lines have: PPPoE, IP in IP, GRE, VXLAN,
/// WireGuard, VPNs.
const USUAL: [u16; 6] = [1_492, 1_480, 1_476, 1_450, 1_420, 1_400];

/// Smaller ones, to which edge networks and servers are set (TMA'18).
const SMALL: [u16; 4] = [1_280, 1_340, 1_360, 1_380];

impl Path {
    /// Of 100 paths 11 carry at most 1380 bytes (IMC'10), and 25 less than 1500 (TMA'18: more than
    /// a fifth of edge networks clamp). A quarter of either has an MTU that is not usual (ours). Of
    /// 100, reports are filtered on 10 (4 to 6 by RIPE Atlas 2012, 5 to 18 by IMC'10). No rate of
    /// random loss is published with them: six in ten have none, three up to 1 %, one up to 5 %
    /// (ours); round trips are 5 to 300 ms, their logarithm drawn evenly (ours).
    fn draw(rng: &mut Rng) -> Self {
        let odd = rng.below(4) == 0;
        let mtu = match rng.below(100) {
            0..11 if odd => 1_229 + rng.below(152) as u16,
            0..11 => SMALL[rng.below(4) as usize],
            11..25 if odd => 1_381 + rng.below(119) as u16,
            11..25 => USUAL[rng.below(6) as usize],
            _ => 1_500,
        };
        let loss = match rng.below(10) {
            0..6 => 0,
            6..9 => 1_000 + rng.below(9_000),
            _ => 10_000 + rng.below(40_000),
        };
        let rtt = Duration::from_micros((5_000.0 * 60f64.powf(rng.unit())) as u64);
        Self {
            largest: mtu - 28,
            reports: rng.below(100) >= 10,
            loss,
            rtt,
        }
    }

    fn loses(self, rng: &mut Rng) -> bool {
        rng.below(1_000_000) < self.loss
    }
}

/// What a search came to on a path.
struct Ran {
    found: u16,
    time: Duration,
    probes: u64,
    bytes: u64,
    black_holes: u32,
}

/// Datagrams of data that follow the search, in which no black hole is to be found.
const DATA: u32 = 300;

fn run(search: Search, path: Path, rng: &mut Rng) -> Ran {
    let mut discovery = Discovery::new(Settings::ipv4(1_500), search);
    let mut now = Instant::ZERO;
    // When, which probe, and of a report the MTU that it names.
    let mut coming: VecDeque<(Instant, u64, Option<u32>)> = VecDeque::new();
    // After a handshake, padded to the base, which has measured a round trip.
    discovery.round_trip_measured(path.rtt);
    discovery.connected_at_base(now);
    while discovery.state() != State::SearchComplete {
        while let Some(probe) = discovery.poll_probe(now) {
            let fits = probe.size <= path.largest;
            let lost = path.loses(rng) || path.loses(rng);
            if !lost && (fits || path.reports) {
                let mtu = (!fits).then_some(u32::from(path.largest) + 28);
                coming.push_back((now + path.rtt, probe.number, mtu));
            }
        }
        let next = coming
            .front()
            .map(|c| c.0)
            .into_iter()
            .chain(discovery.timeout());
        now = next.min().expect("something is next");
        if coming.front().is_some_and(|c| c.0 <= now) {
            match coming.pop_front().expect("one") {
                (_, number, None) => {
                    discovery.acknowledged(now, number);
                }
                (_, number, Some(mtu)) => {
                    let quotes = Some(number);
                    discovery.reported(now, Report { mtu, quotes });
                }
            }
        } else {
            discovery.on_timeout(now);
        }
    }
    let (found, time, counts) = (
        discovery.plpmtu(),
        now.since(Instant::ZERO),
        discovery.counts(),
    );
    for _ in 0..DATA {
        match path.loses(rng) {
            true => discovery.data_lost(found),
            false => discovery.data_arrived(found),
        }
    }
    Ran {
        found,
        time,
        probes: counts.probes,
        bytes: counts.bytes,
        black_holes: discovery.counts().black_holes,
    }
}

/// What a search came to on all paths of a seed.
#[derive(Debug, Default)]
struct Row {
    search: String,
    ms: f64,
    probes: f64,
    bytes: f64,
    /// Bytes of an MTU that stay unused.
    unused: f64,
    exact: u32,
    /// Larger than the path.
    wrong: u32,
    black_holes: u32,
}

const SEARCHES: [&str; 9] = [
    "adaptive",
    "binary",
    "bisect",
    "bisect stop 1",
    "sctp",
    "table",
    "linear 80",
    "step 50",
    "step 1",
];

fn arena(seed: u64, paths: u32) -> Vec<Row> {
    let mut draw = Rng::for_name(seed, "paths");
    let paths: Vec<Path> = (0..paths).map(|_| Path::draw(&mut draw)).collect();
    let each = f64::from(paths.len() as u32);
    let of = |words: &str| {
        let search = Search::parse(words).expect("a search");
        let mut row = Row {
            search: words.to_owned(),
            ..Row::default()
        };
        for (index, path) in paths.iter().enumerate() {
            // The same loss for each search.
            let mut rng = Rng::for_name(seed, &format!("loss {index}"));
            let ran = run(search, *path, &mut rng);
            row.ms += ran.time.as_millis_f64() / each;
            row.probes += ran.probes as f64 / each;
            row.bytes += ran.bytes as f64 / each;
            row.exact += u32::from(ran.found == path.largest);
            row.wrong += u32::from(ran.found > path.largest);
            row.unused += f64::from(path.largest.saturating_sub(ran.found)) / each;
            row.black_holes += ran.black_holes;
        }
        row
    };
    SEARCHES.map(of).into()
}

#[test]
fn adaptive_is_the_fastest_and_the_cheapest_of_those_that_find_the_path_and_none_is_wrong() {
    let paths = std::env::var("ARENA_PATHS")
        .ok()
        .and_then(|n| n.parse().ok());
    let paths = paths.unwrap_or(10_000);
    for seed in [1, 2, 3] {
        let rows = arena(seed, paths);
        println!("seed {seed}, {paths} paths");
        println!("search          ms  probes   bytes  unused  exact  wrong  black holes");
        for row in &rows {
            println!(
                "{:<13} {:>6.0} {:>6.1} {:>8.0} {:>6.2} {:>6} {:>6} {:>6}",
                row.search,
                row.ms,
                row.probes,
                row.bytes,
                row.unused,
                row.exact,
                row.wrong,
                row.black_holes
            );
            assert_eq!((row.wrong, row.black_holes), (0, 0), "{row:?}");
        }
        let (adaptive, others) = rows.split_first().expect("rows");
        for other in others {
            assert!(adaptive.ms <= other.ms, "{adaptive:?} {other:?}");
            assert!(adaptive.bytes <= other.bytes, "{adaptive:?} {other:?}");
            // Where three probes of a size are lost by chance it counts as too large
            // (MAX_PROBES): as often as that happens a search stays below.
            let most = f64::from(paths) * 0.000_5;
            assert!(f64::from(paths - adaptive.exact) <= most, "{adaptive:?}");
        }
    }
}
