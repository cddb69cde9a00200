/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Vegas: keeps between alpha and beta segments of its own in the queue, as the
 * least RTT of each round trip tells. Brakmo and Peterson, "TCP Vegas: End to End
 * Congestion Avoidance on a Global Internet", IEEE JSAC 13(8), 1995, with the
 * behaviour of Linux net/ipv4/tcp_vegas.c, v6.17.
 *
 * The two differ in what is compared with the thresholds. The paper's difference of
 * expected and actual rate, over a base RTT, is cwnd (rtt - base) / rtt: what is
 * queued. Linux divides by base since v2.6.28, which is more by rtt / base, so that
 * the same thresholds leave less in the queue. `difference` chooses.
 *
 * Deviations: products have 64 bits where Linux's wrap at 32; thresholds are of each
 * connection, not of the module; a beta below alpha counts as alpha.
 */
#ifndef NW_VEGAS_H
#define NW_VEGAS_H

#include "fixed.h"
#include "reno.h"

#define nw_vegas_MODE	NW_MODE_WINDOW

#define NW_VEGAS_MIN_CWND	2U		/* segments */
#define NW_VEGAS_FEW		2U		/* RTT samples: so few tell nothing */
#define NW_VEGAS_NO_RTT		0x7fffffffU	/* us */

enum nw_vegas_difference {
	NW_VEGAS_OF_LINUX = 0,
	NW_VEGAS_OF_PAPER = 1,
};

struct nw_vegas {
	u32 base_us;		/* least RTT since the connection, or idle time, began */
	u32 least_us;		/* least RTT of this round trip */
	u32 samples;		/* RTTs in this round trip */
	u32 round_end;		/* it ends when more than this is acknowledged */
	u32 queued;		/* segments, at the last decision; NW_NONE before */
	u32 estimates;		/* 0 outside Open: Reno's growth */
};

struct nw_vegas_params {
	u32 alpha;		/* segments */
	u32 beta;
	u32 gamma;
	u32 difference;		/* enum nw_vegas_difference */
	u32 inflation;		/* what is queued counts so many times, Q16.16: of
				 * a control that wraps this one
				 */
};

/* Linux's; the paper has 1, 3 and 1 or 2, 4 and 1. */
#define nw_vegas_DEFAULTS {						\
	.alpha = 2,							\
	.beta = 4,							\
	.gamma = 1,							\
	.inflation = NW_Q16_ONE,					\
}
#define nw_vegas_OPTIONS(P)						\
	NW_NUMBER(P, "alpha", alpha, 1, 1000000,			\
		  "segments in the queue below which the window grows")	\
	NW_NUMBER(P, "beta", beta, 1, 1000000,				\
		  "segments in the queue above which it shrinks; at least alpha") \
	NW_NUMBER(P, "gamma", gamma, 0, 1000000,			\
		  "segments in the queue at which slow start ends")	\
	NW_CHOICE(P, "difference", difference, "linux paper",		\
		  "how what is queued is computed")
#define nw_vegas_TELEMETRY(FIELD)					\
	FIELD("queued", "packets", 1,					\
	      ca->queued == NW_NONE ? NW_UNKNOWN : (s64)ca->queued,	\
	      "the flow's own segments in the queue, as Vegas estimates them")

static inline void nw_vegas_new_round(struct nw_vegas *ca, u32 round_end)
{
	ca->round_end = round_end;
	ca->samples = 0;
	ca->least_us = NW_VEGAS_NO_RTT;
}

static inline void nw_vegas_restart(struct nw_vegas *ca, const struct nw_facts *f)
{
	ca->base_us = NW_VEGAS_NO_RTT;
	ca->estimates = 1;
	nw_vegas_new_round(ca, f->snd_nxt);
}

static inline void nw_vegas_init(struct nw_vegas *ca,
				 const struct nw_vegas_params *p,
				 const struct nw_facts *f,
				 struct nw_decision *d)
{
	(void)p;
	(void)d;
	ca->queued = NW_NONE;
	nw_vegas_restart(ca, f);
}

static inline void nw_vegas_release(struct nw_vegas *ca)
{
	(void)ca;
}

static inline u32 nw_vegas_ssthresh(struct nw_vegas *ca,
				    const struct nw_vegas_params *p,
				    const struct nw_facts *f)
{
	(void)ca;
	(void)p;
	return nw_max(f->cwnd >> 1, NW_RENO_SSTHRESH_MIN);
}

static inline u32 nw_vegas_undo_cwnd(struct nw_vegas *ca,
				     const struct nw_vegas_params *p,
				     const struct nw_facts *f)
{
	(void)ca;
	(void)p;
	return nw_max(nw_max(f->cwnd, f->prior_cwnd), 1);
}

static inline void nw_vegas_set_state(struct nw_vegas *ca,
				      const struct nw_vegas_params *p,
				      const struct nw_facts *f, u8 new_state,
				      struct nw_decision *d)
{
	(void)p;
	(void)d;
	ca->estimates = new_state == NW_CA_OPEN;
	if (ca->estimates)
		nw_vegas_new_round(ca, f->snd_nxt);
}

/* After idle time the path may be another one. */
static inline void nw_vegas_cwnd_event(struct nw_vegas *ca,
				       const struct nw_vegas_params *p,
				       const struct nw_facts *f, u32 event,
				       struct nw_decision *d)
{
	(void)p;
	(void)d;
	if (event == NW_EV_CWND_RESTART || event == NW_EV_TX_START)
		nw_vegas_restart(ca, f);
}

NW_NO_ACK_HOOK(vegas)

/* An RTT, which a wrapper may have changed; 0 is none. */
static inline void nw_vegas_sample(struct nw_vegas *ca, u32 rtt_us)
{
	if (!rtt_us || rtt_us >= NW_VEGAS_NO_RTT)
		return;
	rtt_us++;		/* as Linux's, which may be 0 before */
	ca->base_us = nw_min(ca->base_us, rtt_us);
	ca->least_us = nw_min(ca->least_us, rtt_us);
	ca->samples++;
}

static inline void nw_vegas_pkts_acked(struct nw_vegas *ca,
				       const struct nw_vegas_params *p,
				       const struct nw_facts *f,
				       struct nw_decision *d)
{
	(void)p;
	(void)d;
	nw_vegas_sample(ca, f->rtt_us);
}

/* A round trip with enough samples is over: one segment up or down, or none. */
static inline void nw_vegas_adjust(struct nw_vegas *ca,
				   const struct nw_vegas_params *p,
				   const struct nw_facts *f, u32 acked,
				   struct nw_decision *d)
{
	/* neither is 0, and base is the least */
	u32 rtt = nw_max(ca->least_us, 1), base = nw_max(ca->base_us, 1);
	u32 by = p->difference == NW_VEGAS_OF_PAPER ? rtt : base;
	u64 late = rtt > base ? rtt - base : 0;
	u64 fits = (u64)f->cwnd * base / rtt;	/* the actual rate at the base RTT */
	u32 cwnd = f->cwnd, ssthresh = f->ssthresh;

	ca->queued = (u32)nw_min64(cwnd * late / by, NW_NONE - 1);
	if (p->inflation != NW_Q16_ONE)
		ca->queued = nw_q16_mul(nw_q16_ratio(cwnd * late, by),
					p->inflation) >> NW_Q16;
	if (cwnd < ssthresh && ca->queued > p->gamma) {
		/* one more, as the quotient is truncated */
		cwnd = (u32)nw_min64(cwnd, fits + 1);
		ssthresh = nw_min(ssthresh, cwnd);
		d->events |= NW_DID_SLOW_START_EXIT;
	} else if (cwnd < ssthresh) {
		nw_slow_start(f, &cwnd, acked);
	} else if (ca->queued > nw_max(p->alpha, p->beta)) {
		cwnd--;
		ssthresh = nw_min(ssthresh, cwnd);
	} else if (ca->queued < p->alpha) {
		cwnd = nw_add_sat(cwnd, 1);
	}
	cwnd = nw_clamp_cwnd(f, nw_max(cwnd, NW_VEGAS_MIN_CWND));
	nw_set_cwnd(d, cwnd);
	/* tcp_current_ssthresh(): no lower than three quarters of the window */
	nw_set_ssthresh(d, nw_max(ssthresh, (cwnd >> 1) + (cwnd >> 2)));
}

static inline void nw_vegas_cong_avoid(struct nw_vegas *ca,
				       const struct nw_vegas_params *p,
				       const struct nw_facts *f, u32 acked,
				       struct nw_decision *d)
{
	const struct nw_reno_params reno = nw_reno_DEFAULTS;

	if (!ca->estimates) {
		nw_reno_cong_avoid(0, &reno, f, acked, d);
		return;
	}
	if (nw_before(ca->round_end, f->snd_una)) {
		if (ca->samples <= NW_VEGAS_FEW)
			nw_reno_cong_avoid(0, &reno, f, acked, d);
		else
			nw_vegas_adjust(ca, p, f, acked, d);
		nw_vegas_new_round(ca, f->snd_nxt);
	} else if (f->cwnd < f->ssthresh) {
		u32 cwnd = f->cwnd;

		nw_slow_start(f, &cwnd, acked);
		nw_set_cwnd(d, cwnd);
	}
}

NW_NO_HOOK(vegas, cong_control)
NW_NO_TSO_LIMIT(vegas)
NW_NO_TIMER(vegas)
NW_NO_NEEDS(vegas)
NW_NO_SETTLE(vegas)

#endif /* NW_VEGAS_H */
