//! What the marks of a scenario did: `marks` of `summary.json`.

use std::collections::BTreeMap;

use narrows_efm::HostSignals;
use serde::{Deserialize, Serialize};

/// A mark at one of its hosts, over the whole run. All packets are packets that
/// left the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalSummary {
    /// Full name, `mark/efm`.
    pub name: String,
    /// The host, `client`.
    pub host: String,
    /// Connections that began.
    pub connections: u64,
    /// Of these, forgotten because there were too many.
    pub evicted: u64,
    /// SYNs and SYN-ACKs that a code other than 000 was written into.
    pub announced: u64,
    /// Packets that signals were written into, all-zero bits included.
    pub marked: u64,
    /// Of these, packets with the bit of a signal set, by its word; a signal
    /// that never was set is not there.
    pub set: BTreeMap<String, u64>,
    /// Packets that were not marked, by reason.
    pub unmarked: Unmarked,
}

/// Packets that left without marks, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmarked {
    /// Packets on the wire that left the host joined in larger ones.
    pub segments: u64,
    /// The larger ones.
    pub segmented: u64,
    /// SYNs and SYN-ACKs that no socket of the host sent, with L or E.
    pub without_socket: u64,
    /// The kernel would not let them change.
    pub refused: u64,
    /// TCP of connections that began before, were left out or were forgotten.
    pub passed_over: u64,
    /// Other protocols, fragments, what cannot be read.
    pub other: u64,
}

impl SignalSummary {
    /// Every number with its name.
    pub(crate) fn counts(&self) -> Vec<(String, u64)> {
        let named = |name: &str, n| (name.to_owned(), n);
        let mut all = vec![
            named("connections", self.connections),
            named("evicted", self.evicted),
            named("announced", self.announced),
            named("marked", self.marked),
        ];
        all.extend(self.set.iter().map(|(s, n)| (format!("set.{s}"), *n)));
        let u = &self.unmarked;
        all.extend([
            named("unmarked.segments", u.segments),
            named("unmarked.segmented", u.segmented),
            named("unmarked.without_socket", u.without_socket),
            named("unmarked.refused", u.refused),
            named("unmarked.passed_over", u.passed_over),
            named("unmarked.other", u.other),
        ]);
        all
    }
}

impl From<&HostSignals> for SignalSummary {
    fn from(at: &HostSignals) -> Self {
        let c = at.counters;
        Self {
            name: format!("mark/{}", at.mark),
            host: at.host.clone(),
            connections: c.flows,
            evicted: c.evicted,
            announced: c.announced,
            marked: c.marked,
            set: c.signals().map(|(s, n)| (s.word().to_owned(), n)).collect(),
            unmarked: Unmarked {
                segments: c.segments,
                segmented: c.segmented,
                without_socket: c.without_socket,
                refused: c.refused,
                passed_over: c.passed_over,
                other: c.other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_efm::SignalCounters;
    use narrows_wire::efm::Signal;

    use super::*;

    #[test]
    fn each_counter_of_a_mark_has_its_name_and_signals_that_were_never_set_have_none() {
        let mut counters = SignalCounters {
            flows: 1,
            evicted: 2,
            announced: 3,
            marked: 4,
            segmented: 5,
            segments: 6,
            without_socket: 7,
            refused: 8,
            passed_over: 9,
            other: 10,
            ..SignalCounters::default()
        };
        counters.set[0] = 11;
        let (first, _) = counters.signals().next().expect("a signal");
        assert_eq!(counters.set(first), 11);
        let mark = SignalSummary::from(&HostSignals {
            mark: "efm".to_owned(),
            host: "client".to_owned(),
            counters,
        });
        assert_eq!(
            (mark.name.as_str(), mark.host.as_str()),
            ("mark/efm", "client")
        );
        let set = format!("set.{}", first.word());
        let expected = [
            ("connections", 1),
            ("evicted", 2),
            ("announced", 3),
            ("marked", 4),
            (&set, 11),
            ("unmarked.segments", 6),
            ("unmarked.segmented", 5),
            ("unmarked.without_socket", 7),
            ("unmarked.refused", 8),
            ("unmarked.passed_over", 9),
            ("unmarked.other", 10),
        ];
        let expected = expected.map(|(name, n): (&str, u64)| (name.to_owned(), n));
        assert_eq!(mark.counts(), expected);
        assert!(Signal::ALL.contains(&first));
    }
}
