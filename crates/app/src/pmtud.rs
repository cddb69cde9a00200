//! Path MTU discovery by datagrams as an application: a client that searches for the largest
//! datagram that arrives, and goes on as a transport would, and a server that says what arrived.
//! Both are those of `narrows pmtud`.

use std::fmt;
use std::net::SocketAddr;

use narrows_core::{
    App, Event, Reduce, SocketError, SocketEvent, SocketId, Sockets, TelemetryField, Undelivered,
};
use narrows_pmtud::{
    Client, ClientSettings, Counts, ProbeTimer, Reports, Search, Server, ServerSettings, Settings,
    Stage, Timers, Transmit,
};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Value, WordError, Words, word_for,
};
use narrows_wire::ip::Ecn;

use crate::kind::{Delivery, Kind, Misfit, Site};
use crate::spec::{Carries, above_zero};

/// The MTU of an Ethernet interface in bytes (RFC 894).
const MTU: u16 = 1_500;

/// MTUs that both versions of IP may have: IPv4's least (RFC 791, page 25) to the longest packet.
const MTUS: std::ops::RangeInclusive<u16> = 68..=u16::MAX;

const MTU_ALLOWED: &str = "an MTU of 68 to 65535 bytes";

/// MAX_PROBES (RFC 8899 section 5.1.2).
const PROBES: u32 = 3;

/// What searches ended with: a size, of which a distribution would keep two digits.
const FOUND: TelemetryField = TelemetryField::new(
    "found",
    "bytes",
    "the largest datagram that arrived, at the end of each search",
    Reduce::Gauge,
);

/// How long they took.
const SEARCH: TelemetryField = TelemetryField::new(
    "search",
    "ms",
    "time from the first probe of a search to its end",
    Reduce::Sample,
)
.in_parts(1_000_000);

const SIZES_TRIED: TelemetryField = TelemetryField::new(
    "sizes_tried",
    "",
    "sizes that a search tried, each once however many probes it took",
    Reduce::Sample,
);

const SIZES_ARRIVED: TelemetryField = TelemetryField::new(
    "sizes_arrived",
    "",
    "sizes that arrived in a search",
    Reduce::Sample,
);

/// What may be used now.
const PLPMTU: TelemetryField = TelemetryField::new(
    "plpmtu",
    "bytes",
    "the largest datagram that may be sent, at each sample",
    Reduce::Gauge,
);

const SENT: TelemetryField =
    TelemetryField::new("probes", "", "probes that were sent", Reduce::Counter);

const BYTES: TelemetryField = TelemetryField::new(
    "probe",
    "bytes",
    "bytes of the packets of probes",
    Reduce::Counter,
);

const REPORTS_USED: TelemetryField = TelemetryField::new(
    "ptb_used",
    "",
    "packet-too-big reports that were used",
    Reduce::Counter,
);

const REPORTS_REFUSED: TelemetryField = TelemetryField::new(
    "ptb_refused",
    "",
    "packet-too-big reports that quoted no probe on its way, or named an impossible size, or were ignored",
    Reduce::Counter,
);

const BLACK_HOLES: TelemetryField = TelemetryField::new(
    "black_holes",
    "",
    "times that the size found no longer arrived, as the detector has it",
    Reduce::Counter,
);

/// How long the answer to a probe is waited for.
const TIMERS: &str = "adaptive or a time such as 15s";

/// How often what was found is confirmed.
const CONFIRMATIONS: &str = "never or a time such as 5min";

const REPORTS: [(&str, Reports); 2] = [("on", Reports::Validated), ("off", Reports::Ignored)];

/// The parameters of `pmtud`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmtudSpec {
    search: Search,
    reports: Reports,
    mtu: u16,
    max_probes: u32,
    timers: Timers,
}

impl Default for PmtudSpec {
    fn default() -> Self {
        Self {
            search: Search::Adaptive,
            reports: Reports::Validated,
            mtu: MTU,
            max_probes: PROBES,
            timers: Timers::ADAPTIVE,
        }
    }
}

impl PmtudSpec {
    /// What discoveries are set to between addresses like `local`.
    fn settings(&self, local: SocketAddr) -> Settings {
        let of = match local.is_ipv4() {
            true => Settings::ipv4(self.mtu),
            false => Settings::ipv6(self.mtu),
        };
        Settings {
            max_probes: self.max_probes,
            timers: self.timers,
            reports: self.reports,
            ..of
        }
    }
}

impl Kind for PmtudSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "search WORDS",
            ParameterKind::Words,
            narrows_pmtud::SEARCH_WORDS,
            "adaptive",
            "Which sizes are tried",
        ),
        Parameter::new(
            "ptb on|off",
            ParameterKind::Choice,
            "on or off",
            "on",
            "Whether packet-too-big reports are used that quote a probe on its way",
        ),
        Parameter::new(
            "mtu BYTES",
            ParameterKind::Number("bytes"),
            MTU_ALLOWED,
            "1500",
            "The interface's MTU, above which nothing is tried",
        ),
        Parameter::new(
            "probes N",
            ParameterKind::Number("probes"),
            "at least 1 probe",
            "3",
            "Probes of a size that are lost before it counts as too large (MAX_PROBES)",
        ),
        Parameter::new(
            "timer WHEN",
            ParameterKind::Words,
            TIMERS,
            "adaptive",
            "How long the answer to a probe is waited for (PROBE_TIMER): by the round trip, or so long",
        ),
        Parameter::new(
            "confirm WHEN",
            ParameterKind::Words,
            CONFIRMATIONS,
            "5min",
            "How often the size that was found is confirmed (CONFIRMATION_TIMER)",
        ),
        Parameter::new(
            "raise TIME",
            ParameterKind::Time,
            Duration::ALLOWED,
            "10min",
            "After how long larger sizes are tried again (PMTU_RAISE_TIMER)",
        ),
    ];

    const REPORTS: &'static [TelemetryField] = &[
        FOUND,
        SEARCH,
        SIZES_TRIED,
        SIZES_ARRIVED,
        PLPMTU,
        SENT,
        BYTES,
        REPORTS_USED,
        REPORTS_REFUSED,
        BLACK_HOLES,
    ];

    const CARRIES: Carries = Carries::Datagrams;

    fn codepoint(&self) -> Ecn {
        Ecn::NotEct
    }

    fn deliveries(&self) -> Vec<Delivery> {
        vec![Delivery {
            what: ["probe", "was answered"],
            due: None,
            waiting: None,
            got: PLPMTU,
            failed: None,
        }]
    }

    fn set(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), WordError> {
        match name {
            "search" => self.search = Search::read(words)?,
            "ptb" => self.reports = words.one_of(&REPORTS)?,
            "mtu" => {
                self.mtu = words.value_where(MTU_ALLOWED, |mtu| MTUS.contains(mtu))?;
            }
            "probes" => {
                self.max_probes = words.value_where("at least 1 probe", |n: &u32| *n > 0)?;
            }
            "timer" => {
                self.timers.probe = match words.take_if("adaptive") {
                    true => ProbeTimer::Adaptive,
                    false => ProbeTimer::Fixed(above_zero(words, Duration::as_nanos)?),
                };
            }
            "confirm" => {
                self.timers.confirmation = match words.take_if("never") {
                    true => None,
                    false => Some(above_zero(words, Duration::as_nanos)?),
                };
            }
            _ => self.timers.raise = above_zero(words, Duration::as_nanos)?,
        }
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        vec![
            self.search.to_string(),
            word_for(&REPORTS, &self.reports).to_owned(),
            self.mtu.to_string(),
            self.max_probes.to_string(),
            or_word(
                "adaptive",
                match self.timers.probe {
                    ProbeTimer::Adaptive => None,
                    ProbeTimer::Fixed(time) => Some(time),
                },
            ),
            or_word("never", self.timers.confirmation),
            self.timers.raise.to_string(),
        ]
    }

    fn misfit(&self) -> Option<Misfit> {
        None
    }

    fn ends(&self, site: &Site) -> [Box<dyn App>; 2] {
        let prober = Prober {
            spec: *self,
            site: site.clone(),
            socket: None,
            client: None,
            reported: Counts::default(),
            found: 0,
            payload: Vec::new(),
        };
        let mut rng = site.rng("key");
        let mut key = [0; 32];
        for byte in &mut key {
            *byte = rng.below(256) as u8;
        }
        let answerer = Answerer {
            site: site.clone(),
            server: Server::new(ServerSettings::default(), key),
            payload: Vec::new(),
        };
        [Box::new(prober), Box::new(answerer)]
    }
}

/// The time, or the word for there being none.
fn or_word(word: &str, time: Option<impl fmt::Display>) -> String {
    time.map_or_else(|| word.to_owned(), |time| time.to_string())
}

/// Sends what a client or a server has to send.
fn send(host: &mut dyn Sockets, socket: SocketId, to: SocketAddr, sent: &Transmit) {
    // One that is longer than the first link takes is a probe that is lost; a path that is
    // missing was refused before the run.
    let _ = host.send_to(socket, to, &sent.bytes, u32::from(sent.len));
}

/// The end that searches.
struct Prober {
    spec: PmtudSpec,
    site: Site,
    socket: Option<SocketId>,
    /// From the time that it begins.
    client: Option<Client>,
    /// What of the client's counts has been reported.
    reported: Counts,
    /// How many of its searches have.
    found: usize,
    payload: Vec<u8>,
}

impl Prober {
    fn report(&self, host: &mut dyn Sockets, field: TelemetryField, value: u64) {
        host.record(Event::Telemetry {
            source: self.site.entity.into(),
            field,
            value: i64::try_from(value).unwrap_or(i64::MAX),
        });
    }

    /// Sends what is to be sent, reports what is new, and sets the timer.
    fn go_on(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        let (Some(client), Some(socket)) = (&mut self.client, self.socket) else {
            host.wake_at(Some(self.site.start));
            return;
        };
        client.on_timeout(now);
        while let Some(sent) = client.poll(now) {
            send(host, socket, self.site.to.local, &sent);
        }
        let stops = Some(self.site.stop);
        let wake = client.next_wake().filter(|at| Some(*at) < stops);
        self.report_news(host);
        host.wake_at(wake);
    }

    fn report_news(&mut self, host: &mut dyn Sockets) {
        let Some(client) = &self.client else { return };
        let counts = client.counts();
        let new = counts - self.reported;
        let found: Vec<_> = client.found()[self.found..].to_vec();
        self.reported = counts;
        self.found += found.len();
        for (field, value) in [
            (SENT, new.probes),
            (BYTES, new.bytes),
            (REPORTS_USED, u64::from(new.reports_used)),
            (REPORTS_REFUSED, u64::from(new.reports_ignored)),
            (BLACK_HOLES, u64::from(new.black_holes)),
        ] {
            if value > 0 {
                self.report(host, field, value);
            }
        }
        for found in found.iter().filter(|found| !found.is_base) {
            self.report(host, FOUND, u64::from(found.plpmtu));
            self.report(host, SEARCH, found.time.as_nanos());
            self.report(host, SIZES_TRIED, u64::from(found.counts.sizes_tried));
            self.report(host, SIZES_ARRIVED, u64::from(found.counts.sizes_arrived));
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.site.stop
    }
}

impl App for Prober {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.socket = Some(host.bind(self.site.from.profile, self.site.from.local)?);
        host.wake_at(Some(self.site.start));
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        let now = host.now();
        let Some(client) = self.client.as_mut() else {
            return;
        };
        match event {
            SocketEvent::Readable => {
                while let Some(datagram) = host.receive_from(socket, &mut self.payload) {
                    client.receive(datagram.at, &self.payload, datagram.len);
                }
            }
            SocketEvent::Error => {
                while let Some(error) = host.receive_error(socket, &mut self.payload) {
                    if let Undelivered::TooBig { mtu } = error.why {
                        client.reported(now, Some(error.reporter), mtu, &self.payload);
                    }
                }
            }
            _ => return,
        }
        if !self.is_over(now) {
            self.go_on(host);
        }
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        if self.client.is_none() && now >= self.site.start {
            let settings = ClientSettings {
                settings: self.spec.settings(self.site.from.local),
                searches: vec![self.spec.search],
                back: false,
                alone: None,
                stays: true,
                // Nobody guesses in a simulation.
                nonce: 0,
            };
            self.client = Some(Client::new(settings, now));
        }
        if !self.is_over(now) {
            self.go_on(host);
        }
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        let client = self.client.as_ref();
        let plpmtu = client.filter(|c| c.stage() != Stage::Greeting);
        if let Some(plpmtu) = plpmtu.map(Client::plpmtu) {
            self.report(host, PLPMTU, u64::from(plpmtu));
        }
    }
}

/// The end that says what arrived.
struct Answerer {
    site: Site,
    server: Server,
    payload: Vec<u8>,
}

impl App for Answerer {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        let end = self.site.to;
        host.bind(end.profile, end.local).map(|_| ())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        if event != SocketEvent::Readable {
            return;
        }
        while let Some(datagram) = host.receive_from(socket, &mut self.payload) {
            let from = datagram.from;
            let answer = self
                .server
                .receive(datagram.at, from.ip(), &self.payload, datagram.len);
            if let Some(answer) = answer {
                send(host, socket, from, &answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kind::testing::{refused_at, with};

    #[test]
    fn words_print_back() {
        let spec = with(
            "pmtud",
            &[
                ("search", "bisect within 1"),
                ("ptb", "off"),
                ("mtu", "9000"),
                ("probes", "10"),
                ("timer", "15s"),
                ("confirm", "never"),
                ("raise", "1min"),
            ],
        );
        let words = "pmtud search bisect within 1 ptb off mtu 9000 probes 10 timer 15s \
                     confirm never raise 60s";
        assert_eq!(spec.to_string(), words);
    }

    #[test]
    fn wrong_values_are_refused_at_their_place() {
        refused_at(
            "pmtud",
            &[
                ("search", "step", ""),
                ("search", "step 0", "0"),
                ("search", "upwards", "upwards"),
                ("ptb", "yes", "yes"),
                ("mtu", "67", "67"),
                ("probes", "0", "0"),
                ("timer", "slow", "slow"),
                ("timer", "0s", "0s"),
                ("confirm", "once", "once"),
                ("raise", "0s", "0s"),
            ],
        );
    }
}
