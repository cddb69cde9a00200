/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/* A kept mutant of Prague: it reduces at the end of a marked round, not in CWR. */
#ifndef NW_PRAGUE_ROUNDS_H
#define NW_PRAGUE_ROUNDS_H

#include "nest.h"
#include "prague.h"

#define nw_prague_rounds_MODE	NW_MODE_RATE

struct nw_prague_rounds {
	struct nw_prague inner;
	struct nw_facts view;
};

struct nw_prague_rounds_params {
	struct nw_prague_params inner;
};
#define nw_prague_rounds_DEFAULTS	{ .inner = nw_prague_DEFAULTS }
#define nw_prague_rounds_OPTIONS(P)					\
	NW_VARIANT(P, "variant", inner.variant, "2020 2022 2024", "Prague's")
#define nw_prague_rounds_TELEMETRY(FIELD)

NW_NEST_PLAIN_VIEW(prague_rounds)
NW_NEST_HOOK(prague_rounds, prague, init)
NW_NEST_RELEASE(prague_rounds, prague)
NW_NEST_QUESTION(prague_rounds, prague, ssthresh)
NW_NEST_QUESTION(prague_rounds, prague, undo_cwnd)
NW_NEST_HOOK_WITH(prague_rounds, prague, cwnd_event, u32)
NW_NEST_ACK_HOOK(prague_rounds, prague)
NW_NEST_HOOK(prague_rounds, prague, pkts_acked)
NW_NEST_HOOK_WITH(prague_rounds, prague, cong_avoid, u32)
NW_NEST_TSO_LIMIT(prague_rounds, prague)
NW_NEST_TIMER(prague_rounds, prague)
NW_NEST_NEEDS(prague_rounds, prague)
NW_NEST_SETTLE(prague_rounds, prague)

static inline void nw_prague_rounds_set_state(struct nw_prague_rounds *ca,
				const struct nw_prague_rounds_params *p,
				const struct nw_facts *f, u8 new_state,
				struct nw_decision *d)
{
	if (new_state != NW_CA_CWR)
		nw_prague_set_state(&ca->inner, &p->inner, f, new_state, d);
}

static inline void nw_prague_rounds_cong_control(struct nw_prague_rounds *ca,
				const struct nw_prague_rounds_params *p,
				const struct nw_facts *f, struct nw_decision *d)
{
	u32 round_began = ca->inner.old_delivered_ce;

	nw_prague_cong_control(&ca->inner, &p->inner, f, d);
	/* alpha was updated: a round has ended */
	if (ca->inner.alpha_stamp_ns == f->now_ns && ca->inner.saw_ce &&
	    f->delivered_ce != round_began)
		nw_prague_reduce(&ca->inner, &p->inner, f, d->cwnd, d->ssthresh);
}

#endif /* NW_PRAGUE_ROUNDS_H */
