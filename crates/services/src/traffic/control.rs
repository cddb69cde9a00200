//! The control connection of a session: the proof of the token, then lines.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use narrows_linux::random_bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::token::{NONCE, PROOF, Secret, Side, Token};
use super::wire::LONGEST_LINE;

/// How long each step of the beginning may take (our choice).
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long the end of a connection is waited for, so that what was said last arrives.
const FAREWELL: Duration = Duration::from_millis(300);

/// Blocks that are read in a row, before what is in them is taken and sockets have their turn.
const TURN: usize = 16;

/// A control connection.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) stream: TcpStream,
    /// Of both ends, for what is not said here.
    pub(super) secret: Secret,
    unread: Vec<u8>,
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Control {
    /// Shows the client that comes with `stream` to have the token, and is shown it.
    ///
    /// # Errors
    /// If it has not; then it was sent nothing but what was drawn.
    pub(super) fn accepted(mut stream: TcpStream, token: &Token) -> io::Result<Self> {
        let until = Instant::now() + PATIENCE;
        let ours: [u8; NONCE] = random_bytes()?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        stream.write_all(&ours)?;
        let mut theirs = [0; NONCE];
        read_until(&mut stream, &mut theirs, until)?;
        let mut proof = [0; PROOF];
        read_until(&mut stream, &mut proof, until)?;
        let nonces = [ours, theirs];
        if !token.accepts(Side::Client, &nonces, &proof) {
            return Err(wrong("it has not the token"));
        }
        stream.write_all(&token.prove(Side::Server, &nonces))?;
        Ok(Self {
            stream,
            secret: token.secret(&nonces),
            unread: Vec::new(),
        })
    }

    /// The same of the client.
    ///
    /// # Errors
    /// If the server has not the token, or does not take ours.
    pub(super) fn connected(mut stream: TcpStream, token: &Token) -> io::Result<Self> {
        let until = Instant::now() + PATIENCE;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut theirs = [0; NONCE];
        read_until(&mut stream, &mut theirs, until)?;
        let ours: [u8; NONCE] = random_bytes()?;
        let nonces = [theirs, ours];
        stream.write_all(&ours)?;
        stream.write_all(&token.prove(Side::Client, &nonces))?;
        let mut proof = [0; PROOF];
        read_until(&mut stream, &mut proof, until).map_err(|e| match e.kind() {
            io::ErrorKind::TimedOut => e,
            _ => wrong("it does not take the token, or is of another version"),
        })?;
        if !token.accepts(Side::Server, &nonces, &proof) {
            return Err(wrong("it has another token"));
        }
        Ok(Self {
            stream,
            secret: token.secret(&nonces),
            unread: Vec::new(),
        })
    }

    /// Sends a line.
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(PATIENCE))?;
        self.stream.write_all(&line)
    }

    /// Ends the connection, after the other end has taken what was sent, or a moment later.
    pub(super) fn close(&mut self) {
        let until = Instant::now() + FAREWELL;
        if self.stream.shutdown(Shutdown::Write).is_err()
            || self.stream.set_nonblocking(false).is_err()
        {
            return;
        }
        // What it still says does not matter; its end does.
        let mut room = [0; 4 << 10];
        while self.stream.set_read_timeout(Some(FAREWELL)).is_ok() && Instant::now() < until {
            match self.stream.read(&mut room) {
                Ok(read) if read > 0 => {}
                _ => return,
            }
        }
    }

    /// Waits for a line until `until`.
    pub(super) fn receive<T: DeserializeOwned>(&mut self, until: Instant) -> io::Result<T> {
        loop {
            if let Some(message) = self.line()? {
                return Ok(message);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(in_words(io::ErrorKind::TimedOut.into()));
            }
            self.stream.set_nonblocking(false)?;
            self.stream.set_read_timeout(Some(left))?;
            self.fill().map_err(in_words)?;
        }
    }

    /// Reads what is there, as much as is read in a row, without waiting; whether the connection is
    /// still open.
    pub(super) fn look(&mut self) -> io::Result<bool> {
        self.stream.set_nonblocking(true)?;
        for _ in 0..TURN {
            match self.fill() {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => return Err(e),
                // At its end, or reset: it is gone.
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The next line that was read whole.
    pub(super) fn line<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.unread.drain(..=end).collect();
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(|_| wrong("a line that is no message"))
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut room = [0; 64 << 10];
        match self.stream.read(&mut room) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.unread.extend(&room[..read]);
                match self.unread.len() > LONGEST_LINE {
                    true => Err(wrong("a line that is too long")),
                    false => Ok(()),
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(e),
        }
    }
}

/// The error of a peer that does not answer, in words: a socket's timeout is `EAGAIN`.
fn in_words(error: io::Error) -> io::Error {
    let words = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it did not answer in time",
        io::ErrorKind::UnexpectedEof => "it closed the connection",
        _ => return error,
    };
    let kind = match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut,
        kind => kind,
    };
    io::Error::new(kind, words)
}

/// Fills `room` until a time: a peer that sends a byte now and then gains nothing by it.
fn read_until(stream: &mut TcpStream, room: &mut [u8], until: Instant) -> io::Result<()> {
    fill_until(stream, room, until).map_err(in_words)
}

fn fill_until(stream: &mut TcpStream, mut room: &mut [u8], until: Instant) -> io::Result<()> {
    while !room.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => room = &mut room[read..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
