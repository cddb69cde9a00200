//! A handshake with the flights of TLS 1.3, without its secrets.

use std::any::Any;
use std::io;

use narrows_units::stable_hash;
use quinn_proto::crypto::{self, ExportKeyingMaterialError, KeyPair, Keys, PacketKey};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};

use super::keys::{Level, keys, packet_keys};

/// What the ends send each other. Kinds are those of TLS 1.3 (RFC 8446 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    ClientHello = 1,
    ServerHello = 2,
    /// Encrypted extensions, certificate, its proof and the end in one.
    Flight = 8,
    Finished = 20,
}

impl Message {
    /// Bytes of the whole message, filled up with zeros: round figures for
    /// TLS 1.3 with X25519 and one self-signed P-256 certificate.
    const fn len(self) -> usize {
        match self {
            Self::ClientHello => 280,
            Self::ServerHello => 90,
            Self::Flight => 700,
            Self::Finished => 36,
        }
    }

    fn of(kind: u8) -> Option<Self> {
        [
            Self::ClientHello,
            Self::ServerHello,
            Self::Flight,
            Self::Finished,
        ]
        .into_iter()
        .find(|m| *m as u8 == kind)
    }

    /// Appends the message with `parameters` in it: kind, three bytes of
    /// length, two of the parameters' length, the parameters, zeros.
    fn write(self, out: &mut Vec<u8>, parameters: &[u8]) {
        let start = out.len();
        let whole = self.len().max(HEADER_LEN + parameters.len());
        let body = (whole - 4) as u32;
        out.push(self as u8);
        out.extend_from_slice(&body.to_be_bytes()[1..]);
        out.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        out.extend_from_slice(parameters);
        out.resize(start + whole, 0);
    }
}

/// Kind, length and length of the parameters.
const HEADER_LEN: usize = 6;

/// How far the handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This message is to be written.
    Write(Message),
    /// This one is waited for.
    Await(Message),
    /// The client has the server's answer, and the handshake's keys are due.
    Answered,
    Done,
}

/// One end's handshake.
pub(super) struct Session {
    side: Side,
    step: Step,
    own: Vec<u8>,
    peers: Option<TransportParameters>,
    read: Vec<u8>,
    announced: bool,
    generation: u64,
}

impl Session {
    pub(super) fn new(side: Side, parameters: &TransportParameters) -> Self {
        let mut own = Vec::new();
        parameters.write(&mut own);
        Self {
            side,
            step: match side {
                Side::Client => Step::Write(Message::ClientHello),
                Side::Server => Step::Await(Message::ClientHello),
            },
            own,
            peers: None,
            read: Vec::new(),
            announced: false,
            generation: 0,
        }
    }

    /// Takes a whole message from what was read, if there is one.
    fn message(&mut self) -> Result<Option<(Message, Vec<u8>)>, TransportError> {
        let Some([kind, a, b, c, d, e]) = self.read.first_chunk::<HEADER_LEN>().copied() else {
            return Ok(None);
        };
        let body = u32::from_be_bytes([0, a, b, c]) as usize;
        if self.read.len() < 4 + body {
            return Ok(None);
        }
        let message = Message::of(kind).ok_or_else(|| broken("an unknown message"))?;
        let parameters = usize::from(u16::from_be_bytes([d, e]));
        let whole: Vec<u8> = self.read.drain(..4 + body).collect();
        let parameters = whole
            .get(HEADER_LEN..HEADER_LEN + parameters)
            .ok_or_else(|| broken("parameters longer than their message"))?;
        Ok(Some((message, parameters.to_vec())))
    }

    fn take(&mut self, message: Message, parameters: &[u8]) -> Result<(), TransportError> {
        if self.step != Step::Await(message) {
            return Err(broken("a message out of turn"));
        }
        self.step = match message {
            Message::ClientHello => Step::Write(Message::ServerHello),
            Message::ServerHello => Step::Answered,
            Message::Flight => Step::Write(Message::Finished),
            Message::Finished => Step::Done,
        };
        if matches!(message, Message::ClientHello | Message::Flight) {
            let read = TransportParameters::read(self.side, &mut io::Cursor::new(parameters))?;
            self.peers = Some(read);
        }
        Ok(())
    }
}

fn broken(what: &str) -> TransportError {
    TransportError {
        code: TransportErrorCode::PROTOCOL_VIOLATION,
        frame: None,
        reason: format!("the handshake has {what}"),
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        keys(initial(dst_cid), side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.announced.then(|| Box::new(()) as Box<dyn Any>)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn crypto::HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(false)
    }

    fn is_handshaking(&self) -> bool {
        !matches!(self.step, Step::Write(Message::Finished) | Step::Done)
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.read.extend_from_slice(buf);
        let before = self.peers.is_some();
        while let Some((message, parameters)) = self.message()? {
            self.take(message, &parameters)?;
        }
        self.announced |= self.peers.is_some();
        Ok(self.peers.is_some() && !before)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peers)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let one_rtt = Level::OneRtt(self.generation);
        let (step, level) = match self.step {
            Step::Write(Message::ClientHello) => {
                Message::ClientHello.write(buf, &self.own);
                (Step::Await(Message::ServerHello), None)
            }
            Step::Write(Message::ServerHello) => {
                Message::ServerHello.write(buf, &[]);
                (Step::Write(Message::Flight), Some(Level::Handshake))
            }
            Step::Answered => (Step::Await(Message::Flight), Some(Level::Handshake)),
            Step::Write(Message::Flight) => {
                Message::Flight.write(buf, &self.own);
                (Step::Await(Message::Finished), Some(one_rtt))
            }
            Step::Write(Message::Finished) => {
                Message::Finished.write(buf, &[]);
                (Step::Done, Some(one_rtt))
            }
            Step::Await(_) | Step::Done => return None,
        };
        self.step = step;
        level.map(|level| keys(level, self.side))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.generation += 1;
        Some(packet_keys(Level::OneRtt(self.generation), self.side))
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false // Nobody here asks for a retry.
    }

    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// The level of Initial packets: their keys depend on the client's first
/// destination connection id, as real ones do (RFC 9001 §5.2).
pub(super) fn initial(dst_cid: &ConnectionId) -> Level {
    Level::Initial(stable_hash(0, dst_cid))
}
