/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * CUBIC that is given the rate of its path when it changes: the window goes at once to what
 * that rate and the smallest round trip hold, paced, and is CUBIC's again from there. The
 * idea is that of Quick-Start (RFC 4782 section 4.6), with somebody who knows the link in
 * the place of routers that approve a rate.
 *
 * Deviations: the new window is not taken back when a packet of it is lost (RFC 4782
 * section 4.6 would go back to the one before), as who gives a rate goes on giving it;
 * a loss is CUBIC's. A rate that falls is taken over as well.
 */
#ifndef NW_QUICKSTART_H
#define NW_QUICKSTART_H

#include "cubic.h"
#include "nest.h"

#define nw_quickstart_MODE	NW_MODE_WINDOW

/* What 64 bits of rate x round trip hold. */
#define NW_QUICKSTART_MOST_RATE	(1ULL << 37)	/* bytes/s: 1.1 Tbit/s */
#define NW_QUICKSTART_MOST_RTT	(1U << 26)	/* us: 67 s */

struct nw_quickstart {
	NW_STATE(cubic) inner;
	struct nw_facts view;
	u64 taken;		/* the rate that the window was last set by */
};

struct nw_quickstart_params {
	NW_PARAMS(cubic) inner;
	u64 rate;		/* bytes/s, headers of IP and TCP included */
};

#define nw_quickstart_DEFAULTS	{ .inner = nw_cubic_DEFAULTS }

#define nw_quickstart_OPTIONS(P)					\
	NW_BYTES(P, "rate", rate, 0, NW_QUICKSTART_MOST_RATE,		\
		 "what the path carries in a second, as last given; 0: none was given")

#define nw_quickstart_TELEMETRY(FIELD)					\
	FIELD("given", "mbit", 1000000, 8 * (s64)ca->taken,		\
	      "the rate that the window was last set by")

NW_NEST_PLAIN_VIEW(quickstart)

/* Segments that the rate holds over the smallest round trip, rounded up; 0 while that is
 * unknown.
 */
static inline u32 nw_quickstart_window(const struct nw_quickstart_params *p,
				       const struct nw_facts *f)
{
	u32 rtt_us = f->min_rtt_us;
	u64 held;

	if (!rtt_us || rtt_us == NW_NONE)
		return 0;
	held = p->rate * nw_min(rtt_us, NW_QUICKSTART_MOST_RTT) / 1000000;
	held = nw_div(held, nw_max(f->mss + f->header, 1)) + 1;
	return nw_max((u32)nw_min64(held, NW_NONE), NW_CUBIC_MIN_CWND);
}

/* Called in the states in which a window may grow, so that a recovery under way ends first. */
static inline void nw_quickstart_cong_avoid(struct nw_quickstart *ca,
					    const struct nw_quickstart_params *p,
					    const struct nw_facts *f, u32 acked,
					    struct nw_decision *d)
{
	u32 window = p->rate == ca->taken ? 0 : nw_quickstart_window(p, f);

	if (!p->rate || !window) {
		nw_cubic_cong_avoid(&ca->inner, &p->inner, f, acked, d);
		return;
	}
	ca->taken = p->rate;
	/* The curve's plateau is here. */
	nw_cubic_reset(&ca->inner);
	ca->inner.last_max = window;
	nw_set_cwnd(d, nw_clamp_cwnd(f, window));
	nw_set_cwnd_cnt(d, 0);
	nw_set_ssthresh(d, window);
	if (f->pacing_status == NW_PACING_NONE)
		nw_set_pacing_status(d, NW_PACING_NEEDED);
}

NW_NEST_HOOK(quickstart, cubic, init)
NW_NEST_RELEASE(quickstart, cubic)
NW_NEST_QUESTION(quickstart, cubic, ssthresh)
NW_NEST_QUESTION(quickstart, cubic, undo_cwnd)
NW_NEST_HOOK_WITH(quickstart, cubic, set_state, u8)
NW_NEST_HOOK_WITH(quickstart, cubic, cwnd_event, u32)
NW_NEST_ACK_HOOK(quickstart, cubic)
NW_NEST_HOOK(quickstart, cubic, pkts_acked)
NW_NEST_HOOK(quickstart, cubic, cong_control)
NW_NEST_TSO_LIMIT(quickstart, cubic)
NW_NEST_TIMER(quickstart, cubic)
NW_NEST_NEEDS(quickstart, cubic)
NW_NEST_SETTLE(quickstart, cubic)

#endif /* NW_QUICKSTART_H */
