//! Which way packets go through a graph of hosts, routers and links.

use std::cell::OnceCell;
use std::collections::VecDeque;

/// A node's index in the plan.
pub type NodeIndex = usize;

/// A link's index in the plan.
pub type LinkIndex = usize;

/// One direction of a link: up leads from its first end to its second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// Which link.
    pub link: LinkIndex,
    /// Whether it is taken up.
    pub up: bool,
}

/// A way said by the user: packets at `at` for `to` take `hop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenRoute {
    /// Where the packet is.
    pub at: NodeIndex,
    /// Whose address it bears.
    pub to: NodeIndex,
    /// What it takes.
    pub hop: Hop,
}

/// Why there is no route between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// No chain of links and routers joins them.
    #[error("no path leads from node {from} to node {to}")]
    Unreachable {
        /// Where a packet starts.
        from: NodeIndex,
        /// Where it should go.
        to: NodeIndex,
    },
    /// The routes given send packets round in a circle.
    #[error("the routes given lead from node {from} towards node {to} in a circle")]
    Loop {
        /// Where a packet starts.
        from: NodeIndex,
        /// Where it should go.
        to: NodeIndex,
    },
}

/// The next hop from each node to each other; towards a destination they are looked for when
/// they are first asked for, as few of many hosts are any packet's destination.
#[derive(Clone, Debug)]
pub struct Routes {
    forwards: Vec<bool>,
    ends: Vec<(NodeIndex, NodeIndex)>,
    /// The hops that lead to each node, with where they come from: a search runs from the
    /// destination backwards.
    towards: Vec<Vec<(Hop, NodeIndex)>>,
    given: Vec<GivenRoute>,
    /// By destination, the next hop at each node.
    next: Vec<OnceCell<Box<[Option<Hop>]>>>,
}

/// Shortest paths, counted in links, over `links`; only nodes for which
/// `forwards` holds pass on what is not for them. Of paths of equal length the
/// one over the links named first is taken. `given` routes come before.
pub fn shortest(
    forwards: &[bool],
    links: &[(NodeIndex, NodeIndex)],
    given: &[GivenRoute],
) -> Routes {
    let nodes = forwards.len();
    let mut towards: Vec<Vec<(Hop, NodeIndex)>> = vec![Vec::new(); nodes];
    for (link, (a, b)) in links.iter().enumerate() {
        towards[*b].push((Hop { link, up: true }, *a));
        towards[*a].push((Hop { link, up: false }, *b));
    }
    Routes {
        forwards: forwards.to_vec(),
        ends: links.to_vec(),
        towards,
        given: given.to_vec(),
        next: vec![OnceCell::new(); nodes],
    }
}

impl Routes {
    /// What a packet for `to` takes at `at`; `None` if there is no way, or it
    /// is there.
    pub fn next_hop(&self, at: NodeIndex, to: NodeIndex) -> Option<Hop> {
        let next = self.next.get(to)?.get_or_init(|| self.search(to));
        *next.get(at)?
    }

    /// The next hop towards `to` at each node.
    fn search(&self, to: NodeIndex) -> Box<[Option<Hop>]> {
        let mut next = vec![None; self.forwards.len()];
        let mut open = VecDeque::from([to]);
        while let Some(node) = open.pop_front() {
            if node != to && !self.forwards[node] {
                continue;
            }
            for (hop, from) in &self.towards[node] {
                if *from != to && next[*from].is_none() {
                    next[*from] = Some(*hop);
                    open.push_back(*from);
                }
            }
        }
        for route in self.given.iter().filter(|r| r.to == to && r.at != to) {
            if let Some(hop) = next.get_mut(route.at) {
                *hop = Some(route.hop);
            }
        }
        next.into()
    }

    /// The node that `hop` leads to.
    pub fn end_of(&self, hop: Hop) -> NodeIndex {
        let (a, b) = self.ends[hop.link];
        if hop.up { b } else { a }
    }

    /// The whole way from `from` to `to`.
    ///
    /// # Errors
    /// When there is none, or it never ends.
    pub fn path(&self, from: NodeIndex, to: NodeIndex) -> Result<Vec<Hop>, NoRoute> {
        let (mut at, mut path) = (from, Vec::new());
        while at != to {
            let hop = self
                .next_hop(at, to)
                .ok_or(NoRoute::Unreachable { from, to })?;
            if path.len() >= self.forwards.len() {
                return Err(NoRoute::Loop { from, to });
            }
            path.push(hop);
            at = self.end_of(hop);
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UP: bool = true;

    #[test]
    fn a_chain_is_walked_in_both_directions() {
        let routes = shortest(&[false, true, false], &[(0, 1), (2, 1)], &[]);
        let there = routes.path(0, 2).unwrap();
        assert_eq!(there, [Hop { link: 0, up: UP }, Hop { link: 1, up: !UP }]);
        let back = routes.path(2, 0).unwrap();
        assert_eq!(back, [Hop { link: 1, up: UP }, Hop { link: 0, up: !UP }]);
        assert_eq!(routes.path(0, 0).unwrap(), []);
    }

    #[test]
    fn a_host_forwards_nothing() {
        let routes = shortest(&[false, false, false], &[(0, 1), (1, 2)], &[]);
        assert_eq!(
            routes.path(0, 2),
            Err(NoRoute::Unreachable { from: 0, to: 2 })
        );
        assert!(routes.path(0, 1).is_ok());
    }

    #[test]
    fn of_equal_ways_the_first_link_wins_unless_another_is_given() {
        let links = [(0, 1), (0, 1)];
        let routes = shortest(&[false, false], &links, &[]);
        assert_eq!(routes.next_hop(0, 1), Some(Hop { link: 0, up: UP }));
        assert_eq!(routes.next_hop(1, 0), Some(Hop { link: 0, up: !UP }));
        let given = GivenRoute {
            at: 0,
            to: 1,
            hop: Hop { link: 1, up: UP },
        };
        let routes = shortest(&[false, false], &links, &[given]);
        assert_eq!(routes.next_hop(0, 1), Some(Hop { link: 1, up: UP }));
        assert_eq!(routes.next_hop(1, 0), Some(Hop { link: 0, up: !UP }));
    }

    #[test]
    fn a_given_route_is_for_its_destination_alone() {
        // From 0 to 1 by way of 2, though it is a neighbour.
        let links = [(0, 1), (0, 2), (2, 1), (1, 3)];
        let hop = Hop { link: 1, up: UP };
        let given = |at, to| GivenRoute { at, to, hop };
        let routes = shortest(&[true; 4], &links, &[given(0, 1), given(1, 1)]);
        assert_eq!(routes.next_hop(0, 1), Some(hop));
        assert_eq!(routes.next_hop(0, 3), Some(Hop { link: 0, up: UP }));
        assert_eq!(routes.next_hop(2, 1), Some(Hop { link: 2, up: UP }));
        assert_eq!(routes.next_hop(1, 1), None, "it is there");
    }

    #[test]
    fn given_routes_in_a_circle_are_found_out() {
        let links = [(0, 1), (1, 2), (2, 3)];
        let given = GivenRoute {
            at: 2,
            to: 3,
            hop: Hop { link: 1, up: !UP },
        };
        let routes = shortest(&[true; 4], &links, &[given]);
        assert_eq!(routes.path(0, 3), Err(NoRoute::Loop { from: 0, to: 3 }));
    }

    proptest! {
        #[test]
        fn paths_are_as_short_as_floyd_and_warshall_say(
            links in proptest::collection::vec((0usize..7, 0usize..7), 1..14),
        ) {
            let mut distance = [[100usize; 7]; 7];
            for (i, row) in distance.iter_mut().enumerate() {
                row[i] = 0;
            }
            for (a, b) in &links {
                if a != b {
                    distance[*a][*b] = 1;
                    distance[*b][*a] = 1;
                }
            }
            for k in 0..7 {
                for i in 0..7 {
                    for j in 0..7 {
                        distance[i][j] = distance[i][j].min(distance[i][k] + distance[k][j]);
                    }
                }
            }
            let routes = shortest(&[true; 7], &links, &[]);
            for (i, row) in distance.iter().enumerate() {
                for (j, d) in row.iter().enumerate() {
                    let found = routes.path(i, j).map_or(100, |p| p.len());
                    prop_assert_eq!(found, *d);
                }
            }
        }
    }
}
