/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Leaving slow start before the loss: Linux's HyStart (net/ipv4/tcp_cubic.c,
 * v6.17; Ha and Rhee, "Taming the Elephants", 2008) and HyStart++ (RFC 9406).
 * Part of an algorithm's state; its RTT minimum serves CUBIC's clock as well.
 */
#ifndef NW_HYSTART_H
#define NW_HYSTART_H

#include "nw_cc.h"

#define NW_HYSTART_SAMPLES	8U	/* Linux; RFC 9406 N_RTT_SAMPLE */
#define NW_HYSTART_THRESH_MIN	4000U	/* us; RFC 9406 MIN_RTT_THRESH */
#define NW_HYSTART_THRESH_MAX	16000U	/* us; RFC 9406 MAX_RTT_THRESH */
#define NW_HYSTART_THRESH_SHIFT	3U	/* eighth of the RTT; MIN_RTT_DIVISOR 8 */
#define NW_HYSTART_CUSHION_MAX	1000U	/* us for aggregation in the stack */
#define NW_HYSTART_CSS_DIVISOR	4U	/* RFC 9406 CSS_GROWTH_DIVISOR */
#define NW_HYSTART_CSS_ROUNDS	5U	/* RFC 9406 CSS_ROUNDS */
#define NW_HYSTART_UNPACED_L	8U	/* RFC 9406 section 4.2, segments per ACK */

enum nw_hystart_detect {
	NW_HYSTART_TRAIN = 1,		/* Linux's hystart_detect bits */
	NW_HYSTART_DELAY = 2,
	NW_HYSTART_PLUSPLUS = 4,	/* RFC 9406 in place of both */
};

struct nw_hystart_params {
	u32 detect;		/* enum nw_hystart_detect; 0 = off */
	u32 low_window;		/* segments: Linux's HyStart waits for it */
	u32 ack_delta_us;	/* ACKs of one train are no further apart */
};

#define NW_HYSTART_DEFAULTS {						\
	.detect = NW_HYSTART_TRAIN | NW_HYSTART_DELAY,			\
	.low_window = 16,						\
	.ack_delta_us = 2000,						\
}

struct nw_hystart {
	u32 rtt_min_us;		/* since init or the last timeout; 0 = none */
	u32 round_start_us;
	u32 round_end;		/* the round ends when this is acknowledged */
	u32 last_ack_us;	/* of the train */
	u32 round_min_us;	/* least RTT of this round */
	u32 former_min_us;	/* of the round before, HyStart++ */
	u32 css_base_us;	/* HyStart++ */
	u8 samples;		/* RTTs in this round, saturating */
	u8 found;		/* slow start is over, or HyStart out of it */
	u8 css_round;		/* rounds in conservative slow start, 0 = not in it */
	u8 css_credit;		/* quarters of a segment */
};

static inline void nw_hystart_round(struct nw_hystart *hy,
				    const struct nw_facts *f)
{
	hy->round_start_us = nw_now_us(f);
	hy->last_ack_us = hy->round_start_us;
	hy->round_end = f->snd_nxt;
	hy->round_min_us = ~0U;
	hy->samples = 0;
}

static inline void nw_hystart_init(struct nw_hystart *hy,
				   const struct nw_facts *f)
{
	hy->rtt_min_us = 0;
	hy->former_min_us = ~0U;
	hy->css_base_us = ~0U;
	hy->found = 0;
	hy->css_round = 0;
	hy->css_credit = 0;
	nw_hystart_round(hy, f);
}

/* RFC 9406 section 4.2: HyStart++ is for the first slow start only. */
static inline void nw_hystart_reduced(struct nw_hystart *hy,
				      const struct nw_hystart_params *p)
{
	if (p->detect & NW_HYSTART_PLUSPLUS) {
		hy->found = 1;
		hy->css_round = 0;
	}
}

static inline u32 nw_hystart_thresh(u32 rtt_us)
{
	return nw_min(nw_max(rtt_us >> NW_HYSTART_THRESH_SHIFT,
			     NW_HYSTART_THRESH_MIN), NW_HYSTART_THRESH_MAX);
}

static inline void nw_hystart_leave(struct nw_hystart *hy,
				    const struct nw_facts *f,
				    struct nw_decision *d)
{
	hy->found = 1;
	hy->css_round = 0;
	nw_set_ssthresh(d, f->cwnd);
	d->events |= NW_DID_SLOW_START_EXIT;
}

/* Four full super-packets at the pacing rate, at most 1 ms: what segmentation
 * and its undoing may add to the length of a train.
 */
static inline u32 nw_hystart_cushion(const struct nw_facts *f)
{
	if (!f->pacing_rate)
		return 0;
	return (u32)nw_min64(NW_HYSTART_CUSHION_MAX,
			     f->gso_max_size * 4000000ULL / f->pacing_rate);
}

/* Linux's HyStart: a train of ACKs as long as the shortest RTT, or a round
 * whose shortest RTT has grown.
 */
static inline void nw_hystart_linux(struct nw_hystart *hy,
				    const struct nw_hystart_params *p,
				    const struct nw_facts *f, u32 rtt_us,
				    struct nw_decision *d)
{
	u32 now_us = nw_now_us(f);

	if (nw_before(hy->round_end, f->snd_una))
		nw_hystart_round(hy, f);
	if (f->cwnd < p->low_window)
		return;

	if ((p->detect & NW_HYSTART_TRAIN) &&
	    now_us - hy->last_ack_us <= p->ack_delta_us) {
		u64 longest = (u64)hy->rtt_min_us + nw_hystart_cushion(f);

		hy->last_ack_us = now_us;
		/* Pacing may itself have spread the round over half an RTT. */
		if (f->pacing_status == NW_PACING_NONE)
			longest >>= 1;
		if (now_us - hy->round_start_us > longest)
			nw_hystart_leave(hy, f, d);
	}

	if (p->detect & NW_HYSTART_DELAY) {
		hy->round_min_us = nw_min(hy->round_min_us, rtt_us);
		if (hy->samples < NW_HYSTART_SAMPLES)
			hy->samples++;
		else if (hy->round_min_us >
			 nw_add_sat(hy->rtt_min_us,
				    nw_hystart_thresh(hy->rtt_min_us)))
			nw_hystart_leave(hy, f, d);
	}
}

/* RFC 9406 section 4.2, per RTT sample. */
static inline void nw_hystart_plusplus(struct nw_hystart *hy,
				       const struct nw_facts *f, u32 rtt_us,
				       struct nw_decision *d)
{
	if (!nw_before(f->snd_una, hy->round_end)) {
		hy->former_min_us = hy->round_min_us;
		nw_hystart_round(hy, f);
		if (hy->css_round) {
			/* the round in which it began was the first */
			if (hy->css_round >= NW_HYSTART_CSS_ROUNDS) {
				nw_hystart_leave(hy, f, d);
				return;
			}
			hy->css_round++;
		}
	}
	hy->round_min_us = nw_min(hy->round_min_us, rtt_us);
	if (hy->samples < NW_HYSTART_SAMPLES)
		hy->samples++;
	if (hy->samples < NW_HYSTART_SAMPLES)
		return;

	if (hy->css_round) {
		if (hy->round_min_us < hy->css_base_us) {
			hy->css_base_us = ~0U;
			hy->css_round = 0;
			d->events |= NW_DID_CSS_RESUME;
		}
	} else if (hy->former_min_us != ~0U &&
		   hy->round_min_us >=
		   nw_add_sat(hy->former_min_us,
			      nw_hystart_thresh(hy->former_min_us))) {
		hy->css_base_us = hy->round_min_us;
		hy->css_round = 1;
		hy->css_credit = 0;
		d->events |= NW_DID_CSS_ENTER;
	}
}

/* An RTT sample of this ACK (f->rtt_us, not 0). */
static inline void nw_hystart_sample(struct nw_hystart *hy,
				     const struct nw_hystart_params *p,
				     const struct nw_facts *f,
				     struct nw_decision *d)
{
	u32 rtt_us = f->rtt_us;

	if (!hy->rtt_min_us || hy->rtt_min_us > rtt_us)
		hy->rtt_min_us = rtt_us;
	if (hy->found || f->cwnd >= f->ssthresh)
		return;
	if (p->detect & NW_HYSTART_PLUSPLUS)
		nw_hystart_plusplus(hy, f, rtt_us, d);
	else if (p->detect)
		nw_hystart_linux(hy, p, f, rtt_us, d);
}

/* What slow start may use of an ACK under HyStart++: L segments, a quarter of
 * them in conservative slow start.
 */
static inline u32 nw_hystart_share(struct nw_hystart *hy,
				   const struct nw_hystart_params *p,
				   const struct nw_facts *f, u32 acked)
{
	u32 credit;

	if (hy->found || !(p->detect & NW_HYSTART_PLUSPLUS))
		return acked;
	if (f->pacing_status == NW_PACING_NONE)
		acked = nw_min(acked, NW_HYSTART_UNPACED_L);
	if (!hy->css_round)
		return acked;
	credit = nw_add_sat(acked, hy->css_credit);
	hy->css_credit = (u8)(credit % NW_HYSTART_CSS_DIVISOR);
	return credit / NW_HYSTART_CSS_DIVISOR;
}

#endif /* NW_HYSTART_H */
