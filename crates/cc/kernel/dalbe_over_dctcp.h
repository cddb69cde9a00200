/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * DA-LBE over DCTCP: the price is the share of packets that are marked, of which the
 * window is 2 / p where marks are spread (Alizadeh and others, "Analysis of DCTCP",
 * SIGMETRICS 2011). DCTCP reacts in every round trip with a mark, so that events
 * cannot be added; each takes 1 / mu times as much off the window, up to a half.
 * Its best effort is DCTCP's own: where marks are made for it, others run it too.
 */
#ifndef NW_MODEL_DCTCP_H
#define NW_MODEL_DCTCP_H

#include "dalbe_model.h"
#include "dctcp.h"

#define nw_model_dctcp_OPTIONS(P)
#define nw_model_dctcp_DEFAULTS	nw_dctcp_DEFAULTS

static inline u64 nw_model_dctcp_measure(const struct nw_dctcp *inner,
					 const struct nw_dalbe_seen *s)
{
	(void)inner;
	return nw_dalbe_ratio(s->marked, s->delivered);
}

static inline u64 nw_model_dctcp_invert(const struct nw_dctcp_params *q,
					const struct nw_dalbe_seen *s, u64 target)
{
	(void)q;
	return nw_dalbe_ratio(2U << 16, nw_max64(nw_dalbe_packets(s, target), 1));
}

static inline u32 nw_model_dctcp_weigh(const struct nw_dctcp *inner,
				       const struct nw_dalbe_seen *s)
{
	(void)inner;
	(void)s;
	return NW_Q16_ONE;
}

/* phi is 1, so that there is no price below 1. */
enum { nw_model_dctcp_IGNORES = 0, nw_model_dctcp_FADES = 0 };

NW_MODEL_PLAIN_ACKED(dctcp)

static inline void nw_model_dctcp_avoid(struct nw_dctcp *inner,
					const struct nw_dctcp_params *q,
					struct nw_dalbe_seen *s,
					const struct nw_facts *f,
					struct nw_decision *d)
{
	nw_dctcp_cong_avoid(inner, q, f, s->acked, d);
}

static inline u32 nw_model_dctcp_reduce(struct nw_dctcp *inner,
					const struct nw_dctcp_params *q,
					struct nw_dalbe_seen *s,
					const struct nw_facts *f)
{
	u32 alpha = inner->alpha, answer;

	inner->alpha = nw_min(nw_q16_mul(alpha, s->law.inflation), NW_DCTCP_ONE);
	answer = nw_dctcp_ssthresh(inner, q, f);
	inner->alpha = alpha;
	return answer;
}

#endif /* NW_MODEL_DCTCP_H */
