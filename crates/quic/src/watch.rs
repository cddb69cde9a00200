//! Records what quinn's congestion control receives and does.
//!
//! quinn-proto says how a connection fares in sums; each round trip, and each
//! reduction with its cause, passes only through its congestion control. So
//! one that notes them is in front of the real one and changes nothing.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time;

use narrows_core::{FlowSample, Limited, RecoveryEvent};
use narrows_units::Duration;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::{ConnectionStats, RttEstimator};

use crate::epoch::span;

/// Something that a congestion control received or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerEvent {
    /// The newest packet of an acknowledgement was that long on its way.
    Rtt(Duration),
    /// The window was reduced.
    Recovery(RecoveryEvent),
}

/// What a connection's congestion control received.
#[derive(Debug, Default)]
struct Seen {
    noted: VecDeque<(time::Instant, ControllerEvent)>,
    latest_rtt: Duration,
    min_rtt: Duration,
    /// Bytes of packets that are neither acknowledged nor lost.
    in_flight: u64,
    /// Bytes and packets acknowledged since the start.
    acked_bytes: u64,
    acked_packets: u64,
    /// Bytes that quinn may have in flight, and its slow-start threshold.
    window: u64,
    ssthresh: Option<u64>,
    /// Whether packets were declared lost since this was last read.
    losses: bool,
    /// Packets and bytes that were lost by then.
    lost: (u64, u64),
    /// When the newest packet of this acknowledgement was sent.
    newest: Option<time::Instant>,
    /// Whether the application has more to write than quinn takes; unknown until
    /// it first writes.
    has_more: Option<bool>,
    /// When the last acknowledgement was taken in.
    acked_at: Option<time::Instant>,
    limited: Limited,
}

impl Seen {
    /// An acknowledgement is taken in at `now`. `idle` is quinn's word that since
    /// the one before it had nothing to send, although congestion window and
    /// pacing allowed it.
    fn note_limit(&mut self, now: time::Instant, idle: bool) {
        let before = self.acked_at.replace(now).unwrap_or(now);
        let length = span(now.saturating_duration_since(before));
        match self.has_more.filter(|_| idle) {
            Some(true) => self.limited.receive_window += length,
            Some(false) => self.limited.application += length,
            None => {}
        }
    }
}

/// Shared between a connection and its congestion control.
#[derive(Clone, Debug, Default)]
pub struct ControllerWatch(Arc<Mutex<Seen>>);

impl ControllerWatch {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A factory whose controls are watched.
    pub(crate) fn over(
        &self,
        factory: Arc<dyn ControllerFactory + Send + Sync>,
    ) -> Arc<dyn ControllerFactory + Send + Sync> {
        Arc::new(Watched {
            factory,
            watch: self.clone(),
        })
    }

    /// What was noted since this was last called, in order.
    pub fn take(&self) -> Vec<(time::Instant, ControllerEvent)> {
        self.seen().noted.drain(..).collect()
    }

    /// Packets and bytes that were declared lost since this was last called;
    /// `stats` are the connection's own.
    pub fn take_lost(&self, stats: impl FnOnce() -> ConnectionStats) -> Option<(u64, u64)> {
        if !std::mem::take(&mut self.seen().losses) {
            return None;
        }
        // Not while the watch is held: they may wait for the connection.
        let path = stats().path;
        let mut seen = self.seen();
        let before = std::mem::replace(&mut seen.lost, (path.lost_packets, path.lost_bytes));
        Some((path.lost_packets - before.0, path.lost_bytes - before.1))
    }

    /// The application has more to write than quinn takes, or has not: where
    /// quinn then has nothing to send, the receiver's flow control is the reason
    /// or the application.
    pub fn has_more(&self, has_more: bool) {
        self.seen().has_more = Some(has_more);
    }

    /// For how long something else than congestion held the sender back, up to
    /// the last acknowledgement.
    pub fn limited(&self) -> Limited {
        self.seen().limited
    }

    /// Bytes that may be in flight.
    pub fn window(&self) -> u64 {
        self.seen().window
    }

    /// A sample of the sender; `stats` are the connection's own. Segments are
    /// QUIC packets of the current size.
    pub fn sample(&self, stats: &ConnectionStats) -> FlowSample {
        let seen = self.seen();
        let segment = u64::from(stats.path.current_mtu.max(1));
        let segments = |bytes: u64| u32::try_from(bytes / segment).unwrap_or(u32::MAX);
        FlowSample {
            cwnd: segments(stats.path.cwnd),
            ssthresh: match seen.ssthresh {
                None | Some(u64::MAX) => u32::MAX,
                Some(bytes) => segments(bytes),
            },
            in_flight: u32::try_from(seen.in_flight.div_ceil(segment)).unwrap_or(u32::MAX),
            srtt: span(stats.path.rtt),
            latest_rtt: seen.latest_rtt,
            min_rtt: seen.min_rtt,
            bytes_acked: seen.acked_bytes,
            retransmits: stats.path.lost_packets,
            delivered: seen.acked_packets,
            ..FlowSample::default()
        }
    }
}

/// The bytes of each of `packets` lost packets that had `bytes` together: all
/// alike, but that the first takes what is over.
pub fn lost_sizes(packets: u64, bytes: u64) -> impl Iterator<Item = u32> {
    let each = bytes / packets.max(1);
    let first = bytes - each * packets.saturating_sub(1);
    let size = move |n| if n == 0 { first } else { each };
    // A packet is a datagram at most.
    (0..packets).map(move |n| u32::try_from(size(n)).unwrap_or(u32::MAX))
}

/// Builds a watched controller.
struct Watched {
    factory: Arc<dyn ControllerFactory + Send + Sync>,
    watch: ControllerWatch,
}

impl ControllerFactory for Watched {
    fn build(self: Arc<Self>, now: time::Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.factory).build(now, current_mtu);
        let watch = self.watch.clone();
        watch.seen().window = inner.window();
        Box::new(Watcher { inner, watch })
    }
}

struct Watcher {
    inner: Box<dyn Controller>,
    watch: ControllerWatch,
}

impl Watcher {
    fn update_window(&self, seen: &mut Seen) {
        seen.window = self.inner.window();
        seen.ssthresh = self.inner.metrics().ssthresh;
    }
}

impl Controller for Watcher {
    fn on_sent(&mut self, now: time::Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
        self.watch.seen().in_flight += bytes;
    }

    fn on_ack(
        &mut self,
        now: time::Instant,
        sent: time::Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
        let mut seen = self.watch.seen();
        seen.acked_bytes += bytes;
        seen.acked_packets += 1;
        seen.newest = seen.newest.max(Some(sent));
        seen.min_rtt = span(rtt.min());
    }

    fn on_end_acks(
        &mut self,
        now: time::Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        let mut seen = self.watch.seen();
        seen.in_flight = in_flight;
        seen.note_limit(now, app_limited);
        if let Some(sent) = seen.newest.take() {
            let rtt = span(now.saturating_duration_since(sent));
            seen.latest_rtt = rtt;
            seen.noted.push_back((now, ControllerEvent::Rtt(rtt)));
        }
        self.update_window(&mut seen);
    }

    fn on_congestion_event(
        &mut self,
        now: time::Instant,
        sent: time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let before = self.inner.window();
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        let mut seen = self.watch.seen();
        // quinn reports a CE mark as a loss of nothing.
        let event = match (is_persistent_congestion, lost_bytes) {
            (true, _) => RecoveryEvent::RetransmissionTimeout,
            (false, 0) => RecoveryEvent::CongestionExperienced,
            (false, _) => RecoveryEvent::FastRetransmit,
        };
        seen.in_flight = seen.in_flight.saturating_sub(lost_bytes);
        seen.losses |= lost_bytes > 0;
        if self.inner.window() < before {
            seen.noted
                .push_back((now, ControllerEvent::Recovery(event)));
        }
        self.update_window(&mut seen);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
        self.update_window(&mut self.watch.seen());
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            watch: self.watch.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
