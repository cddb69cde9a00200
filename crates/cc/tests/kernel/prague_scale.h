/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/* A kept mutant of Prague: alpha has 24 bits and is read as one of 20. */
#ifndef NW_PRAGUE_SCALE_H
#define NW_PRAGUE_SCALE_H

#include "nest.h"
#include "prague.h"

#define nw_prague_scale_MODE	NW_MODE_RATE

struct nw_prague_scale {
	struct nw_prague inner;
	struct nw_facts view;
};

struct nw_prague_scale_params {
	struct nw_prague_params inner;
};
#define nw_prague_scale_DEFAULTS	{ .inner = nw_prague_DEFAULTS }
#define nw_prague_scale_OPTIONS(P)					\
	NW_VARIANT(P, "variant", inner.variant, "2020 2022 2024", "Prague's")
#define nw_prague_scale_TELEMETRY(FIELD)

NW_NEST_PLAIN_VIEW(prague_scale)
NW_NEST_HOOK(prague_scale, prague, init)
NW_NEST_RELEASE(prague_scale, prague)
NW_NEST_QUESTION(prague_scale, prague, ssthresh)
NW_NEST_QUESTION(prague_scale, prague, undo_cwnd)
NW_NEST_HOOK_WITH(prague_scale, prague, cwnd_event, u32)
NW_NEST_ACK_HOOK(prague_scale, prague)
NW_NEST_HOOK(prague_scale, prague, pkts_acked)
NW_NEST_HOOK_WITH(prague_scale, prague, cong_avoid, u32)
NW_NEST_HOOK(prague_scale, prague, cong_control)
NW_NEST_TSO_LIMIT(prague_scale, prague)
NW_NEST_TIMER(prague_scale, prague)
NW_NEST_NEEDS(prague_scale, prague)

static inline const char *nw_prague_scale_settle(struct nw_prague_scale_params *p)
{
	const char *allowed = nw_prague_settle(&p->inner);

	p->inner.alpha_bits = 24;
	return allowed;
}

static inline void nw_prague_scale_set_state(struct nw_prague_scale *ca,
				const struct nw_prague_scale_params *p,
				const struct nw_facts *f, u8 new_state,
				struct nw_decision *d)
{
	struct nw_prague_params edited = p->inner;

	edited.alpha_bits = 20;
	nw_prague_set_state(&ca->inner, &edited, f, new_state, d);
}

#endif /* NW_PRAGUE_SCALE_H */
