/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * DA-LBE over Vegas: the price is the queueing delay, and alpha packets wait at it,
 * so that alpha / rate is its model.
 *
 * The thesis shows Vegas longer round trips: RTT = base + queue / mu. Linux's
 * difference then is off by base / RTT, and the paper's by (base + queue / mu) / RTT.
 * Improved, Vegas sees true round trips and the paper's difference, of which each
 * packet counts 1 / mu times: as if alpha were alpha mu.
 */
#ifndef NW_MODEL_VEGAS_H
#define NW_MODEL_VEGAS_H

#include "dalbe_model.h"
#include "vegas.h"

#define nw_model_vegas_OPTIONS(P)					\
	NW_NUMBER(P, "alpha", vegas.alpha, 1, 1000,			\
		  "Vegas: packets that it keeps in the queue at mu = 1; beta is the same")
/* The thesis's, without a dead band: 16 in the queue. */
#define nw_model_vegas_DEFAULTS	{						\
	.alpha = 16,							\
	.beta = 1,							\
	.gamma = 1,							\
	.inflation = NW_Q16_ONE,					\
}

static inline u64 nw_model_vegas_measure(const struct nw_vegas *inner,
					 const struct nw_dalbe_seen *s)
{
	(void)inner;
	return nw_dalbe_delay_price(s);
}

static inline u64 nw_model_vegas_invert(const struct nw_vegas_params *q,
					const struct nw_dalbe_seen *s, u64 target)
{
	return nw_dalbe_ratio((u64)q->alpha * s->mss, target);
}

static inline u32 nw_model_vegas_weigh(const struct nw_vegas *inner,
				       const struct nw_dalbe_seen *s)
{
	(void)inner;
	return nw_dalbe_delay_weight(s);
}

static inline void nw_model_vegas_acked(struct nw_vegas *inner,
					const struct nw_vegas_params *q,
					struct nw_dalbe_seen *s,
					const struct nw_facts *f,
					struct nw_decision *d)
{
	(void)q;
	(void)d;
	nw_vegas_sample(inner, s->mode == NW_DALBE_REPRODUCTION ?
			nw_dalbe_inflated_rtt(s, f->rtt_us) : f->rtt_us);
}

static inline void nw_model_vegas_avoid(struct nw_vegas *inner,
					const struct nw_vegas_params *q,
					struct nw_dalbe_seen *s,
					const struct nw_facts *f,
					struct nw_decision *d)
{
	struct nw_vegas_params paper = *q;

	if (s->mode == NW_DALBE_REPRODUCTION) {
		nw_vegas_cong_avoid(inner, q, f, s->acked, d);
		return;
	}
	paper.difference = NW_VEGAS_OF_PAPER;
	paper.inflation = s->law.inflation;
	nw_vegas_cong_avoid(inner, &paper, f, s->acked, d);
}

enum { nw_model_vegas_IGNORES = 1, nw_model_vegas_FADES = 1 };

NW_MODEL_PLAIN_REDUCE(vegas)

#endif /* NW_MODEL_VEGAS_H */
