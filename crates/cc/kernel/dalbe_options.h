/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * DA-LBE's options, with their defaults, and those of the controls that it may be over.
 */
#ifndef NW_DALBE_OPTIONS_H
#define NW_DALBE_OPTIONS_H

#include "dalbe_law.h"
#include "nw_models.h"

#define NW_DALBE_OVER(name)	NW_DALBE_OVER_##name,
enum nw_dalbe_over { NW_MODELS(NW_DALBE_OVER) NW_DALBE_OVER_COUNT };

#define NW_DALBE_PARAMS(name)	struct nw_##name##_params name;
#define NW_DALBE_DEFAULT(inner)	.inner = nw_model_##inner##_DEFAULTS,

struct nw_dalbe_params {
	u64 deadline_us;	/* after the connection is established; 0 = none */
	u64 size;		/* bytes to deliver by then; 0 = unknown */
	u32 over;		/* enum nw_dalbe_over */
	u32 policy;		/* enum nw_dalbe_policy */
	u32 mode;		/* enum nw_dalbe_mode */
	u32 map;		/* enum nw_dalbe_map */
	u32 interval_us;
	u32 kp;			/* of 1000 */
	u32 ki;
	u32 kd;
	u32 rise;		/* of 1000 */
	u32 first_weight;	/* of 1000 */
	struct nw_dalbe_rules rules;	/* derived */
	NW_MODELS(NW_DALBE_PARAMS)
};

/* Of 1000, in Q16.16. */
#define NW_DALBE_GAIN(k)	((u32)(((u64)(k) * NW_Q16_ONE + 500) / 1000))

/* Hayes and others: 0.5, 0.03 and 0.1, with intervals of ten seconds. */
#define nw_dalbe_DEFAULTS {						\
	.over = NW_DALBE_OVER_vegas,					\
	.interval_us = 10000000,					\
	.kp = 500,							\
	.ki = 30,							\
	.kd = 100,							\
	.rise = 100,							\
	.first_weight = 50,						\
	.rules = {							\
		.fades = nw_model_vegas_FADES,				\
		.rise = NW_DALBE_RISE,					\
		.nominal = 10 * NW_Q16_ONE,				\
		.gains = {						\
			.p = NW_DALBE_GAIN(500),			\
			.i = NW_DALBE_GAIN(30),				\
			.d = NW_DALBE_GAIN(100),			\
		},							\
	},								\
	NW_MODELS(NW_DALBE_DEFAULT)					\
}

#define nw_dalbe_OPTIONS(P)						\
	NW_VARIANT(P, "over", over, NW_MODEL_NAMES,			\
		   "the control that decides the window")		\
	NW_CHOICE(P, "policy", policy, "pid mbc",			\
		  "what finds the weight: the error, or the control's model") \
	NW_TIME(P, "deadline", deadline_us, 1, 31622400000000,		\
		"when all is to be delivered, after the connection is established") \
	NW_BYTES(P, "size", size, 1, 1ULL << 50, "how much that is")	\
	NW_TIME(P, "interval", interval_us, 100000, 1000000000,		\
		"how often the weight is computed, at the longest")	\
	NW_CHOICE(P, "mode", mode, "improved reproduction",		\
		  "the law as it is best, or as the thesis has it")	\
	NW_CHOICE(P, "map", map, "position incremental",		\
		  "whether PID's output is the weight or its change")	\
	NW_NUMBER(P, "kp", kp, 0, 100000, "PID: 1000 times the proportional gain") \
	NW_NUMBER(P, "ki", ki, 0, 100000,				\
		  "PID: 1000 times the integral gain, per second")	\
	NW_NUMBER(P, "kd", kd, 0, 100000,				\
		  "PID: 1000 times the derivative gain, seconds")	\
	NW_NUMBER(P, "rise", rise, 1, 1000,				\
		  "the most that the weight rises at once, of 1000 of its goal") \
	NW_NUMBER(P, "first_weight", first_weight, 50, 1000,		\
		  "1000 times the weight that it begins with")		\
	NW_MODEL_OPTIONS(P)

/* Whether the price is one that is to fade. */
static inline u32 nw_dalbe_fades(const struct nw_dalbe_params *p)
{
#define NW_DALBE_FADES(n)						\
	case NW_DALBE_OVER_##n:						\
		return nw_model_##n##_FADES;
	switch (p->over) {
	NW_MODELS(NW_DALBE_FADES)
	default:
		return 0;
	}
}

static inline const char *nw_dalbe_settle(struct nw_dalbe_params *p)
{
	p->rules.policy = p->policy;
	p->rules.mode = p->mode;
	p->rules.map = p->map;
	p->rules.fades = p->mode == NW_DALBE_IMPROVED && nw_dalbe_fades(p);
	p->rules.rise = nw_q30_ratio(p->rise, 1000);
	p->rules.nominal = nw_q16_ratio(p->interval_us, 1000000);
	p->rules.gains.p = NW_DALBE_GAIN(p->kp);
	p->rules.gains.i = NW_DALBE_GAIN(p->ki);
	p->rules.gains.d = NW_DALBE_GAIN(p->kd);
	return 0;
}

#endif /* NW_DALBE_OPTIONS_H */
