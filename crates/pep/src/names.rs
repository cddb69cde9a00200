//! Names whose addresses are to be found: a few at a time, and no client's keep those of others
//! waiting.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use narrows_units::{Duration, Instant};

/// A name that a client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAsked {
    /// By which its addresses are given to [`Proxy::resolved`](crate::Proxy::resolved).
    pub id: u64,
    /// Whose it is, as clients are counted.
    pub client: IpAddr,
    /// The name.
    pub name: String,
}

/// Names that wait at most (our choice: as many as connections wait for a listener in common
/// configurations).
const WAITING: usize = 1_024;

/// Of these, those of one client.
const WAITING_OF_CLIENT: usize = 64;

/// What part of the places one client may have at a time.
const PART_OF_CLIENT: usize = 4;

/// After this time the place of a name is another's, though its answer is still waited for (our
/// choice: resolv.conf(5) asks a silent server again then).
const OVERDUE: Duration = Duration::from_secs(5);

/// Names that wait, and those whose addresses are being found. Each has a ticket of its own.
#[derive(Debug)]
pub struct NameQueue<T> {
    /// How many have a place at a time; as many again may be overdue.
    places: usize,
    waiting: BTreeMap<IpAddr, VecDeque<(T, String)>>,
    /// Clients of whom some wait; the first is served next.
    turns: VecDeque<IpAddr>,
    /// How many wait.
    count: usize,
    running: BTreeMap<T, (IpAddr, Instant)>,
}

impl<T: Copy + Ord> NameQueue<T> {
    /// One that has the addresses of `places` names found at a time.
    pub fn new(places: usize) -> Self {
        Self {
            places,
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            count: 0,
            running: BTreeMap::new(),
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.count
    }

    /// How many are being found, overdue ones included.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Adds a name of `client`. False if there is no room for it.
    #[must_use]
    pub fn add(&mut self, ticket: T, client: IpAddr, name: String) -> bool {
        let own = self.waiting.get(&client).map_or(0, VecDeque::len);
        if self.count >= WAITING || own >= WAITING_OF_CLIENT {
            return false;
        }
        if own == 0 {
            self.turns.push_back(client);
        }
        self.waiting
            .entry(client)
            .or_default()
            .push_back((ticket, name));
        self.count += 1;
        true
    }

    /// The name that is to be found next, if there is a place for one. Its place is free again by
    /// [`end`](Self::end).
    pub fn begin(&mut self, now: Instant) -> Option<(T, String)> {
        let in_time = |since: &Instant| now.since(*since) < OVERDUE;
        let busy = self.running.values().filter(|(_, since)| in_time(since));
        if busy.count() >= self.places || self.running.len() >= 2 * self.places {
            return None;
        }
        let most = self.places.div_ceil(PART_OF_CLIENT);
        let may = |client: &IpAddr| {
            let own = self.running.values().filter(|(of, _)| of == client);
            own.count() < most
        };
        let at = self.turns.iter().position(may)?;
        let client = self.turns.remove(at)?;
        let names = self.waiting.get_mut(&client)?;
        let (ticket, name) = names.pop_front()?;
        if names.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.count -= 1;
        self.running.insert(ticket, (client, now));
        Some((ticket, name))
    }

    /// The addresses of that name were found, or there are none.
    pub fn end(&mut self, ticket: T) {
        self.running.remove(&ticket);
    }

    /// Nobody wants the addresses of that name any more. If they are being found it keeps its
    /// place until [`end`](Self::end).
    pub fn cancel(&mut self, ticket: T) {
        let (mut left, mut emptied) = (0, Vec::new());
        for (client, names) in &mut self.waiting {
            names.retain(|(other, _)| *other != ticket);
            left += names.len();
            if names.is_empty() {
                emptied.push(*client);
            }
        }
        self.count = left;
        for client in emptied {
            self.waiting.remove(&client);
            self.turns.retain(|other| *other != client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn queue(places: usize) -> NameQueue<u64> {
        NameQueue::new(places)
    }

    #[test]
    fn one_client_s_names_leave_room_for_those_of_others() {
        let mut queue = queue(8);
        for ticket in 0..100 {
            let room = queue.add(ticket, client(1), "silent".to_owned());
            assert_eq!(room, ticket < WAITING_OF_CLIENT as u64);
        }
        let now = Instant::ZERO;
        let begun: Vec<_> = std::iter::from_fn(|| queue.begin(now)).collect();
        assert_eq!(begun.len(), 2, "a fourth of the places");
        assert!(queue.add(1_000, client(2), "good".to_owned()));
        assert_eq!(queue.begin(now), Some((1_000, "good".to_owned())));
        assert_eq!((queue.waiting(), queue.running()), (62, 3));
    }

    #[test]
    fn clients_take_turns() {
        let mut queue = queue(1);
        for ticket in 0..3 {
            assert!(queue.add(ticket, client(1), String::new()));
        }
        assert!(queue.add(7, client(2), String::new()));
        let mut order = Vec::new();
        while let Some((ticket, _)) = queue.begin(Instant::ZERO) {
            order.push(ticket);
            queue.end(ticket);
        }
        assert_eq!(order, [0, 7, 1, 2]);
        assert_eq!((queue.waiting(), queue.running()), (0, 0));
        assert!(queue.waiting.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn all_clients_together_have_their_bound() {
        let mut queue = queue(1);
        let added = (0..200u8).flat_map(|c| (0..10u64).map(move |i| (c, i)));
        let added = added.filter(|(c, i)| {
            let ticket = u64::from(*c) * 10 + i;
            queue.add(ticket, client(*c), String::new())
        });
        assert_eq!(added.count(), WAITING);
    }

    #[test]
    fn a_name_that_nobody_wants_any_more_is_not_asked_for() {
        let mut queue = queue(1);
        for ticket in 0..3 {
            assert!(queue.add(ticket, client(ticket as u8), String::new()));
        }
        queue.cancel(0);
        queue.cancel(2);
        queue.cancel(9);
        assert_eq!(queue.waiting(), 1);
        assert_eq!(queue.begin(Instant::ZERO), Some((1, String::new())));
        assert_eq!(queue.waiting(), 0);
        // It is being found: its place is taken.
        queue.cancel(1);
        assert!(queue.add(3, client(3), String::new()));
        assert_eq!(queue.begin(Instant::ZERO), None);
        queue.end(1);
        assert_eq!(queue.begin(Instant::ZERO), Some((3, String::new())));
    }

    #[test]
    fn names_that_take_long_give_their_places_up_once() {
        let mut queue = queue(2);
        for ticket in 0..8 {
            assert!(queue.add(ticket, client(ticket as u8), String::new()));
        }
        let all = |queue: &mut NameQueue<u64>, now| std::iter::from_fn(|| queue.begin(now)).count();
        assert_eq!(all(&mut queue, Instant::ZERO), 2);
        let later = Instant::ZERO + OVERDUE;
        assert_eq!(all(&mut queue, later), 2);
        assert_eq!(all(&mut queue, later + OVERDUE), 0, "all are overdue");
        queue.end(0);
        assert_eq!(all(&mut queue, later + OVERDUE), 1);
    }

    #[test]
    fn as_many_names_may_be_overdue_as_there_are_places_and_no_more() {
        let mut queue = queue(4);
        for ticket in 0..20 {
            assert!(queue.add(ticket, client(ticket as u8), String::new()));
        }
        let all = |queue: &mut NameQueue<u64>, now| std::iter::from_fn(|| queue.begin(now)).count();
        let times = [0, 1, 2].map(|n| Instant::ZERO + Duration::from_secs(5 * n));
        assert_eq!(times.map(|now| all(&mut queue, now)), [4, 4, 0]);
    }
}
