//! What a search found is checked before it is believed.
//!
//! That a size does not arrive is concluded from three losses, or from a router's word. A server that is held up for
//! as long, a link that is down for a moment, a server that has gone and a router that errs look
//! the same. So that size is tried again, before and after one that does arrive: if the first
//! arrives, the search goes on; if neither does, nothing is known about sizes (RFC 8899 section 3, item 5:
//! loss may have other reasons than a packet's size). The more probes of sizes that fit were lost, the more
//! often it is tried.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

/// Pairs of probes, each waited for twice as long, before the server counts as silent (our
/// choice): seven seconds on short paths.
const ROUNDS: u32 = 8;

/// The first is waited for so long at least, and further ones no more than that unless one
/// timeout is longer (our choice).
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Odds at which all trials of a size that fits may be lost, as [`trials`] has it (our choice).
const ODDS: f64 = 1e-4;

/// At least one trial before and one after the probe that arrives, so that no pause ends between
/// them unseen; and no more at a time than some (our choice).
const TRIALS: std::ops::RangeInclusive<usize> = 2..=16;

/// How often a size is tried at once that three probes did not confirm, where of `sent` probes of sizes that fit
/// `lost` were lost.
pub(super) fn trials(lost: usize, sent: usize) -> usize {
    // The rule of succession: little that was seen proves little.
    let rate = (lost as f64 + 1.0) / (sent as f64 + 2.0);
    let in_all = libm::ceil(libm::log(ODDS) / libm::log(rate.min(0.9)));
    (in_all as usize)
        .saturating_sub(3)
        .clamp(*TRIALS.start(), *TRIALS.end())
}

/// What is known of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on.
    Open,
    /// What was found holds.
    Holds,
    /// Neither of the two sizes arrives any more.
    Silent,
}

/// A check.
#[derive(Clone, Debug)]
pub(super) struct Check {
    /// The size that did not arrive, until it is known that it does not.
    doubted: Option<u16>,
    /// The size that does.
    control: u16,
    control_arrived: bool,
    /// How often the doubted size is tried in a round.
    trials: usize,
    /// A timeout of probes.
    timeout: Duration,
    round: u32,
    /// Sizes of this round that are still to be sent.
    to_send: VecDeque<u16>,
    /// Until when answers are waited for.
    until: Option<Instant>,
}

impl Check {
    /// One that begins, where probes are waited for `timeout`.
    pub(super) fn new(
        doubted: Option<u16>,
        control: u16,
        trials: usize,
        timeout: Duration,
    ) -> Self {
        let mut check = Self {
            doubted,
            control,
            control_arrived: false,
            trials,
            timeout: timeout.max(FIRST),
            round: 0,
            to_send: VecDeque::new(),
            until: None,
        };
        check.begin_round();
        check
    }

    fn begin_round(&mut self) {
        let mut sizes = vec![self.control];
        if let Some(doubted) = self.doubted {
            sizes.insert(0, doubted);
            sizes.resize(self.trials + 1, doubted);
        }
        self.to_send = sizes.into();
        self.until = None;
    }

    /// The size to send now.
    pub(super) fn poll(&mut self, now: Instant) -> Option<u16> {
        let size = self.to_send.pop_front()?;
        let longest = self.timeout.max(LONGEST).as_nanos();
        let patience = (self.timeout.as_nanos() << self.round).min(longest);
        self.until = Some(now + Duration::from_nanos(patience));
        Some(size)
    }

    pub(super) fn has_probe(&self) -> bool {
        !self.to_send.is_empty()
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.until.filter(|_| !self.has_probe())
    }

    /// A probe of `size` arrived that was sent for the check.
    pub(super) fn arrived(&mut self, size: u16) {
        self.control_arrived |= size == self.control;
    }

    /// A router reports again that the doubted size is too large.
    pub(super) fn reported(&mut self, size: u16) {
        if self.doubted == Some(size) {
            self.doubted = None;
            self.to_send.retain(|other| *other != size);
        }
    }

    /// What is known at `now`.
    pub(super) fn verdict(&mut self, now: Instant) -> Verdict {
        let is_over = self.timeout().is_some_and(|until| until <= now);
        match (self.control_arrived, self.doubted) {
            (true, None) => Verdict::Holds,
            // It was sent before and after the one that has arrived.
            (true, Some(_)) if is_over => Verdict::Holds,
            (false, _) if is_over && self.round + 1 == ROUNDS => Verdict::Silent,
            (false, _) if is_over => {
                self.round += 1;
                self.begin_round();
                Verdict::Open
            }
            _ => Verdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all probes of a round at `now`.
    fn sent(check: &mut Check, now: Instant) -> Vec<u16> {
        std::iter::from_fn(|| check.poll(now)).collect()
    }

    #[test]
    fn what_arrived_once_more_shows_that_the_other_does_not() {
        let mut check = Check::new(Some(1_472), 1_200, 3, Duration::from_millis(75));
        let mut now = Instant::ZERO;
        assert_eq!(sent(&mut check, now), [1_472, 1_200, 1_472, 1_472]);
        check.arrived(1_200);
        assert_eq!(check.verdict(now), Verdict::Open);
        now = check.timeout().unwrap();
        assert_eq!(now, Instant::ZERO + Duration::from_millis(75));
        assert_eq!(check.verdict(now), Verdict::Holds);
    }

    #[test]
    fn a_report_or_nothing_in_doubt_needs_no_waiting() {
        let mut check = Check::new(Some(1_472), 1_200, 2, FIRST);
        assert_eq!(check.poll(Instant::ZERO), Some(1_472));
        check.reported(1_472);
        assert_eq!(sent(&mut check, Instant::ZERO), [1_200]);
        assert_eq!(check.verdict(Instant::ZERO), Verdict::Open);
        check.arrived(1_200);
        assert_eq!(check.verdict(Instant::ZERO), Verdict::Holds);
        let mut check = Check::new(None, 32, 2, FIRST);
        assert_eq!(sent(&mut check, Instant::ZERO), [32]);
        check.arrived(32);
        assert_eq!(check.verdict(Instant::ZERO), Verdict::Holds);
    }

    #[test]
    fn silence_is_waited_for_longer_each_time_and_then_is_one() {
        let mut check = Check::new(Some(1_472), 1_200, 2, Duration::from_millis(10));
        let mut waited = Vec::new();
        let mut now = Instant::ZERO;
        loop {
            assert_eq!(sent(&mut check, now), [1_472, 1_200, 1_472]);
            let until = check.timeout().unwrap();
            waited.push(until.since(now).as_nanos() / 1_000_000);
            now = until;
            match check.verdict(now) {
                Verdict::Open => {}
                verdict => {
                    assert_eq!(verdict, Verdict::Silent);
                    break;
                }
            }
        }
        assert_eq!(waited, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
    }

    #[test]
    fn the_more_is_lost_the_more_often_a_size_is_tried() {
        // 0.33^9 < 0.0001, and 0.25^7.
        assert_eq!([trials(0, 1), trials(0, 2), trials(20, 1_000)], [6, 4, 2]);
        // 0.36 as of a fifth each way: ten in all; and never more than at a time.
        assert_eq!(
            [trials(36, 100), trials(64, 100), trials(99, 99)],
            [7, 16, 16]
        );
    }
}
