//! The timers of a connection. Retransmission, loss probe, reordering and
//! window probe share one, as in Linux (`icsk_pending`): only one of them can
//! be meaningful at a time.

use narrows_units::{Duration, Instant};

use crate::connection::Connection;
use crate::event::TcpState;

/// Ticks within which a timer is exact to a tick (`LVL_SIZE` 64, less the one
/// under way).
const NEAR: u64 = 63;
/// How much coarser each level of the wheel is, as a shift (`LVL_CLK_SHIFT`).
const COARSER: u32 = 3;
/// Shift of the last level (`LVL_DEPTH` 9), which no timer of TCP reaches.
const FARTHEST: u32 = 8 * COARSER;

/// What the shared timer is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is off.
    #[default]
    Idle,
    /// Retransmission timeout.
    Retransmit,
    /// Tail-loss probe (RFC 8985 §7).
    LossProbe,
    /// RACK's reordering window (RFC 8985 §6.3).
    Reorder,
    /// Zero-window probe (RFC 9293 §3.8.6.1).
    WindowProbe,
}

/// All deadlines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timers {
    purpose: Purpose,
    /// When the shared timer fires.
    pub(crate) deadline: Option<Instant>,
    /// The pacing rate lets the next packet go.
    pub(crate) pacing: Option<Instant>,
    /// Compressed SACKs are due.
    pub(crate) sack: Option<Instant>,
    /// A batch of received segments is complete.
    pub(crate) gro: Option<Instant>,
    /// Keep-alive.
    pub(crate) keep_alive: Option<Instant>,
    /// End of TIME-WAIT.
    pub(crate) time_wait: Option<Instant>,
}

impl Timers {
    /// What the shared timer runs for.
    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Stops the shared timer.
    pub(crate) fn stop(&mut self) {
        self.purpose = Purpose::Idle;
        self.deadline = None;
    }
}

impl Connection {
    /// Starts the shared timer.
    pub(crate) fn start_timer(&mut self, purpose: Purpose, after: Duration) {
        self.timers.purpose = purpose;
        self.timers.deadline = Some(self.tick_up(self.now + after, after));
    }

    /// Rounds a deadline as Linux's timer wheel does (`calc_index`,
    /// kernel/time/timer.c): never early, and one step late, because the step
    /// under way does not count. A step is a tick, and eight times longer for
    /// timers of 63 ticks or more, again from eight times that on, and so forth.
    pub(crate) fn tick_up(&self, deadline: Instant, after: Duration) -> Instant {
        let tick = self.config.host.tick.as_nanos();
        if tick == 0 {
            return deadline;
        }
        let ticks = after.as_nanos().div_ceil(tick);
        let mut level = 0;
        while ticks >= NEAR << level && level < FARTHEST {
            level += COARSER;
        }
        let due = self.now.as_nanos() / tick + ticks;
        Instant::from_nanos((((due >> level) + 1) << level).saturating_mul(tick))
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called; `None` while
    /// only a packet or the application can change anything.
    pub fn next_timeout(&self) -> Option<Instant> {
        let t = &self.timers;
        let off = Instant::MAX;
        let first = (t.deadline.unwrap_or(off))
            .min(t.pacing.unwrap_or(off))
            .min(t.sack.unwrap_or(off))
            .min(t.gro.unwrap_or(off))
            .min(t.keep_alive.unwrap_or(off))
            .min(t.time_wait.unwrap_or(off))
            .min(self.delack.deadline.unwrap_or(off))
            .min(self.cc.timer_at().map_or(off, Instant::from_nanos));
        (first != off).then_some(first)
    }

    /// Runs whatever timers have expired.
    pub fn on_timeout(&mut self, now: Instant) {
        self.advance(now);
        self.begin_interrupt();
        let due = |t: Option<Instant>| t.is_some_and(|t| t <= now);
        if due(self.timers.pacing) {
            self.timers.pacing = None;
            self.out.pacing_released = true;
        }
        if due(self.timers.gro) {
            self.timers.gro = None;
            self.gro_count = 0;
            self.check_ack_due(false);
        }
        if due(self.timers.sack) {
            self.timers.sack = None;
            if self.sack_compression.pending > 0 {
                self.out.ack = true;
            }
        }
        if due(self.delack.deadline) {
            let rto = Duration::from_micros(self.rtt.rto_us);
            if self.delack.expired(rto) {
                self.out.ack = true;
            }
        }
        // Its own, of a clock as exact as the host's.
        if due(self.cc.timer_at().map(Instant::from_nanos)) {
            let facts = self.plain_facts();
            let decision = self.cc.timer(&facts);
            self.apply(decision);
        }
        if due(self.timers.deadline) {
            let purpose = self.timers.purpose;
            self.timers.stop();
            match purpose {
                Purpose::Idle => {}
                Purpose::Retransmit => self.on_retransmission_timeout(),
                Purpose::LossProbe => self.on_loss_probe_timeout(),
                Purpose::Reorder => self.on_reorder_timeout(),
                Purpose::WindowProbe => self.on_window_probe_timeout(),
            }
        }
        if due(self.timers.keep_alive) {
            self.timers.keep_alive = None;
            self.on_keep_alive();
        }
        if due(self.timers.time_wait) {
            self.timers.time_wait = None;
            if self.state == TcpState::TimeWait || self.state == TcpState::FinWait2 {
                self.enter_closed(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Rng;

    use super::*;
    use crate::config::TcpConfig;

    #[test]
    fn far_timers_have_the_coarse_steps_of_the_wheel() {
        let end = "192.0.2.1:1".parse().unwrap();
        let config = TcpConfig::new(end, end, narrows_cc::ControlSpec::parse("reno").unwrap());
        let mut c = Connection::client(config, Rng::for_name(1, "wheel"));
        let ms = Duration::from_millis;
        c.now = Instant::ZERO + ms(1001);
        let fires = |after: u64| (c.tick_up(c.now + ms(after), ms(after)).as_nanos()) / 1_000_000;
        // 4 ms a tick: the one under way does not count.
        assert_eq!(fires(1), 1008);
        assert_eq!(fires(40), 1044);
        assert_eq!(fires(248), 1252);
        // 63 ticks: steps of eight. 1000 + 252 = 1252, after 39 steps of 32.
        assert_eq!(fires(252), 1280);
        assert_eq!(fires(300), 1312);
        // 504 ticks: steps of 64, 256 ms each.
        assert_eq!(fires(2016), 3072);
    }
}
