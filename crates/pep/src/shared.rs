//! What proxies have in common that serve the same clients, each in a thread of its own: the
//! budget, how many tunnels there are and whose, and what is known of the proxies beyond them.
//! A proxy alone has it for itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffers::allowance;
use crate::config::Limits;
use crate::onward::Parents;

/// Bytes that one of several proxies reserves of the budget at a time (our choice: what a
/// daemon reads of one connection before others have their turn).
const AT_ONCE: u64 = 256 << 10;

/// What proxies have in common. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Common>);

#[derive(Debug)]
struct Common {
    /// Bytes that may wait in all tunnels together.
    total: AtomicU64,
    /// Bytes that wait, and those that are reserved for what is being read.
    used: AtomicU64,
    /// Bytes that are reserved at a time at most.
    at_once: u64,
    /// Proxies that have directions which wait for some of the budget; `None` where there
    /// is one proxy.
    starved: Option<AtomicUsize>,
    clients: Mutex<Clients>,
    parents: Mutex<Parents>,
}

#[derive(Debug, Default)]
struct Clients {
    tunnels: usize,
    /// How many tunnels each has.
    of: BTreeMap<IpAddr, usize>,
}

impl Shared {
    /// That of so many proxies, whose tunnels may hold `budget` bytes together.
    pub fn new(proxies: usize, budget: u64) -> Self {
        let several = proxies > 1;
        Self(Arc::new(Common {
            total: AtomicU64::new(budget),
            used: AtomicU64::new(0),
            at_once: if several { AT_ONCE } else { u64::MAX },
            starved: several.then(AtomicUsize::default),
            clients: Mutex::default(),
            parents: Mutex::default(),
        }))
    }

    /// Counts a tunnel of `client`; whether there were as many as are allowed before.
    pub(crate) fn enter(&self, client: IpAddr, limits: &Limits) -> bool {
        let mut clients = lock(&self.0.clients);
        let all = clients.tunnels;
        clients.tunnels += 1;
        let own = clients.of.entry(client).or_default();
        *own += 1;
        all >= limits.tunnels || *own > limits.tunnels_per_client
    }

    /// A tunnel of `client` is over.
    pub(crate) fn leave(&self, client: IpAddr) {
        let mut clients = lock(&self.0.clients);
        clients.tunnels -= 1;
        if let Some(own) = clients.of.get_mut(&client) {
            *own -= 1;
            if *own == 0 {
                clients.of.remove(&client);
            }
        }
    }

    /// What is known of the proxies beyond these.
    pub(crate) fn parents(&self) -> MutexGuard<'_, Parents> {
        lock(&self.0.parents)
    }
}

/// What it guards is whole between any two statements, also of a thread that has panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One proxy's part of the budget.
#[derive(Debug)]
pub(crate) struct Account {
    shared: Shared,
    /// Bytes that wait in this proxy.
    waiting: u64,
    /// Whether this proxy is counted among those that starve.
    starves: bool,
    /// Whether it gave something back since `note_spare` was last called.
    gave: bool,
    /// Whether others starve that there may be something for.
    spare: bool,
}

impl Account {
    pub fn new(shared: &Shared) -> Self {
        Self {
            shared: shared.clone(),
            waiting: 0,
            starves: false,
            gave: false,
            spare: false,
        }
    }

    /// Bytes that wait in this proxy.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Has another size from now on. What waits beyond it drains.
    pub fn resize(&self, total: u64) {
        self.shared.0.total.store(total, SeqCst);
    }

    /// Reserves what a direction that holds `held` bytes may take, `most` at most; how much
    /// that is. To be followed by [`read`](Self::read).
    pub fn reserve(&self, held: u64, most: u64) -> u64 {
        let common = &*self.shared.0;
        let total = common.total.load(SeqCst);
        let mut room = 0;
        // Fails where nothing is free; `room` is 0 then.
        let _ = common.used.fetch_update(SeqCst, SeqCst, |used| {
            room = allowance(total, used, held).min(most).min(common.at_once);
            (room > 0).then(|| used + room)
        });
        room
    }

    /// `read` bytes of those that were reserved are here and wait; the others are free again.
    pub fn read(&mut self, reserved: u64, read: u64) {
        self.waiting += read;
        self.free(reserved - read);
    }

    /// These bytes wait as well, whatever is left.
    pub fn take(&mut self, bytes: u64) {
        self.waiting += bytes;
        self.shared.0.used.fetch_add(bytes, SeqCst);
    }

    /// These bytes wait no more.
    pub fn give(&mut self, bytes: u64) {
        self.waiting -= bytes;
        self.free(bytes);
    }

    fn free(&mut self, bytes: u64) {
        if bytes > 0 {
            self.gave = true;
            self.shared.0.used.fetch_sub(bytes, SeqCst);
        }
    }

    /// Counts this proxy among those that starve, or no longer. True if it is counted from now
    /// on: then it has to try once more, as what was given back before woke nobody.
    pub fn starves(&mut self, starves: bool) -> bool {
        let Some(count) = &self.shared.0.starved else {
            return false;
        };
        if std::mem::replace(&mut self.starves, starves) == starves {
            return false;
        }
        if starves {
            count.fetch_add(1, SeqCst);
        } else {
            count.fetch_sub(1, SeqCst);
        }
        starves
    }

    /// Notes whether others starve that something was given back for.
    pub fn note_spare(&mut self) {
        if let (true, Some(count)) = (std::mem::take(&mut self.gave), &self.shared.0.starved) {
            self.spare |= count.load(SeqCst) > usize::from(self.starves);
        }
    }

    /// Whether others are to be woken as something was given back, once.
    pub fn take_spare(&mut self) -> bool {
        std::mem::take(&mut self.spare)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::buffers::SHARE;

    #[test]
    fn greedy_directions_share_the_budget_and_leave_some_for_a_new_one() {
        for n in [1, 2, 10] {
            let mut budget = Account::new(&Shared::new(1, 9_000_000));
            let mut held = vec![0u64; n];
            // Each takes all that it may, and drains a little in its turn.
            for _ in 0..2_000 {
                for own in &mut held {
                    let drained = *own / 20;
                    budget.give(drained);
                    *own -= drained;
                    let more = budget.reserve(*own, u64::MAX);
                    budget.read(more, more);
                    *own += more;
                    assert!(budget.waiting() <= 9_000_000);
                }
            }
            assert_eq!(budget.waiting(), held.iter().sum::<u64>());
            let share = 9_000_000 * SHARE / (SHARE * n as u64 + 1);
            for own in &held {
                assert!(own.abs_diff(share) <= share / 50, "{own} of {share}");
            }
            assert!(budget.reserve(0, u64::MAX) > 0, "a new one of {n}");
        }
    }

    #[test]
    fn who_holds_too_much_gives_way_to_a_new_one() {
        let mut budget = Account::new(&Shared::new(1, 900_000));
        let alone = budget.reserve(0, u64::MAX);
        budget.read(alone, alone);
        let other = budget.reserve(0, u64::MAX);
        assert!(other > 0);
        budget.read(other, other);
        assert_eq!(budget.reserve(alone, u64::MAX), 0);
        budget.give(alone / 2);
        assert!(budget.reserve(other, u64::MAX) > 0);
    }

    #[test]
    fn threads_together_never_hold_more_than_the_budget() {
        const TOTAL: u64 = 1_000_000;
        let shared = Shared::new(4, TOTAL);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut account = Account::new(&shared);
                    for turn in 0..20_000u64 {
                        let held = account.waiting();
                        let room = account.reserve(held, 300_000);
                        account.read(room, room / (1 + turn % 3));
                        assert!(shared.0.used.load(SeqCst) <= TOTAL);
                        account.give(account.waiting() / (1 + turn % 5));
                    }
                    account.give(account.waiting());
                });
            }
        });
        assert_eq!(shared.0.used.load(SeqCst), 0);
    }

    #[test]
    fn who_starves_is_noted_once_by_who_gives_back() {
        let shared = Shared::new(2, 9_000);
        let (mut one, mut other) = (Account::new(&shared), Account::new(&shared));
        let all = one.reserve(0, u64::MAX);
        one.read(all, all);
        one.give(1);
        one.note_spare();
        assert!(!one.take_spare(), "nobody starves");
        assert!(other.starves(true), "it tries once more");
        assert!(!other.starves(true));
        one.note_spare();
        assert!(!one.take_spare(), "nothing was given back");
        one.give(1_000);
        one.note_spare();
        assert!(one.take_spare() && !one.take_spare());
        // Who starves itself is not another.
        other.starves(false);
        one.starves(true);
        one.give(1_000);
        one.note_spare();
        assert!(!one.take_spare());
    }

    #[test]
    fn tunnels_are_counted_over_all_proxies() {
        let shared = Shared::new(2, 1);
        let limits = Limits {
            tunnels: 3,
            tunnels_per_client: 2,
            ..Limits::default()
        };
        let (one, other) = (shared.clone(), shared);
        let [a, b, c] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        assert!(!one.enter(a, &limits) && !other.enter(a, &limits));
        assert!(one.enter(a, &limits), "two are its own");
        other.leave(a);
        assert!(!other.enter(b, &limits));
        assert!(one.enter(c, &limits), "three are all");
    }
}
