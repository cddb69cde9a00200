//! A packet in steady state costs no allocation.

#[path = "integration/rig/mod.rs"]
mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use narrows_core::{Event, EventSink};
use narrows_units::Instant;

/// Counts what the thread allocates and leaves the work to the system.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is being torn down no longer counts.
    let _ = COUNT.try_with(|c| c.set(c.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Packets and allocations at a time, counted from the outside.
#[derive(Default)]
struct Meter {
    from: Instant,
    at_start: Option<u64>,
    packets: u64,
    allocations: u64,
}

impl EventSink for Meter {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if now < self.from {
            return;
        }
        let count = COUNT.with(Cell::get);
        self.allocations = count - *self.at_start.get_or_insert(count);
        self.packets += u64::from(matches!(event, Event::Sent { .. }));
    }
}

fn meter(toml: &str, from: u64) -> Meter {
    let mut meter = Meter {
        from: Instant::from_nanos(from * 1_000_000_000),
        ..Meter::default()
    };
    rig::run(&rig::plan(toml), 1, &mut meter);
    meter
}

#[test]
fn datagrams_and_probes_allocate_nothing_once_warm() {
    let meter = meter(
        r#"
duration = "6s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms 1ms", "rate 20Mbit queue fq_codel", "remark dscp cs1"]
down = ["by dscp cs1 (netem delay 5ms) else (netem delay 10ms)"]
[[flow]]
name = "video"
from = "client"
to   = "server"
traffic = "cbr rate 18Mbit"
[[probe]]
name = "ping"
from = "client"
to   = "server"
interval = "1ms"
"#,
        2,
    );
    assert!(meter.packets > 8_000);
    assert_eq!(meter.allocations, 0);
}

#[test]
fn connections_allocate_nothing_once_warm() {
    for (queue, cc) in [
        ("pfifo limit 200", "cubic"),
        ("fq_codel", "cubic"),
        ("dualpi2", "prague"),
        ("cnq_codel_af", "prague"),
        ("cake bandwidth 19Mbit ack-filter", "cubic"),
    ] {
        let meter = meter(
            &format!(
                r#"
duration = "8s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "rate 20Mbit queue {queue}"]
down = ["netem delay 10ms", "rate 20Mbit queue {queue}"]
[[flow]]
name = "one"
from = "client"
to   = "server"
cc   = "{cc}"
[[flow]]
name = "two"
from = "client"
to   = "server"
cc   = "cubic"
ecn  = true
"#
            ),
            4,
        );
        assert!(meter.packets > 9_000, "{queue} {cc}: {}", meter.packets);
        assert_eq!(meter.allocations, 0, "{queue} {cc}");
    }
}
