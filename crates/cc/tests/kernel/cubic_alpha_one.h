/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A kept mutant of CUBIC: Reno's window grows by 1 per round trip above the window
 * before the last reduction, as RFC 9438 section 4.3 has it and Linux has not.
 */
#ifndef NW_CUBIC_ALPHA_ONE_H
#define NW_CUBIC_ALPHA_ONE_H

#include "cubic.h"
#include "nest.h"

#define nw_cubic_alpha_one_MODE	NW_MODE_WINDOW

struct nw_cubic_alpha_one {
	struct nw_cubic inner;
	struct nw_facts view;
	u32 reduced_from;	/* window before the last reduction */
};

struct nw_cubic_alpha_one_params {
	struct nw_cubic_params inner;
};
#define nw_cubic_alpha_one_DEFAULTS	{ .inner = nw_cubic_DEFAULTS }
#define nw_cubic_alpha_one_OPTIONS(P)
#define nw_cubic_alpha_one_TELEMETRY(FIELD)

NW_NEST_PLAIN_VIEW(cubic_alpha_one)
NW_NEST_HOOK(cubic_alpha_one, cubic, init)
NW_NEST_RELEASE(cubic_alpha_one, cubic)
NW_NEST_QUESTION(cubic_alpha_one, cubic, undo_cwnd)
NW_NEST_HOOK_WITH(cubic_alpha_one, cubic, set_state, u8)
NW_NEST_HOOK_WITH(cubic_alpha_one, cubic, cwnd_event, u32)
NW_NEST_ACK_HOOK(cubic_alpha_one, cubic)
NW_NEST_HOOK(cubic_alpha_one, cubic, pkts_acked)
NW_NEST_HOOK(cubic_alpha_one, cubic, cong_control)
NW_NEST_TSO_LIMIT(cubic_alpha_one, cubic)
NW_NEST_TIMER(cubic_alpha_one, cubic)
NW_NEST_NEEDS(cubic_alpha_one, cubic)
NW_NO_SETTLE(cubic_alpha_one)

static inline u32 nw_cubic_alpha_one_ssthresh(struct nw_cubic_alpha_one *ca,
				const struct nw_cubic_alpha_one_params *p,
				const struct nw_facts *f)
{
	ca->reduced_from = f->cwnd;
	return nw_cubic_ssthresh(&ca->inner, &p->inner, f);
}

static inline void nw_cubic_alpha_one_cong_avoid(struct nw_cubic_alpha_one *ca,
				const struct nw_cubic_alpha_one_params *p,
				const struct nw_facts *f, u32 acked,
				struct nw_decision *d)
{
	struct nw_cubic_params edited = p->inner;

	if (ca->inner.reno_cwnd >= ca->reduced_from)
		edited.beta_scale = 8;
	nw_cubic_cong_avoid(&ca->inner, &edited, f, acked, d);
}

#endif /* NW_CUBIC_ALPHA_ONE_H */
