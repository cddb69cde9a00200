//! How long a sender could not send, and why: Linux's `tcp_chrono`, whose three
//! kinds add up to `busy_time`, with the rest as the application's share.

use narrows_units::{Duration, Instant};

use crate::connection::Connection;

/// What keeps the sender from sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The congestion window, the pacing rate, or nothing.
    #[default]
    Congestion,
    /// The peer's window.
    ReceiveWindow,
    /// Its own buffer: a write was refused, yet there is nothing to send.
    SendBuffer,
    /// There is nothing to send and nothing in flight.
    Application,
}

/// The stop-watches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    running: Option<(Limit, Instant)>,
    congestion: Duration,
    receive_window: Duration,
    send_buffer: Duration,
    application: Duration,
}

impl Limits {
    /// From now on the sender is limited by `limit`.
    pub(crate) fn set(&mut self, now: Instant, limit: Limit) {
        if self.running.is_some_and(|(l, _)| l == limit) {
            return;
        }
        self.stop(now);
        self.running = Some((limit, now));
    }

    /// Whether there is nothing to send and nothing in flight, as far as was noted.
    pub(crate) fn by_application(&self) -> bool {
        matches!(self.running, Some((Limit::Application, _)))
    }

    /// Stops counting.
    pub(crate) fn stop(&mut self, now: Instant) {
        if let Some((limit, since)) = self.running.take() {
            let span = now.since(since);
            match limit {
                Limit::Congestion => self.congestion += span,
                Limit::ReceiveWindow => self.receive_window += span,
                Limit::SendBuffer => self.send_buffer += span,
                Limit::Application => self.application += span,
            }
        }
    }

    /// Receive window, send buffer, application.
    pub(crate) fn totals(&self, now: Instant) -> (Duration, Duration, Duration) {
        let mut t = *self;
        t.stop(now);
        (t.receive_window, t.send_buffer, t.application)
    }

    /// Time with data in flight or waiting.
    pub(crate) fn busy(&self, now: Instant) -> Duration {
        let mut t = *self;
        t.stop(now);
        t.congestion + t.receive_window + t.send_buffer
    }
}

impl Connection {
    /// Notes what limits the sender after everything that may be sent was.
    pub(crate) fn note_limit(&mut self, by_receive_window: bool) {
        let starved = self.unsent() == 0 && self.board.in_flight() < self.cong.cwnd;
        let limit = if by_receive_window {
            Limit::ReceiveWindow
        } else if starved && self.write_refused {
            Limit::SendBuffer
        } else if self.outgoing.is_empty() && self.board.packets_out == 0 && !self.fin_due() {
            Limit::Application
        } else {
            Limit::Congestion
        };
        self.limits.set(self.now, limit);
    }
}
