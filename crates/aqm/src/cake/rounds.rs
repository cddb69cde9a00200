//! The three rounds in which flows of a tin stand: new, old and decaying.

/// One of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// Flows that have not had their quantum.
    New,
    /// Flows that have.
    Old,
    /// Empty flows whose AQM has not come to rest.
    Decaying,
}

/// Flows in rounds. A flow is in one at most, and can leave it from the middle.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    /// Before and after each flow; then those of the three heads. What is in no round is
    /// beside itself.
    links: Vec<[u16; 2]>,
    flows: u16,
}

impl Rounds {
    /// Of `flows` flows, none of them in a round.
    pub fn new(flows: u16) -> Self {
        Self {
            links: (0..flows + 3).map(|i| [i, i]).collect(),
            flows,
        }
    }

    fn head(&self, round: Round) -> u16 {
        self.flows + round as u16
    }

    /// The flow whose turn it is.
    pub fn first(&self, round: Round) -> Option<u16> {
        let head = self.head(round);
        let first = self.links[usize::from(head)][1];
        (first != head).then_some(first)
    }

    /// Takes `flow` out of its round, if it is in one.
    pub fn leave(&mut self, flow: u16) {
        let [before, after] = self.links[usize::from(flow)];
        self.links[usize::from(before)][1] = after;
        self.links[usize::from(after)][0] = before;
        self.links[usize::from(flow)] = [flow, flow];
    }

    /// Puts `flow` at the end of `round`.
    pub fn join(&mut self, flow: u16, round: Round) {
        self.leave(flow);
        let head = self.head(round);
        let last = self.links[usize::from(head)][0];
        self.links[usize::from(flow)] = [last, head];
        self.links[usize::from(last)][1] = flow;
        self.links[usize::from(head)][0] = flow;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROUNDS: [Round; 3] = [Round::New, Round::Old, Round::Decaying];

    proptest! {
        #[test]
        fn rounds_equal_lists(
            moves in proptest::collection::vec((0u16..6, 0usize..4), 0..60),
        ) {
            let mut rounds = Rounds::new(6);
            let mut lists: [Vec<u16>; 3] = Default::default();
            for (flow, to) in moves {
                lists.iter_mut().for_each(|l| l.retain(|f| *f != flow));
                match ROUNDS.get(to) {
                    Some(round) => {
                        lists[to].push(flow);
                        rounds.join(flow, *round);
                    }
                    None => rounds.leave(flow),
                }
                for (list, round) in lists.iter().zip(ROUNDS) {
                    prop_assert_eq!(list.first().copied(), rounds.first(round));
                }
            }
            // All of them, in order.
            for (list, round) in lists.iter().zip(ROUNDS) {
                for flow in list {
                    prop_assert_eq!(rounds.first(round), Some(*flow));
                    rounds.leave(*flow);
                }
                prop_assert_eq!(rounds.first(round), None);
            }
        }
    }
}
