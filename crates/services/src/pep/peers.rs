//! What the threads of a daemon know of each other: each has a mailbox, into which the others put
//! clients that it is to serve and work that it is to do.
//!
//! Whichever thread is woken by a client accepts it and passes it to the one that serves fewest.
//! The kernel alone would not spread clients that come one by one: of the threads that wait it
//! wakes the one that was added first, each time.

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

/// What is sent to a thread.
pub(super) enum Message {
    /// A client to serve.
    Client(Client),
    /// Something to do with its sockets and tunnels.
    Work(Box<dyn FnOnce(&mut Server) + Send>),
    /// The thread is to end.
    End,
}

/// Where messages to a thread wait.
struct Mailbox {
    /// `None` once the thread has ended.
    messages: Mutex<Option<Vec<Message>>>,
    /// Readable when there are messages.
    signal: EventFd,
    /// Connections of clients that it serves, or is about to.
    clients: AtomicUsize,
    /// Whether the thread takes no more clients and has none.
    drained: AtomicBool,
}

impl Mailbox {
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

    /// Adds a message; returns it where the thread has ended.
    fn send(&self, message: Message) -> Result<(), Message> {
        match &mut *self.messages() {
            Some(messages) => messages.push(message),
            None => return Err(message),
        }
        self.wake();
        Ok(())
    }
}

/// All threads that serve tunnels.
pub(super) struct Workers {
    mailboxes: Vec<Mailbox>,
    /// Whether one of them has ended.
    ended: AtomicBool,
}

impl Workers {
    /// So many.
    pub fn new(threads: usize) -> nix::Result<Arc<Self>> {
        let mailboxes = (0..threads).map(|_| Mailbox::open());
        Ok(Arc::new(Self {
            mailboxes: mailboxes.collect::<nix::Result<_>>()?,
            ended: AtomicBool::new(false),
        }))
    }

    /// Has thread `at` do `work` in its next turn. The receiver gets the result, or an error
    /// where that thread has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        at: usize,
        work: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (answer, answers) = channel();
        let work = move |server: &mut Server| {
            // The receiver may be gone.
            let _ = answer.send(work(server));
        };
        // A message that is returned drops its end of the channel.
        let _ = self.mailboxes[at].send(Message::Work(Box::new(work)));
        answers
    }

    /// Has thread `at` end.
    pub fn end(&self, at: usize) {
        // One that has ended gets no message.
        let _ = self.mailboxes[at].send(Message::End);
    }

    /// Whether one of them has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Whether thread `at` takes no more clients and has none.
    pub fn is_drained(&self, at: usize) -> bool {
        self.mailboxes[at].drained.load(SeqCst)
    }
}

/// One thread's hold on the mailboxes of all.
#[derive(Clone)]
pub(super) struct Peers {
    workers: Arc<Workers>,
    own: usize,
}

impl Peers {
    pub fn new(workers: &Arc<Workers>, own: usize) -> Self {
        let workers = Arc::clone(workers);
        Self { workers, own }
    }

    fn mailbox(&self) -> &Mailbox {
        &self.workers.mailboxes[self.own]
    }

    /// Readable when [`messages`](Self::messages) are to be read.
    pub fn signal(&self) -> BorrowedFd<'_> {
        self.mailbox().signal.as_fd()
    }

    /// The messages to this thread since the last call.
    pub fn messages(&self) -> Vec<Message> {
        let _ = self.mailbox().signal.read();
        self.mailbox()
            .messages()
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Passes `client` to the thread that serves fewest; returns it if that is this one, which
    /// then calls [`client_gone`](Self::client_gone) at its end.
    pub fn place(&self, client: Client) -> Option<Client> {
        let own = self.mailbox().clients.load(SeqCst);
        let mailboxes = self.workers.mailboxes.iter();
        let others = mailboxes.map(|mailbox| (mailbox.clients.load(SeqCst), mailbox));
        let fewest = others.min_by_key(|(clients, _)| *clients);
        let client = match fewest {
            Some((clients, mailbox)) if clients < own => {
                mailbox.clients.fetch_add(1, SeqCst);
                match mailbox.send(Message::Client(client)) {
                    // That thread has ended.
                    Err(Message::Client(client)) => client,
                    _ => return None,
                }
            }
            _ => client,
        };
        self.mailbox().clients.fetch_add(1, SeqCst);
        Some(client)
    }

    /// A client that was placed here has gone.
    pub fn client_gone(&self) {
        self.mailbox().clients.fetch_sub(1, SeqCst);
    }

    /// The thread takes no more clients and has none: the first one, which waits for that, is
    /// woken.
    pub fn drained(&self) {
        self.mailbox().drained.store(true, SeqCst);
        self.workers.mailboxes[0].wake();
    }

    /// The thread has ended: the first one is woken.
    pub fn ended(&self) {
        *self.mailbox().messages() = None;
        self.workers.ended.store(true, SeqCst);
        self.workers.mailboxes[0].wake();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn clients_go_to_who_serves_fewest_and_stay_where_all_serve_as_many() {
        let workers = Workers::new(3).expect("descriptors");
        let all_peers: Vec<_> = (0..3).map(|own| Peers::new(&workers, own)).collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let local = listener.local_addr().expect("bound");
        let client = || Client {
            local,
            stream: TcpStream::connect(local).expect("it listens"),
            from: local,
        };
        // All of them come to the same one.
        let kept = (0..6).filter(|_| all_peers[1].place(client()).is_some());
        assert_eq!(kept.count(), 2);
        assert_eq!(
            all_peers
                .iter()
                .map(|peers| peers.messages().len())
                .collect::<Vec<_>>(),
            [2, 0, 2]
        );
        all_peers[2].client_gone();
        assert!(all_peers[1].place(client()).is_none());
        assert_eq!(all_peers[2].messages().len(), 1);
        // One that has ended gets none.
        all_peers[0].ended();
        all_peers[0].client_gone();
        assert!(all_peers[1].place(client()).is_some());
    }

    #[test]
    fn nothing_comes_of_what_is_asked_of_who_has_ended() {
        let workers = Workers::new(2).expect("descriptors");
        let before = workers.ask(1, |_| ());
        assert!(!workers.has_ended());
        Peers::new(&workers, 1).ended();
        assert!(workers.has_ended());
        assert!(before.recv().is_err());
        assert!(workers.ask(1, |_| ()).recv().is_err());
    }
}
