/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * LEDBAT: holds the queueing delay at a target, and so yields to whoever fills the
 * queue further. RFC 6817.
 *
 * Deviations: the delay is that of the round trip (delays.h). Where the window does
 * not limit the sender it stays, and Linux takes back what goes unused, in place of
 * the RFC's flightsize + ALLOWED_INCREASE. After a timeout the window grows back to
 * ssthresh in slow start, as Linux's do, and ssthresh comes down with the window. One
 * ACK changes the window by no more than what it acknowledges times
 * NW_LEDBAT_STEEPEST.
 */
#ifndef NW_LEDBAT_H
#define NW_LEDBAT_H

#include "delays.h"

#define nw_ledbat_MODE	NW_MODE_WINDOW

#define NW_LEDBAT_TARGET	100000U	/* us: RFC 6817 section 2.5, at most 100 ms */
#define NW_LEDBAT_MIN_CWND	2U	/* segments */
#define NW_LEDBAT_STEEPEST	16U	/* targets of delay off the target */
#define NW_LEDBAT_GAIN_ONE	1024U

struct nw_ledbat {
	struct nw_delays delays;
	u64 window;		/* NW_SEGMENT units */
};

struct nw_ledbat_params {
	u32 target_us;
	u32 gain;		/* of NW_LEDBAT_GAIN_ONE */
	u32 slow_start;		/* 0 or 1 */
};
#define nw_ledbat_DEFAULTS {						\
	.target_us = NW_LEDBAT_TARGET,					\
	.gain = NW_LEDBAT_GAIN_ONE,					\
}
#define nw_ledbat_OPTIONS(P)						\
	NW_TIME(P, "target", target_us, 1000, 10000000,			\
		"queueing delay that it holds")				\
	NW_NUMBER(P, "gain", gain, 1, NW_LEDBAT_GAIN_ONE,		\
		  "segments per round trip far below the target, of 1024") \
	NW_CHOICE(P, "slow_start", slow_start, "off on",		\
		  "whether it begins in slow start, until three quarters of the target")
#define nw_ledbat_TELEMETRY(FIELD) NW_DELAYS_TELEMETRY(FIELD, &ca->delays)

static inline void nw_ledbat_init(struct nw_ledbat *ca,
				  const struct nw_ledbat_params *p,
				  const struct nw_facts *f,
				  struct nw_decision *d)
{
	nw_delays_init(&ca->delays, f);
	ca->window = (u64)f->cwnd << NW_FRACTION;
	if (!p->slow_start)
		nw_set_ssthresh(d, nw_min(f->ssthresh, f->cwnd));
}

static inline void nw_ledbat_release(struct nw_ledbat *ca)
{
	(void)ca;
}

/* min(cwnd, max(cwnd / 2, MIN_CWND)) */
static inline u32 nw_ledbat_ssthresh(struct nw_ledbat *ca,
				     const struct nw_ledbat_params *p,
				     const struct nw_facts *f)
{
	(void)ca;
	(void)p;
	return nw_max(f->cwnd >> 1, NW_LEDBAT_MIN_CWND);
}

static inline u32 nw_ledbat_undo_cwnd(struct nw_ledbat *ca,
				      const struct nw_ledbat_params *p,
				      const struct nw_facts *f)
{
	(void)ca;
	(void)p;
	return nw_max(nw_max(f->cwnd, f->prior_cwnd), 1);
}

NW_NO_HOOK_WITH(ledbat, set_state, u8)
NW_NO_HOOK_WITH(ledbat, cwnd_event, u32)
NW_NO_ACK_HOOK(ledbat)

/* A round trip, which a wrapper may have changed; 0 is none. */
static inline void nw_ledbat_sample(struct nw_ledbat *ca,
				    const struct nw_facts *f, u32 rtt_us)
{
	nw_delays_sample(&ca->delays, f, rtt_us);
}

static inline void nw_ledbat_pkts_acked(struct nw_ledbat *ca,
					const struct nw_ledbat_params *p,
					const struct nw_facts *f,
					struct nw_decision *d)
{
	(void)p;
	(void)d;
	nw_ledbat_sample(ca, f, f->rtt_us);
}

/* GAIN off_target acked / cwnd, its size, in NW_SEGMENT units. */
static inline u64 nw_ledbat_step(const struct nw_ledbat_params *p, u32 off_us,
				 u32 acked, u32 cwnd)
{
	u32 target = nw_max(p->target_us, 1);
	u64 off = ((u64)off_us << NW_FRACTION) / target;

	/* 24 bits, 32 and 10 */
	off = nw_min64(off, NW_LEDBAT_STEEPEST << NW_FRACTION);
	return ((off * nw_min(acked, 1U << 20) * p->gain) / NW_LEDBAT_GAIN_ONE) /
	       nw_max(cwnd, 1);
}

static inline void nw_ledbat_cong_avoid(struct nw_ledbat *ca,
					const struct nw_ledbat_params *p,
					const struct nw_facts *f, u32 acked,
					struct nw_decision *d)
{
	u32 queue = nw_delays_queue(&ca->delays), cwnd = f->cwnd;
	u64 window;

	if (cwnd < f->ssthresh && f->ssthresh >= NW_INFINITE_SSTHRESH &&
	    queue > p->target_us / 4 * 3) {
		nw_set_ssthresh(d, cwnd);
		d->events |= NW_DID_SLOW_START_EXIT;
	} else if (cwnd < f->ssthresh) {
		if (!(f->flags & NW_F_CWND_LIMITED))
			return;
		acked = nw_slow_start(f, &cwnd, acked);
	}
	window = nw_fraction_of(ca->window, cwnd);
	if (queue > p->target_us) {
		u64 down = nw_ledbat_step(p, queue - p->target_us, acked, cwnd);

		window -= nw_min64(down, window);
	} else if (f->flags & NW_F_CWND_LIMITED) {
		window += nw_ledbat_step(p, p->target_us - queue, acked, cwnd);
	}
	ca->window = nw_fraction_clamp(f, window, NW_LEDBAT_MIN_CWND);
	cwnd = (u32)(ca->window >> NW_FRACTION);
	nw_delays_follow(f, cwnd, d);
	nw_set_cwnd(d, cwnd);
}

NW_NO_HOOK(ledbat, cong_control)
NW_NO_TSO_LIMIT(ledbat)
NW_NO_TIMER(ledbat)
NW_NO_NEEDS(ledbat)
NW_NO_SETTLE(ledbat)

#endif /* NW_LEDBAT_H */
