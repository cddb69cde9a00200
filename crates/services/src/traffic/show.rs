//! What a mix expands to.

use std::fmt;

use narrows_traffic::{FlowSet, Mix, Sends, Starts};
use serde::Serialize;

/// A mix as a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// What it was to fill, in bits a second; `None` of flow files.
    pub bandwidth_bits: Option<u64>,
    /// How long it runs; 0 of objects that begin at once, which last as long as the path takes.
    pub seconds: f64,
    /// Bytes of payload that it offers, without those of transfers that the path decides on.
    pub bytes: u64,
    /// The same in bits a second; `None` of a mix that does not last.
    pub offered_bits: Option<f64>,
    /// Transfers.
    pub transfers: usize,
    /// Its flows.
    pub sets: Vec<ShownSet>,
    /// What is not as one would expect.
    pub notes: Vec<String>,
}

/// Flows of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownSet {
    /// What they are called.
    pub label: String,
    /// The kind.
    pub kind: String,
    /// The protocol.
    pub protocol: &'static str,
    /// How many there are.
    pub instances: u32,
    /// Transfers of all.
    pub transfers: usize,
    /// What each sends, in words.
    pub sends: String,
    /// When each begins, in words.
    pub starts: String,
    /// The code point, if one is said.
    pub dscp: Option<u8>,
    /// Bytes of payload of all; `None` where the path decides.
    pub bytes: Option<u64>,
    /// The same in bits a second, over the time of the mix; `None` if it does not last.
    pub offered_bits: Option<f64>,
}

impl Shown {
    /// The table of `mix`.
    pub fn of(mix: &Mix) -> Self {
        let seconds = mix.time.as_secs_f64();
        Self {
            bandwidth_bits: mix.bandwidth.map(|bytes| bytes.saturating_mul(8)),
            seconds,
            bytes: mix.bytes(),
            offered_bits: (seconds > 0.0).then(|| mix.offered()),
            transfers: mix.transfers(),
            sets: mix.sets.iter().map(|set| shown(set, seconds)).collect(),
            notes: mix.notes.clone(),
        }
    }
}

fn shown(set: &FlowSet, seconds: f64) -> ShownSet {
    let bytes = set.bytes();
    ShownSet {
        label: set.label.clone(),
        kind: set.kind.clone(),
        protocol: set.sends.protocol(),
        instances: set.instances,
        transfers: set.transfers(),
        sends: sends(&set.sends),
        starts: match &set.starts {
            Starts::Every { period, times } => format!("{times} times, every {period}"),
            Starts::At(times) if times.len() > 3 => {
                format!("{} times from {} on", times.len(), times[0])
            }
            Starts::At(times) => {
                let times: Vec<_> = times.iter().map(ToString::to_string).collect();
                format!("at {}", times.join(", "))
            }
        },
        dscp: set.dscp,
        bytes,
        offered_bits: bytes
            .filter(|_| seconds > 0.0)
            .map(|bytes| bytes as f64 * 8.0 / seconds),
    }
}

/// What is sent, in words.
fn sends(sends: &Sends) -> String {
    let rate = narrows_units::Rate::from_bits;
    match *sends {
        Sends::Datagrams {
            rate: bits, size, ..
        } => {
            format!(
                "{} in datagrams of {size} bytes for {}",
                rate(bits),
                sends.lasts()
            )
        }
        Sends::Paced { rate: bits, .. } => format!("{} written for {}", rate(bits), sends.lasts()),
        Sends::Get(bytes) => format!("an object of {bytes} bytes"),
        Sends::Bulk(time) => format!("what the path carries for {time}"),
    }
}

/// Bits a second in Mbit/s.
pub(super) fn mbit(bits: f64) -> String {
    format!("{:.3}", bits / 1e6)
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "label",
            "kind",
            "flows",
            "transfers",
            "Mbit/s",
            "bytes",
            "each sends",
            "begins",
        ];
        let rows = self.sets.iter().map(|set| {
            let open = || "the path's".to_owned();
            [
                set.label.clone(),
                set.kind.clone(),
                set.instances.to_string(),
                set.transfers.to_string(),
                set.offered_bits.map_or_else(open, mbit),
                set.bytes.map_or_else(open, |bytes| bytes.to_string()),
                format!("{}: {}", set.protocol, set.sends),
                set.starts.clone(),
            ]
        });
        let rows: Vec<_> = std::iter::once(head.map(str::to_owned))
            .chain(rows)
            .collect();
        table(f, &rows)?;
        write!(f, "\n{} transfers, {} bytes", self.transfers, self.bytes)?;
        if let Some(bits) = self.offered_bits {
            let (seconds, rate) = (self.seconds, mbit(bits));
            write!(f, " in {seconds:.0} s: {rate} Mbit/s of payload")?;
        }
        if let Some(bits) = self.bandwidth_bits {
            write!(f, ", of {} that were to be filled", mbit(bits as f64))?;
        }
        writeln!(f)?;
        self.notes
            .iter()
            .try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

/// Rows in columns, the last of which may be as long as they like.
pub(super) fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    rows: &[[String; N]],
) -> fmt::Result {
    let widths: Vec<usize> = (0..N)
        .map(|i| {
            rows.iter()
                .map(|row| row[i].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        writeln!(f, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_lasts_as_long_as_the_path_takes_has_no_rate() {
        let text = |at: &str| {
            let file = format!(
                "label: page\nclient:\n  at: [{at}]\n  config: {{server-address: h, bytes: 1000}}\n"
            );
            let mix = Mix::of_files([("page.yaml", file.as_str())]).unwrap();
            Shown::of(&mix).to_string()
        };
        let once = text("0s");
        assert!(once.ends_with("\n1 transfers, 1000 bytes\n"), "{once}");
        assert!(once.contains("the path's"), "{once}");
        let twice = text("0s, 8s");
        assert!(
            twice.ends_with("2000 bytes in 8 s: 0.002 Mbit/s of payload\n"),
            "{twice}"
        );
    }
}
