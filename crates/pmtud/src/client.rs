//! The client: gets its token, finds a base that arrives, has each search find what the path
//! carries there, and at last what it carries back.

mod check;
mod found;
mod running;

use std::collections::VecDeque;
use std::net::IpAddr;

use narrows_units::{Duration, Instant};

use crate::counts::Counts;
use crate::discovery::{Discovery, State};
use crate::message::{MESSAGE_LEN, Message, MessageKind, TOKEN_LEN};
use crate::report::{Effect, Report};
use crate::search::Search;
use crate::server::{PERIOD, Transmit};
use crate::settings::{Reports, Settings};
use check::{Check, Verdict, trials};
pub use found::{Fate, Found, Step, Way};
use running::Running;

/// Hellos before a server counts as not there (our choice), one a second.
const HELLOS: u32 = 5;
const HELLO_EVERY: Duration = Duration::from_secs(1);

/// Between two datagrams, so that no server's rate is reached (our choice).
const SPACING: Duration = Duration::from_millis(5);

/// The same where routers and hosts answer by ICMP, of which Linux sends one a second
/// (`net.ipv4.icmp_ratelimit`, `net.ipv6.icmp.ratelimit`: 1000 ms).
const ICMP_SPACING: Duration = Duration::from_millis(1_100);

/// A token is asked for again after this time, before [`PERIOD`] is over.
const RENEW: Duration = Duration::from_secs(240);

/// Sizes that are tried in the place of a base that does not arrive, in bytes of MTU: what IPv4
/// hosts have to take (RFC 1122 section 3.3.2: 576), and links of the list of RFC 1191 section 7.1.
const BASES: [u16; 4] = [1_006, 576, 296, 68];

/// What a client is to do.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Of every discovery.
    pub settings: Settings,
    /// The searches, one after the other.
    pub searches: Vec<Search>,
    /// Whether the way back is searched, too.
    pub back: bool,
    /// Where no server answers: what arrives is known by ICMP errors of the host, as
    /// tracepath(8) does it. The token tells quotations of these probes from others.
    pub alone: Option<[u8; TOKEN_LEN]>,
    /// Whether the last search goes on after its end, as in a transport: what it found is
    /// confirmed and raised, and searched for anew after a black hole.
    pub stays: bool,
    /// What a token is asked for with, and given with: nobody else can give one where it cannot be
    /// guessed. Probes are numbered from here on; up to 2⁶³.
    pub nonce: u64,
}

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It asks for its token.
    Greeting,
    /// It searches.
    Searching,
    /// All is found.
    Done,
    /// No server gives a token, or no other when one is over.
    NoServer,
    /// The server gave a token and then answered nothing more, of whichever size.
    Silent,
}

impl Stage {
    /// Whether nothing more is done.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::NoServer | Self::Silent)
    }
}

/// A client.
#[derive(Debug)]
pub struct Client {
    settings: ClientSettings,
    stage: Stage,
    token: [u8; TOKEN_LEN],
    token_since: Instant,
    hellos: u32,
    next_hello: Option<Instant>,
    /// Searches that are still to be made; of a base, before the others.
    to_do: VecDeque<(Search, Way)>,
    /// Of the probe that was answered last.
    round_trip: Option<Duration>,
    /// The base that arrived.
    base: Option<u16>,
    running: Option<Running>,
    next_number: u64,
    may_send: Instant,
    found: Vec<Found>,
    /// What searches have cost that no longer run.
    spent: Counts,
}

impl Client {
    /// One that begins at `now`.
    pub fn new(settings: ClientSettings, now: Instant) -> Self {
        let searches = settings.searches.iter();
        let mut to_do: VecDeque<_> = searches.map(|search| (*search, Way::There)).collect();
        if settings.back && settings.alone.is_none() {
            to_do.push_back((Search::Adaptive, Way::Back));
        }
        let nonce = settings.nonce;
        let mut client = Self {
            stage: Stage::Greeting,
            token: settings.alone.unwrap_or_default(),
            settings,
            token_since: now,
            hellos: 0,
            next_hello: Some(now),
            to_do,
            round_trip: None,
            base: None,
            running: None,
            next_number: nonce + 1,
            may_send: now,
            found: Vec::new(),
            spent: Counts::default(),
        };
        if client.settings.alone.is_some() {
            client.next_hello = None;
            client.stage = Stage::Searching;
            client.next_search(now);
        }
        client
    }

    /// What it is doing.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What was found so far: a base, then search by search.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// The largest datagram that the path carries as far as is known now; 0 where nothing is.
    pub fn plpmtu(&self) -> u16 {
        let running = self.running.as_ref().filter(|r| r.way == Way::There);
        match (running, self.stage) {
            (Some(running), _) => running.discovery.plpmtu(),
            (None, Stage::Greeting) => 0,
            (None, _) => self.there(),
        }
    }

    /// What all searches have cost so far.
    pub fn counts(&self) -> Counts {
        let running = self.running.as_ref();
        self.spent + running.map_or(Counts::default(), Running::counts)
    }

    /// The next datagram to send now, until there is none.
    pub fn poll(&mut self, now: Instant) -> Option<Transmit> {
        if now < self.may_send || self.stage.is_over() {
            return None;
        }
        let spacing = match self.settings.alone {
            Some(_) => ICMP_SPACING,
            None => SPACING,
        };
        if self.next_hello.is_some_and(|at| at <= now) {
            let given_up = match self.stage {
                Stage::Greeting => self.hellos == HELLOS,
                // Without a token that is accepted, a lost probe is no evidence of the path's MTU.
                _ => now.since(self.token_since) >= PERIOD,
            };
            if given_up && !self.settings.stays {
                self.stage = Stage::NoServer;
                return None;
            }
            self.hellos += 1;
            self.next_hello = Some(now + HELLO_EVERY);
            self.may_send = now + spacing;
            let nonce = self.settings.nonce;
            return Some(self.message(MessageKind::Hello, 0, nonce, MESSAGE_LEN as u16));
        }
        let running = self.running.as_mut()?;
        let (number, size) = match &mut running.check {
            Some((check, _)) => (self.next_number, check.poll(now)?),
            None => {
                let probe = running.discovery.poll_probe(now)?;
                (running.offset + probe.number, probe.size)
            }
        };
        self.next_number = number + 1;
        running.steps.push(Step {
            at: now.since(running.began),
            size,
            fate: Fate::Lost,
        });
        self.may_send = now + spacing;
        let way = running.way;
        let (wanted, len) = match way {
            Way::There => (0, size),
            Way::Back => (size, self.settings.settings.max.min(self.there())),
        };
        Some(self.message(MessageKind::Probe, wanted, number, len))
    }

    /// The size that the way there was found to carry.
    fn there(&self) -> u16 {
        let there = self.found.iter().filter(|found| found.way == Way::There);
        there.map(|found| found.plpmtu).max().unwrap_or(0)
    }

    fn message(&self, kind: MessageKind, size: u16, number: u64, len: u16) -> Transmit {
        let message = Message {
            kind,
            size,
            number,
            token: self.token,
        };
        Transmit {
            bytes: message.write(),
            len: len.max(MESSAGE_LEN as u16),
        }
    }

    /// When [`on_timeout`](Self::on_timeout) and [`poll`](Self::poll) are to be called again.
    pub fn next_wake(&self) -> Option<Instant> {
        if self.stage.is_over() {
            return None;
        }
        let running = self.running.as_ref();
        let check = running
            .and_then(|r| r.check.as_ref())
            .map(|(check, _)| check);
        let (waits, timeout) = match (check, running) {
            (Some(check), _) => (check.has_probe(), check.timeout()),
            (_, Some(running)) => (running.discovery.has_probe(), running.discovery.timeout()),
            _ => (false, None),
        };
        let timers = [
            self.next_hello.map(|at| at.max(self.may_send)),
            waits.then_some(self.may_send),
            timeout,
        ];
        timers.into_iter().flatten().min()
    }

    /// A time has come, or may have.
    pub fn on_timeout(&mut self, now: Instant) {
        if let Some(running) = self.running.as_mut().filter(|r| r.check.is_none()) {
            running.discovery.on_timeout(now);
        }
        self.settle(now);
    }

    /// A datagram of `len` bytes came from the server, of which `datagram` is the beginning.
    pub fn receive(&mut self, now: Instant, datagram: &[u8], len: u32) {
        let Some(message) = Message::parse(datagram) else {
            return;
        };
        match message.kind {
            MessageKind::Welcome
                if self.next_hello.is_some()
                    && self.settings.alone.is_none()
                    && message.number == self.settings.nonce =>
            {
                self.token = message.token;
                self.token_since = now;
                self.next_hello = None;
                self.hellos = 0;
                if self.stage == Stage::Greeting {
                    self.stage = Stage::Searching;
                    self.next_search(now);
                }
            }
            MessageKind::Answer if message.token == self.token => {
                let Some(running) = &self.running else { return };
                // What it says it got, or what came back, is what the probe was to try.
                let tried = match running.way {
                    Way::There => u32::from(message.size),
                    Way::Back => len,
                };
                self.arrived(now, message.number, Some(tried));
            }
            _ => {}
        }
    }

    /// An ICMP error says that nobody has the port, and quotes `quote` of the datagram. Of a
    /// client that is alone, it arrived; otherwise the server has gone.
    pub fn refused(&mut self, now: Instant, quote: &[u8]) {
        let of_probe = |m: &Message| m.kind == MessageKind::Probe && m.token == self.token;
        let Some(quoted) = Message::parse(quote).filter(of_probe) else {
            return;
        };
        if self.settings.alone.is_some() {
            self.arrived(now, quoted.number, None);
        } else if !self.settings.stays && self.step(quoted.number).is_some() {
            self.stage = Stage::Silent;
        }
    }

    /// The probe of the search that runs which has this number.
    fn step(&mut self, number: u64) -> Option<&mut Step> {
        let running = self.running.as_mut()?;
        let place = usize::try_from(number.checked_sub(running.first)?).ok()?;
        running.steps.get_mut(place)
    }

    fn arrived(&mut self, now: Instant, number: u64, tried: Option<u32>) {
        let Some(Step { at, size, fate }) = self.step(number).copied() else {
            return;
        };
        if tried.is_some_and(|tried| tried != u32::from(size)) {
            return;
        }
        let Some(running) = &mut self.running else {
            return;
        };
        let rtt = now.since(running.began + at);
        let own = number.checked_sub(running.offset);
        let in_time = running.check.is_none()
            && own.is_some_and(|own| running.discovery.acknowledged(now, own));
        let new_fate = match fate {
            Fate::Arrived(_) | Fate::Contradicted { .. } => return,
            Fate::Reported { by, mtu, .. } if !in_time => {
                running.settings.reports = Reports::Ignored;
                running.discovery.distrust_reports();
                let after = rtt;
                Fate::Contradicted { by, mtu, after }
            }
            Fate::Lost | Fate::Reported { .. } => Fate::Arrived(rtt),
        };
        self.round_trip = Some(rtt);
        if !in_time {
            self.arrived_late(now, number, size, rtt);
        }
        if let Some(step) = self.step(number) {
            step.fate = new_fate;
        }
        self.settle(now);
    }

    /// A probe arrived that nobody waits for any more, or one of a check.
    fn arrived_late(&mut self, now: Instant, number: u64, size: u16, rtt: Duration) {
        let Some(running) = &mut self.running else {
            return;
        };
        if running.discovery.arrived_late(now, size, rtt) {
            running.check = None;
            running.offset = self.next_number - running.discovery.next_number();
            return;
        }
        let given_up = match running.discovery.state() {
            State::Disabled => size >= running.settings.base,
            _ => number < running.offset && size > running.settings.base,
        };
        let stays = self.settings.stays && !running.is_base;
        if given_up && !stays && size > running.discovery.plpmtu() {
            // A base that was given up for a smaller one.
            self.restart(size);
        } else if let Some((check, _)) = &mut running.check {
            check.arrived(size);
        }
    }

    /// A packet-too-big report came from `by`, which names `mtu` and quotes `quote` of the
    /// datagram.
    pub fn reported(&mut self, now: Instant, by: Option<IpAddr>, mtu: u32, quote: &[u8]) {
        let quoted = Message::parse(quote).filter(|m| m.token == self.token);
        let Some(running) = &mut self.running else {
            return;
        };
        let headers = u32::from(running.settings.headers);
        let own = quoted.and_then(|m| m.number.checked_sub(running.offset));
        let repeats = running.settings.reports == Reports::Validated
            && quoted.is_some()
            && mtu == u32::from(running.discovery.plpmtu()) + headers;
        let effect = match (&running.check, running.way) {
            // It is about the way there, which is known.
            (_, Way::Back) => Effect::Unverified,
            (Some(_), _) if repeats => Effect::Complete,
            (Some(_), _) => Effect::Unverified,
            (None, _) => running.discovery.reported(now, Report { mtu, quotes: own }),
        };
        let first = running.first;
        let place = quoted.and_then(|m| usize::try_from(m.number.checked_sub(first)?).ok());
        let step = match place {
            Some(place) => running.steps.get_mut(place),
            None => running.steps.last_mut(),
        };
        // A report that could not be matched stands beside the last probe, if nothing else does.
        if let Some(step) = step.filter(|step| step.fate == Fate::Lost) {
            step.fate = Fate::Reported { by, mtu, effect };
            if let (Some((check, _)), Effect::Complete) = (&mut running.check, effect) {
                check.reported(step.size);
            }
        }
        if effect == Effect::BelowBase {
            let base = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(0);
            self.restart(base);
        }
        self.settle(now);
    }

    /// Sees whether a search is over, or has to begin from a smaller base.
    fn settle(&mut self, now: Instant) {
        let renews = self.settings.alone.is_none()
            && self.stage == Stage::Searching
            && self.next_hello.is_none();
        if renews && now.since(self.token_since) >= RENEW {
            self.next_hello = Some(now);
        }
        let last = self.settings.stays && self.to_do.is_empty();
        let Some(running) = &mut self.running else {
            return;
        };
        let goes_on = last && !running.is_base && running.way == Way::There;
        let state = running.discovery.state();
        if running.has_ended && state != State::SearchComplete {
            running.has_ended = false;
            running.began = now;
            running.at_beginning = running.counts();
            running.steps.clear();
            running.first = self.next_number;
        }
        match state {
            State::Error => {
                let (base, headers) = (running.settings.base, running.settings.headers);
                let least = running.settings.min;
                let sizes = BASES.map(|mtu| mtu.saturating_sub(headers).max(least));
                if let Some(smaller) = sizes.into_iter().find(|size| *size < base) {
                    self.restart(smaller);
                }
            }
            State::SearchComplete if goes_on && running.has_ended => {}
            State::SearchComplete if goes_on => {
                running.has_ended = true;
                let found = running.found(now);
                self.found.push(found);
            }
            State::Disabled if self.settings.stays => {
                // The server answers again: from the beginning.
                if !running.is_base {
                    self.to_do.push_front((running.search, running.way));
                }
                self.spent = self.spent + running.counts();
                self.running = None;
                self.base = None;
                self.stage = Stage::Greeting;
                self.next_hello = Some(now);
            }
            State::SearchComplete | State::Disabled => self.check(now),
            State::Base | State::Searching => {}
        }
    }

    /// Checks what the search came to, and takes it once it holds.
    fn check(&mut self, now: Instant) {
        let alone = self.settings.alone.is_some();
        let Some(running) = &mut self.running else {
            return;
        };
        let plpmtu = running.discovery.plpmtu();
        let doubted = match plpmtu {
            // The smallest that was tried.
            0 => Some(running.settings.base),
            _ => running.discovery.in_doubt(),
        };
        if alone || doubted.is_none() {
            // Hosts send one ICMP error in a second: it would take as long as the search.
            let found = running.found(now);
            self.finish(now, found);
            return;
        }
        if running.check.is_none() {
            let control = plpmtu.max(MESSAGE_LEN as u16);
            let timeout = running.discovery.probe_timeout();
            // Of the base as well, and of earlier searches of the same way.
            let earlier = self.found.iter().filter(|found| found.way == running.way);
            let steps = earlier.flat_map(|found| &found.steps).chain(&running.steps);
            let fitting = steps.filter(|step| step.size <= control);
            let lost = fitting.clone().filter(|step| step.fate == Fate::Lost);
            let trials = trials(lost.count(), fitting.count());
            let check = Check::new(doubted, control, trials, timeout);
            running.check = Some((check, running.found(now)));
        }
        let Some((check, found)) = &mut running.check else {
            return;
        };
        match check.verdict(now) {
            Verdict::Open => {}
            Verdict::Silent => self.stage = Stage::Silent,
            Verdict::Holds => {
                let mut found = found.clone();
                found.steps.clone_from(&running.steps);
                self.finish(now, found);
            }
        }
    }

    /// Begins the running search from a smaller base.
    fn restart(&mut self, base: u16) {
        let Some(running) = &mut self.running else {
            return;
        };
        running.before = running.counts();
        running.settings.base = base.max(running.settings.min);
        if running.is_base {
            running.settings.max = running.settings.base;
        }
        running.offset = self.next_number;
        running.check = None;
        running.discovery = Discovery::new(running.settings, running.search);
        if let Some(rtt) = self.round_trip {
            running.discovery.round_trip_measured(rtt);
        }
        running.discovery.connected();
    }

    fn finish(&mut self, now: Instant, found: Found) {
        let Some(running) = self.running.take() else {
            return;
        };
        if running.is_base {
            self.base = Some(running.discovery.plpmtu());
        }
        self.found.push(found);
        self.spent = self.spent + running.counts();
        self.next_search(now);
    }

    fn next_search(&mut self, now: Instant) {
        let mut settings = self.settings.settings;
        let (search, way, is_base) = match (self.base, self.to_do.front().copied()) {
            (None, _) => {
                settings.max = settings.base;
                (Search::Adaptive, Way::There, true)
            }
            // Where nothing arrives nothing can be searched.
            (Some(0), _) | (_, None) => {
                self.stage = Stage::Done;
                return;
            }
            (Some(base), Some((search, way))) => {
                self.to_do.pop_front();
                settings.base = base;
                if way == Way::Back {
                    // Nothing larger can come back than goes there.
                    settings.max = settings.max.min(self.there());
                }
                (search, way, false)
            }
        };
        let mut discovery = Discovery::new(settings, search);
        if let Some(rtt) = self.round_trip {
            discovery.round_trip_measured(rtt);
        }
        if is_base || way == Way::Back {
            discovery.connected();
        } else {
            discovery.connected_at_base(now);
        }
        self.running = Some(Running {
            discovery,
            search,
            way,
            is_base,
            settings,
            began: now,
            steps: Vec::new(),
            first: self.next_number,
            offset: self.next_number,
            before: Counts::default(),
            at_beginning: Counts::default(),
            has_ended: false,
            check: None,
        });
    }
}

#[cfg(test)]
mod tests;
