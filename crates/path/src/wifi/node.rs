//! The words of `wifi ap`.

use std::fmt;

use narrows_core::Element;
use narrows_units::{
    Duration, Parameter, ParameterKind, Value, Word, WordError, WordWriter, Words,
};

use super::radio::WifiRadio;
use super::scheduler::{AirtimeRule, DEFAULT_QUANTUM};
use super::spec::{ALLOWED_MCS, ALLOWED_TIME, WifiSpec, time_on_the_air};
use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports, usages};
use crate::site::{PortSite, Site};
use crate::waiting::read_queue;

/// `wifi ap [mcs N|mcs trace FILE.csv] … [scheduler RULE] [quantum TIME] [queue …]`. Of a port alone what is
/// its station's may be said; one without an MCS is a wire.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessPointSpec {
    /// What a station has, and bounds and contenders of the radio.
    pub(super) station: WifiSpec,
    pub(super) scheduler: AirtimeRule,
    /// Airtime that a station gets in a turn.
    pub(super) quantum: Duration,
}

/// The parameter that all of a link are, except for what holds without it.
const fn of_link(at: usize) -> Parameter {
    WifiSpec::PARAMETERS[at]
}

impl AccessPointSpec {
    /// Whether the port leads to what is no station.
    pub(super) fn is_wire(&self) -> bool {
        !self.station.has_mcs()
    }

    /// What holds of a word that all stations share.
    fn shared(&self, word: &str) -> Option<String> {
        let (station, bounds) = (&self.station, self.station.bounds);
        Some(match word {
            "scheduler" => self.scheduler.to_string(),
            "quantum" => self.quantum.to_string(),
            "frames" => bounds.frames.to_string(),
            "bytes" => bounds.bytes.to_string(),
            "airtime" => bounds.airtime.to_string(),
            "stations" => station.stations.to_string(),
            "theirs" => station.theirs.to_string(),
            "queue" if self.scheduler == AirtimeRule::Fifo => station.queue.to_string(),
            _ => return None,
        })
    }

    /// Takes the value of `word`; whether it is known.
    fn take(&mut self, word: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match word.text {
            "scheduler" => self.scheduler = words.value()?,
            "quantum" => self.quantum = time_on_the_air(words)?,
            "queue" => self.station.queue = read_queue(words)?,
            _ => return self.station.take(word, words),
        }
        Ok(true)
    }

    /// Lays words over what is there; of the port of an access point, which keeps what all
    /// stations share.
    fn apply(&mut self, words: &mut Words<'_>, port: bool) -> Result<(), WordError> {
        let mut mcs_at = None;
        while let Some(word) = words.take() {
            let before = self.shared(word.text).filter(|_| port);
            let value = match word.text {
                "queue" => words.rest(),
                _ => words.peek().unwrap_or(word),
            };
            if !self.take(word, words)? {
                return Err(word.refused(usages(Self::PARAMETERS)));
            }
            let after = self.shared(word.text);
            if let Some(held) = before.filter(|held| after.as_ref() != Some(held)) {
                return Err(value.refused(format!("{held}, as `is` says for all stations")));
            }
            match word.text {
                "queue" => break,
                "mcs" => mcs_at = Some(word),
                _ => {}
            }
        }
        self.station.finish(mcs_at)
    }
}

impl Kind for AccessPointSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "mcs MCS",
            ParameterKind::Words,
            ALLOWED_MCS,
            "a wire",
            of_link(0).about,
        ),
        of_link(1),
        of_link(2),
        of_link(3),
        of_link(4),
        of_link(5),
        of_link(6),
        of_link(7),
        Parameter::new(
            "scheduler RULE",
            ParameterKind::Words,
            AirtimeRule::ALLOWED,
            "airtime",
            "Who is sent to: stations in turn by airtime, each with a queue of its own, or in the order of one queue for all",
        ),
        Parameter::new(
            "quantum TIME",
            ParameterKind::Time,
            ALLOWED_TIME,
            "300us",
            "Airtime that a station gets in a turn",
        ),
        of_link(8),
        of_link(9),
        of_link(10),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut spec = Self {
            station: WifiSpec::plain()?,
            scheduler: AirtimeRule::Airtime,
            quantum: DEFAULT_QUANTUM,
        };
        spec.apply(words, false)?;
        Ok(spec)
    }

    fn over(before: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        match before {
            ElementSpec::AccessPoint(old) => {
                let mut spec = old.clone();
                spec.apply(words, true)?;
                if spec.is_wire() {
                    return Err(words.ended("mcs MCS, without which the port is a wire"));
                }
                Ok(spec)
            }
            _ => Self::parse(words),
        }
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        let spec = ElementSpec::AccessPoint(self.clone());
        let alone = [PortSite {
            site: *site,
            spec: &spec,
        }];
        Box::new(match site.ports {
            [] => WifiRadio::node(self, site, &alone),
            ports => WifiRadio::node(self, site, ports),
        })
    }

    fn facts(&self) -> Facts<'_> {
        let radio = !self.is_wire();
        Facts {
            link: radio.then(|| self.station.limited(true)),
            holds_back: radio,
            node: true,
            reports: match radio {
                true => Reports::Queue,
                false => Reports::Packets,
            },
            ..self.station.facts()
        }
    }

    /// As of a station that has the radio to itself.
    fn base_delay(&self, dscp: u8, mtu: u32) -> Duration {
        self.station.base_delay(dscp, mtu)
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        self.station.file()
    }
}

impl fmt::Display for AccessPointSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("wifi ap")?;
        let mut words = WordWriter::new(f);
        self.station.write(&mut words);
        words
            .stated("scheduler", self.scheduler, AirtimeRule::Airtime)
            .stated("quantum", self.quantum, DEFAULT_QUANTUM)
            .pair("queue", &self.station.queue)
            .finish()
    }
}
