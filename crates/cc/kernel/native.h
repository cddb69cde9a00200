/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The native table of an algorithm: its hooks behind untyped pointers. `ca`
 * points to 104 zeroed bytes aligned to 8, `p` to the algorithm's parameters.
 */
#ifndef NW_NATIVE_H
#define NW_NATIVE_H

#include "nw_cc.h"
#include "cubic.h"
#include "prague.h"
#include "reno.h"

struct nw_ops {
	void (*init)(void *ca, const void *p, const struct nw_facts *f,
		     struct nw_decision *d);
	void (*release)(void *ca);
	u32 (*ssthresh)(void *ca, const void *p, const struct nw_facts *f);
	u32 (*undo_cwnd)(void *ca, const void *p, const struct nw_facts *f);
	void (*set_state)(void *ca, const void *p, const struct nw_facts *f,
			  u32 new_state, struct nw_decision *d);
	void (*cwnd_event)(void *ca, const void *p, const struct nw_facts *f,
			   u32 event, struct nw_decision *d);
	void (*in_ack_event)(void *ca, const void *p, const struct nw_facts *f,
			     struct nw_decision *d);
	void (*pkts_acked)(void *ca, const void *p, const struct nw_facts *f,
			   struct nw_decision *d);
	void (*cong_avoid)(void *ca, const void *p, const struct nw_facts *f,
			   u32 acked, struct nw_decision *d);
	void (*cong_control)(void *ca, const void *p, const struct nw_facts *f,
			     struct nw_decision *d);
	u32 (*alpha)(const void *ca, const void *p);
	u32 (*max_tso_segs)(const void *ca, const void *p);
	u32 mode;		/* enum nw_mode */
	u32 state_size;		/* bytes */
	u32 params_size;	/* bytes */
	u32 unused;
};

#define NW_EXPORT(name)							\
NW_NATIVE_V(name, init)							\
NW_NATIVE_R(name, ssthresh)						\
NW_NATIVE_R(name, undo_cwnd)						\
NW_NATIVE_W(name, set_state, u8)					\
NW_NATIVE_W(name, cwnd_event, u32)					\
NW_NATIVE_V(name, in_ack_event)						\
NW_NATIVE_V(name, pkts_acked)						\
NW_NATIVE_W(name, cong_avoid, u32)					\
NW_NATIVE_V(name, cong_control)						\
static void name##_release(void *ca)					\
{									\
	nw_##name##_release(ca);					\
}									\
NW_NATIVE_Q(name, alpha)						\
NW_NATIVE_Q(name, max_tso_segs)						\
const struct nw_ops nw_ops_##name = {					\
	.init = name##_init,						\
	.release = name##_release,					\
	.ssthresh = name##_ssthresh,					\
	.undo_cwnd = name##_undo_cwnd,					\
	.set_state = name##_set_state,					\
	.cwnd_event = name##_cwnd_event,				\
	.in_ack_event = name##_in_ack_event,				\
	.pkts_acked = name##_pkts_acked,				\
	.cong_avoid = name##_cong_avoid,				\
	.cong_control = name##_cong_control,				\
	.alpha = name##_alpha,						\
	.max_tso_segs = name##_max_tso_segs,				\
	.mode = nw_##name##_MODE,					\
	.state_size = sizeof(struct nw_##name),				\
	.params_size = sizeof(struct nw_##name##_params),		\
};

#define NW_NATIVE_V(name, hook)						\
static void name##_##hook(void *ca, const void *p,			\
			  const struct nw_facts *f,			\
			  struct nw_decision *d)			\
{									\
	nw_##name##_##hook(ca, p, f, d);				\
}

#define NW_NATIVE_W(name, hook, type)					\
static void name##_##hook(void *ca, const void *p,			\
			  const struct nw_facts *f, u32 what,		\
			  struct nw_decision *d)			\
{									\
	nw_##name##_##hook(ca, p, f, (type)what, d);			\
}

#define NW_NATIVE_R(name, hook)						\
static u32 name##_##hook(void *ca, const void *p,			\
			 const struct nw_facts *f)			\
{									\
	return nw_##name##_##hook(ca, p, f);				\
}

#define NW_NATIVE_Q(name, hook)						\
static u32 name##_##hook(const void *ca, const void *p)			\
{									\
	return nw_##name##_##hook(ca, p);				\
}

extern const struct nw_ops nw_ops_cubic;
extern const struct nw_ops nw_ops_prague;
extern const struct nw_ops nw_ops_reno;

#endif /* NW_NATIVE_H */
