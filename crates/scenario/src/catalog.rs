//! The catalogue: scenarios and campaigns that come with the program.

use crate::campaign::{Shelf, no_such_file};

/// One file of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its name: the path below `catalog/` without `.toml`.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../catalog/", $path)))),*]
    };
}

/// Every file below `catalog/`, in order of name; a test keeps it so.
const FILES: &[(&str, &str)] = files![
    "bbr/draft.toml",
    "bbr/nsperf.toml",
    "bufferbloat.toml",
    "cake/isolation.toml",
    "cake/overhead.toml",
    "cake/tins.toml",
    "calls.toml",
    "cell/scheduler.toml",
    "cell/terminals.toml",
    "compare/aa.toml",
    "compare/s1.toml",
    "dalbe/baselines.toml",
    "dalbe/beside-cubic.toml",
    "dalbe/best-effort.toml",
    "dalbe/completion.csv",
    "dalbe/completion.toml",
    "dalbe/efficiency.toml",
    "dalbe/fairness.csv",
    "dalbe/fairness.toml",
    "dalbe/precision.toml",
    "dalbe/queues.toml",
    "efm/base.csv",
    "efm/base.toml",
    "efm/coverage.toml",
    "efm/delay-loss.toml",
    "efm/jitter.csv",
    "efm/jitter.toml",
    "efm/loss.toml",
    "efm/mtu.csv",
    "efm/mtu.toml",
    "efm/plant.toml",
    "efm/reorder.csv",
    "efm/reorder.toml",
    "efm/rtt.csv",
    "efm/rtt.toml",
    "efm/traffic.toml",
    "fq-codel.toml",
    "home/cable.toml",
    "home/dsl.toml",
    "home/household.toml",
    "home/lte-down.csv",
    "home/lte-up.csv",
    "home/lte.toml",
    "incast.toml",
    "kernel/controls.toml",
    "kernel/queues.toml",
    "kernel/random-paths.toml",
    "kernel/s1.toml",
    "kernel/s6.toml",
    "kernel/sweep.toml",
    "kernel/tail-drop.toml",
    "l4s-tests/between-flow-delay.toml",
    "l4s-tests/bursty-link.csv",
    "l4s-tests/bursty-link.toml",
    "l4s-tests/bursty-rivals.toml",
    "l4s-tests/bursty-traffic.csv",
    "l4s-tests/bursty-traffic.toml",
    "l4s-tests/fct-harm.csv",
    "l4s-tests/fct-harm.toml",
    "l4s-tests/risk.toml",
    "l4s-tests/s1-50mbit.csv",
    "l4s-tests/s1.toml",
    "l4s-tests/s2.csv",
    "l4s-tests/s2.toml",
    "l4s-tests/s3.toml",
    "l4s-tests/s4.toml",
    "l4s-tests/s5.toml",
    "l4s-tests/s6.csv",
    "l4s-tests/s6.toml",
    "l4s-tests/service-harm.csv",
    "l4s-tests/service-harm.toml",
    "l4s-tests/tunnel-replay.toml",
    "lone-prague.toml",
    "lossy-path.toml",
    "mami/bearers-cheat.csv",
    "mami/bearers-cheat.toml",
    "mami/bearers-honest.csv",
    "mami/bearers-honest.toml",
    "mami/bearers-many.toml",
    "mami/fixed-link.csv",
    "mami/fixed-link.toml",
    "mami/mixes.toml",
    "mami/mixes.yaml",
    "mami/monroe.toml",
    "mami/plus.csv",
    "mami/plus.toml",
    "mami/pmtud.csv",
    "mami/pmtud.toml",
    "mami/spin-burst-loss.toml",
    "mami/spin-reorder.csv",
    "mami/spin-reorder.toml",
    "mami/tcp-timestamps.csv",
    "mami/tcp-timestamps.toml",
    "mmb/boxes.toml",
    "pages.toml",
    "pep/base-station.toml",
    "pep/both-ways.toml",
    "pep/buffers.toml",
    "pep/controls.toml",
    "pep/handshake.csv",
    "pep/handshake.toml",
    "pep/latency.toml",
    "pep/mmwave-long.csv",
    "pep/mmwave-mobility.csv",
    "pep/mmwave-short.csv",
    "pep/mmwave-static.csv",
    "pep/mmwave.csv",
    "pep/mmwave.toml",
    "pep/step.csv",
    "pep/step.toml",
    "pep/ten-flows.csv",
    "pep/ten-flows.toml",
    "pep/utilisation.csv",
    "pep/utilisation.toml",
    "prague-beside-cubic.toml",
    "quic-beside-tcp.toml",
    "rate-step.toml",
    "requests.toml",
    "shared-queue.toml",
    "short-flows.toml",
    "two-bottlenecks.toml",
    "videos.toml",
    "wifi/anomaly.toml",
];

/// All entries, in order of name.
pub fn entries() -> impl Iterator<Item = CatalogEntry> {
    FILES.iter().filter_map(|(path, text)| {
        let name = path.strip_suffix(".toml")?;
        Some(CatalogEntry { name, text })
    })
}

/// The entry `name`.
pub fn entry(name: &str) -> Option<CatalogEntry> {
    entries().find(|e| e.name == name)
}

impl CatalogEntry {
    /// The name of its file, `l4s-tests/s1.toml`.
    pub fn file(&self) -> String {
        format!("{}.toml", self.name)
    }

    /// Where it finds the files that it names.
    pub fn shelf(&self) -> impl Shelf + use<> {
        CatalogShelf {
            folder: self.name.rsplit_once('/').map_or("", |(folder, _)| folder),
        }
    }
}

/// The files beside one of the catalogue's.
struct CatalogShelf {
    folder: &'static str,
}

impl Shelf for CatalogShelf {
    fn open(&self, path: &str) -> Result<Vec<u8>, String> {
        let full = match self.folder {
            "" => path.to_owned(),
            folder => format!("{folder}/{path}"),
        };
        let found = FILES.iter().find(|(known, _)| **known == full);
        let (_, text) = found.ok_or_else(no_such_file)?;
        Ok(text.as_bytes().to_vec())
    }
}
