// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * One table of function pointers per algorithm, for a host that holds state as
 * bytes. Compiled for the machine at hand; BPF never sees this file.
 */
#include "native.h"

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

NW_EXPORT(cubic)
NW_EXPORT(prague)
NW_EXPORT(reno)
