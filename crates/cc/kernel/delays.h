/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Base and current delay as RFC 6817 section 2.4.2 keeps them: the least of each of
 * the last minutes, and the least of the last samples. Part of the state of LEDBAT
 * and LEDBAT++.
 *
 * The delay is that of the round trip, as in LEDBAT++: a control of a kernel sees
 * no timestamp of the other end, and those of TCP count milliseconds.
 */
#ifndef NW_DELAYS_H
#define NW_DELAYS_H

#include "nw_cc.h"

#define NW_DELAYS_BASES		10	/* minutes: RFC 6817's BASE_HISTORY */
#define NW_DELAYS_CURRENT	4	/* samples: its CURRENT_FILTER, 1 at least */
#define NW_DELAYS_NONE		(~0U)
#define NW_DELAYS_MINUTE_NS	60000000000ULL

struct nw_delays {
	u32 base_us[NW_DELAYS_BASES];		/* the latest first */
	u32 current_us[NW_DELAYS_CURRENT];
	u32 minute;
};

static inline void nw_delays_init(struct nw_delays *h, const struct nw_facts *f)
{
	int i;

	for (i = 0; i < NW_DELAYS_BASES; i++)
		h->base_us[i] = NW_DELAYS_NONE;
	for (i = 0; i < NW_DELAYS_CURRENT; i++)
		h->current_us[i] = NW_DELAYS_NONE;
	h->minute = (u32)(f->now_ns / NW_DELAYS_MINUTE_NS);
}

/* A sample of `delay_us`; 0 is none. */
static inline void nw_delays_sample(struct nw_delays *h,
				    const struct nw_facts *f, u32 delay_us)
{
	u32 minute = (u32)(f->now_ns / NW_DELAYS_MINUTE_NS);
	int i;

	if (!delay_us)
		return;
	for (i = NW_DELAYS_CURRENT - 1; i > 0; i--)
		h->current_us[i] = h->current_us[i - 1];
	h->current_us[0] = delay_us;
	if (minute != h->minute) {
		for (i = NW_DELAYS_BASES - 1; i > 0; i--)
			h->base_us[i] = h->base_us[i - 1];
		h->base_us[0] = NW_DELAYS_NONE;
		h->minute = minute;
	}
	h->base_us[0] = nw_min(h->base_us[0], delay_us);
}

/* us; NW_DELAYS_NONE before the first sample */
static inline u32 nw_delays_base(const struct nw_delays *h)
{
	u32 least = NW_DELAYS_NONE;
	int i;

	for (i = 0; i < NW_DELAYS_BASES; i++)
		least = nw_min(least, h->base_us[i]);
	return least;
}

/* Delay beyond the base, us; 0 before the first sample. */
static inline u32 nw_delays_queue(const struct nw_delays *h)
{
	u32 base = nw_delays_base(h), least = NW_DELAYS_NONE;
	int i;

	for (i = 0; i < NW_DELAYS_CURRENT; i++)
		least = nw_min(least, h->current_us[i]);
	return least > base && least != NW_DELAYS_NONE ? least - base : 0;
}

/* What an algorithm with such delays reports of them. */
#define NW_DELAYS_TELEMETRY(FIELD, DELAYS)				\
	FIELD("base_delay", "ms", 1000,					\
	      nw_delays_base(DELAYS) == NW_DELAYS_NONE ? NW_UNKNOWN :	\
	      (s64)nw_delays_base(DELAYS),				\
	      "least round trip of the last ten minutes")		\
	FIELD("queue_delay", "ms", 1000,				\
	      nw_delays_base(DELAYS) == NW_DELAYS_NONE ? NW_UNKNOWN :	\
	      (s64)nw_delays_queue(DELAYS),				\
	      "delay beyond that, as the sender estimates it")

/*
 * A window of segments with a fraction of NW_FRACTION bits, of which the socket has
 * the whole ones. What the stack has made of those meanwhile takes its place.
 */
#define NW_FRACTION	20U
#define NW_SEGMENT	(1ULL << NW_FRACTION)

static inline u64 nw_fraction_of(u64 window, u32 cwnd)
{
	return (u32)(window >> NW_FRACTION) == cwnd ? window :
	       (u64)cwnd << NW_FRACTION;
}

/* Within [least, clamp] segments. */
static inline u64 nw_fraction_clamp(const struct nw_facts *f, u64 window, u32 least)
{
	u64 most = (u64)(f->cwnd_clamp ? f->cwnd_clamp : NW_NONE) << NW_FRACTION;

	return nw_max64(nw_min64(window, most), (u64)nw_min(least, f->cwnd_clamp ?
			f->cwnd_clamp : least) << NW_FRACTION);
}

/*
 * The delay has changed the window to `cwnd`. Where that is less than before, ssthresh
 * comes down with it, as that of Vegas does: slow start would take back at once what
 * the delay had asked for. It is for a window that a timeout or a slowdown took away.
 */
static inline void nw_delays_follow(const struct nw_facts *f, u32 cwnd,
				    struct nw_decision *d)
{
	if (cwnd < f->cwnd && cwnd < f->ssthresh)
		nw_set_ssthresh(d, cwnd);
}

#endif /* NW_DELAYS_H */
