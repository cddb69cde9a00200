//! Latency probes as applications: a client and a responder.

use std::net::SocketAddr;

use narrows_core::{App, EntityId, Event, Profile, SocketError, SocketEvent, SocketId, Sockets};

use crate::probe::{Probe, ProbeClient};

/// Sends requests and measures the round trip of their replies.
#[derive(Debug)]
pub struct Prober {
    probe: EntityId,
    profile: Profile,
    local: SocketAddr,
    remote: SocketAddr,
    client: ProbeClient,
    payload_len: u32,
    socket: Option<SocketId>,
    payload: Vec<u8>,
}

impl Prober {
    /// One that sends requests from `local` to `remote` at the times of `client`, with `payload_len` bytes
    /// of payload, and reports as `probe`.
    pub fn new(
        probe: EntityId,
        profile: Profile,
        local: SocketAddr,
        remote: SocketAddr,
        client: ProbeClient,
        payload_len: u32,
    ) -> Self {
        Self {
            probe,
            profile,
            local,
            remote,
            client,
            payload_len,
            socket: None,
            payload: Vec::new(),
        }
    }
}

impl App for Prober {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.socket = Some(host.bind(self.profile, self.local)?);
        host.wake_at(self.client.next_wake());
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        if event != SocketEvent::Readable {
            return;
        }
        let probe = self.probe;
        while let Some(datagram) = host.receive_from(socket, &mut self.payload) {
            let reply = Probe::parse(&self.payload).filter(|p| p.reply);
            let rtt = reply.and_then(|reply| self.client.reply_received(datagram.at, reply));
            if let Some(rtt) = rtt {
                host.record(Event::ProbeRtt { probe, rtt });
            }
        }
        host.wake_at(self.client.next_wake());
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let (now, probe) = (host.now(), self.probe);
        for _ in 0..self.client.lost(now) {
            host.record(Event::ProbeLost { probe });
        }
        let Some(socket) = self.socket else { return };
        while let Some(request) = self.client.next_request(host.now()) {
            // A path that is missing was refused before the run.
            let _ = host.send_to(socket, self.remote, &request.to_bytes(), self.payload_len);
        }
        host.wake_at(self.client.next_wake());
    }
}

/// Replies to requests.
#[derive(Debug)]
pub struct Responder {
    profile: Profile,
    local: SocketAddr,
    payload_len: u32,
    payload: Vec<u8>,
}

impl Responder {
    /// One that answers at `local` with `payload_len` bytes of payload.
    pub fn new(profile: Profile, local: SocketAddr, payload_len: u32) -> Self {
        Self {
            profile,
            local,
            payload_len,
            payload: Vec::new(),
        }
    }
}

impl App for Responder {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.bind(self.profile, self.local).map(|_| ())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        if event != SocketEvent::Readable {
            return;
        }
        while let Some(datagram) = host.receive_from(socket, &mut self.payload) {
            let Some(request) = Probe::parse(&self.payload).filter(|p| !p.reply) else {
                continue;
            };
            // How long the request waited in this host is not the path's doing: it is
            // taken out of the round trip by moving its start.
            let reply = Probe {
                reply: true,
                sent: request.sent + host.now().since(datagram.at),
                ..request
            };
            // The client is bound as long as the run lasts.
            let _ = host.send_to(socket, datagram.from, &reply.to_bytes(), self.payload_len);
        }
    }
}
