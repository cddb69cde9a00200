/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A control around a control. OUTER defines
 *
 *	struct nw_OUTER			with the members `inner`, NW_STATE(INNER), and
 *					`view`, struct nw_facts
 *	struct nw_OUTER_params		with a member `inner`: NW_PARAMS(INNER)
 *	nw_OUTER_DEFAULTS		with .inner = nw_INNER_DEFAULTS, spelt out: NW_CALL(),
 *					by which it is expanded itself, is not expanded
 *					within its own expansion
 *	void nw_OUTER_view(ca, p, f, struct nw_facts *view)
 *					edits *view, which is a copy of *f
 *
 * and, with these macros, every hook that it does not write itself: the inner
 * hook then runs on the edited facts. They are in the state, as the stack of BPF
 * has no room for them twice. INNER may be a macro, so one text serves as many
 * pairs as there are inclusions of it. Options of OUTER may write fields of `inner`,
 * its telemetry may read them. A timer of its own calls the inner one when that is
 * due (NW_NEST_TIMER's lines show how).
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
	ca->view = *f;							\
	NW_CALL(outer, view)(ca, p, f, &ca->view);			\
	NW_CALL(inner_name, hook)(&ca->inner, &p->inner, &ca->view, d);	\
}

#define NW_NEST_HOOK_WITH(outer, inner_name, hook, type)		\
static inline void NW_CALL(outer, hook)(NW_STATE(outer) *ca,		\
					const NW_PARAMS(outer) *p,	\
					const struct nw_facts *f,	\
					type what, struct nw_decision *d) \
{									\
	ca->view = *f;							\
	NW_CALL(outer, view)(ca, p, f, &ca->view);			\
	NW_CALL(inner_name, hook)(&ca->inner, &p->inner, &ca->view, what, d); \
}

#define NW_NEST_QUESTION(outer, inner_name, hook)			\
static inline u32 NW_CALL(outer, hook)(NW_STATE(outer) *ca,		\
				       const NW_PARAMS(outer) *p,	\
				       const struct nw_facts *f)	\
{									\
	ca->view = *f;							\
	NW_CALL(outer, view)(ca, p, f, &ca->view);			\
	return NW_CALL(inner_name, hook)(&ca->inner, &p->inner, &ca->view);	\
}

#define NW_NEST_ACK_HOOK(outer, inner_name)				\
NW_NEST_HOOK(outer, inner_name, in_ack_event)				\
static inline u32 NW_CALL(outer, sees_acks)(const NW_PARAMS(outer) *p)	\
{									\
	return NW_CALL(inner_name, sees_acks)(&p->inner);		\
}

#define NW_NEST_TSO_LIMIT(outer, inner_name)				\
static inline u32 NW_CALL(outer, max_tso_segs)(const NW_STATE(outer) *ca, \
					       const NW_PARAMS(outer) *p) \
{									\
	return NW_CALL(inner_name, max_tso_segs)(&ca->inner, &p->inner); \
}

#define NW_NEST_NEEDS(outer, inner_name)				\
static inline u32 NW_CALL(outer, needs)(const NW_PARAMS(outer) *p)	\
{									\
	return NW_CALL(inner_name, needs)(&p->inner);			\
}

#define NW_NEST_TIMER(outer, inner_name)				\
enum { NW_CALL(outer, HAS_TIMER) = NW_CALL(inner_name, HAS_TIMER) };	\
static inline u64 NW_CALL(outer, timer_at)(const NW_STATE(outer) *ca,	\
					   const NW_PARAMS(outer) *p)	\
{									\
	return NW_CALL(inner_name, timer_at)(&ca->inner, &p->inner);	\
}									\
NW_NEST_HOOK(outer, inner_name, timer)

#define NW_NEST_RELEASE(outer, inner_name)				\
static inline void NW_CALL(outer, release)(NW_STATE(outer) *ca)		\
{									\
	NW_CALL(inner_name, release)(&ca->inner);			\
}

#define NW_NEST_SETTLE(outer, inner_name)				\
static inline const char *NW_CALL(outer, settle)(NW_PARAMS(outer) *p)	\
{									\
	return NW_CALL(inner_name, settle)(&p->inner);			\
}

/* The inner control sees the facts as they are. */
#define NW_NEST_PLAIN_VIEW(outer)					\
static inline void NW_CALL(outer, view)(const NW_STATE(outer) *ca,	\
					const NW_PARAMS(outer) *p,	\
					const struct nw_facts *f,	\
					struct nw_facts *view)		\
{									\
	(void)ca; (void)p; (void)f; (void)view;				\
}

/* All hooks; the timer and what is asked of the parameters stand by themselves. */
#define NW_NEST(outer, inner_name)					\
NW_NEST_HOOK(outer, inner_name, init)					\
NW_NEST_RELEASE(outer, inner_name)					\
NW_NEST_QUESTION(outer, inner_name, ssthresh)				\
NW_NEST_QUESTION(outer, inner_name, undo_cwnd)				\
NW_NEST_HOOK_WITH(outer, inner_name, set_state, u8)			\
NW_NEST_HOOK_WITH(outer, inner_name, cwnd_event, u32)			\
NW_NEST_ACK_HOOK(outer, inner_name)					\
NW_NEST_HOOK(outer, inner_name, pkts_acked)				\
NW_NEST_HOOK_WITH(outer, inner_name, cong_avoid, u32)			\
NW_NEST_HOOK(outer, inner_name, cong_control)				\
NW_NEST_TSO_LIMIT(outer, inner_name)

#endif /* NW_NEST_H */
