//! Searches and black-hole detectors of known stacks beside each other and ours, over paths
//! drawn from rates of the field and over long runs of random loss.

mod detectors;
mod long_run;
mod paths;

use narrows_units::Rng;

use crate::search::{Search, Stack};
use detectors::{Detector, Quinn};
use long_run::{BASE, FULL};
use paths::Path;

/// The searches. Those of QUIC's stacks ignore packet-too-big reports.
const SEARCHES: [Search; 13] = [
    Search::Adaptive,
    Search::Binary,
    BISECT,
    Search::Sctp,
    Search::Table,
    Search::Linear(80),
    Search::Step(50),
    Search::Step(1),
    Search::Of(Stack::Quinn),
    Search::Of(Stack::S2n),
    Search::Of(Stack::Neqo),
    Search::Of(Stack::Msquic),
    Search::Of(Stack::Picoquic),
];

/// Halves to the byte.
const BISECT: Search = Search::Bisect {
    floor: 0,
    within: 1,
};

/// What a search came to on all paths.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRow {
    /// The search.
    pub search: Search,
    /// Mean time to its end.
    pub ms: f64,
    /// Mean probes.
    pub probes: f64,
    /// Mean bytes of their packets.
    pub bytes: f64,
    /// Mean bytes of the path's MTU that stay unused.
    pub unused: f64,
    /// Paths of which it found the true size.
    pub exact: u32,
    /// Paths of which it found more than they carry.
    pub wrong: u32,
}

/// Loss in parts of a thousand at which detectors are tried: 0 to 15 %.
pub const LOSS: [u32; 6] = [0, 10, 20, 50, 100, 150];

/// What a detector of black holes did.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectorRow {
    /// Whose it is.
    pub name: &'static str,
    /// Black holes that it found at each [`LOSS`], where there was none.
    pub found: [u64; LOSS.len()],
    /// Parts of the packets that were smaller for that.
    pub small: [f64; LOSS.len()],
    /// Packets of a black hole that were lost before it found that, at the least and the
    /// greatest loss; `None` where it did not.
    pub lost: [Option<u64>; 2],
}

/// Each search over so many paths, drawn with `seed`.
pub fn searches(seed: u64, paths: u32) -> Vec<SearchRow> {
    let mut draw = Rng::for_name(seed, "paths");
    let paths: Vec<Path> = (0..paths).map(|_| Path::draw(&mut draw)).collect();
    let each = f64::from(paths.len() as u32);
    let of = |search| {
        let mut row = SearchRow {
            search,
            ms: 0.0,
            probes: 0.0,
            bytes: 0.0,
            unused: 0.0,
            exact: 0,
            wrong: 0,
        };
        for (index, path) in paths.iter().enumerate() {
            // The same loss for each search.
            let mut rng = Rng::for_name(seed, &format!("loss {index}"));
            let ran = paths::run(search, *path, &mut rng);
            row.ms += ran.time.as_millis_f64() / each;
            row.probes += ran.probes as f64 / each;
            row.bytes += ran.bytes as f64 / each;
            row.exact += u32::from(ran.found == path.largest);
            row.wrong += u32::from(ran.found > path.largest);
            row.unused += f64::from(path.largest.saturating_sub(ran.found)) / each;
        }
        row
    };
    SEARCHES.map(of).into()
}

/// Each detector over so many packets at each [`LOSS`].
pub fn detectors(seed: u64, packets: u64) -> Vec<DetectorRow> {
    let all = [
        ("narrows", Detector::evidence()),
        ("quinn 0.11.19", Detector::Quinn(Quinn::new(true, BASE))),
        ("quinn 0.11.16", Detector::Quinn(Quinn::new(false, BASE))),
        (
            "s2n-quic",
            Detector::Bursts {
                full: FULL,
                newest: 0,
                count: 0,
            },
        ),
        (
            "picoquic",
            Detector::Losses {
                full: FULL,
                count: 0,
            },
        ),
    ];
    let of = |(name, detector): (&'static str, Detector)| {
        let rng = |what: &str, loss| Rng::for_name(seed, &format!("{what} {loss}"));
        let runs = LOSS.map(|loss| {
            let rng = &mut rng("run", loss);
            long_run::false_findings(detector.clone(), packets, loss, rng)
        });
        let lost = [LOSS[0], LOSS[LOSS.len() - 1]].map(|loss| {
            let rng = &mut rng("hole", loss);
            long_run::time_to_find(detector.clone(), loss, rng)
        });
        DetectorRow {
            name,
            found: runs.map(|(found, _)| found),
            small: runs.map(|(_, small)| small as f64 / packets as f64),
            lost,
        }
    };
    all.map(of).into()
}

/// What the arena demands of ours, and of what it is there to show.
///
/// # Errors
/// The sentence that does not hold.
pub fn check(searches: &[SearchRow], detectors: &[DetectorRow]) -> Result<(), String> {
    let must = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
    for row in searches {
        let what = format!("{} found more than a path carries", row.search);
        must(row.wrong == 0, what)?;
    }
    let Some((ours, others)) = searches.split_first() else {
        return Ok(());
    };
    for other in others {
        let what = format!("{} is faster than {}", other.search, ours.search);
        must(ours.ms <= other.ms, what)?;
        let what = format!("{} takes fewer bytes than {}", other.search, ours.search);
        must(ours.bytes <= other.bytes, what)?;
    }
    let found = |name: &str| {
        let row = detectors.iter().find(|row| row.name == name);
        row.map_or(0, |row| row.found.iter().sum::<u64>())
    };
    must(
        found("narrows") == 0,
        "our detector took random loss for a black hole".to_owned(),
    )?;
    must(
        found("quinn 0.11.19") == 0,
        "quinn's mended detector took random loss for a black hole".to_owned(),
    )?;
    must(
        found("quinn 0.11.16") > 0,
        "quinn's detector before its mend was not seen to fail".to_owned(),
    )
}

#[cfg(test)]
mod tests;
