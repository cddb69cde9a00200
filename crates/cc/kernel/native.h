/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The native table of an algorithm: its hooks behind untyped pointers, and what it
 * declares. `ca` points to state_size zeroed bytes aligned to 8, `p` to the
 * algorithm's parameters. The build makes nw_list.h of controls.list.
 */
#ifndef NW_NATIVE_H
#define NW_NATIVE_H

#include "nw_cc.h"
#include "nw_list.h"

enum nw_option_kind {
	NW_KIND_NUMBER = 0,
	NW_KIND_CHOICE = 1,
	NW_KIND_FLAG = 2,
	NW_KIND_TIME = 3,
	NW_KIND_BYTES = 4,
	NW_KIND_VARIANT = 5,
};

struct nw_option {
	const char *name;
	const char *words;	/* of a choice, by value, a space between */
	const char *about;
	u64 least;
	u64 most;		/* of a flag: its value */
	u32 offset;		/* in the parameters */
	u16 size;		/* 4 or 8 bytes */
	u16 kind;		/* enum nw_option_kind */
};

#define NW_OPTION(k, P, n, field, low, high, w, a) {			\
	.name = n,							\
	.words = w,							\
	.about = a,							\
	.least = low,							\
	.most = high,							\
	.offset = __builtin_offsetof(P, field),				\
	.size = sizeof(((P *)0)->field),				\
	.kind = k,							\
},
#define NW_NUMBER(P, n, field, low, high, a)				\
	NW_OPTION(NW_KIND_NUMBER, P, n, field, low, high, "", a)
#define NW_CHOICE(P, n, field, w, a)					\
	NW_OPTION(NW_KIND_CHOICE, P, n, field, 0, 0, w, a)
#define NW_VARIANT(P, n, field, w, a)					\
	NW_OPTION(NW_KIND_VARIANT, P, n, field, 0, 0, w, a)
#define NW_FLAG(P, n, field, value, a)					\
	NW_OPTION(NW_KIND_FLAG, P, n, field, value, value, "", a)
#define NW_TIME(P, n, field, low, high, a)				\
	NW_OPTION(NW_KIND_TIME, P, n, field, low, high, "", a)
#define NW_BYTES(P, n, field, low, high, a)				\
	NW_OPTION(NW_KIND_BYTES, P, n, field, low, high, "", a)

struct nw_field {
	const char *name;
	const char *unit;
	const char *about;
	const char *chart;
	u64 scale;
};

#define NW_FIELD_ROW(n, u, s, value, a, ...)				\
	{ .name = n, .unit = u, .about = a, .chart = "" __VA_ARGS__, .scale = s },
#define NW_FIELD_VALUE(n, u, s, value, ...)	*out++ = (s64)(value);

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
	void (*timer)(void *ca, const void *p, const struct nw_facts *f,
		      struct nw_decision *d);
	u64 (*timer_at)(const void *ca, const void *p);
	u32 (*max_tso_segs)(const void *ca, const void *p);
	void (*report)(const void *ca, const void *p, s64 *out);
	u32 (*needs)(const void *p);
	u32 (*sees_acks)(const void *p);
	const char *(*settle)(void *p);
	const char *name;
	const void *defaults;
	const struct nw_option *options;	/* up to one without a name */
	const struct nw_field *fields;		/* likewise */
	u32 mode;		/* NW_MODE_* */
	u32 has_timer;
	u32 state_size;		/* bytes */
	u32 params_size;	/* bytes */
};

/* The hooks as functions of untyped pointers, and their rows of a table. */
#define NW_HOOKS(alg)							\
NW_NATIVE_V(alg, init)							\
NW_NATIVE_R(alg, ssthresh)						\
NW_NATIVE_R(alg, undo_cwnd)						\
NW_NATIVE_W(alg, set_state, u8)					\
NW_NATIVE_W(alg, cwnd_event, u32)					\
NW_NATIVE_V(alg, in_ack_event)						\
NW_NATIVE_V(alg, pkts_acked)						\
NW_NATIVE_W(alg, cong_avoid, u32)					\
NW_NATIVE_V(alg, cong_control)						\
NW_NATIVE_V(alg, timer)						\
static void alg##_release(void *ca)					\
{									\
	nw_##alg##_release(ca);					\
}									\
static u64 alg##_timer_at(const void *ca, const void *p)		\
{									\
	return nw_##alg##_timer_at(ca, p);				\
}									\
static u32 alg##_max_tso_segs(const void *ca, const void *p)		\
{									\
	return nw_##alg##_max_tso_segs(ca, p);				\
}									\
static u32 alg##_needs(const void *p)					\
{									\
	return nw_##alg##_needs(p);					\
}									\
static u32 alg##_sees_acks(const void *p)				\
{									\
	return nw_##alg##_sees_acks(p);				\
}									\
static const char *alg##_settle(void *p)				\
{									\
	return nw_##alg##_settle(p);					\
}

#define NW_HOOK_ROWS(alg)						\
	.init = alg##_init,						\
	.release = alg##_release,					\
	.ssthresh = alg##_ssthresh,					\
	.undo_cwnd = alg##_undo_cwnd,					\
	.set_state = alg##_set_state,					\
	.cwnd_event = alg##_cwnd_event,				\
	.in_ack_event = alg##_in_ack_event,				\
	.pkts_acked = alg##_pkts_acked,				\
	.cong_avoid = alg##_cong_avoid,				\
	.cong_control = alg##_cong_control,				\
	.timer = alg##_timer,						\
	.timer_at = alg##_timer_at,					\
	.max_tso_segs = alg##_max_tso_segs,				\
	.needs = alg##_needs,						\
	.sees_acks = alg##_sees_acks,					\
	.settle = alg##_settle,					\
	.name = #alg,							\
	.mode = nw_##alg##_MODE,					\
	.has_timer = nw_##alg##_HAS_TIMER,				\
	.state_size = sizeof(struct nw_##alg),				\
	.params_size = sizeof(struct nw_##alg##_params)

#define NW_EXPORT(alg)							\
NW_HOOKS(alg)								\
static void alg##_report(const void *state, const void *params, s64 *out) \
{									\
	const struct nw_##alg *ca = state;				\
	const struct nw_##alg##_params *p = params;			\
									\
	(void)ca; (void)p; (void)out;					\
	nw_##alg##_TELEMETRY(NW_FIELD_VALUE)				\
}									\
static const struct nw_##alg##_params alg##_defaults = nw_##alg##_DEFAULTS; \
static const struct nw_option alg##_options[] = {			\
	nw_##alg##_OPTIONS(struct nw_##alg##_params)			\
	{ .name = 0 },							\
};									\
static const struct nw_field alg##_fields[] = {			\
	nw_##alg##_TELEMETRY(NW_FIELD_ROW)				\
	{ .name = 0 },							\
};									\
const struct nw_ops nw_ops_##alg = {					\
	NW_HOOK_ROWS(alg),						\
	.report = alg##_report,					\
	.defaults = &alg##_defaults,					\
	.options = alg##_options,					\
	.fields = alg##_fields,					\
};

#define NW_NATIVE_V(alg, hook)						\
static void alg##_##hook(void *ca, const void *p,			\
			  const struct nw_facts *f,			\
			  struct nw_decision *d)			\
{									\
	nw_##alg##_##hook(ca, p, f, d);				\
}

#define NW_NATIVE_W(alg, hook, type)					\
static void alg##_##hook(void *ca, const void *p,			\
			  const struct nw_facts *f, u32 what,		\
			  struct nw_decision *d)			\
{									\
	nw_##alg##_##hook(ca, p, f, (type)what, d);			\
}

#define NW_NATIVE_R(alg, hook)						\
static u32 alg##_##hook(void *ca, const void *p,			\
			 const struct nw_facts *f)			\
{									\
	return nw_##alg##_##hook(ca, p, f);				\
}

#define NW_DECLARE(alg)	extern const struct nw_ops nw_ops_##alg;
NW_CONTROLS(NW_DECLARE)
NW_TEST_CONTROLS(NW_DECLARE)

const struct nw_ops *nw_control(u32 i, u32 of_tests);

#endif /* NW_NATIVE_H */
