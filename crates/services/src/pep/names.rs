//! The addresses of names, found by the machine's own resolver: `/etc/hosts`, DNS or whatever
//! `nsswitch.conf` says. It blocks, so that it is asked by threads of their own, which all of a
//! daemon's threads share. Who is served next, and how many are, [`NameQueue`] says.

use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use narrows_pep::{NameAsked, NameQueue};
use narrows_units::{Duration, Instant};
use nix::sys::eventfd::{EfdFlags, EventFd};
use tracing::debug;

use narrows_linux::system_calls::give_way;

/// Names that a process asks for at a time; as many again may be overdue (our choice: a name
/// whose server is silent takes a thread for some ten seconds, resolv.conf(5)).
pub(super) const AT_ONCE: usize = 64;

/// A name's number, and its addresses; `None` if there was no room for it.
type Found = (u64, Option<Vec<IpAddr>>);

/// Which thread asks, and the number of its name.
type Ticket = (usize, u64);

/// Finds addresses, for all threads.
pub(super) struct Resolver {
    begun: std::time::Instant,
    /// How many names wait.
    waiting: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    queue: NameQueue<Ticket>,
    /// Who asks, by the thread's number.
    askers: Vec<(Sender<Found>, Arc<EventFd>)>,
}

impl Resolver {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: std::time::Instant::now(),
            waiting: AtomicUsize::new(0),
            state: Mutex::new(State {
                queue: NameQueue::new(AT_ONCE),
                askers: Vec::new(),
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many names wait, and how many are being found.
    pub fn load(&self) -> (usize, usize) {
        let state = self.state();
        (state.queue.waiting(), state.queue.running())
    }

    /// The next name that is to be found.
    fn next(&self) -> Option<(Ticket, String)> {
        let ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now = Instant::ZERO + Duration::from_nanos(ns);
        let queue = &mut self.state().queue;
        let next = queue.begin(now);
        self.waiting.store(queue.waiting(), Relaxed);
        next
    }

    fn tell(&self, (asker, id): Ticket, addresses: Option<Vec<IpAddr>>) {
        if let Some((sender, signal)) = self.state().askers.get(asker) {
            // Nobody waits for it any more once the thread has ended.
            let _ = sender.send((id, addresses));
            let _ = signal.write(1);
        }
    }

    /// Has threads begin with those for which there are places.
    fn start(self: &Arc<Self>) {
        while let Some((ticket, name)) = self.next() {
            let resolver = Arc::clone(self);
            let work = move || {
                give_way();
                let mut next = Some((ticket, name));
                while let Some((ticket, name)) = next.take() {
                    let addresses = addresses_of(&name);
                    resolver.state().queue.end(ticket);
                    resolver.tell(ticket, Some(addresses));
                    next = resolver.next();
                }
            };
            let thread = thread::Builder::new().name("resolver".to_owned());
            if thread.spawn(work).is_err() {
                self.state().queue.end(ticket);
                self.tell(ticket, None);
            }
        }
    }
}

/// One thread's hold on it.
pub(super) struct Names {
    resolver: Arc<Resolver>,
    asker: usize,
    receiver: Receiver<Found>,
    /// Becomes readable when addresses are there.
    signal: Arc<EventFd>,
}

impl Names {
    pub fn new(resolver: Arc<Resolver>) -> nix::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let (sender, receiver) = channel();
        let signal = Arc::new(EventFd::from_value_and_flags(0, flags)?);
        let mut state = resolver.state();
        state.askers.push((sender, Arc::clone(&signal)));
        let asker = state.askers.len() - 1;
        drop(state);
        Ok(Self {
            resolver,
            asker,
            receiver,
            signal,
        })
    }

    /// Becomes readable when [`found`](Self::found) has something.
    pub fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// Asks for the addresses of these names, and for those of `unwanted` no more.
    pub fn ask(&self, names: Vec<NameAsked>, unwanted: &[u64]) {
        if names.is_empty() && unwanted.is_empty() {
            return;
        }
        let mut refused = Vec::new();
        {
            let queue = &mut self.resolver.state().queue;
            for NameAsked { id, client, name } in names {
                if !queue.add((self.asker, id), client, name) {
                    refused.push(id);
                }
            }
            unwanted
                .iter()
                .for_each(|id| queue.cancel((self.asker, *id)));
        }
        for id in refused {
            self.resolver.tell((self.asker, id), None);
        }
        self.resolver.start();
    }

    /// Whether there are names that wait for a place: one may be free by time alone.
    pub fn wait(&self) -> bool {
        self.resolver.waiting.load(Relaxed) > 0
    }

    /// Gives places on that have become free by time.
    pub fn go_on(&self) {
        self.resolver.start();
    }

    /// What was found since the last call.
    pub fn found(&self) -> Vec<Found> {
        let _ = self.signal.read();
        self.receiver.try_iter().collect()
    }
}

fn addresses_of(name: &str) -> Vec<IpAddr> {
    match (name, 0).to_socket_addrs() {
        Ok(all) => all.map(|address| address.ip()).collect(),
        Err(why) => {
            debug!(name, %why, "no address");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// What is found of these names, whose addresses are written in them: no server is asked.
    fn found(names: &Names, count: usize) -> BTreeMap<u64, Option<Vec<IpAddr>>> {
        let mut all = BTreeMap::new();
        for _ in 0..2_000 {
            all.extend(names.found());
            if all.len() >= count {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(5));
        }
        all
    }

    fn asked(ids: std::ops::Range<u64>) -> Vec<NameAsked> {
        let one = |id| NameAsked {
            id,
            client: [10, 0, 0, 1].into(),
            name: "192.0.2.7".to_owned(),
        };
        ids.map(one).collect()
    }

    #[test]
    fn each_name_is_answered_also_one_for_which_there_is_no_room_and_all_places_are_free_again() {
        let resolver = Resolver::new();
        let names = Names::new(Arc::clone(&resolver)).expect("a descriptor");
        names.ask(asked(0..70), &[]);
        let found = found(&names, 70);
        assert_eq!(found.len(), 70);
        // As many as one client may have waiting, all added before the first is begun.
        let address: IpAddr = [192, 0, 2, 7].into();
        for (id, addresses) in found {
            assert_eq!(addresses, (id < 64).then(|| vec![address]), "{id}");
        }
        assert_eq!(resolver.load(), (0, 0));
    }

    #[test]
    fn a_name_that_nobody_wants_any_more_is_not_asked_for() {
        let names = Names::new(Resolver::new()).expect("a descriptor");
        names.ask(asked(0..3), &[1]);
        let found = found(&names, 2);
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [0, 2]);
        thread::sleep(std::time::Duration::from_millis(20));
        assert!(names.found().is_empty());
    }
}
