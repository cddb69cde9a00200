//! Linux's coarse timer, for queues whose clock runs on it.

use narrows_units::{Duration, Instant};

/// One tick. Assumes HZ = 1000, so that periods in whole milliseconds hold
/// exactly; with HZ = 250 Linux rounds up to 4 ms.
const JIFFY: Duration = Duration::from_millis(1);

/// HZ/2: when queues of Linux first run their control law after set-up.
pub(crate) const HALF_SECOND: Duration = Duration::from_millis(500);

/// When a timer fires that is set at `now` for `period`: after so many whole
/// ticks, rounded up, from the tick that has begun.
pub(crate) fn expiry(now: Instant, period: Duration) -> Instant {
    let jiffy = JIFFY.as_nanos();
    let ticks = now.as_nanos() / jiffy + period.as_nanos().div_ceil(jiffy);
    Instant::from_nanos(ticks * jiffy)
}
