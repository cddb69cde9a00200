//! Deficit round robin over flows, new ones first (RFC 8290 §4.2).

use std::collections::VecDeque;

/// What a flow may still send in its turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Bytes.
    deficit: i64,
    /// On one of the two lists.
    listed: bool,
}

/// Whose turn it is among flows that are numbered from 0.
///
/// As in Linux's fq_codel and fq_pie, a flow in deficit is given its quantum when its turn
/// comes and waits for the next.
#[derive(Debug)]
pub(crate) struct Rounds {
    quantum: i64,
    turns: Vec<Turn>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

impl Rounds {
    /// No flow waits yet; each of `flows` may send `quantum` bytes in a turn.
    pub fn new(flows: usize, quantum: i64) -> Self {
        Self {
            quantum,
            turns: vec![Turn::default(); flows],
            new: VecDeque::with_capacity(flows),
            old: VecDeque::with_capacity(flows),
        }
    }

    /// Bytes of a turn from now on.
    pub fn set_quantum(&mut self, quantum: i64) {
        self.quantum = quantum;
    }

    /// A packet of `flow` waits.
    #[inline]
    pub fn begin(&mut self, flow: usize) {
        let turn = &mut self.turns[flow];
        if !turn.listed {
            turn.listed = true;
            turn.deficit = self.quantum;
            self.new.push_back(flow as u32);
        }
    }

    /// The flow whose turn it is.
    #[inline]
    pub fn next(&mut self) -> Option<usize> {
        loop {
            let list = match self.new.is_empty() {
                false => &mut self.new,
                true => &mut self.old,
            };
            let flow = *list.front()?;
            let turn = &mut self.turns[flow as usize];
            if turn.deficit > 0 {
                return Some(flow as usize);
            }
            turn.deficit += self.quantum;
            list.pop_front();
            self.old.push_back(flow);
        }
    }

    /// The flow that [`next`](Self::next) gave has sent `bytes`.
    #[inline]
    pub fn spent(&mut self, flow: usize, bytes: u32) {
        self.turns[flow].deficit -= i64::from(bytes);
    }

    /// The flow that [`next`](Self::next) gave had nothing to send.
    pub fn had_none(&mut self, flow: usize) {
        let is_new = !self.new.is_empty();
        let list = if is_new { &mut self.new } else { &mut self.old };
        list.pop_front();
        // A new flow that is empty passes through the old ones, so that it cannot come back
        // as new at once.
        if is_new && !self.old.is_empty() {
            self.old.push_back(flow as u32);
        } else {
            self.turns[flow].listed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_in_deficit_waits_for_its_next_turn() {
        let mut rounds = Rounds::new(2, 100);
        rounds.begin(0);
        rounds.begin(1);
        assert_eq!(rounds.next(), Some(0));
        rounds.spent(0, 99);
        // One byte is left of the quantum: another packet may go.
        assert_eq!(rounds.next(), Some(0));
        rounds.spent(0, 99);
        assert_eq!(rounds.next(), Some(1));
        rounds.spent(1, 250);
        // 0 has 2 after its quantum; 1 needs two of them.
        assert_eq!(rounds.next(), Some(0));
        rounds.spent(0, 2);
        assert_eq!(rounds.next(), Some(0));
    }

    #[test]
    fn a_new_flow_goes_first_and_comes_back_as_new_only_after_the_old_ones() {
        let mut rounds = Rounds::new(3, 100);
        rounds.begin(0);
        rounds.next();
        rounds.spent(0, 150);
        assert_eq!(rounds.next(), Some(0));
        rounds.begin(1);
        assert_eq!(rounds.next(), Some(1));
        rounds.had_none(1);
        // Still listed behind 0: what comes for it does not make it new.
        rounds.begin(1);
        assert_eq!(rounds.next(), Some(0));
        rounds.had_none(0);
        assert_eq!(rounds.next(), Some(1));
        rounds.had_none(1);
        assert_eq!(rounds.next(), None);
        rounds.begin(1);
        assert_eq!(rounds.next(), Some(1));
    }

    #[test]
    fn a_new_quantum_is_that_of_the_turns_that_begin() {
        let mut rounds = Rounds::new(2, 100);
        rounds.begin(0);
        rounds.set_quantum(200);
        rounds.begin(1);
        assert_eq!(rounds.next(), Some(0));
        rounds.spent(0, 100);
        // 0 had the old quantum; 1 has the new one.
        assert_eq!(rounds.next(), Some(1));
        rounds.spent(1, 199);
        assert_eq!(rounds.next(), Some(1));
    }
}
