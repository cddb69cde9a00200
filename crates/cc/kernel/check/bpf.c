// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Every hook of every algorithm as a function of its own, for a compiler with
 * the BPF target: what it refuses here, it would refuse inside a struct_ops
 * object.
 */
#include "../cubic.h"
#include "../nest.h"
#include "../prague.h"
#include "../reno.h"

#define V(name, hook)							\
void name##_##hook(struct nw_##name *ca, const struct nw_##name##_params *p, \
		   const struct nw_facts *f, struct nw_decision *d)	\
{									\
	nw_##name##_##hook(ca, p, f, d);				\
}

#define W(name, hook, type)						\
void name##_##hook(struct nw_##name *ca, const struct nw_##name##_params *p, \
		   const struct nw_facts *f, type what,			\
		   struct nw_decision *d)				\
{									\
	nw_##name##_##hook(ca, p, f, what, d);				\
}

#define R(name, hook)							\
u32 name##_##hook(struct nw_##name *ca, const struct nw_##name##_params *p, \
		  const struct nw_facts *f)				\
{									\
	return nw_##name##_##hook(ca, p, f);				\
}

#define ALL(name)							\
V(name, init)								\
R(name, ssthresh)							\
R(name, undo_cwnd)							\
W(name, set_state, u8)							\
W(name, cwnd_event, u32)						\
V(name, in_ack_event)							\
V(name, pkts_acked)							\
W(name, cong_avoid, u32)						\
V(name, cong_control)							\
void name##_release(struct nw_##name *ca)				\
{									\
	nw_##name##_release(ca);					\
}									\
u32 name##_alpha(const struct nw_##name *ca,				\
		 const struct nw_##name##_params *p)			\
{									\
	return nw_##name##_alpha(ca, p);				\
}									\
u32 name##_max_tso_segs(const struct nw_##name *ca,			\
			const struct nw_##name##_params *p)		\
{									\
	return nw_##name##_max_tso_segs(ca, p);				\
}

ALL(cubic)
ALL(prague)
ALL(reno)

/* A wrapped control compiles as well. */
#define NW_INNER cubic
struct nw_wrapped {
	NW_STATE(NW_INNER) inner;
};
NW_ASSERT_STATE(wrapped);

struct nw_wrapped_params {
	NW_PARAMS(NW_INNER) inner;
};

static inline void nw_wrapped_view(struct nw_wrapped *ca,
				   const struct nw_wrapped_params *p,
				   const struct nw_facts *f,
				   struct nw_facts *view)
{
	(void)ca;
	(void)p;
	if (f->rtt_us > 50000)
		view->flags &= (u16)~NW_F_CWND_LIMITED;
}

NW_NEST(wrapped, NW_INNER)
ALL(wrapped)
