//! What a script asserts of an end: fields of `tcp_info`, and events.

use narrows_core::RecoveryEvent;
use narrows_tcp::TcpEvent;

use super::{Player, duration};

/// What `ss` calls fields of `tcp_info`.
const SHORT_NAMES: [(&str, &str); 4] = [
    ("cwnd", "snd_cwnd"),
    ("ssthresh", "snd_ssthresh"),
    ("srtt", "rtt"),
    ("ca", "ca_state"),
];
/// Fields in milliseconds; every other time is in microseconds.
const IN_MILLIS: [&str; 4] = [
    "last_data_sent",
    "last_data_recv",
    "last_ack_recv",
    "total_rto_time",
];

impl Player {
    /// `key` has the value `value`, or one in a range `FROM~TO`.
    pub fn expect(&mut self, key: &str, value: &str) {
        let now = self.now;
        let place = self.place.clone();
        let short = SHORT_NAMES.iter().find(|(short, _)| *short == key);
        let key = short.map_or(key, |(_, long)| long);
        let end = self.end();
        let word = match key {
            "ca_state" => Some(format!("{:?}", end.ca_state())),
            "state" => Some(format!("{:?}", end.state())),
            "cc" => Some(end.congestion_control().to_string()),
            _ => None,
        };
        if let Some(word) = word {
            assert_eq!(word, value, "{place}: {key}");
            return;
        }
        let info = end.info(now);
        let got = match key {
            "in_flight" => u64::from(info.in_flight()),
            "readable" => end.readable(),
            _ => {
                let fields = serde_json::to_value(info).unwrap();
                let field = fields.get(key);
                let field = field.unwrap_or_else(|| panic!("{place}: expect {key}: {fields}"));
                field.as_u64().unwrap()
            }
        };
        let (from, to) = value.split_once('~').unwrap_or((value, value));
        let (from, to) = (self.quantity(key, from), self.quantity(key, to));
        assert!(
            (from..=to).contains(&got),
            "{place}: {key} is {got}, not {value}"
        );
    }

    /// `40ms` in the field's unit, or `1+3M`.
    fn quantity(&self, key: &str, word: &str) -> u64 {
        if !word.ends_with('s') {
            return self.number(word);
        }
        let us = duration(word).as_micros();
        if IN_MILLIS.contains(&key) {
            us / 1_000
        } else {
            us
        }
    }

    /// Whether `event` is what scripts call `name`.
    pub fn is_event(&self, name: &str, event: &TcpEvent) -> bool {
        let recovery = |of| *event == TcpEvent::Recovery(of);
        let established = |ecn, accecn| *event == TcpEvent::Established { ecn, accecn };
        match name {
            "established" => matches!(event, TcpEvent::Established { .. }),
            "established-classic" => established(true, false),
            "established-accecn" => matches!(event, TcpEvent::Established { accecn: true, .. }),
            "established-plain" => established(false, false),
            "fast" => recovery(RecoveryEvent::FastRetransmit),
            "rto" => recovery(RecoveryEvent::RetransmissionTimeout),
            "tlp" => recovery(RecoveryEvent::TailLossProbe),
            "cwr" => recovery(RecoveryEvent::CongestionExperienced),
            "undo" => recovery(RecoveryEvent::SpuriousUndo),
            "closed" => *event == TcpEvent::Closed,
            "peer-closed" => *event == TcpEvent::PeerClosed,
            "reset" => *event == TcpEvent::Reset,
            "timed-out" => *event == TcpEvent::TimedOut,
            n => panic!("{}: event {n}", self.place),
        }
    }
}
