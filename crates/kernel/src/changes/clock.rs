//! The clock's resolution, and what a read of it costs.

use crate::edit::{Change, Edit, What};

/// What a read costs, in nanoseconds: little, so that a program that reads the clock
/// is hardly slowed down by it, and more with each read of one that does nothing else,
/// which waits for a time to come. A sixty-fourth of the time that such reads have
/// taken so far is how much it can be late; a microsecond is the most, as programs that
/// exchange messages without ever waiting do the same.
const COST: &str = "\
/* narrows: what a read of the clock costs */
#define NARROWS_READ_LEAST\t10ULL\t/* ns */
#define NARROWS_READ_MOST\t1000ULL\t/* ns */

static unsigned long long narrows_read_cost(void)
{
	static unsigned long long last, spent;
	unsigned long long cost;

	/* Time has passed by itself since the last read. */
	if (time_travel_time != last)
		spent = 0;
	cost = clamp(spent / 64, NARROWS_READ_LEAST, NARROWS_READ_MOST);
	spent += cost;
	last = time_travel_time + cost;
	return cost;
}

";

pub(super) const CHANGE: Change = Change {
    name: "clock",
    reason: "the clock has a resolution of 1 ns instead of 256; a read of it costs 10 ns \
             instead of 256, and up to 1,000 in a program that only waits for a time to \
             come, so that such programs end",
    only_where: None,
    edits: &[
        Edit {
            file: "arch/um/include/linux/time-internal.h",
            function: None,
            what: What::Replace("#define TIMER_MULTIPLIER 256", "#define TIMER_MULTIPLIER 1"),
        },
        Edit {
            file: "arch/um/kernel/time.c",
            function: Some("timer_read"),
            what: What::Replace(
                "time_travel_update_time_rel(TIMER_MULTIPLIER);",
                "time_travel_update_time_rel(narrows_read_cost());",
            ),
        },
        Edit {
            file: "arch/um/kernel/time.c",
            function: Some("timer_read"),
            what: What::Precede(COST),
        },
    ],
    config: &[],
};
