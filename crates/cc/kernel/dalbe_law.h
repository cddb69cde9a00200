/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * DA-LBE's law: from what an interval brought and what is left, the weight of the
 * next one. Hayes and others 2017 and the thesis (dalbe_constants.h), whose equations are
 * named; where the thesis is silent or contradicts itself it is said what was chosen.
 *
 *	target		remaining / time left				(2.1)
 *	MBC		w = price / model / phi (1 + e)			(2.2 to 2.4)
 *	PID		e = w (target - achieved) / achieved
 *			u = Kp e + Ki sum(T e) + Kd change of e / T	(2.6 to 2.8)
 *	mu		w phi: the price that counts is price / mu
 *	ignored		1 - 1 / mu of the losses, at w = 1
 *
 * `price` is what was measured, `model` what the control below would see at the
 * target. w lies between 0.05 and 1, and rises by a tenth of its goal at most; it
 * falls at once.
 *
 * Improved, against the thesis:
 *
 *	- Errors are relative to the greater of both rates, so that up and down are alike
 *	  and a bad interval says no more than a good one.
 *	- The target is what remains by 19/20 of the time that is left. What an interval
 *	  lacks is made up in the twentieth; without it each lack raises the target
 *	  until the end, the more the less is left.
 *	- Over a control that goes by delay the price fades: mu = w phi / (1 - w), so that
 *	  at w = 1 delay does not count at all. Others' best effort does not go by it, and
 *	  no factor makes Vegas or LEDBAT hold their own against that; a price that is
 *	  dropped all at once makes the rate jump. For the same reason losses come to be
 *	  ignored between w = 0.95 and 1, where the thesis ignores them at 1 alone.
 *	- MBC: (1 + e) on top of a model that is off corrects twice, and swings. A part of
 *	  each error goes into a bias instead, which the model is multiplied by. Where
 *	  losses or marks are the price, an excess is learnt as slowly as they come: a
 *	  window follows w through them alone, and a w that falls faster than the window
 *	  is at its least when the excess ends. A lack is learnt at once, as there is a
 *	  deadline for it and none for an excess.
 *	- PID: where w is clamped or its rise is limited, the sum is set back to what
 *	  gives that w. It counts intervals of one length however short they become.
 *	- No more than 0.4 of the losses are ignored, which makes a mean loss take off
 *	  Reno's window what it takes off CUBIC's: a phi that counts reductions by delay
 *	  says nothing of losses.
 *	- phi is smoothed and within 0.1 and 8, and w and the sum change against it, so
 *	  that mu does not jump.
 *	- Intervals are a 120th of the time to the deadline and a twentieth of what
 *	  is left, so that the last ones are corrected as well.
 */
#ifndef NW_DALBE_LAW_H
#define NW_DALBE_LAW_H

#include "dalbe_constants.h"

struct nw_dalbe_gains {
	u32 p;			/* Q16.16 */
	u32 i;			/* per second */
	u32 d;			/* seconds */
};

/* What the law remembers. */
struct nw_dalbe_law {
	u32 w;			/* Q2.30 */
	u32 phi;		/* Q16.16 */
	u32 inflation;		/* 1 / mu, Q16.16: how often the price counts */
	u32 ignored;		/* probability, 2^-32 */
	u32 bias;		/* of the model, Q16.16 */
	s32 error;		/* e, Q2.30 */
	s32 sum;		/* of T e, Q16.16 */
	u32 learns;		/* the bias, of the last excess, Q16.16 */
	u64 target;		/* bytes/s */
	u64 achieved;
	u64 price;		/* 2^-40 */
	u64 model;
};

struct nw_dalbe_rules {
	u32 policy;		/* enum nw_dalbe_policy */
	u32 mode;		/* enum nw_dalbe_mode */
	u32 map;		/* enum nw_dalbe_map */
	u32 fades;		/* the price does as w nears 1 */
	u32 rise;		/* Q2.30 */
	u32 nominal;		/* seconds of an interval, Q16.16 */
	struct nw_dalbe_gains gains;
};

/* What an interval brought. */
struct nw_dalbe_interval {
	u64 remaining;		/* bytes */
	u64 left_us;		/* to the deadline; 0 past it */
	u64 bytes;		/* acknowledged in it */
	u64 took_us;
};

/* bytes/s, to the nearest; at most 2^44 bytes are exact. */
static inline u64 nw_dalbe_rate(u64 bytes, u64 us)
{
	if (!us)
		return 0;
	if (bytes >> 44)
		return bytes / us * 1000000;
	return (bytes * 1000000 + (us >> 1)) / us;
}

/* a / b in 2^-40; 0 by 0. A b of more than 43 bits loses the rest, and a as many. */
static inline u64 nw_dalbe_ratio(u64 a, u64 b)
{
	u32 log = nw_ilog2(b), over = log > 42 ? log - 42 : 0;
	u64 whole, high, rest;

	a >>= over;
	b >>= over;
	if (!b)
		return 0;
	whole = a / b;
	if (whole >> (63 - NW_PRICE))
		return 1ULL << 63;
	rest = (a % b) << 20;
	high = rest / b;
	rest = (rest % b) << 20;
	return (whole << 40) + (high << 20) + rest / b;
}

/* Improved, what is lacking is made up in a part of what is left. */
static inline u64 nw_dalbe_target(const struct nw_dalbe_rules *rules,
				  const struct nw_dalbe_interval *in)
{
	u64 us = in->left_us;

	if (rules->mode == NW_DALBE_IMPROVED)
		us -= us / NW_DALBE_RESERVE;
	return nw_dalbe_rate(in->remaining, us);
}

/* (target - achieved) / of, Q16.16. */
static inline s32 nw_dalbe_relative(u64 target, u64 achieved, u64 of)
{
	int below = target < achieved;
	u64 off = below ? achieved - target : target - achieved;

	return nw_sq_of(nw_q16_ratio(off, of), below);
}

/* The rise is limited to a part of the goal (2.4). */
static inline u32 nw_dalbe_limit(u32 goal, u32 former, u32 rise)
{
	u32 most;

	if (goal <= former)
		return goal;
	most = nw_q30_mul(goal, rise);
	return goal - former > most ? former + most : goal;
}

/* mu, Q16.16: w phi, or w phi / (1 - w), which is infinite at w = 1; NW_UNKNOWN there. */
static inline s64 nw_dalbe_mu(const struct nw_dalbe_law *law,
			      const struct nw_dalbe_rules *rules)
{
	u64 product = (u64)law->w * law->phi;	/* 2^-46 */

	if (!rules->fades)
		return (s64)(product >> NW_Q30);
	if (law->w == NW_Q30_ONE)
		return NW_UNKNOWN;
	return (s64)(product / (NW_Q30_ONE - law->w));
}

/* Of a probability, what holds at w: improved, it comes with the last twentieth of w. */
static inline u32 nw_dalbe_near_one(const struct nw_dalbe_rules *rules, u32 w, u32 whole)
{
	u32 above;

	if (w == NW_Q30_ONE)
		return whole;
	if (rules->mode == NW_DALBE_REPRODUCTION || w <= NW_DALBE_NEAR_ONE)
		return 0;
	above = w - NW_DALBE_NEAR_ONE;
	return (u32)((u64)whole * above / (NW_Q30_ONE - NW_DALBE_NEAR_ONE));
}

static inline void nw_dalbe_set_w(struct nw_dalbe_law *law,
				  const struct nw_dalbe_rules *rules, u32 w)
{
	u64 mu = nw_max64((u64)w * law->phi, 1);	/* 2^-46, before it fades */
	u32 ignored = 0;

	law->w = w;
	law->inflation = nw_q_of((1ULL << 62) / mu);
	if (law->inflation < NW_Q16_ONE)
		ignored = (NW_Q16_ONE - law->inflation) << 16;
	if (rules->mode == NW_DALBE_IMPROVED)
		ignored = nw_min(ignored, NW_DALBE_MOST_IGNORED);
	law->ignored = nw_dalbe_near_one(rules, w, ignored);
	if (rules->fades)
		law->inflation = nw_q_mul(law->inflation, NW_Q30_ONE - w, NW_Q30);
}

/* w of r = w / (1 - w), in 2^-24, for a price that is to fade. That would be 1 for no r at
 * all: it is R r / (R + (R - 1) r), which is nearly that and 1 at R, without a jump.
 */
static inline u32 nw_dalbe_faded(u64 r)
{
	if (r >= (u64)NW_DALBE_FADED << 24)
		return NW_Q30_ONE;
	return (u32)((NW_DALBE_FADED * r << NW_Q30) /
		     (((u64)NW_DALBE_FADED << 24) + (NW_DALBE_FADED - 1) * r));
}

/* Model-based: Q2.30, before limit and clamp. */
static inline u32 nw_dalbe_mbc(struct nw_dalbe_law *law,
			       const struct nw_dalbe_rules *rules, s32 relative)
{
	u64 ratio = nw_min64(nw_dalbe_ratio(law->price, law->model) >> 12,
			     NW_DALBE_MOST_RATIO);	/* 2^-28 */
	u32 factor = law->bias, phi = nw_max(law->phi, 1);

	law->error = nw_sq_of(nw_q30_of_q16(nw_q_size(relative)), relative < 0);
	if (rules->mode == NW_DALBE_REPRODUCTION) {
		s32 sum = nw_sq_add(relative, NW_Q16_ONE);

		factor = sum > 0 ? (u32)sum : 0;
	}
	/* below 2^63; a factor of more than 64 leads to the same end of the range */
	ratio = ratio * nw_min(factor, 1U << 22) / phi;
	if (rules->fades)
		return nw_dalbe_faded(ratio >> 4);
	return nw_q_of(nw_min64(ratio, 1ULL << 40) << 2);
}

/* The bias after an error. Of an error that
 * a limit or an end of w's range leaves, it learns the less the more was cut off, and nothing
 * from an eighth on: all or nothing would let the last bit of a goal decide.
 */
static inline u32 nw_dalbe_learn(const struct nw_dalbe_law *law, s32 relative,
				 u32 goal, u32 w)
{
	u32 size = nw_q_mul(nw_q_size(relative),
			    relative < 0 ? law->learns : NW_Q16_ONE, NW_Q16);
	u32 part = size >> NW_DALBE_DAMPING;
	u32 cut = 0;
	u32 bias;

	if (w != goal && (goal > w) == (relative > 0))
		cut = nw_q16_ratio(goal > w ? goal - w : w - goal, nw_max(goal, w));
	part = nw_q16_mul(part, NW_Q16_ONE - nw_min(cut << NW_DALBE_CUT, NW_Q16_ONE));
	bias = nw_q16_mul(law->bias, relative < 0 ? NW_Q16_ONE - part :
						    NW_Q16_ONE + part);
	return nw_min(nw_max(bias, NW_DALBE_LEAST_BIAS), NW_DALBE_MOST_BIAS);
}

/* A gain times a magnitude, with its sign. */
static inline s64 nw_dalbe_term(u32 size, u32 gain, u32 shift, int negative)
{
	s64 term = (s64)(((u64)size * gain + (1ULL << (shift - 1))) >> shift);

	return negative ? -term : term;
}

/* PID: Q2.30, before limit and clamp; *sum is what the sum becomes. */
static inline u32 nw_dalbe_pid(struct nw_dalbe_law *law,
			       const struct nw_dalbe_gains *gains, u32 map,
			       u32 seconds, s32 relative, s32 *sum)
{
	u32 size = nw_q_mul(law->w, nw_q_size(relative), NW_Q16);
	s32 error = nw_sq_of(size, relative < 0), change;
	s64 u;

	size = nw_q_mul(nw_q_size(error), seconds, NW_Q30);
	*sum = nw_sq_add(law->sum, nw_sq_of(size, error < 0));
	change = nw_sq_sub(error, law->error);
	law->error = error;

	/* Each term has the range that it needs: cut off at an error's, 2, a sum of more
	 * than 2 / Ki would not count, and the other terms would have to make up for it.
	 */
	u = nw_dalbe_term(nw_q_size(error), gains->p, NW_Q16, error < 0);
	u += nw_dalbe_term(nw_q_size(*sum), gains->i, 2, *sum < 0);
	u += nw_dalbe_term(nw_q_div(nw_q_size(change), nw_max(seconds, 1), NW_Q16),
			   gains->d, NW_Q16, change < 0);
	if (map == NW_DALBE_INCREMENTAL)
		u += law->w;
	return u > 0 ? nw_q_of((u64)u) : 0;
}

/* A new estimate of phi. Improved: part of the way, and mu stays. */
static inline void nw_dalbe_set_phi(struct nw_dalbe_law *law,
				    const struct nw_dalbe_rules *rules, u32 phi)
{
	u32 former = law->phi, w;
	u64 part, rest;

	if (rules->mode == NW_DALBE_REPRODUCTION) {
		law->phi = nw_max(phi, 1);
		return;
	}
	phi = nw_min(nw_max(phi, NW_DALBE_LEAST_PHI), NW_DALBE_MOST_PHI);
	if (phi > former)
		law->phi = former + ((phi - former) >> NW_DALBE_PHI_GAIN);
	else
		law->phi = former - ((former - phi) >> NW_DALBE_PHI_GAIN);
	if (law->phi == former)
		return;
	/* At its ends w is what it is: best effort does not change. */
	if (law->w == NW_Q30_ONE || law->w == NW_DALBE_LEAST_W)
		return;
	w = nw_q_of((u64)law->w * former / law->phi);
	if (rules->fades) {
		/* w / (1 - w) changes against phi; both are below 2^40 */
		part = ((u64)law->w * former) >> 10;
		rest = ((u64)(NW_Q30_ONE - law->w) * law->phi) >> 10;
		w = (u32)((part << 24) / nw_max64(part + rest, 1)) << 6;
	}
	w = nw_min(nw_max(w, NW_DALBE_LEAST_W), NW_Q30_ONE);
	law->sum = nw_sq_of(nw_q_div(nw_q_mul(nw_q_size(law->sum), w, NW_Q30),
				     law->w, NW_Q30), law->sum < 0);
	law->w = w;
}

/* The sum with which the output would have been w, not goal. */
static inline s32 nw_dalbe_unwind(s32 sum, u32 goal, u32 w, u32 ki)
{
	u32 off = goal > w ? goal - w : w - goal;

	if (!ki)
		return sum;
	off = nw_q_div(off, ki, 2);
	return goal > w ? nw_sq_sub(sum, nw_sq_of(off, 0)) :
			  nw_sq_add(sum, nw_sq_of(off, 0));
}

/*
 * The end of an interval; law->price, law->model and law->learns are set. Past the deadline it is
 * best effort; with nothing left to send, or nothing to go by, the least weight.
 * Returns the weight.
 */
NW_APART u32 nw_dalbe_step(struct nw_dalbe_law *law,
			   const struct nw_dalbe_rules *rules,
			   const struct nw_dalbe_interval *in);

NW_APART u32 nw_dalbe_step(struct nw_dalbe_law *law,
			   const struct nw_dalbe_rules *rules,
			   const struct nw_dalbe_interval *in)
{
	u64 former_target, wanted, of;
	u32 former, goal, w;
	s32 sum, relative;
	int improved;

	if (!law || !rules || !in)
		return 0;
	improved = rules->mode == NW_DALBE_IMPROVED;
	former_target = law->target;
	former = law->w;
	sum = law->sum;
	law->achieved = nw_dalbe_rate(in->bytes, in->took_us);
	if (!in->remaining) {
		law->target = 0;
		nw_dalbe_set_w(law, rules, NW_DALBE_LEAST_W);
		return law->w;
	}
	if (!in->left_us) {
		law->target = 0;
		nw_dalbe_set_w(law, rules, NW_Q30_ONE);
		return law->w;
	}
	law->target = nw_dalbe_target(rules, in);
	/* An interval that brought nothing says nothing. */
	if (!law->achieved) {
		nw_dalbe_set_w(law, rules, law->w);
		return law->w;
	}
	of = improved ? nw_max64(law->target, law->achieved) : law->achieved;
	if (rules->policy == NW_DALBE_MBC) {
		wanted = former_target && !improved ? former_target : law->target;
		relative = nw_dalbe_relative(wanted, law->achieved, of);
		goal = nw_dalbe_mbc(law, rules, relative);
	} else {
		u32 seconds = improved ? rules->nominal :
			      nw_q16_ratio(in->took_us, 1000000);

		relative = nw_dalbe_relative(law->target, law->achieved, of);
		goal = nw_dalbe_pid(law, &rules->gains, rules->map, seconds,
				    relative, &sum);
	}
	w = nw_dalbe_limit(goal, former, rules->rise);
	w = nw_min(nw_max(w, NW_DALBE_LEAST_W), NW_Q30_ONE);
	/* What a limit cut off is not remembered. */
	if (improved && w != goal && rules->policy == NW_DALBE_PID)
		sum = nw_dalbe_unwind(sum, goal, w, rules->gains.i);
	law->sum = sum;
	if (rules->policy == NW_DALBE_MBC)
		law->bias = nw_dalbe_learn(law, relative, goal, w);
	nw_dalbe_set_w(law, rules, w);
	return law->w;
}

#endif /* NW_DALBE_LAW_H */
