//! Whether a path that carried large datagrams has stopped to (RFC 8899 section 4.3).

/// When datagrams of a confirmed size that are lost count as a black hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRule {
    /// MAX_PROBES of them in a row (RFC 8899 section 5.2, SEARCH_COMPLETE): one time in 300 by
    /// random loss of 15 %.
    MaxProbes,
    /// [`EVIDENCE`] of them in a row, while at least one small datagram that was sent after
    /// the first of them arrived. What is suspected after MAX_PROBES is tried at once by
    /// several probes, so that a black hole is found as fast.
    Evidence,
}

/// Large datagrams lost in a row that random loss does not explain: at 15 % loss fifteen of
/// them happen once in 2.3·10¹² (0.15¹⁵), so not in 10⁸ packets.
pub const EVIDENCE: u32 = 15;

/// Collects what happened to datagrams in the order in which they were sent.
///
/// A datagram is *large* above the size that is in doubt, *small* otherwise. A black hole loses
/// all large ones and no small one; loss of other kinds does not know sizes. So what counts is
/// the number of large ones lost since one arrived, and that small ones sent later did arrive:
/// a link that is down, or a burst of loss, loses both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlackHole {
    rule: LossRule,
    max_probes: u32,
    lost: u32,
    small_arrived: bool,
}

impl BlackHole {
    /// One that has seen nothing; `max_probes` is MAX_PROBES.
    pub fn new(rule: LossRule, max_probes: u32) -> Self {
        Self {
            rule,
            max_probes,
            lost: 0,
            small_arrived: false,
        }
    }

    /// A large datagram arrived: the path carries it.
    pub fn large_arrived(&mut self) {
        self.lost = 0;
        self.small_arrived = false;
    }

    /// A large datagram was lost.
    pub fn large_lost(&mut self) {
        self.lost = self.lost.saturating_add(1);
    }

    /// A small datagram arrived; one counts that was sent after the first large one that was
    /// lost, which the caller knows by the order of arrival.
    pub fn small_arrived(&mut self) {
        self.small_arrived |= self.lost > 0;
    }

    /// Whether so many large ones were lost that the path is to be tried by probes, small and
    /// large, without waiting for data.
    pub fn is_suspected(&self) -> bool {
        self.lost >= self.max_probes
    }

    /// Whether it is one.
    pub fn is_found(&self) -> bool {
        match self.rule {
            LossRule::MaxProbes => self.lost >= self.max_probes,
            LossRule::Evidence => self.lost >= EVIDENCE && self.small_arrived,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rule: LossRule, lost: u32, small: bool) -> BlackHole {
        let mut hole = BlackHole::new(rule, 3);
        for _ in 0..lost {
            hole.large_lost();
        }
        if small {
            hole.small_arrived();
        }
        hole
    }

    #[test]
    fn so_many_losses_in_a_row_are_one_if_small_datagrams_arrive() {
        assert!(after(LossRule::Evidence, EVIDENCE, true).is_found());
        assert!(!after(LossRule::Evidence, EVIDENCE - 1, true).is_found());
        assert!(
            !after(LossRule::Evidence, 1_000, false).is_found(),
            "a dead link"
        );
        assert!(after(LossRule::MaxProbes, 3, false).is_found());
        assert!(!after(LossRule::MaxProbes, 2, false).is_found());
        assert!(after(LossRule::Evidence, 3, false).is_suspected());
        assert!(!after(LossRule::Evidence, 2, false).is_suspected());
    }

    #[test]
    fn one_that_arrives_clears_what_was_counted() {
        let mut hole = after(LossRule::Evidence, EVIDENCE - 1, true);
        hole.large_arrived();
        for _ in 0..EVIDENCE {
            assert!(!hole.is_found());
            hole.large_lost();
        }
        assert!(!hole.is_found(), "the small datagram was sent before");
        hole.small_arrived();
        assert!(hole.is_found());
    }

    #[test]
    fn small_datagrams_before_any_loss_are_no_evidence() {
        let mut hole = BlackHole::new(LossRule::Evidence, 3);
        hole.small_arrived();
        for _ in 0..EVIDENCE {
            hole.large_lost();
        }
        assert!(!hole.is_found());
    }
}
