/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * LEDBAT++: LEDBAT that grows more slowly on short round trips, comes down
 * multiplicatively, and empties the queue now and then to see the base delay.
 * draft-irtf-iccrg-ledbat-plus-plus-01, whose sections are named below.
 *
 * Deviations: those of ledbat.h but for its slow start. A loss that ends the first
 * slow start is followed by the initial slowdown as well.
 */
#ifndef NW_LEDBATPP_H
#define NW_LEDBATPP_H

#include "delays.h"

#define nw_ledbatpp_MODE	NW_MODE_WINDOW

#define NW_LEDBATPP_TARGET	60000U	/* us */
#define NW_LEDBATPP_SLOWEST	16U	/* 1 / GAIN at most */
#define NW_LEDBATPP_CWND	2U	/* segments, least and in a slowdown */
#define NW_LEDBATPP_ROUNDS	2U	/* round trips to a first slowdown, and in each */
#define NW_LEDBATPP_APART	9U	/* times the length of the last slowdown */

enum nw_ledbatpp_phase {
	NW_LEDBATPP_START = 0,		/* the first slow start */
	NW_LEDBATPP_STEADY = 1,
	NW_LEDBATPP_HOLD = 2,		/* the window is two segments */
	NW_LEDBATPP_RAMP = 3,		/* slow start back to ssthresh */
};

struct nw_ledbatpp {
	struct nw_delays delays;
	u32 phase;		/* enum nw_ledbatpp_phase */
	u64 window;		/* NW_SEGMENT units */
	u64 slowed_ns;		/* when the last slowdown began */
	u64 next_ns;		/* what comes next: a slowdown, or the end of the hold */
};

struct nw_ledbatpp_params {
	u32 target_us;
	u32 slowdown;		/* 0 or 1 */
};
#define nw_ledbatpp_DEFAULTS { .target_us = NW_LEDBATPP_TARGET, .slowdown = 1 }
#define nw_ledbatpp_OPTIONS(P)						\
	NW_TIME(P, "target", target_us, 1000, 10000000,			\
		"queueing delay that it holds")				\
	NW_CHOICE(P, "slowdown", slowdown, "off on",			\
		  "whether it empties the queue now and then to see the base delay")
#define nw_ledbatpp_TELEMETRY(FIELD) NW_DELAYS_TELEMETRY(FIELD, &ca->delays)

static inline void nw_ledbatpp_init(struct nw_ledbatpp *ca,
				    const struct nw_ledbatpp_params *p,
				    const struct nw_facts *f,
				    struct nw_decision *d)
{
	(void)p;
	(void)d;
	nw_delays_init(&ca->delays, f);
	ca->phase = NW_LEDBATPP_START;
	ca->window = (u64)f->cwnd << NW_FRACTION;
	ca->slowed_ns = 0;
	ca->next_ns = 0;
}

static inline void nw_ledbatpp_release(struct nw_ledbatpp *ca)
{
	(void)ca;
}

/* 1 / GAIN = min(16, ceil(2 TARGET / base)), section "Slower than Reno increase" */
static inline u32 nw_ledbatpp_slowness(const struct nw_ledbatpp *ca,
				       const struct nw_ledbatpp_params *p)
{
	u64 base = nw_max(nw_delays_base(&ca->delays), 1);
	u64 slowness = (2ULL * p->target_us + base - 1) / base;

	return (u32)nw_max64(nw_min64(slowness, NW_LEDBATPP_SLOWEST), 1);
}

static inline u64 nw_ledbatpp_rounds(const struct nw_facts *f)
{
	return (u64)NW_LEDBATPP_ROUNDS * (f->srtt_us >> 3) * 1000;
}

/* Section "Initial and periodic slowdown" */
static inline void nw_ledbatpp_leave_start(struct nw_ledbatpp *ca,
					   const struct nw_facts *f)
{
	ca->phase = NW_LEDBATPP_STEADY;
	ca->next_ns = f->now_ns + nw_ledbatpp_rounds(f);
}

static inline u32 nw_ledbatpp_ssthresh(struct nw_ledbatpp *ca,
				       const struct nw_ledbatpp_params *p,
				       const struct nw_facts *f)
{
	u32 cwnd = f->cwnd;

	(void)p;
	if (ca->phase == NW_LEDBATPP_START)
		nw_ledbatpp_leave_start(ca, f);
	/* the window of a slowdown is not what was too much */
	else if (ca->phase != NW_LEDBATPP_STEADY)
		cwnd = nw_max(cwnd, f->ssthresh);
	return nw_max(cwnd >> 1, NW_LEDBATPP_CWND);
}

static inline u32 nw_ledbatpp_undo_cwnd(struct nw_ledbatpp *ca,
					const struct nw_ledbatpp_params *p,
					const struct nw_facts *f)
{
	(void)ca;
	(void)p;
	return nw_max(nw_max(f->cwnd, f->prior_cwnd), 1);
}

NW_NO_HOOK_WITH(ledbatpp, set_state, u8)
NW_NO_HOOK_WITH(ledbatpp, cwnd_event, u32)
NW_NO_ACK_HOOK(ledbatpp)

static inline void nw_ledbatpp_pkts_acked(struct nw_ledbatpp *ca,
					  const struct nw_ledbatpp_params *p,
					  const struct nw_facts *f,
					  struct nw_decision *d)
{
	(void)p;
	(void)d;
	nw_delays_sample(&ca->delays, f, f->rtt_us);
}

/*
 * This ACK's share of a round trip's change, sections "Slower than Reno increase"
 * and "Multiplicative decrease": GAIN below the target, max(GAIN - W (queue /
 * target - 1), -W / 2) above it.
 */
static inline u64 nw_ledbatpp_adjust(struct nw_ledbatpp *ca,
				     const struct nw_ledbatpp_params *p,
				     const struct nw_facts *f, u64 window,
				     u32 queue, u32 acked)
{
	u64 all = (u64)nw_min(acked, 1U << 20) << NW_FRACTION;
	u64 up = all / nw_ledbatpp_slowness(ca, p) / nw_max(f->cwnd, 1);
	u64 down = 0;

	if (queue > p->target_us) {
		u64 over = ((u64)(queue - p->target_us) << 16) /
			   nw_max(p->target_us, 1);

		/* over is below a half of 16 bits where it counts */
		down = (all >> 16) * nw_min64(over, 1U << 16);
		if (down > up + all / 2)
			down = up + all / 2;
	}
	if (!(f->flags & NW_F_CWND_LIMITED))
		up = 0;
	return down > up ? window - nw_min64(down - up, window) :
			   window + (up - down);
}

static inline void nw_ledbatpp_cong_avoid(struct nw_ledbatpp *ca,
					  const struct nw_ledbatpp_params *p,
					  const struct nw_facts *f, u32 acked,
					  struct nw_decision *d)
{
	u32 queue = nw_delays_queue(&ca->delays), cwnd;
	u64 window = nw_fraction_of(ca->window, f->cwnd);
	int steady = 0;
	u64 step = ((u64)nw_min(acked, 1U << 20) << NW_FRACTION) /
		   nw_ledbatpp_slowness(ca, p);

	if (ca->phase == NW_LEDBATPP_HOLD && f->now_ns >= ca->next_ns)
		ca->phase = NW_LEDBATPP_RAMP;
	if (ca->phase == NW_LEDBATPP_RAMP && f->cwnd >= f->ssthresh) {
		ca->phase = NW_LEDBATPP_STEADY;
		ca->next_ns = f->now_ns +
			      NW_LEDBATPP_APART * (f->now_ns - ca->slowed_ns);
	}
	/* three quarters of the target end the first slow start alone */
	if (ca->phase == NW_LEDBATPP_START && queue > p->target_us / 4 * 3) {
		nw_ledbatpp_leave_start(ca, f);
		nw_set_ssthresh(d, f->cwnd);
		d->events |= NW_DID_SLOW_START_EXIT;
	}
	if (ca->phase == NW_LEDBATPP_STEADY && p->slowdown &&
	    f->now_ns >= ca->next_ns) {
		ca->phase = NW_LEDBATPP_HOLD;
		ca->slowed_ns = f->now_ns;
		ca->next_ns = f->now_ns + nw_ledbatpp_rounds(f);
		nw_set_ssthresh(d, nw_max(f->cwnd, NW_LEDBATPP_CWND));
	}

	if (ca->phase == NW_LEDBATPP_HOLD) {
		window = NW_LEDBATPP_CWND * NW_SEGMENT;
	} else if (ca->phase != NW_LEDBATPP_STEADY || f->cwnd < f->ssthresh) {
		/* section "Modified slow start" */
		if (f->flags & NW_F_CWND_LIMITED)
			window = nw_min64(window + step, nw_max64(window,
					  (u64)f->ssthresh << NW_FRACTION));
	} else {
		window = nw_ledbatpp_adjust(ca, p, f, window, queue, acked);
		steady = 1;
	}
	ca->window = nw_fraction_clamp(f, window, NW_LEDBATPP_CWND);
	cwnd = (u32)(ca->window >> NW_FRACTION);
	if (steady)
		nw_delays_follow(f, cwnd, d);
	nw_set_cwnd(d, cwnd);
}

NW_NO_HOOK(ledbatpp, cong_control)
NW_NO_TSO_LIMIT(ledbatpp)
NW_NO_TIMER(ledbatpp)
NW_NO_NEEDS(ledbatpp)
NW_NO_SETTLE(ledbatpp)

#endif /* NW_LEDBATPP_H */
