//! What was found, and what it means.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use narrows_pmtud::{Effect, Fate, Found, Step, Way};
use serde::Serialize;

use super::probe::Undelivered;

/// Probes of a search that are shown; of longer ones the first and the last.
const SHOWN: usize = 40;

/// A probe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeStep {
    /// When, since the search began.
    pub at_ms: f64,
    /// Bytes of its packet.
    pub mtu: u32,
    /// `arrived`, `lost` or `too big`.
    pub fate: &'static str,
    /// Of one that arrived, after what time that was known.
    pub rtt_ms: Option<f64>,
    /// Of one that is too big, or was said to be, who says so,
    pub reporter: Option<IpAddr>,
    /// which MTU the report names,
    pub reported_mtu: Option<u32>,
    /// and whether it was used.
    pub used: Option<bool>,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchResult {
    /// Its words.
    pub search: String,
    /// `there` or `back`.
    pub direction: &'static str,
    /// What it found: bytes of a datagram,
    pub datagram: u16,
    /// and of a packet.
    pub mtu: u32,
    /// Milliseconds that it took.
    pub ms: f64,
    /// Probes that it sent.
    pub probes: u64,
    /// Bytes of their packets.
    pub bytes: u64,
    /// Sizes that it tried.
    pub sizes: u32,
    /// Each probe.
    pub steps: Vec<ProbeStep>,
}

/// What was found out about the path to a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathMtu {
    /// When, in UTC.
    pub time: String,
    /// The host, as it was named.
    pub host: String,
    /// Its address and port.
    pub address: SocketAddr,
    /// The MTU of the interface.
    pub interface_mtu: u16,
    /// The largest packet that arrives there; 0 where none did.
    pub mtu: u32,
    /// The same of the way back, as far as the way there lets it be seen.
    pub mtu_back: Option<u32>,
    /// Whether it is known by ICMP alone, without a server.
    pub without_server: bool,
    /// What that means.
    pub findings: Vec<String>,
    /// The search of a base, which arrives, and then each that was asked for.
    pub searches: Vec<SearchResult>,
}

/// Who reported that a probe is too big.
fn reporter(step: &ProbeStep) -> String {
    let by = step.reporter;
    by.map_or("this host".to_owned(), |by| by.to_string())
}

fn millis(time: narrows_units::Duration) -> f64 {
    (time.as_millis_f64() * 1_000.0).round() / 1_000.0
}

impl SearchResult {
    fn new(found: &Found) -> Self {
        let headers = u32::from(found.headers);
        let step = |step: &Step| {
            let mut shown = ProbeStep {
                at_ms: millis(step.at),
                mtu: u32::from(step.size) + headers,
                fate: "lost",
                rtt_ms: None,
                reporter: None,
                reported_mtu: None,
                used: None,
            };
            match step.fate {
                Fate::Lost => {}
                Fate::Arrived(rtt) => {
                    shown.fate = "arrived";
                    shown.rtt_ms = Some(millis(rtt));
                }
                Fate::Reported { by, mtu, effect } => {
                    shown.fate = "too big";
                    shown.reporter = by;
                    shown.reported_mtu = Some(mtu);
                    let used = !matches!(effect, Effect::Unverified | Effect::Implausible);
                    shown.used = Some(used);
                }
                Fate::Contradicted { by, mtu, after } => {
                    shown.fate = "arrived";
                    shown.rtt_ms = Some(millis(after));
                    shown.reporter = by;
                    shown.reported_mtu = Some(mtu);
                    shown.used = Some(false);
                }
            }
            shown
        };
        Self {
            search: match found.is_base {
                true => "base".to_owned(),
                false => found.search.to_string(),
            },
            direction: match found.way {
                Way::There => "there",
                Way::Back => "back",
            },
            datagram: found.plpmtu,
            mtu: found.mtu,
            ms: millis(found.time),
            probes: found.counts.probes,
            bytes: found.counts.bytes,
            sizes: found.counts.sizes_tried,
            steps: found.steps.iter().map(step).collect(),
        }
    }
}

impl PathMtu {
    pub(super) fn new(
        (host, address): (&str, SocketAddr),
        interface_mtu: u16,
        without_server: bool,
        (found, undelivered): (&[Found], &[Undelivered]),
    ) -> Self {
        let there = found.iter().filter(|f| f.way == Way::There);
        let mtu = there.map(|f| f.mtu).max().unwrap_or(0);
        let back = found.iter().find(|f| f.way == Way::Back);
        let mut path = Self {
            time: Timestamp::now().to_string(),
            host: host.to_owned(),
            address,
            interface_mtu,
            mtu,
            mtu_back: back.map(|f| f.mtu),
            without_server,
            findings: Vec::new(),
            searches: found.iter().map(SearchResult::new).collect(),
        };
        path.findings = path.explain(undelivered);
        path
    }

    fn explain(&self, undelivered: &[Undelivered]) -> Vec<String> {
        let mut said = Vec::new();
        let Self {
            mtu, interface_mtu, ..
        } = *self;
        if mtu == 0 {
            said.push(match (self.without_server, self.address) {
                (true, _) => {
                    "not even the smallest datagram arrives, or no error comes back: the path is \
                     down, or filtered"
                        .into()
                }
                (false, SocketAddr::V4(_)) => {
                    "small datagrams arrive, and none whose packet has the 68 bytes that every link \
                     of IPv4 has to carry (RFC 791)"
                        .into()
                }
                (false, SocketAddr::V6(_)) => {
                    "small datagrams arrive, and none whose packet has the 1280 bytes that every \
                     link of IPv6 has to carry (RFC 8200 section 5)"
                        .into()
                }
            });
            said.extend(undelivered.iter().map(Undelivered::to_string));
            return said;
        }
        let steps = || self.searches.iter().flat_map(|search| &search.steps);
        let mut reports: Vec<(String, u32, bool)> = Vec::new();
        for step in steps().filter(|step| step.fate == "too big") {
            let by = reporter(step);
            let report = (by, step.reported_mtu.unwrap_or(0), step.used == Some(true));
            if !reports.contains(&report) {
                reports.push(report);
            }
        }
        for (by, reported, used) in &reports {
            said.push(match used {
                true => format!("{by} reports that its next link takes packets of {reported} bytes"),
                false => format!(
                    "a report of {reported} bytes from {by} was not used: it quotes too little of a \
                     probe to be distinguished from a forged one, or one that nobody waits for, or names a size \
                     that cannot be"
                ),
            });
        }
        let contradicted = steps().filter(|s| s.fate == "arrived" && s.reported_mtu.is_some());
        if let Some(step) = contradicted.max_by_key(|step| step.mtu) {
            let by = reporter(step);
            said.push(format!(
                "{by} reports that its next link takes packets of {} bytes, and one of {} arrived all the \
                 same: its reports were not used",
                step.reported_mtu.unwrap_or(0),
                step.mtu
            ));
        }
        said.extend(undelivered.iter().map(Undelivered::to_string));
        let explained = reports
            .iter()
            .any(|(_, reported, used)| *used && *reported == mtu);
        let widest = self
            .searches
            .iter()
            .any(|s| s.direction == "there" && s.mtu == mtu);
        let failed = steps().any(|step| step.mtu > mtu && step.fate == "lost");
        if mtu >= u32::from(interface_mtu) {
            said.push(format!(
                "every hop there takes what the interface does: {mtu} bytes"
            ));
        } else if !explained && widest && failed {
            let silent = reports.is_empty() && undelivered.is_empty();
            said.push(match silent {
                true => format!(
                    "packets longer than {mtu} bytes vanish and nobody reports it: a black hole for \
                     who waits for ICMP, as a filter makes it, or a hop that says nothing"
                ),
                false => format!(
                    "packets longer than {mtu} bytes do not arrive, and no report names that size"
                ),
            });
        }
        let there = |search: &&SearchResult| search.direction == "there" && search.search != "base";
        let short: Vec<_> = self
            .searches
            .iter()
            .filter(there)
            .filter(|s| s.mtu < mtu)
            .collect();
        for search in short {
            said.push(format!(
                "`{}` stops at {}: {} bytes of each packet stay unused",
                search.search,
                search.mtu,
                mtu - search.mtu
            ));
        }
        match self.mtu_back {
            Some(back) if back < mtu => {
                said.push(format!(
                    "the way back is narrower: {back} bytes, there {mtu}"
                ));
            }
            Some(back) => said.push(format!("the way back takes {back} bytes, at least")),
            None => {}
        }
        // What fits there may not fit back.
        let fitting = |search: &SearchResult| match search.direction {
            "there" => mtu,
            _ => self.mtu_back.unwrap_or(mtu),
        };
        let fitted: Vec<_> = (self.searches.iter())
            .flat_map(|search| {
                let fits = fitting(search);
                search.steps.iter().filter(move |step| step.mtu <= fits)
            })
            .collect();
        let lost = fitted.iter().filter(|step| step.fate == "lost").count();
        let fitted = fitted.len();
        if lost > 0 {
            said.push(format!(
                "{lost} of {fitted} probes of sizes that also arrived were lost: not for their size alone"
            ));
        }
        if self.without_server {
            said.push(
                "there is no server: what arrives is known by ICMP errors of the host, which it \
                 limits and filters drop; nothing is known of the way back"
                    .into(),
            );
        }
        said
    }

    /// Its line in a file of results.
    pub fn line(&self) -> String {
        // Strings, numbers and lists can be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl fmt::Display for PathMtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            address,
            interface_mtu,
            mtu,
            ..
        } = self;
        write!(f, "{host}")?;
        if *host != address.ip().to_string() {
            write!(f, " ({})", address.ip())?;
        }
        write!(f, ", port {}: path MTU {mtu} there", address.port())?;
        if let Some(back) = self.mtu_back {
            write!(f, ", {back} back")?;
        }
        writeln!(f, " (interface {interface_mtu})")?;
        for finding in &self.findings {
            writeln!(f, "  {finding}")?;
        }
        writeln!(
            f,
            "\n{:<20} {:<5} {:>6} {:>6} {:>7} {:>6} {:>9} {:>10}",
            "search", "way", "MTU", "size", "probes", "sizes", "bytes", "ms"
        )?;
        for search in &self.searches {
            writeln!(
                f,
                "{:<20} {:<5} {:>6} {:>6} {:>7} {:>6} {:>9} {:>10.1}",
                search.search,
                search.direction,
                search.mtu,
                search.datagram,
                search.probes,
                search.sizes,
                search.bytes,
                search.ms
            )?;
        }
        // Of several searches the table is what was asked for.
        let asked = self
            .searches
            .iter()
            .filter(|s| s.search != "base" && s.direction == "there");
        let [search] = asked.collect::<Vec<_>>()[..] else {
            return Ok(());
        };
        writeln!(f, "\nprobes there of {}:", search.search)?;
        let all = search.steps.len();
        for (at, step) in search.steps.iter().enumerate() {
            if all > SHOWN && at == SHOWN / 2 {
                writeln!(f, "  … {} more", all - SHOWN)?;
            }
            if all > SHOWN && (SHOWN / 2..all - SHOWN / 2).contains(&at) {
                continue;
            }
            write!(f, "{:>10.1} ms  {:>5}  {}", step.at_ms, step.mtu, step.fate)?;
            match (step.rtt_ms, step.reported_mtu) {
                (Some(rtt), Some(mtu)) => write!(
                    f,
                    " after {rtt:.1} ms, though {} reports {mtu}",
                    reporter(step)
                )?,
                (Some(rtt), None) => write!(f, " after {rtt:.1} ms")?,
                (_, Some(mtu)) => {
                    write!(f, ": {} reports {mtu}", reporter(step))?;
                    if step.used == Some(false) {
                        write!(f, ", not used")?;
                    }
                }
                _ => {}
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
