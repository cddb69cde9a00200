//! What proxies have in common that serve the same clients, each in a thread of its own: the
//! budget, how many tunnels there are and whose, and what is known of the proxies beyond them.
//! A proxy alone has it for itself.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffers::{CLIENT_SHARE, SHARE, allowance};
use crate::config::Limits;
use crate::onward::Parents;

/// Bytes that one of several proxies reserves of the budget at a time (our choice: four
/// times what a daemon moves for one connection before others have their turn).
const AT_ONCE: u64 = 256 << 10;

/// What proxies have in common. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Common>);

#[derive(Debug)]
struct Common {
    /// Bytes that may wait in all tunnels together.
    total: AtomicU64,
    /// Bytes that the tunnels and the host's own buffers may hold together.
    memory: AtomicU64,
    /// Bytes that the host's own buffers hold, as far as it says so.
    host: AtomicU64,
    /// Bytes that wait, and those that are reserved for what is being read.
    used: AtomicU64,
    /// Bytes that are reserved at a time at most.
    at_once: u64,
    clients: Mutex<Clients>,
    parents: Mutex<Parents>,
}

#[derive(Debug, Default)]
struct Clients {
    tunnels: usize,
    of: BTreeMap<IpAddr, Arc<Client>>,
}

/// What all tunnels of one client have in common.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its address, or the network that counts as one client.
    pub(crate) of: IpAddr,
    /// Its tunnels; changed under the lock of all clients.
    tunnels: AtomicU64,
    /// Bytes that wait in them, and those that are reserved.
    held: AtomicU64,
}

/// Why a client gets no tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// There are as many as there may be.
    Tunnels,
    /// It has as many as it may have.
    Client,
}

impl Shared {
    /// That of so many proxies, whose tunnels may hold `budget` bytes together.
    pub fn new(proxies: usize, budget: u64) -> Self {
        Self(Arc::new(Common {
            total: AtomicU64::new(budget),
            memory: AtomicU64::new(u64::MAX),
            host: AtomicU64::new(0),
            used: AtomicU64::new(0),
            at_once: if proxies > 1 { AT_ONCE } else { u64::MAX },
            clients: Mutex::default(),
            parents: Mutex::default(),
        }))
    }

    /// The host's own buffers hold `host` bytes now, and together with the tunnels they may hold
    /// `memory` bytes: what is more comes off the budget.
    pub fn host_holds(&self, host: u64, memory: u64) {
        self.0.host.store(host, SeqCst);
        self.0.memory.store(memory, SeqCst);
    }

    /// Bytes that may wait in all tunnels at present.
    pub fn room(&self) -> u64 {
        let beside = self.0.memory.load(SeqCst);
        let beside = beside.saturating_sub(self.0.host.load(SeqCst));
        self.0.total.load(SeqCst).min(beside)
    }

    /// Clients that have tunnels.
    pub fn clients(&self) -> usize {
        lock(&self.0.clients).of.len()
    }

    /// Counts a tunnel of the client at `address`, unless there are as many as are allowed.
    pub(crate) fn enter(&self, address: IpAddr, limits: &Limits) -> Result<Arc<Client>, Full> {
        let of = network(address, limits.ipv6_prefix);
        let mut clients = lock(&self.0.clients);
        if clients.tunnels >= limits.tunnels {
            return Err(Full::Tunnels);
        }
        let own = clients.of.entry(of).or_insert_with(|| {
            let (tunnels, held) = (AtomicU64::new(0), AtomicU64::new(0));
            Arc::new(Client { of, tunnels, held })
        });
        let own = Arc::clone(own);
        let has = own.tunnels.load(SeqCst);
        if has >= limits.tunnels_per_client as u64 {
            if has == 0 {
                clients.of.remove(&of);
            }
            return Err(Full::Client);
        }
        own.tunnels.fetch_add(1, SeqCst);
        clients.tunnels += 1;
        Ok(own)
    }

    /// A tunnel of `client` is over.
    pub(crate) fn leave(&self, client: &Client) {
        let mut clients = lock(&self.0.clients);
        clients.tunnels -= 1;
        if client.tunnels.fetch_sub(1, SeqCst) == 1 {
            clients.of.remove(&client.of);
        }
    }

    /// What is known of the proxies beyond these.
    pub(crate) fn parents(&self) -> MutexGuard<'_, Parents> {
        lock(&self.0.parents)
    }
}

/// What counts as one client: of IPv4 the address, of IPv6 its first `prefix` bits, as whoever
/// has one address of such a network has all of them.
fn network(address: IpAddr, prefix: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let behind = 128 - u32::from(prefix.min(128));
            let bits = u128::from(address);
            let bits = bits.checked_shr(behind).unwrap_or(0);
            Ipv6Addr::from(bits.checked_shl(behind).unwrap_or(0)).into()
        }
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
}

impl Account {
    pub fn new(shared: &Shared) -> Self {
        Self {
            shared: shared.clone(),
            waiting: 0,
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
    /// that is. To be followed by [`settle`](Self::settle).
    pub fn reserve(&self, client: &Client, held: u64, most: u64) -> u64 {
        let common = &*self.shared.0;
        let total = self.shared.room();
        let of_client = client.held.load(SeqCst);
        let mut room = 0;
        // Fails where nothing is free; `room` is 0 then.
        let _ = common.used.fetch_update(SeqCst, SeqCst, |used| {
            let own = allowance(SHARE, total, used, held);
            let all_of_client = allowance(CLIENT_SHARE, total, used, of_client);
            room = own.min(all_of_client).min(most).min(common.at_once);
            (room > 0).then(|| used + room)
        });
        client.held.fetch_add(room, SeqCst);
        room
    }

    /// Of a direction that held `held` bytes, for which `reserved` were reserved, `holds` wait
    /// now: what it does not hold is free again.
    pub fn settle(&mut self, client: &Client, reserved: u64, held: u64, holds: u64) {
        self.waiting = self.waiting + holds - held;
        let had = held + reserved;
        if holds <= had {
            self.free(client, had - holds);
        } else {
            // A host that cannot say how much the other leg takes.
            client.held.fetch_add(holds - had, SeqCst);
            self.shared.0.used.fetch_add(holds - had, SeqCst);
        }
    }

    /// These bytes wait as well, whatever is left.
    pub fn take(&mut self, client: &Client, bytes: u64) {
        self.waiting += bytes;
        client.held.fetch_add(bytes, SeqCst);
        self.shared.0.used.fetch_add(bytes, SeqCst);
    }

    /// These bytes wait no more.
    pub fn give(&mut self, client: &Client, bytes: u64) {
        self.waiting -= bytes;
        self.free(client, bytes);
    }

    fn free(&mut self, client: &Client, bytes: u64) {
        client.held.fetch_sub(bytes, SeqCst);
        self.shared.0.used.fetch_sub(bytes, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn client(shared: &Shared, last: u8) -> Arc<Client> {
        let entered = shared.enter(address(last), &Limits::default());
        entered.unwrap_or_else(|full| panic!("{full:?}"))
    }

    #[test]
    fn greedy_clients_share_the_budget_and_leave_some_for_a_new_one() {
        const TOTAL: u64 = 9_000_000;
        for n in [1u8, 2, 10] {
            let shared = Shared::new(1, TOTAL);
            let mut budget = Account::new(&shared);
            let clients: Vec<_> = (0..n).map(|i| client(&shared, i)).collect();
            // Each with ten directions, of which each takes all that it may, and drains a little
            // in its turn.
            let mut held = vec![[0u64; 10]; n.into()];
            for _ in 0..2_000 {
                for (client, own) in clients.iter().zip(&mut held) {
                    for own in own {
                        let drained = *own / 20;
                        budget.give(client, drained);
                        *own -= drained;
                        let more = budget.reserve(client, *own, u64::MAX);
                        budget.settle(client, more, *own, *own + more);
                        *own += more;
                        assert!(budget.waiting() <= TOTAL);
                    }
                }
            }
            let all: u64 = held.iter().flatten().sum();
            assert_eq!(budget.waiting(), all);
            let share = TOTAL / (u64::from(n) + 1);
            for own in &held {
                let own: u64 = own.iter().sum();
                assert!(own.abs_diff(share) <= share / 10, "{own} of {share}");
            }
            let new = client(&shared, 200);
            assert!(
                budget.reserve(&new, 0, u64::MAX) > share / 4,
                "a new one of {n}"
            );
        }
    }

    #[test]
    fn one_client_gets_half_however_many_tunnels_it_has_and_in_whatever_order() {
        let shared = Shared::new(1, 1_000_000);
        let mut budget = Account::new(&shared);
        let greedy = client(&shared, 1);
        for _ in 0..100 {
            let more = budget.reserve(&greedy, 0, u64::MAX);
            budget.settle(&greedy, more, 0, more);
        }
        assert!(budget.waiting() <= 500_000, "{}", budget.waiting());
        assert_eq!(budget.reserve(&greedy, 0, u64::MAX), 0);
        assert!(budget.reserve(&client(&shared, 2), 0, u64::MAX) >= 200_000);
    }

    #[test]
    fn who_holds_too_much_gives_way_to_a_new_one() {
        let shared = Shared::new(1, 900_000);
        let mut budget = Account::new(&shared);
        let (one, other) = (client(&shared, 1), client(&shared, 2));
        let alone = budget.reserve(&one, 0, u64::MAX);
        budget.settle(&one, alone, 0, alone);
        let late = budget.reserve(&other, 0, u64::MAX);
        assert!(late > 0);
        budget.settle(&other, late, 0, late);
        assert_eq!(budget.reserve(&one, alone, u64::MAX), 0);
        budget.give(&one, alone / 2);
        assert!(budget.reserve(&other, late, u64::MAX) > 0);
    }

    #[test]
    fn what_the_host_s_buffers_hold_comes_off_the_budget() {
        let shared = Shared::new(1, 1_000);
        assert_eq!(shared.room(), 1_000);
        shared.host_holds(5_000, 8_000);
        assert_eq!(shared.room(), 1_000);
        shared.host_holds(7_600, 8_000);
        assert_eq!(shared.room(), 400);
        shared.host_holds(9_000, 8_000);
        let budget = Account::new(&shared);
        assert_eq!(budget.reserve(&client(&shared, 1), 0, 1), 0);
    }

    #[test]
    fn threads_together_never_hold_more_than_the_budget() {
        const TOTAL: u64 = 1_000_000;
        let shared = Shared::new(4, TOTAL);
        let clients: Vec<_> = (0..4).map(|i| client(&shared, i)).collect();
        thread::scope(|scope| {
            for client in &clients {
                scope.spawn(|| {
                    let mut account = Account::new(&shared);
                    for turn in 0..20_000u64 {
                        let held = account.waiting();
                        let room = account.reserve(client, held, 300_000);
                        account.settle(client, room, held, held + room / (1 + turn % 3));
                        assert!(shared.0.used.load(SeqCst) <= TOTAL);
                        account.give(client, account.waiting() / (1 + turn % 5));
                    }
                    account.give(client, account.waiting());
                });
            }
        });
        assert_eq!(shared.0.used.load(SeqCst), 0);
        assert!(clients.iter().all(|c| c.held.load(SeqCst) == 0));
    }

    #[test]
    fn tunnels_are_counted_over_all_proxies_and_what_is_refused_is_not() {
        let shared = Shared::new(2, 1);
        let limits = Limits {
            tunnels: 3,
            tunnels_per_client: 2,
            ..Limits::default()
        };
        let (one, other) = (shared.clone(), shared);
        let [a, b, c] = [1, 2, 3].map(address);
        let first = one.enter(a, &limits).expect("room");
        assert!(other.enter(a, &limits).is_ok());
        for _ in 0..5 {
            assert_eq!(one.enter(a, &limits).err(), Some(Full::Client));
        }
        other.leave(&first);
        assert!(other.enter(b, &limits).is_ok());
        let last = one.enter(c, &limits).expect("three are all");
        for _ in 0..5 {
            assert_eq!(one.enter(b, &limits).err(), Some(Full::Tunnels));
        }
        other.leave(&last);
        assert!(one.enter(b, &limits).is_ok());
    }

    #[test]
    fn clients_that_have_gone_are_forgotten() {
        let shared = Shared::new(1, 1);
        for i in 0..100_000u32 {
            let address = IpAddr::from(i.to_be_bytes());
            let entered = shared.enter(address, &Limits::default()).expect("room");
            shared.leave(&entered);
        }
        // Nor do those stay that get nothing.
        let none = Limits {
            tunnels_per_client: 0,
            ..Limits::default()
        };
        assert!(shared.enter(address(1), &none).is_err());
        assert_eq!(shared.clients(), 0);
    }

    #[test]
    fn all_of_an_ipv6_network_is_one_client() {
        let of = |address: &str, prefix| network(address.parse().expect("an address"), prefix);
        let same = |one, other, prefix| of(one, prefix) == of(other, prefix);
        assert!(same("2001:db8::1", "2001:db8::ffff:0:0:1", 64));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1", 64));
        assert!(same("2001:db8::1", "2001:db8:0:1::1", 56));
        assert!(!same("2001:db8::1", "2001:db8::2", 128));
        assert!(same("2001:db8::1", "fd00::1", 0));
        assert!(!same("10.0.0.1", "10.0.0.2", 8), "IPv4 by its address");
        assert!(same("10.0.0.1", "::ffff:10.0.0.1", 64));
    }

    #[test]
    fn one_of_several_proxies_reserves_a_part_at_a_time_and_one_alone_all_that_it_may() {
        const TOTAL: u64 = 64 << 20;
        for (proxies, most) in [(1, TOTAL / 2), (2, AT_ONCE)] {
            let shared = Shared::new(proxies, TOTAL);
            let account = Account::new(&shared);
            let reserved = account.reserve(&client(&shared, 1), 0, u64::MAX);
            assert_eq!(reserved, most.min(TOTAL / 2), "{proxies}");
        }
    }

    #[test]
    fn bytes_beyond_what_was_reserved_are_counted_and_given_back() {
        let shared = Shared::new(1, 1_000);
        let mut account = Account::new(&shared);
        let client = client(&shared, 1);
        account.take(&client, 10);
        // A direction that holds 10 reserves 5, and holds 40 afterwards.
        assert_eq!(account.reserve(&client, 10, 5), 5);
        account.settle(&client, 5, 10, 40);
        assert_eq!(account.waiting(), 40);
        assert_eq!(shared.0.used.load(SeqCst), 40);
        assert_eq!(client.held.load(SeqCst), 40);
        account.give(&client, 40);
        assert_eq!(shared.0.used.load(SeqCst), 0);
    }

    #[test]
    fn a_client_counts_while_it_has_a_tunnel() {
        let shared = Shared::new(1, 1);
        let tunnels = [client(&shared, 1), client(&shared, 1), client(&shared, 2)];
        let left = tunnels.map(|tunnel| {
            shared.leave(&tunnel);
            shared.clients()
        });
        assert_eq!(left, [2, 1, 0]);
    }
}
