/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A control around a control. OUTER defines
 *
 *	struct nw_OUTER			with a member `inner`: NW_STATE(INNER)
 *	struct nw_OUTER_params		with a member `inner`: NW_PARAMS(INNER)
 *	void nw_OUTER_view(ca, p, f, struct nw_facts *view)
 *					edits *view, which is a copy of *f
 *
 * and, with these macros, every hook that it does not write itself: the inner
 * hook then runs on the edited facts. INNER may be a macro, so one text serves
 * as many pairs as there are inclusions of it. The state of both together has
 * to fit, or OUTER keeps it in socket storage.
 */
#ifndef NW_NEST_H
#define NW_NEST_H

#include "nw_cc.h"

#define NW_NEST_HOOK(outer, inner_name, hook)				\
static inline void NW_CALL(outer, hook)(NW_STATE(outer) *ca,		\
					const NW_PARAMS(outer) *p,	\
					const struct nw_facts *f,	\
					struct nw_decision *d)		\
{									\
	struct nw_facts view = *f;					\
									\
	NW_CALL(outer, view)(ca, p, f, &view);				\
	NW_CALL(inner_name, hook)(&ca->inner, &p->inner, &view, d);	\
}

#define NW_NEST_HOOK_WITH(outer, inner_name, hook, type)		\
static inline void NW_CALL(outer, hook)(NW_STATE(outer) *ca,		\
					const NW_PARAMS(outer) *p,	\
					const struct nw_facts *f,	\
					type what, struct nw_decision *d) \
{									\
	struct nw_facts view = *f;					\
									\
	NW_CALL(outer, view)(ca, p, f, &view);				\
	NW_CALL(inner_name, hook)(&ca->inner, &p->inner, &view, what, d); \
}

#define NW_NEST_QUESTION(outer, inner_name, hook)			\
static inline u32 NW_CALL(outer, hook)(NW_STATE(outer) *ca,		\
				       const NW_PARAMS(outer) *p,	\
				       const struct nw_facts *f)	\
{									\
	struct nw_facts view = *f;					\
									\
	NW_CALL(outer, view)(ca, p, f, &view);				\
	return NW_CALL(inner_name, hook)(&ca->inner, &p->inner, &view);	\
}

#define NW_NEST_ANSWER(outer, inner_name, hook)				\
static inline u32 NW_CALL(outer, hook)(const NW_STATE(outer) *ca,	\
				       const NW_PARAMS(outer) *p)	\
{									\
	return NW_CALL(inner_name, hook)(&ca->inner, &p->inner);	\
}

#define NW_NEST_RELEASE(outer, inner_name)				\
static inline void NW_CALL(outer, release)(NW_STATE(outer) *ca)		\
{									\
	NW_CALL(inner_name, release)(&ca->inner);			\
}

/* All of them. */
#define NW_NEST(outer, inner_name)					\
NW_NEST_HOOK(outer, inner_name, init)					\
NW_NEST_RELEASE(outer, inner_name)					\
NW_NEST_QUESTION(outer, inner_name, ssthresh)				\
NW_NEST_QUESTION(outer, inner_name, undo_cwnd)				\
NW_NEST_HOOK_WITH(outer, inner_name, set_state, u8)			\
NW_NEST_HOOK_WITH(outer, inner_name, cwnd_event, u32)			\
NW_NEST_HOOK(outer, inner_name, in_ack_event)				\
NW_NEST_HOOK(outer, inner_name, pkts_acked)				\
NW_NEST_HOOK_WITH(outer, inner_name, cong_avoid, u32)			\
NW_NEST_HOOK(outer, inner_name, cong_control)				\
NW_NEST_ANSWER(outer, inner_name, alpha)				\
NW_NEST_ANSWER(outer, inner_name, max_tso_segs)

#endif /* NW_NEST_H */
