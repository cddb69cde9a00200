//! A client and a server that a relay stands between, in either engine.

mod relay;

pub use relay::Relay;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use narrows_core::{App, Data, Profile, SocketError, SocketEvent, SocketId, Sockets};
use narrows_units::Instant;

/// The n-th byte that client `who` sends.
pub fn byte(who: usize, n: usize) -> u8 {
    (n.wrapping_mul(31) ^ n >> 8).wrapping_add(who * 7) as u8
}

/// What became of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub echoed: usize,
    pub wrong: usize,
    pub ended: bool,
    pub broken: bool,
}

/// Sends bytes to an echo, ends its stream, and checks what comes back.
pub struct Client {
    pub who: usize,
    pub profile: Profile,
    pub server: SocketAddr,
    pub start: Instant,
    pub bytes: usize,
    pub sent: usize,
    pub accounts: Arc<Mutex<Vec<Account>>>,
}

impl Client {
    fn send(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        while self.sent < self.bytes {
            let end = self.bytes.min(self.sent + 5_000);
            let part: Vec<u8> = (self.sent..end).map(|n| byte(self.who, n)).collect();
            match host.write(socket, Data::Bytes(&part)) {
                0 => return,
                taken => self.sent += taken as usize,
            }
        }
        host.want_room(socket, false);
        host.shut_down(socket);
    }
}

impl App for Client {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.wake_at(Some(self.start));
        Ok(())
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let socket = host.connect(self.profile, None, self.server);
        host.want_room(socket.expect("there is a way"), true);
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Writable => self.send(host, socket),
            SocketEvent::Readable => {
                let mut bytes = Vec::new();
                host.read(socket, u64::MAX, Some(&mut bytes));
                let account = &mut self.accounts.lock().unwrap()[self.who];
                for got in bytes {
                    account.wrong += usize::from(got != byte(self.who, account.echoed));
                    account.echoed += 1;
                }
            }
            SocketEvent::PeerClosed => {
                self.accounts.lock().unwrap()[self.who].ended = true;
                host.close(socket);
            }
            SocketEvent::Broken(_) => self.accounts.lock().unwrap()[self.who].broken = true,
            _ => {}
        }
    }
}

/// Sends back what it gets, as its peer takes it.
pub struct Echo {
    pub profile: Profile,
    pub local: SocketAddr,
    /// Whether it resets each connection when it has something to send back.
    pub resets: bool,
    /// What is to go back of each connection, and whether its peer has ended its stream.
    pub waiting: BTreeMap<SocketId, (Vec<u8>, bool)>,
}

impl Echo {
    fn answer(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        let Some((waiting, ended)) = self.waiting.get_mut(&socket) else {
            return;
        };
        host.read(socket, u64::MAX, Some(waiting));
        if self.resets && !waiting.is_empty() {
            host.reset(socket);
            host.close(socket);
            self.waiting.remove(&socket);
            return;
        }
        let taken = host.write(socket, Data::Bytes(waiting));
        waiting.drain(..taken as usize);
        host.want_room(socket, !waiting.is_empty());
        if *ended && waiting.is_empty() {
            host.close(socket);
            self.waiting.remove(&socket);
        }
    }
}

impl App for Echo {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.listen(self.profile, self.local, 1_000).map(|_| ())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Incoming => {
                while let Some((new, _)) = host.accept(socket) {
                    self.waiting.insert(new, (Vec::new(), false));
                }
            }
            SocketEvent::Readable | SocketEvent::Writable => self.answer(host, socket),
            SocketEvent::PeerClosed => {
                if let Some(entry) = self.waiting.get_mut(&socket) {
                    entry.1 = true;
                }
                self.answer(host, socket);
            }
            SocketEvent::Broken(_) => {
                self.waiting.remove(&socket);
                host.close(socket);
            }
            _ => {}
        }
    }
}
