//! The state machine of RFC 8899 section 5.2.

mod late;

use narrows_units::{Duration, Instant};

use crate::black_hole::BlackHole;
use crate::counts::Counts;
use crate::report::{Effect, Report};
use crate::search::{Known, Search};
use crate::settings::{Reports, Settings};
use crate::timer::RoundTrip;

/// Probes of a size in doubt that are sent at once, with one of BASE_PLPMTU: with
/// [`EVIDENCE`](crate::black_hole::EVIDENCE) lost datagrams as proof and three of them lost
/// before, a black hole is found after two such bursts, five timeouts in all (our choice).
const BURST: u32 = 6;

/// The states of RFC 8899 figure 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Connectivity is not confirmed; nothing is sent.
    Disabled,
    /// BASE_PLPMTU is being confirmed.
    Base,
    /// Larger sizes are being tried.
    Searching,
    /// The search has ended; what it found is confirmed from time to time.
    SearchComplete,
    /// Not even BASE_PLPMTU arrives; smaller sizes are tried.
    Error,
}

/// Why a probe is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To confirm BASE_PLPMTU.
    Base,
    /// To try a larger size.
    Search,
    /// To confirm the size that was found.
    Confirm,
    /// A small one beside those that confirm, to tell a black hole from loss.
    Compare,
    /// To find whether MIN_PLPMTU arrives.
    Minimum,
}

/// A datagram to send, with DF set: it is never fragmented, and its loss is no sign of
/// congestion (RFC 8899 section 3, items 2 and 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Identifies it in what comes back; never used twice.
    pub number: u64,
    /// Its size.
    pub size: u16,
    /// Why it is sent.
    pub purpose: Purpose,
}

/// A probe that is outstanding.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    probe: Probe,
    sent: Instant,
}

/// The discovery of one path's MTU.
#[derive(Clone, Debug)]
pub struct Discovery {
    settings: Settings,
    search: Search,
    state: State,
    /// PLPMTU; 0 while disabled.
    plpmtu: u16,
    /// What the current search knows.
    known: Known,
    /// PROBED_SIZE, and why it is tried; `None` where no probe is to be sent.
    probed: Option<(u16, Purpose)>,
    /// PROBE_COUNT: probes of it that were lost.
    probe_count: u32,
    /// A size that a validated report named, which is tried before the search's own.
    reported: Option<u16>,
    /// Whether a report ended the search.
    by_report: bool,
    /// The size that the last report named which was used, until larger ones are tried by
    /// PMTU_RAISE_TIMER.
    named: Option<u16>,
    black_hole: BlackHole,
    outstanding: Vec<Outstanding>,
    /// Probes of the current burst that are still to be sent.
    burst: u32,
    /// When probes that are outstanding count as lost.
    probe_timer: Option<Instant>,
    confirmation_timer: Option<Instant>,
    raise_timer: Option<Instant>,
    round_trip: RoundTrip,
    next_number: u64,
    counts: Counts,
}

impl Discovery {
    /// A discovery that is disabled until connectivity is confirmed.
    pub fn new(settings: Settings, search: Search) -> Self {
        let settings = Settings {
            reports: search.reports(settings.reports),
            ..settings
        };
        Self {
            known: Known {
                headers: settings.headers,
                base: settings.base,
                max: settings.max,
                arrived: None,
                failed: None,
                failed_last: false,
            },
            black_hole: BlackHole::new(settings.loss_rule, settings.max_probes),
            settings,
            search,
            state: State::Disabled,
            plpmtu: 0,
            probed: None,
            probe_count: 0,
            reported: None,
            by_report: false,
            named: None,
            outstanding: Vec::new(),
            burst: 0,
            probe_timer: None,
            confirmation_timer: None,
            raise_timer: None,
            round_trip: RoundTrip::default(),
            next_number: 0,
            counts: Counts::default(),
        }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// PLPMTU: the largest size that may be used now; 0 while disabled.
    pub fn plpmtu(&self) -> u16 {
        self.plpmtu
    }

    /// What it has cost so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The number that the next probe will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// How long the answer to a probe is waited for.
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.round_trip.timeout(self.settings.timers.probe)
    }

    /// A report was contradicted by what it is about: no more of them are used.
    pub(crate) fn distrust_reports(&mut self) {
        self.settings.reports = Reports::Ignored;
    }

    /// Connectivity is confirmed: BASE_PLPMTU is tried next.
    pub fn connected(&mut self) {
        if self.state == State::Disabled {
            self.begin_base();
        }
    }

    /// Connectivity is confirmed by datagrams of BASE_PLPMTU, as by a handshake that is padded
    /// to it: the search begins at once.
    pub fn connected_at_base(&mut self, now: Instant) {
        if self.state == State::Disabled {
            self.plpmtu = self.settings.base;
            self.begin_search(now, None);
        }
    }

    /// A round trip that others have measured, as of a handshake: probes that are lost are then
    /// known to be so in that time, and not after a second.
    pub fn round_trip_measured(&mut self, rtt: Duration) {
        self.round_trip.measured(rtt);
    }

    /// Connectivity is lost (RFC 8899 section 5.2: to DISABLED from any state).
    pub fn disconnected(&mut self) {
        self.state = State::Disabled;
        self.plpmtu = 0;
        self.forget_probes();
        self.confirmation_timer = None;
        self.raise_timer = None;
    }

    /// The probe to send now, if one is to be sent; again until there is none.
    pub fn poll_probe(&mut self, now: Instant) -> Option<Probe> {
        let (size, purpose) = self.probed?;
        let (size, purpose) = match self.burst {
            0 => return None,
            1 if purpose == Purpose::Confirm && self.black_hole.is_suspected() => {
                (self.settings.base, Purpose::Compare)
            }
            _ => (size, purpose),
        };
        self.burst -= 1;
        let probe = Probe {
            number: self.next_number,
            size,
            purpose,
        };
        self.next_number += 1;
        self.counts.probes += 1;
        self.counts.bytes += u64::from(self.settings.mtu_of(size));
        self.outstanding.push(Outstanding { probe, sent: now });
        self.probe_timer = Some(now + self.patience(purpose));
        Some(probe)
    }

    /// How long a probe's acknowledgement is waited for. Where a size that was found is in doubt
    /// and nothing at all arrives, the time doubles (RFC 6298 section 5.5) once as many were
    /// lost as a black hole is found by.
    fn patience(&self, purpose: Purpose) -> Duration {
        /// Single probes and bursts, of MAX_PROBES each.
        const ROUNDS: u32 = 2;
        /// Sixty-four times at most (our choice).
        const DOUBLINGS: u32 = 6;
        let timeout = self.round_trip.timeout(self.settings.timers.probe);
        let more = match purpose {
            Purpose::Confirm | Purpose::Compare => {
                let usual = ROUNDS * self.settings.max_probes;
                self.probe_count.saturating_sub(usual).min(DOUBLINGS)
            }
            Purpose::Base | Purpose::Search | Purpose::Minimum => 0,
        };
        Duration::from_nanos(timeout.as_nanos() << more)
    }

    /// Whether [`poll_probe`](Self::poll_probe) has a probe to send.
    pub fn has_probe(&self) -> bool {
        self.probed.is_some() && self.burst > 0
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called.
    pub fn timeout(&self) -> Option<Instant> {
        let timers = [self.probe_timer, self.confirmation_timer, self.raise_timer];
        timers.into_iter().flatten().min()
    }

    /// A timer has expired, or may have.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.probe_timer.is_some_and(|at| at <= now) {
            self.probe_timer = None;
            self.probes_lost(now);
        }
        if self.raise_timer.is_some_and(|at| at <= now) {
            self.raise_timer = None;
            self.named = None;
            // What is being confirmed is still in doubt; the next raise is not far.
            if self.outstanding.is_empty() {
                self.begin_search(now, Some(self.plpmtu));
            } else {
                self.raise_timer = Some(now + self.settings.timers.raise);
            }
        }
        if self.confirmation_timer.is_some_and(|at| at <= now) {
            self.confirmation_timer = None;
            if self.state == State::SearchComplete {
                self.try_size(self.plpmtu, Purpose::Confirm, 1);
            }
        }
    }

    /// The probe with this number arrived at the peer, and its acknowledgement here. Returns
    /// whether it was outstanding.
    pub fn acknowledged(&mut self, now: Instant, number: u64) -> bool {
        let place = self
            .outstanding
            .iter()
            .position(|o| o.probe.number == number);
        let Some(Outstanding { probe, sent }) = place.map(|place| self.outstanding.remove(place))
        else {
            return false;
        };
        self.round_trip.measured(now.since(sent));
        match probe.purpose {
            Purpose::Compare => self.black_hole.small_arrived(),
            Purpose::Confirm => {
                self.black_hole.large_arrived();
                self.forget_probes();
                self.schedule_confirmation(now);
            }
            Purpose::Search => self.size_arrived(now, probe.size),
            Purpose::Base => {
                self.plpmtu = self.settings.base;
                self.begin_search(now, Some(self.settings.base));
            }
            Purpose::Minimum => {
                // MIN_PLPMTU is carried: BASE_PLPMTU is tried again (section 5.2, ERROR).
                self.plpmtu = self.settings.min;
                self.try_size(self.settings.base, Purpose::Base, 1);
            }
        }
        true
    }

    /// A datagram of data that was as large as allowed arrived, for transports that acknowledge.
    pub fn data_arrived(&mut self, size: u16) {
        if size > self.settings.base {
            self.black_hole.large_arrived();
        } else {
            self.black_hole.small_arrived();
        }
    }

    /// A datagram of data was lost; called in the order in which they were sent.
    pub fn data_lost(&mut self, size: u16) {
        if size <= self.settings.base || self.state == State::Disabled {
            return;
        }
        self.black_hole.large_lost();
        if self.black_hole.is_found() {
            self.fall_back();
        } else if self.black_hole.is_suspected()
            && self.state == State::SearchComplete
            && self.outstanding.is_empty()
            && self.burst == 0
        {
            self.try_size(self.plpmtu, Purpose::Confirm, BURST + 1);
        }
    }

    /// A packet-too-big report has come.
    pub fn reported(&mut self, now: Instant, report: Report) -> Effect {
        let effect = self.judge(report);
        match effect {
            Effect::Unverified | Effect::Implausible => self.counts.reports_ignored += 1,
            _ => self.counts.reports_used += 1,
        }
        let size = report.mtu.saturating_sub(u32::from(self.settings.headers));
        match effect {
            Effect::Unverified | Effect::Implausible => {}
            _ => self.named = u16::try_from(size).ok(),
        }
        match effect {
            Effect::Unverified | Effect::Implausible => {}
            Effect::BelowBase => self.begin_error(),
            Effect::BlackHole => self.fall_back(),
            Effect::Complete => {
                if self.state == State::Searching {
                    self.size_failed_by_report();
                    self.by_report = true;
                    self.complete(now);
                }
            }
            Effect::TryNext(size) => {
                self.size_failed_by_report();
                self.reported = Some(size);
                self.try_size(size, Purpose::Search, 1);
            }
        }
        effect
    }

    /// What a report means; see [`Effect`].
    fn judge(&self, report: Report) -> Effect {
        let outstanding = |number| self.outstanding.iter().find(|o| o.probe.number == number);
        let quoted = report.quotes.and_then(outstanding);
        let (Reports::Validated, Some(quoted)) = (self.settings.reports, quoted) else {
            return Effect::Unverified;
        };
        let size = report.mtu.saturating_sub(u32::from(self.settings.headers));
        let Ok(size) = u16::try_from(size) else {
            return Effect::Implausible;
        };
        if size < self.settings.min || size >= quoted.probe.size {
            Effect::Implausible
        } else if size < self.settings.base {
            Effect::BelowBase
        } else if size < self.plpmtu {
            Effect::BlackHole
        } else if size == self.plpmtu {
            Effect::Complete
        } else {
            Effect::TryNext(size)
        }
    }

    /// The size that was tried is too large, as a router says.
    fn size_failed_by_report(&mut self) {
        if let Some((size, Purpose::Search)) = self.probed {
            self.known.failed = Some(size);
            self.known.failed_last = true;
            self.counts.sizes_failed += 1;
        }
        self.forget_probes();
    }

    /// No probe that is outstanding was acknowledged in time.
    fn probes_lost(&mut self, now: Instant) {
        let lost = std::mem::take(&mut self.outstanding);
        let large = lost.iter().filter(|o| o.probe.purpose == Purpose::Confirm);
        for _ in large {
            self.black_hole.large_lost();
        }
        let Some((size, purpose)) = self.probed else {
            return;
        };
        self.probe_count += 1;
        let given_up = self.probe_count >= self.settings.max_probes;
        match purpose {
            Purpose::Confirm | Purpose::Compare => {
                if self.black_hole.is_found() {
                    self.fall_back();
                } else if self.black_hole.is_suspected() {
                    self.burst = BURST + 1;
                } else {
                    self.burst = 1;
                }
            }
            Purpose::Base | Purpose::Minimum if given_up => self.base_failed(purpose),
            Purpose::Search if given_up => {
                self.known.failed = Some(size);
                self.known.failed_last = true;
                self.counts.sizes_failed += 1;
                self.forget_probes();
                self.next_size(now);
            }
            Purpose::Base | Purpose::Minimum | Purpose::Search => self.burst = 1,
        }
    }

    /// BASE_PLPMTU, or in ERROR the size that is tried in its place, does not arrive.
    fn base_failed(&mut self, purpose: Purpose) {
        if self.state == State::Error && purpose == Purpose::Minimum {
            // Not even MIN_PLPMTU (section 5.2: ERROR to DISABLED).
            self.disconnected();
        } else {
            self.begin_error();
        }
    }

    /// A larger size arrived.
    fn size_arrived(&mut self, now: Instant, size: u16) {
        self.counts.sizes_arrived += 1;
        if self.named.is_some_and(|named| named < size) {
            // A router that errs, or one of several paths: its word may come again and again.
            self.distrust_reports();
        }
        self.known.arrived = Some(size);
        self.known.failed_last = false;
        self.plpmtu = self.plpmtu.max(size);
        self.forget_probes();
        if self.reported.take() == Some(size) {
            // The report named the path's limit, and that is confirmed now.
            self.by_report = true;
            self.complete(now);
        } else {
            self.next_size(now);
        }
    }

    /// Tries the next size of the search, or ends it.
    fn next_size(&mut self, now: Instant) {
        match self.search.next(&self.known) {
            Some(size) => self.try_size(size, Purpose::Search, 1),
            None => self.complete(now),
        }
    }

    /// Has `burst` probes sent, of `size` unless one of them compares.
    fn try_size(&mut self, size: u16, purpose: Purpose, burst: u32) {
        if purpose == Purpose::Search {
            self.counts.sizes_tried += 1;
        }
        self.probed = Some((size, purpose));
        self.probe_count = 0;
        self.burst = burst;
    }

    /// No probe is outstanding or to be sent.
    fn forget_probes(&mut self) {
        self.probed = None;
        self.probe_count = 0;
        self.burst = 0;
        self.outstanding.clear();
        self.probe_timer = None;
    }

    /// Starts with BASE_PLPMTU, of which nothing is known on this path.
    fn begin_base(&mut self) {
        self.state = State::Base;
        self.forget_probes();
        self.confirmation_timer = None;
        self.raise_timer = None;
        // Expected to arrive; what is sent meanwhile may be no larger.
        self.plpmtu = self.settings.base;
        self.try_size(self.settings.base, Purpose::Base, 1);
    }

    /// Sizes above what is confirmed are tried; `arrived` is the size of which a probe did.
    fn begin_search(&mut self, now: Instant, arrived: Option<u16>) {
        self.state = State::Searching;
        self.forget_probes();
        self.confirmation_timer = None;
        self.raise_timer = None;
        self.reported = None;
        self.by_report = false;
        self.known.failed = None;
        self.known.failed_last = false;
        self.known.arrived = arrived;
        self.next_size(now);
    }

    /// The search is over.
    fn complete(&mut self, now: Instant) {
        self.state = State::SearchComplete;
        self.forget_probes();
        self.reported = None;
        self.black_hole = BlackHole::new(self.settings.loss_rule, self.settings.max_probes);
        self.schedule_confirmation(now);
        // A path that carries the largest size has nothing to raise.
        self.raise_timer =
            (self.plpmtu < self.settings.max).then(|| now + self.settings.timers.raise);
    }

    fn schedule_confirmation(&mut self, now: Instant) {
        self.confirmation_timer = self.settings.timers.confirmation.map(|every| now + every);
    }

    /// The path no longer carries what it did (section 4.3): back to BASE.
    fn fall_back(&mut self) {
        self.counts.black_holes += 1;
        self.black_hole = BlackHole::new(self.settings.loss_rule, self.settings.max_probes);
        self.begin_base();
    }

    /// Not even BASE_PLPMTU arrives: the smallest is tried, and used meanwhile.
    fn begin_error(&mut self) {
        self.state = State::Error;
        self.forget_probes();
        self.confirmation_timer = None;
        self.raise_timer = None;
        self.plpmtu = self.settings.min;
        self.try_size(self.settings.min, Purpose::Minimum, 1);
    }
}

#[cfg(test)]
mod tests;
