//! Searches and black-hole detectors beside each other, as tables.

use std::fmt;

use narrows_pmtud::arena::{self, DetectorRow, LOSS, SearchRow};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// What all of them came to.
#[derive(Clone, Debug)]
pub struct Arena {
    seed: u64,
    paths: u32,
    packets: u64,
    searches: Vec<SearchRow>,
    detectors: Vec<DetectorRow>,
}

impl Arena {
    /// Runs the searches over so many paths, and the detectors over so many packets.
    pub fn run(seed: u64, paths: u32, packets: u64) -> Self {
        Self {
            seed,
            paths,
            packets,
            searches: arena::searches(seed, paths),
            detectors: arena::detectors(seed, packets),
        }
    }

    /// Whether ours does what it is to do.
    ///
    /// # Errors
    /// The sentence that does not hold.
    pub fn check(&self) -> Result<(), String> {
        arena::check(&self.searches, &self.detectors)
    }
}

impl fmt::Display for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} paths, seed {}, means\n", self.paths, self.seed)?;
        writeln!(
            f,
            "search             ms  probes    bytes  unused   exact  too large"
        )?;
        for row in &self.searches {
            let exact = 100.0 * f64::from(row.exact) / f64::from(self.paths);
            writeln!(
                f,
                "{:<15} {:>5.0} {:>7.1} {:>8.0} {:>7.1} {:>6.2}% {:>10}",
                row.search.to_string(),
                row.ms,
                row.probes,
                row.bytes,
                row.unused,
                exact,
                row.wrong,
            )?;
        }
        write!(
            f,
            "\n{} packets at each rate of random loss: black holes found that are none, packets \
             that were smaller for them; packets lost before a true one is found\n\ndetector     ",
            self.packets
        )?;
        for loss in LOSS {
            write!(f, "{:>15}", format!("{} %", f64::from(loss) / 10.0))?;
        }
        write!(f, "        true")?;
        for row in &self.detectors {
            write!(f, "\n{:<13}", row.name)?;
            for (found, small) in row.found.iter().zip(row.small) {
                write!(f, "{:>15}", format!("{found} {:.1}%", 100.0 * small))?;
            }
            let lost = row.lost.map(|lost| match lost {
                Some(lost) => lost.to_string(),
                None => "never".to_owned(),
            });
            write!(f, "{:>12}", lost.join("–"))?;
        }
        Ok(())
    }
}

impl Serialize for Arena {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let searches: Vec<_> = self
            .searches
            .iter()
            .map(|row| {
                serde_json::json!({
                    "search": row.search.to_string(),
                    "time_ms": row.ms,
                    "probes": row.probes,
                    "bytes": row.bytes,
                    "unused_bytes": row.unused,
                    "exact": row.exact,
                    "too_large": row.wrong,
                })
            })
            .collect();
        let detectors: Vec<_> = self
            .detectors
            .iter()
            .map(|row| {
                serde_json::json!({
                    "detector": row.name,
                    "loss_pct": LOSS.map(|loss| f64::from(loss) / 10.0),
                    "found": row.found,
                    "smaller": row.small,
                    "lost_before_true": row.lost,
                })
            })
            .collect();
        let mut arena = to.serialize_struct("Arena", 5)?;
        arena.serialize_field("seed", &self.seed)?;
        arena.serialize_field("paths", &self.paths)?;
        arena.serialize_field("packets", &self.packets)?;
        arena.serialize_field("searches", &searches)?;
        arena.serialize_field("detectors", &detectors)?;
        arena.end()
    }
}
