/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * CUBIC: the window follows C (t - K)^3 + W_max after a reduction, or Reno's
 * if that is larger. Behaviour and constants are those of Linux
 * net/ipv4/tcp_cubic.c, v6.17, HyStart included, which differs from RFC 9438 in
 * that Reno's additive increase stays at 3 (1 - beta) / (1 + beta) where the
 * RFC (section 4.3) goes to 1 once the former window is reached. HyStart++
 * (RFC 9406) may take HyStart's place.
 *
 * Deviations: the clock ticks in milliseconds (Linux: jiffies, so HZ = 1000);
 * the cube root is exact (Linux: 0.2 % mean error); times from the plateau are
 * held at 256 s, where Linux's product would wrap.
 */
#ifndef NW_CUBIC_H
#define NW_CUBIC_H

#include "fixed.h"
#include "hystart.h"

#define nw_cubic_MODE	NW_MODE_WINDOW

#define NW_CUBIC_SCALE		1024U	/* of beta and C */
#define NW_CUBIC_TICK		10U	/* K and t in 2^-10 s */
#define NW_CUBIC_OFFSET_MAX	(1U << 18)	/* 256 s */
#define NW_CUBIC_MIN_CWND	2U	/* segments */
#define NW_CUBIC_REFRESH_MS	31U	/* recompute the slope at least so often, HZ / 32 */
#define NW_CUBIC_SETTLE_MS	1000U	/* no RTT samples so long after a reduction */
#define NW_CUBIC_BLIND_CNT	20U	/* growth of 5 % per RTT while W_max is unknown */
#define NW_CUBIC_FASTEST_CNT	2U	/* one segment per two acked at most */

struct nw_cubic_params {
	struct nw_hystart_params hystart;
	u32 fast_convergence;	/* 0 or 1 */
	u32 tcp_friendliness;	/* 0 or 1 */
	u32 beta;		/* of 1024 */
	u32 bic_scale;
	u32 initial_ssthresh;	/* 0 = leave; only without HyStart, as in Linux */
	u32 c;			/* 1024 C: bic_scale x 10 */
	u32 beta_scale;		/* 8 (1024 + beta) / 3 / (1024 - beta) */
	u64 cube_factor;	/* 2^40 / c: from segments to K^3 */
};

/* Linux's defaults: C 410/1024, beta 717/1024. */
#define nw_cubic_DEFAULTS {						\
	.hystart = NW_HYSTART_DEFAULTS,					\
	.fast_convergence = 1,						\
	.tcp_friendliness = 1,						\
	.beta = 717,							\
	.bic_scale = 41,						\
	.c = 410,							\
	.beta_scale = 8 * (1024 + 717) / 3 / (1024 - 717),		\
	.cube_factor = (1ULL << 40) / 410,				\
}

/* Those of Linux's module, and hystart++. Above a bic_scale of 102 the cube of the
 * longest time would not fit 64 bits.
 */
#define nw_cubic_OPTIONS(P)						\
	NW_CHOICE(P, "hystart", hystart.detect, "off train delay both",	\
		  "what ends slow start before a loss")			\
	NW_FLAG(P, "hystart++", hystart.detect, NW_HYSTART_PLUSPLUS,	\
		"RFC 9406 in HyStart's place")				\
	NW_CHOICE(P, "fast_convergence", fast_convergence, "off on",	\
		  "whether a flow below its former maximum makes room")	\
	NW_CHOICE(P, "tcp_friendliness", tcp_friendliness, "off on",	\
		  "whether the window is at least Reno's")		\
	NW_NUMBER(P, "beta", beta, 1, 1023,				\
		  "the share of the window that a reduction keeps, of 1024") \
	NW_NUMBER(P, "bic_scale", bic_scale, 1, 102, "C is 10/1024 of it") \
	NW_NUMBER(P, "hystart_low_window", hystart.low_window, 0, NW_NONE, \
		  "segments below which HyStart waits")			\
	NW_NUMBER(P, "initial_ssthresh", initial_ssthresh, 0, NW_NONE,	\
		  "segments; 0 leaves it, and it is not used with HyStart")

#define nw_cubic_TELEMETRY(FIELD)

static inline const char *nw_cubic_settle(struct nw_cubic_params *p)
{
	p->c = 10 * p->bic_scale;
	p->beta_scale = 8 * (NW_CUBIC_SCALE + p->beta) / 3 /
			(NW_CUBIC_SCALE - p->beta);
	p->cube_factor = (1ULL << 40) / p->c;
	return 0;
}

struct nw_cubic {
	u32 cnt;		/* segments acked per segment of growth */
	u32 last_max;		/* W_max */
	u32 last_cwnd;		/* at the last computation of cnt */
	u32 last_ms;
	u32 origin;		/* height of the plateau */
	u32 k;			/* its time after epoch_ms, 2^-10 s */
	u32 epoch_ms;		/* valid if in_epoch */
	u32 acked;		/* segments not yet counted in reno_cwnd */
	u32 reno_cwnd;		/* window that Reno would have */
	u32 in_epoch;
	struct nw_hystart hystart;
};

static inline u32 nw_cubic_now_ms(const struct nw_facts *f)
{
	return (u32)(f->now_ns / 1000000);
}

static inline void nw_cubic_reset(struct nw_cubic *ca)
{
	ca->cnt = 0;
	ca->last_max = 0;
	ca->last_cwnd = 0;
	ca->last_ms = 0;
	ca->origin = 0;
	ca->k = 0;
	ca->epoch_ms = 0;
	ca->acked = 0;
	ca->reno_cwnd = 0;
	ca->in_epoch = 0;
}

/* The first window after a reduction sets the curve: W_max ahead is the plateau
 * at time K; a window already beyond it is a plateau at time 0.
 */
static inline void nw_cubic_begin_epoch(struct nw_cubic *ca,
					const struct nw_cubic_params *p,
					u32 now_ms, u32 cwnd, u32 acked)
{
	ca->in_epoch = 1;
	ca->epoch_ms = now_ms;
	ca->acked = acked;
	ca->reno_cwnd = cwnd;
	if (ca->last_max > cwnd) {
		ca->k = nw_cube_root(nw_mul_sat(p->cube_factor,
						 ca->last_max - cwnd));
		ca->origin = ca->last_max;
	} else {
		ca->k = 0;
		ca->origin = cwnd;
	}
}

/* Where the curve is one round trip from now, segments. */
static inline u32 nw_cubic_target(const struct nw_cubic *ca,
				  const struct nw_cubic_params *p, u32 now_ms)
{
	/* usecs_to_jiffies() rounds up */
	u64 ms = (u64)(now_ms - ca->epoch_ms) +
		 ((u64)ca->hystart.rtt_min_us + 999) / 1000;
	u64 t = (ms << NW_CUBIC_TICK) / 1000;
	u64 away = t < ca->k ? ca->k - t : t - ca->k;
	u64 height;

	away = nw_min64(away, NW_CUBIC_OFFSET_MAX);
	height = (p->c * away * away * away) >> (10 + 3 * NW_CUBIC_TICK);
	if (t >= ca->k)
		return (u32)nw_min64(ca->origin + height, ~0U);
	return height < ca->origin ? ca->origin - (u32)height : 0;
}

/* Reno with CUBIC's beta gains as much between reductions as Reno with 1/2 if
 * it adds 3 (1 - beta) / (1 + beta) per window: one per beta_scale / 8 windows.
 */
static inline void nw_cubic_friendly(struct nw_cubic *ca,
				     const struct nw_cubic_params *p, u32 cwnd)
{
	u64 per_segment = ((u64)cwnd * p->beta_scale) >> 3;
	u32 per;

	per = (u32)nw_min64(nw_max64(per_segment, 1), ~0U);
	if (ca->acked > per) {
		/* as many whole `per` as leave something over */
		u32 steps = (ca->acked - 1) / per;

		ca->acked -= steps * per;
		ca->reno_cwnd = nw_add_sat(ca->reno_cwnd, steps);
	}
	if (ca->reno_cwnd > cwnd) {
		u32 behind = ca->reno_cwnd - cwnd;

		ca->cnt = nw_min(ca->cnt, cwnd / behind);
	}
}

/* How many segments are to be acked for one more in the window. */
static inline void nw_cubic_update(struct nw_cubic *ca,
				   const struct nw_cubic_params *p,
				   const struct nw_facts *f, u32 cwnd, u32 acked)
{
	u32 now_ms = nw_cubic_now_ms(f);

	ca->acked = nw_add_sat(ca->acked, acked);
	/* Signed in Linux: a last_ms that lies ahead counts as recent. */
	if (ca->last_cwnd == cwnd &&
	    (now_ms - ca->last_ms <= NW_CUBIC_REFRESH_MS ||
	     nw_before(now_ms, ca->last_ms)))
		return;

	/* The curve is evaluated once per tick, Reno's window on every ACK. */
	if (!ca->in_epoch || now_ms != ca->last_ms) {
		u32 target;

		ca->last_cwnd = cwnd;
		ca->last_ms = now_ms;
		if (!ca->in_epoch)
			nw_cubic_begin_epoch(ca, p, now_ms, cwnd, acked);
		target = nw_cubic_target(ca, p, now_ms);
		if (target > cwnd)
			ca->cnt = cwnd / (target - cwnd);
		else
			ca->cnt = (u32)nw_min64(100ULL * cwnd, ~0U);
		if (!ca->last_max)
			ca->cnt = nw_min(ca->cnt, NW_CUBIC_BLIND_CNT);
	}
	if (p->tcp_friendliness)
		nw_cubic_friendly(ca, p, cwnd);
	ca->cnt = nw_max(ca->cnt, NW_CUBIC_FASTEST_CNT);
}

static inline void nw_cubic_init(struct nw_cubic *ca,
				 const struct nw_cubic_params *p,
				 const struct nw_facts *f,
				 struct nw_decision *d)
{
	nw_cubic_reset(ca);
	nw_hystart_init(&ca->hystart, f);
	if (!p->hystart.detect && p->initial_ssthresh)
		nw_set_ssthresh(d, p->initial_ssthresh);
}

static inline void nw_cubic_release(struct nw_cubic *ca)
{
	(void)ca;
}

static inline u32 nw_cubic_ssthresh(struct nw_cubic *ca,
				    const struct nw_cubic_params *p,
				    const struct nw_facts *f)
{
	u64 cwnd = f->cwnd;

	ca->in_epoch = 0;
	nw_hystart_reduced(&ca->hystart, &p->hystart);
	/* A flow that did not reach its former W_max makes room. */
	if (f->cwnd < ca->last_max && p->fast_convergence)
		ca->last_max = (u32)(cwnd * (NW_CUBIC_SCALE + p->beta) /
				     (2 * NW_CUBIC_SCALE));
	else
		ca->last_max = f->cwnd;
	/* Truncation and floor decide the rate of windows of a few segments. */
	return nw_max((u32)(cwnd * p->beta / NW_CUBIC_SCALE), NW_CUBIC_MIN_CWND);
}

static inline u32 nw_cubic_undo_cwnd(struct nw_cubic *ca,
				     const struct nw_cubic_params *p,
				     const struct nw_facts *f)
{
	(void)ca;
	(void)p;
	return nw_max(nw_max(f->cwnd, f->prior_cwnd), 1);
}

static inline void nw_cubic_set_state(struct nw_cubic *ca,
				      const struct nw_cubic_params *p,
				      const struct nw_facts *f, u8 new_state,
				      struct nw_decision *d)
{
	(void)d;
	if (new_state != NW_CA_LOSS)
		return;
	nw_cubic_reset(ca);
	nw_hystart_init(&ca->hystart, f);
	nw_hystart_reduced(&ca->hystart, &p->hystart);
}

/* Idle time is no time on the curve. */
static inline void nw_cubic_cwnd_event(struct nw_cubic *ca,
				       const struct nw_cubic_params *p,
				       const struct nw_facts *f, u32 event,
				       struct nw_decision *d)
{
	u32 now_ms = nw_cubic_now_ms(f);
	u32 idle_ms;

	(void)p;
	(void)d;
	if (event != NW_EV_TX_START || !ca->in_epoch || !f->last_sent_ns)
		return;
	idle_ms = now_ms - (u32)(f->last_sent_ns / 1000000);
	if (!idle_ms || idle_ms >> 31)
		return;
	ca->epoch_ms += idle_ms;
	if (nw_before(now_ms, ca->epoch_ms))
		ca->epoch_ms = now_ms;
}

NW_NO_ACK_HOOK(cubic)

static inline void nw_cubic_pkts_acked(struct nw_cubic *ca,
				       const struct nw_cubic_params *p,
				       const struct nw_facts *f,
				       struct nw_decision *d)
{
	if (!f->rtt_us)
		return;
	/* The queue that the reduction drains would still count. */
	if (ca->in_epoch && nw_cubic_now_ms(f) - ca->epoch_ms < NW_CUBIC_SETTLE_MS)
		return;
	nw_hystart_sample(&ca->hystart, &p->hystart, f, d);
}

static inline void nw_cubic_cong_avoid(struct nw_cubic *ca,
				       const struct nw_cubic_params *p,
				       const struct nw_facts *f, u32 acked,
				       struct nw_decision *d)
{
	u32 cwnd = f->cwnd;
	u32 cnt = f->cwnd_cnt;

	if (!(f->flags & NW_F_CWND_LIMITED))
		return;
	if (cwnd < f->ssthresh) {
		acked = nw_hystart_share(&ca->hystart, &p->hystart, f, acked);
		acked = nw_slow_start(f, &cwnd, acked);
	}
	if (acked) {
		nw_cubic_update(ca, p, f, cwnd, acked);
		nw_cong_avoid_ai(f, &cwnd, &cnt, ca->cnt, acked);
	}
	nw_set_cwnd(d, cwnd);
	nw_set_cwnd_cnt(d, cnt);
}

NW_NO_HOOK(cubic, cong_control)
NW_NO_TSO_LIMIT(cubic)
NW_NO_TIMER(cubic)
NW_NO_NEEDS(cubic)

#endif /* NW_CUBIC_H */
