//! The threads of a daemon, as they see each other: each has a desk, where the others leave the
//! clients that it is to serve and what it is to do.
//!
//! Whoever is woken by a client accepts it, and the thread that serves fewest gets it. The kernel
//! alone would not spread them: it wakes whichever thread waits and was the first to say so, so
//! that of clients who come one by one all would be the same one's.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::server::Server;

/// A client whose connection was accepted.
#[derive(Debug)]
pub(super) struct Client {
    /// The address of the listener that it came to.
    pub local: SocketAddr,
    pub stream: TcpStream,
    /// Its own address.
    pub from: SocketAddr,
}

/// What a thread is told.
pub(super) enum Message {
    /// To serve a client.
    Client(Client),
    /// To do something with its sockets and tunnels.
    Order(Box<dyn FnOnce(&mut Server) + Send>),
    /// To end.
    End,
}

/// Where a thread is told something.
struct Desk {
    /// `None` once the thread has ended.
    messages: Mutex<Option<Vec<Message>>>,
    /// Readable when something is to be looked at: messages, or what was given back of the
    /// budget.
    signal: EventFd,
    /// Connections of clients that it serves, or is about to.
    clients: AtomicUsize,
    /// It takes no more clients and has none.
    drained: AtomicBool,
}

impl Desk {
    fn open() -> nix::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self {
            messages: Mutex::new(Some(Vec::new())),
            signal: EventFd::from_value_and_flags(0, flags)?,
            clients: AtomicUsize::new(0),
            drained: AtomicBool::new(false),
        })
    }

    fn messages(&self) -> MutexGuard<'_, Option<Vec<Message>>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It is readable already where no more can be added.
        let _ = self.signal.write(1);
    }

    /// Leaves a message; gives it back where nobody will read it.
    fn leave(&self, message: Message) -> Result<(), Message> {
        match &mut *self.messages() {
            Some(messages) => messages.push(message),
            None => return Err(message),
        }
        self.wake();
        Ok(())
    }
}

/// All threads that serve tunnels.
pub(super) struct Crew {
    desks: Vec<Desk>,
    /// Whether one of them has ended.
    ended: AtomicBool,
}

impl Crew {
    /// So many.
    pub fn new(threads: usize) -> nix::Result<Arc<Self>> {
        let desks = (0..threads).map(|_| Desk::open());
        Ok(Arc::new(Self {
            desks: desks.collect::<nix::Result<_>>()?,
            ended: AtomicBool::new(false),
        }))
    }

    /// Has thread `at` do `work` in its next turn. What came of it is to be had of the
    /// receiver, from which nothing comes where that thread has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        at: usize,
        work: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (answer, answers) = channel();
        let order = move |server: &mut Server| {
            // Who has asked may wait no more.
            let _ = answer.send(work(server));
        };
        // One that is given back takes its end of the channel with it.
        let _ = self.desks[at].leave(Message::Order(Box::new(order)));
        answers
    }

    /// Has thread `at` end.
    pub fn end(&self, at: usize) {
        // One that has ended needs no word.
        let _ = self.desks[at].leave(Message::End);
    }

    /// Whether one of them has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Whether thread `at` takes no more clients and has none.
    pub fn is_drained(&self, at: usize) -> bool {
        self.desks[at].drained.load(SeqCst)
    }
}

/// One thread's place among all.
#[derive(Clone)]
pub(super) struct Seat {
    crew: Arc<Crew>,
    own: usize,
}

impl Seat {
    pub fn new(crew: &Arc<Crew>, own: usize) -> Self {
        let crew = Arc::clone(crew);
        Self { crew, own }
    }

    fn desk(&self) -> &Desk {
        &self.crew.desks[self.own]
    }

    /// Readable when something is to be looked at.
    pub fn signal(&self) -> BorrowedFd<'_> {
        self.desk().signal.as_fd()
    }

    /// What the thread was told since it last looked.
    pub fn messages(&self) -> Vec<Message> {
        let _ = self.desk().signal.read();
        self.desk()
            .messages()
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Leaves `client` to the thread that serves fewest; gives it back if that is this one, who
    /// then says when it is [gone](Self::client_gone).
    pub fn place(&self, client: Client) -> Option<Client> {
        let own = self.desk().clients.load(SeqCst);
        let desks = self.crew.desks.iter();
        let others = desks.map(|desk| (desk.clients.load(SeqCst), desk));
        let fewest = others.min_by_key(|(clients, _)| *clients);
        let client = match fewest {
            Some((clients, desk)) if clients < own => {
                desk.clients.fetch_add(1, SeqCst);
                match desk.leave(Message::Client(client)) {
                    // Nobody reads it any more.
                    Err(Message::Client(client)) => client,
                    _ => return None,
                }
            }
            _ => client,
        };
        self.desk().clients.fetch_add(1, SeqCst);
        Some(client)
    }

    /// A client that was placed here has gone.
    pub fn client_gone(&self) {
        self.desk().clients.fetch_sub(1, SeqCst);
    }

    /// Has the others look whether there is something of the budget for them.
    pub fn wake_others(&self) {
        let others = self.crew.desks.iter().enumerate();
        others
            .filter(|(at, _)| *at != self.own)
            .for_each(|(_, desk)| desk.wake());
    }

    /// The thread takes no more clients and has none: the first one, which waits for that, is
    /// woken.
    pub fn drained(&self) {
        self.desk().drained.store(true, SeqCst);
        self.crew.desks[0].wake();
    }

    /// The thread has ended; so the first one is told.
    pub fn ended(&self) {
        *self.desk().messages() = None;
        self.crew.ended.store(true, SeqCst);
        self.crew.desks[0].wake();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn clients_go_to_who_serves_fewest_and_stay_where_all_serve_as_many() {
        let crew = Crew::new(3).expect("descriptors");
        let seats: Vec<_> = (0..3).map(|own| Seat::new(&crew, own)).collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let local = listener.local_addr().expect("bound");
        let client = || Client {
            local,
            stream: TcpStream::connect(local).expect("it listens"),
            from: local,
        };
        // All of them come to the same one.
        let kept = (0..6).filter(|_| seats[1].place(client()).is_some());
        assert_eq!(kept.count(), 2);
        assert_eq!(
            seats
                .iter()
                .map(|seat| seat.messages().len())
                .collect::<Vec<_>>(),
            [2, 0, 2]
        );
        seats[2].client_gone();
        assert!(seats[1].place(client()).is_none());
        assert_eq!(seats[2].messages().len(), 1);
        // One that has ended gets none.
        seats[0].ended();
        seats[0].client_gone();
        assert!(seats[1].place(client()).is_some());
    }

    #[test]
    fn nothing_comes_of_what_is_asked_of_who_has_ended() {
        let crew = Crew::new(2).expect("descriptors");
        let before = crew.ask(1, |_| ());
        assert!(!crew.has_ended());
        Seat::new(&crew, 1).ended();
        assert!(crew.has_ended());
        assert!(before.recv().is_err());
        assert!(crew.ask(1, |_| ()).recv().is_err());
    }
}
