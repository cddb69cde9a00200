/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * DA-LBE over LEDBAT: the price is the queueing delay. LEDBAT has one target whatever
 * its rate, so that its model is that target: a price above mu times it shrinks the
 * window, one below grows it, and the rate is found by the error alone.
 */
#ifndef NW_MODEL_LEDBAT_H
#define NW_MODEL_LEDBAT_H

#include "dalbe_model.h"
#include "ledbat.h"

#define nw_model_ledbat_OPTIONS(P)					\
	NW_TIME(P, "ledbat_target", ledbat.target_us, 1000, 10000000,	\
		"LEDBAT: queueing delay that it holds at mu = 1")
/* LEDBAT's own 100 ms is no price in a queue that is shorter than that. */
#define nw_model_ledbat_DEFAULTS {					\
	.target_us = 60000,						\
	.gain = NW_LEDBAT_GAIN_ONE,					\
}

static inline u64 nw_model_ledbat_measure(const struct nw_ledbat *inner,
					  const struct nw_dalbe_seen *s)
{
	(void)inner;
	return nw_dalbe_delay_price(s);
}

static inline u64 nw_model_ledbat_invert(const struct nw_ledbat_params *q,
					 const struct nw_dalbe_seen *s, u64 target)
{
	(void)s;
	(void)target;
	return nw_dalbe_ratio(q->target_us, 1000000);
}

static inline u32 nw_model_ledbat_weigh(const struct nw_ledbat *inner,
					const struct nw_dalbe_seen *s)
{
	(void)inner;
	return nw_dalbe_delay_weight(s);
}

static inline void nw_model_ledbat_acked(struct nw_ledbat *inner,
					 const struct nw_ledbat_params *q,
					 struct nw_dalbe_seen *s,
					 const struct nw_facts *f,
					 struct nw_decision *d)
{
	(void)q;
	(void)d;
	nw_ledbat_sample(inner, f, nw_dalbe_inflated_rtt(s, f->rtt_us));
}

static inline void nw_model_ledbat_avoid(struct nw_ledbat *inner,
					 const struct nw_ledbat_params *q,
					 struct nw_dalbe_seen *s,
					 const struct nw_facts *f,
					 struct nw_decision *d)
{
	nw_ledbat_cong_avoid(inner, q, f, s->acked, d);
}

enum { nw_model_ledbat_IGNORES = 1, nw_model_ledbat_FADES = 1 };

NW_MODEL_PLAIN_REDUCE(ledbat)

#endif /* NW_MODEL_LEDBAT_H */
