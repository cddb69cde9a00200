//! Listening sockets, of one thread or of several, each of which has descriptors of the same
//! ones.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use narrows_core::{Profile, SocketError, SocketEvent, SocketId};
use narrows_linux::stream_calls::errno;
use narrows_linux::tcp_options::{bind_to, family};
use narrows_units::Duration;
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::socket::Backlog;
use tracing::warn;

use super::peers::{Client, Peers};
use super::sockets::{Kind, OsSockets};
use super::stream::{Phase, Stream, socket_error};

/// How long to wait before accepting again when the machine has no descriptor or memory
/// left: some tunnel may have ended by then.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// How long it is not said again that there is none.
const SAID: Duration = Duration::from_secs(10);

/// A listening socket.
#[derive(Debug)]
pub(super) struct ListeningSocket {
    socket: TcpListener,
    local: SocketAddr,
    /// Clients that another thread has accepted for this one, and their addresses.
    waiting: VecDeque<(TcpStream, SocketAddr)>,
}

impl OsSockets {
    /// Shares its clients with other threads: each has descriptors of the same listening
    /// sockets. To be called before it listens.
    pub fn share_clients(&mut self, peers: Peers) {
        self.peers = Some(peers);
    }

    /// Opens sockets for those of these listeners at whose addresses it does not listen, for
    /// [`listen`](narrows_core::Sockets::listen) to take them; `copies` more descriptors of each, for as many
    /// other threads.
    ///
    /// # Errors
    /// If one cannot be had, whose address is [`refused`](Self::refused): none is open then.
    pub fn open_ahead(
        &mut self,
        listeners: &[(Profile, SocketAddr)],
        copies: usize,
    ) -> Result<Vec<Vec<TcpListener>>, SocketError> {
        let mut opened = Vec::new();
        let mut copied: Vec<_> = (0..copies).map(|_| Vec::new()).collect();
        for (profile, local) in listeners {
            if self.listeners.contains_key(local) {
                continue;
            }
            self.refused = Some(*local);
            let refused = |why| socket_error(why, Some(*local), None);
            let socket = self.listening(*profile, *local).map_err(refused)?;
            for copies in &mut copied {
                copies.push(socket.try_clone().map_err(|e| refused(errno(&e)))?);
            }
            opened.push((*local, socket));
        }
        self.given.extend(opened);
        Ok(copied)
    }

    /// Takes sockets that another thread has [opened](Self::open_ahead) for this one.
    pub fn give(&mut self, sockets: Vec<TcpListener>) {
        let with_address = sockets
            .into_iter()
            .filter_map(|s| Some((s.local_addr().ok()?, s)));
        self.given.extend(with_address);
    }

    /// Goes on with a client that another thread has accepted. One whose listener was closed
    /// is reset.
    pub fn take_over(&mut self, client: Client) {
        let Some(&token) = self.listeners.get(&client.local) else {
            return self.client_gone();
        };
        if let Some(Kind::Listener(listener)) = self.at(token).and_then(|slot| slot.kind.as_mut()) {
            let first = listener.waiting.is_empty();
            listener.waiting.push_back((client.stream, client.from));
            if first {
                self.events.push_back((token, SocketEvent::Incoming));
            }
        }
    }

    /// Closes those that nobody listens at.
    pub fn discard_given(&mut self) {
        self.given.clear();
    }

    /// A client of this thread is gone.
    pub(super) fn client_gone(&self) {
        if let Some(peers) = &self.peers {
            peers.client_gone();
        }
    }

    /// A socket that listens at `local`: one that was given, or a new one.
    fn listening(&mut self, profile: Profile, local: SocketAddr) -> nix::Result<TcpListener> {
        let options = &self.profiles[profile.0 as usize];
        let waiting = Backlog::MAXCONN;
        if let Some(given) = self.given.remove(&local) {
            options.apply(&given)?;
            options.accept_fast_open(&given, waiting)?;
            return Ok(given);
        }
        let fd = options.socket(family(local))?;
        if options.transparent {
            options.take_any_address(&fd, local)?;
        }
        bind_to(&fd, local)?;
        options.listen(&fd, waiting)?;
        Ok(fd.into())
    }

    /// See [`listen`](narrows_core::Sockets::listen).
    pub(super) fn listen_at(
        &mut self,
        profile: Profile,
        local: SocketAddr,
    ) -> Result<SocketId, SocketError> {
        let refused = |why| socket_error(why, Some(local), None);
        self.refused = Some(local);
        let socket = self.listening(profile, local).map_err(refused)?;
        let mut flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        if self.peers.is_some() {
            // One of the threads that wait is woken, not all.
            flags |= EpollFlags::EPOLLEXCLUSIVE;
        }
        let token = self.next_token();
        let added = self.epoll.add(&socket, EpollEvent::new(flags, token));
        added.map_err(refused)?;
        self.add(Kind::Listener(ListeningSocket {
            socket,
            local,
            waiting: VecDeque::new(),
        }));
        self.listeners.insert(local, token);
        Ok(SocketId(token as u32))
    }

    /// The next client of the listener at `token` that is this thread's.
    pub(super) fn next_client(&mut self, token: u64) -> Option<(SocketId, SocketAddr)> {
        loop {
            if self.accepts == 0 {
                if !self.more_clients.contains(&token) {
                    self.more_clients.push(token);
                }
                return None;
            }
            self.accepts -= 1;
            let Some(Kind::Listener(listener)) = &mut self.at(token)?.kind else {
                return None;
            };
            if let Some((connection, client)) = listener.waiting.pop_front() {
                return Some(self.accepted(connection, client));
            }
            match listener.socket.accept() {
                Ok((stream, from)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    let local = listener.local;
                    let client = Client {
                        local,
                        stream,
                        from,
                    };
                    let own = match &self.peers {
                        Some(peers) => peers.place(client),
                        None => Some(client),
                    };
                    if let Some(Client { stream, from, .. }) = own {
                        return Some(self.accepted(stream, from));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(e) => match errno(&e) {
                    Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM => {
                        self.pause(token, &e);
                        return None;
                    }
                    // It was gone before it was accepted.
                    _ => {}
                },
            }
        }
    }

    /// The listener at `token` accepts nobody for a while, as the machine has nothing left.
    fn pause(&mut self, token: u64, why: &io::Error) {
        let until = self.now + EXHAUSTED;
        if self.said.is_none_or(|at| at <= self.now) {
            self.said = Some(self.now + SAID);
            warn!("no connection can be accepted for the moment: {why}");
        }
        let nobody = || (until, Vec::new());
        let (_, waiting) = self.exhausted.get_or_insert_with(nobody);
        waiting.push(token);
    }

    fn accepted(&mut self, connection: TcpStream, client: SocketAddr) -> (SocketId, SocketAddr) {
        let stream = Stream::new(connection.into(), Some(client), Phase::Open);
        let token = self.add(Kind::Stream(stream));
        // Most of those that come without end are not kept.
        self.fresh.push(token);
        (SocketId(token as u32), client)
    }

    /// A listener was closed.
    pub(super) fn shut(&mut self, listener: &ListeningSocket) {
        self.listeners.remove(&listener.local);
        listener.waiting.iter().for_each(|_| self.client_gone());
        // Other threads' descriptors of the same socket would keep it in the epoll, which
        // would be woken in the place of one that listens.
        let _ = self.epoll.delete(&listener.socket);
    }
}

#[cfg(test)]
mod tests {
    use narrows_core::Sockets;
    use narrows_units::Instant;

    use super::*;
    use crate::pep::leg::plain;
    use crate::pep::peers::{Message, Workers};
    use crate::pep::said::said;
    use crate::pep::worker::epoll;

    fn machine() -> OsSockets {
        let origin = Box::new(|_: &_, _| None);
        OsSockets::new(epoll().expect("an epoll"), Vec::new(), origin).expect("sockets")
    }

    #[test]
    fn that_nothing_is_left_to_accept_with_is_said_every_ten_seconds_and_all_listeners_go_on() {
        let mut machine = machine();
        let why = io::Error::from(Errno::EMFILE);
        let mut pauses_at = |ms: u64| {
            machine.now = Instant::ZERO + Duration::from_millis(ms);
            // Two listeners, of which the second finds the first waiting.
            let (lines, ()) = said(|| [7, 8].iter().for_each(|token| machine.pause(*token, &why)));
            assert_eq!(machine.patience(), Some(EXHAUSTED));
            machine.now += EXHAUSTED - Duration::from_nanos(1);
            machine.go_on();
            assert!(machine.events.is_empty(), "not before its time");
            machine.now += Duration::from_nanos(1);
            machine.go_on();
            let again: Vec<_> = machine.events.drain(..).collect();
            assert_eq!(again, [7, 8].map(|token| (token, SocketEvent::Incoming)));
            assert_eq!(machine.exhausted, None);
            lines
        };
        let first = pauses_at(5_000);
        assert_eq!(first.len(), 1, "{first:?}");
        assert!(first[0].contains("WARN no connection can be accepted"));
        // The system's own words.
        assert!(first[0].contains(&why.to_string()), "{first:?}");
        for ms in [5_100, 9_000, 14_999] {
            assert_eq!(pauses_at(ms), [""; 0], "{ms}");
        }
        assert_eq!(pauses_at(15_000).len(), 1);
        assert_eq!(pauses_at(24_999).len(), 0);
        assert_eq!(pauses_at(25_000).len(), 1);
    }

    #[test]
    fn a_client_counts_no_more_once_it_is_closed_or_its_listener_is() {
        let workers = Workers::new(2).expect("descriptors");
        let [own, other] = [0, 1].map(|at| Peers::new(&workers, at));
        let mut machine = machine();
        machine.share_clients(own.clone());
        let profile = machine.add_profile(plain(false, false));
        let somewhere = ([127, 0, 0, 1], 0).into();
        let listener = machine.listen(profile, somewhere, 0).expect("it listens");
        let local = machine.listeners.keys().next().copied().expect("one");
        let stream = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = stream.local_addr().expect("bound");
        let client = || Client {
            local,
            stream: TcpStream::connect(at).expect("it listens"),
            from: at,
        };
        // The other thread has a client, so that the next is for this one, which has none.
        assert!(other.place(client()).is_some());
        let come = |machine: &mut OsSockets| {
            assert!(other.place(client()).is_none(), "this one has none");
            match own.messages().pop() {
                Some(Message::Client(client)) => machine.take_over(client),
                _ => panic!("a client"),
            }
        };
        come(&mut machine);
        let (served, _) = machine.accept(listener).expect("it waits");
        machine.close(served);
        come(&mut machine);
        machine.close(listener);
        come(&mut machine);
        assert!(other.place(client()).is_none());
    }
}
