/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * DA-LBE: a transfer of a known size that yields as far as a deadline allows. A meta
 * control: the one that it is over decides the window, and is shown a congestion
 * price that the law (dalbe_law.h) inflates or deflates once per interval.
 * dalbe_constants.h names the sources, dalbe_options.h what can be set, dalbe_model.h what a
 * control below needs.
 *
 * Decided where the thesis leaves it open:
 *
 *	- A reduction counts, and may be ignored, when the stack asks for ssthresh: in
 *	  Linux losses do not show in cong_avoid. A timeout is never ignored.
 *	- Intervals end by a timer, so that a flow whose ACKs stop stays in control.
 *	- Statistics for phi go on where an update is skipped for want of losses; after
 *	  one they begin anew, or, improved, count half.
 *	- The interval of phi is that of w, as in all of its experiments.
 *	- Once all is acknowledged, and where there is no size or no deadline, the
 *	  weight is the least: a scavenger's.
 *	- Past the deadline w = 1 until the end.
 *	- A deadline is said to be out of reach by what best effort is reckoned to reach.
 *
 * A connection that takes over from others of one transfer begins with their weight
 * (first_weight), and a size that grows after it was reached goes on with the next ACKs.
 */
#ifndef NW_DALBE_H
#define NW_DALBE_H

#include "dalbe_options.h"
#include "dalbe_report.h"

#define nw_dalbe_MODE	NW_MODE_WINDOW

#define NW_DALBE_INNER(name)	struct nw_##name name;

struct nw_dalbe {
	union {
		NW_MODELS(NW_DALBE_INNER)
	} inner;
	struct nw_dalbe_seen seen;
	struct nw_dalbe_interval last;	/* the last that the law read */
	u64 start_ns;		/* the connection was established */
	u64 since_ns;		/* the interval began */
	u64 due_ns;		/* it ends; 0 = never */
	u64 acked;		/* bytes since the start */
	u64 acked_then;		/* when the interval began */
	u32 una;		/* acked goes as far as this */
	u32 intervals;
	u32 short_of;		/* intervals in which best effort was not enough */
	u32 out_of_reach_ms;	/* after the start; 0 as long as it is not */
	u32 cwnd;		/* at the end of the last interval, as is */
	u32 ssthresh;
	u32 mean_rate;		/* 16 bytes/s, and ... */
	u32 mean_w;		/* ... w over the same intervals, Q2.30 */
};
_Static_assert(sizeof(struct nw_dalbe) <= 336, "no more than the thesis's state");

/* ----- the control below ----- */

#define NW_DALBE_EACH(statement)					\
	switch (p->over) {						\
	NW_MODELS(statement)						\
	default:							\
		break;							\
	}
#define NW_DALBE_CASE(name, ...)					\
	case NW_DALBE_OVER_##name:					\
		__VA_ARGS__;						\
		break;

#define NW_DALBE_PASS(hook)						\
static inline void nw_dalbe_inner_##hook(struct nw_dalbe *ca,		\
					 const struct nw_dalbe_params *p, \
					 const struct nw_facts *f,	\
					 struct nw_decision *d)		\
{									\
	NW_DALBE_EACH(NW_DALBE_ON_##hook)				\
}
#define NW_DALBE_ON_init(n)						\
	NW_DALBE_CASE(n, nw_##n##_init(&ca->inner.n, &p->n, f, d))
#define NW_DALBE_ON_in_ack_event(n)					\
	NW_DALBE_CASE(n, nw_##n##_in_ack_event(&ca->inner.n, &p->n, f, d))
#define NW_DALBE_ON_acked(n)						\
	NW_DALBE_CASE(n, nw_model_##n##_acked(&ca->inner.n, &p->n,	\
					      &ca->seen, f, d))
NW_DALBE_PASS(init)
NW_DALBE_PASS(in_ack_event)
NW_DALBE_PASS(acked)

/* ----- intervals ----- */

static inline u64 nw_dalbe_price(const struct nw_dalbe *ca,
				 const struct nw_dalbe_params *p)
{
#define NW_DALBE_MEASURE(n)						\
	case NW_DALBE_OVER_##n:						\
		return nw_model_##n##_measure(&ca->inner.n, &ca->seen);
	NW_DALBE_EACH(NW_DALBE_MEASURE)
	return 0;
}

static inline u64 nw_dalbe_model(const struct nw_dalbe *ca,
				 const struct nw_dalbe_params *p, u64 target)
{
#define NW_DALBE_INVERT(n)						\
	case NW_DALBE_OVER_##n:						\
		return nw_model_##n##_invert(&p->n, &ca->seen, target);
	NW_DALBE_EACH(NW_DALBE_INVERT)
	return 0;
}

static inline u32 nw_dalbe_weight(const struct nw_dalbe *ca,
				  const struct nw_dalbe_params *p)
{
#define NW_DALBE_WEIGH(n)						\
	case NW_DALBE_OVER_##n:						\
		return nw_model_##n##_weigh(&ca->inner.n, &ca->seen);
	NW_DALBE_EACH(NW_DALBE_WEIGH)
	return 0;
}

/* When the interval that begins now ends. */
static inline u64 nw_dalbe_next(const struct nw_dalbe *ca,
				const struct nw_dalbe_params *p,
				const struct nw_facts *f)
{
	u64 us = p->interval_us, left = ca->last.left_us;

	if (!p->size || !p->deadline_us || p->mode == NW_DALBE_REPRODUCTION ||
	    !left)
		return f->now_ns + us * 1000;
	us = nw_min64(us, p->deadline_us / NW_DALBE_INTERVALS);
	us = nw_min64(us, left / NW_DALBE_LEFT);
	us = nw_max64(us, NW_DALBE_ROUNDS * (f->srtt_us >> 3));
	us = nw_max64(us, NW_DALBE_SHORTEST_US);
	/* the deadline ends one */
	return f->now_ns + nw_min64(us, left) * 1000;
}

static inline void nw_dalbe_begin(struct nw_dalbe *ca, const struct nw_facts *f)
{
	ca->since_ns = f->now_ns;
	ca->acked_then = ca->acked;
	ca->seen.delivered = f->delivered;
	ca->seen.marked = f->delivered_ce;
	ca->seen.rtt_sum_us = 0;
	ca->seen.rtts = 0;
}

/* What is left, bytes and time; a size or a deadline of 0 leaves nothing. */
static inline void nw_dalbe_look(struct nw_dalbe *ca,
				 const struct nw_dalbe_params *p,
				 const struct nw_facts *f)
{
	u64 us = (f->now_ns - ca->start_ns) / 1000;

	ca->last.remaining = p->size > ca->acked && p->deadline_us ?
			     p->size - ca->acked : 0;
	ca->last.left_us = p->deadline_us > us ? p->deadline_us - us : 0;
}

static inline void nw_dalbe_update_phi(struct nw_dalbe *ca,
				       const struct nw_dalbe_params *p)
{
	u32 phi;

	if (ca->seen.losses <= NW_DALBE_FEW_LOSSES)
		return;
	phi = nw_dalbe_weight(ca, p);
	if (phi)
		nw_dalbe_set_phi(&ca->seen.law, &p->rules, phi);
	if (p->mode == NW_DALBE_REPRODUCTION) {
		ca->seen.losses = 0;
		ca->seen.reduced = 0;
	} else {
		ca->seen.losses /= 2;
		ca->seen.reduced /= 2;
	}
}

/* Improved, a delay is a mean of several intervals': others' windows take longer from one
 * loss to the next.
 */
static inline u64 nw_dalbe_smoothed(const struct nw_dalbe *ca,
				    const struct nw_dalbe_rules *rules, u64 price)
{
	u64 former = ca->seen.law.price;

	if (!rules->fades || !ca->intervals)
		return price;
	return former - (former >> NW_DALBE_SMOOTHING) + (price >> NW_DALBE_SMOOTHING);
}

/* ----- what best effort would reach ----- */

/*
 * Best effort is not tried before w is 1, but PID takes the rate to go with w (2.6), and
 * so does this: mean rate by mean weight, as a window takes long to follow w. Slow start
 * does not go by w: it does not count, nor does the interval that delivers its excess.
 */
static inline void nw_dalbe_learn_reach(struct nw_dalbe *ca, u32 w)
{
	u32 rate = (u32)nw_min64(ca->seen.law.achieved >> 4, NW_NONE);

	if (!ca->intervals || ca->ssthresh >= NW_DALBE_NO_SSTHRESH)
		return;
	if (ca->mean_w <= 1) {
		ca->mean_w = ca->mean_w ? w : 1;
		ca->mean_rate = rate;
	} else if (rate) {
		ca->mean_w += (w >> NW_DALBE_REACH_GAIN) -
			      (ca->mean_w >> NW_DALBE_REACH_GAIN);
		ca->mean_rate += (rate >> NW_DALBE_REACH_GAIN) -
				 (ca->mean_rate >> NW_DALBE_REACH_GAIN);
	}
}

/* bytes/s; 0 if not known */
static inline u64 nw_dalbe_reach(const struct nw_dalbe *ca)
{
	u32 w = ca->mean_w >> 14;	/* 2^-16 */

	return w ? ((u64)ca->mean_rate << 20) / w : 0;
}

/* Whether that, and what was achieved, is less than the rest needs, without the reserve. */
static inline int nw_dalbe_falls_short(const struct nw_dalbe *ca)
{
	u64 needs = nw_dalbe_rate(ca->last.remaining, ca->last.left_us);

	return ca->mean_w > 1 && nw_dalbe_reach(ca) < needs &&
	       ca->seen.law.achieved < needs;
}

/* Where the window still follows w, the rate by w is less than best effort's, and an interval
 * that falls short says nothing.
 */
static inline u32 nw_dalbe_short_of(const struct nw_dalbe *ca)
{
	u32 rate = (u32)nw_min64(ca->seen.law.achieved >> 4, NW_NONE);

	if (!nw_dalbe_falls_short(ca))
		return 0;
	if (rate > nw_add_sat(ca->mean_rate, ca->mean_rate / NW_DALBE_GROWS))
		return ca->short_of;
	return nw_add_sat(ca->short_of, 1);
}

/* ----- what others leave, and are left ----- */

/* What the target has in flight, 2^-16; 0 where nothing is to be held to it. */
static inline u64 nw_dalbe_held(const struct nw_dalbe *ca,
				const struct nw_dalbe_params *p)
{
	if (p->mode == NW_DALBE_REPRODUCTION || !ca->last.left_us)
		return 0;
	return nw_dalbe_packets(&ca->seen, ca->seen.law.target);
}

static inline u32 nw_dalbe_is_behind(const struct nw_dalbe *ca)
{
	return ca->seen.law.achieved < ca->seen.law.target;
}

/* Held, the stack paces; a socket that the fq discipline paces stays so. */
static inline void nw_dalbe_pace(const struct nw_dalbe *ca, const struct nw_facts *f,
				 struct nw_decision *d)
{
	u32 status = ca->seen.others.cap && !nw_dalbe_is_behind(ca) ?
		     NW_PACING_NEEDED : NW_PACING_NONE;

	if (f->pacing_status != NW_PACING_FQ && f->pacing_status != status)
		nw_set_pacing_status(d, status);
}

static inline void nw_dalbe_hold(const struct nw_dalbe *ca, const struct nw_facts *f,
				 struct nw_decision *d)
{
	u32 cwnd = d->set & NW_SET_CWND ? d->cwnd : f->cwnd;

	if (ca->seen.others.cap && cwnd > ca->seen.others.cap)
		nw_set_cwnd(d, ca->seen.others.cap);
}

/* Not inlined: every hook of a kernel's object has the timer's call in it.
 * It returns how many have passed, which the caller keeps: of a function without a result,
 * what is left in the register of results may be a pointer to a stack, which the verifier
 * refuses.
 */
static __attribute__((__noinline__)) u32 nw_dalbe_end(struct nw_dalbe *ca,
					const struct nw_dalbe_params *p,
					const struct nw_facts *f)
{
	struct nw_dalbe_seen *s = &ca->seen;
	struct nw_dalbe_rules rules = p->rules;
	u64 us = (f->now_ns - ca->since_ns) / 1000;
	u32 w = s->law.w;

	s->mode = (u8)p->mode;
	s->mss = (u16)nw_min(f->mss, 0xffff);
	s->delivered = f->delivered - s->delivered;
	s->marked = f->delivered_ce - s->marked;
	s->law.learns = nw_dalbe_learns(s, &rules);
	if (s->rtts)
		s->mean_us = (u32)(s->rtt_sum_us / s->rtts);
	nw_dalbe_look(ca, p, f);
	ca->last.bytes = ca->acked - ca->acked_then;
	ca->last.took_us = us;
	nw_dalbe_update_phi(ca, p);
	s->law.price = nw_dalbe_smoothed(ca, &rules, nw_dalbe_price(ca, p));
	s->law.model = nw_dalbe_model(ca, p, nw_dalbe_target(&rules, &ca->last));
	nw_dalbe_step(&s->law, &rules, &ca->last);
	nw_dalbe_set_phantom(s);
	if (s->events >= NW_DALBE_EVENTS) {
		s->events /= 2;
		s->packets /= 2;
	}
	nw_others_end(&s->others, s->law.achieved, s->mss, nw_dalbe_held(ca, p),
		      nw_dalbe_is_behind(ca));
	nw_dalbe_learn_reach(ca, w);
	s->srtt_us = f->srtt_us >> 3;
	ca->cwnd = f->cwnd;
	ca->ssthresh = f->ssthresh;
	ca->short_of = nw_dalbe_short_of(ca);
	if (ca->short_of == NW_DALBE_OUT_OF_REACH && !ca->out_of_reach_ms)
		ca->out_of_reach_ms = (u32)((f->now_ns - ca->start_ns) / 1000000);
	ca->due_ns = p->size && ca->acked >= p->size ? 0 : nw_dalbe_next(ca, p, f);
	nw_dalbe_begin(ca, f);
	return ca->intervals + 1;
}

/* The weight before the first interval, and the sum that would have led to it. */
static inline void nw_dalbe_first(struct nw_dalbe_law *law,
				  const struct nw_dalbe_params *p)
{
	u32 w = NW_DALBE_LEAST_W;

	if (p->first_weight > 50) {
		w = nw_q30_ratio(p->first_weight, 1000);
		law->sum = nw_dalbe_unwind(0, 0, w, p->rules.gains.i);
	}
	nw_dalbe_set_w(law, &p->rules, w);
}

/* ----- hooks ----- */

static inline void nw_dalbe_init(struct nw_dalbe *ca,
				 const struct nw_dalbe_params *p,
				 const struct nw_facts *f, struct nw_decision *d)
{
	struct nw_dalbe_law *law = &ca->seen.law;
	u32 phi;

	/* what a former connection of the socket left */
	ca->seen = (struct nw_dalbe_seen){ .base_us = NW_NONE };
	ca->last = (struct nw_dalbe_interval){ 0 };
	ca->start_ns = f->now_ns;
	ca->acked = 0;
	ca->una = f->snd_una;
	ca->intervals = 0;
	ca->short_of = 0;
	ca->out_of_reach_ms = 0;
	ca->mean_w = 0;
	law->bias = NW_Q16_ONE;
	ca->seen.mss = (u16)nw_min(f->mss, 0xffff);
	ca->seen.mode = (u8)p->mode;
	ca->seen.round_end = f->snd_una;
	nw_dalbe_look(ca, p, f);
	nw_dalbe_inner_init(ca, p, f, d);
	/* a control whose weight is known needs no estimate */
	phi = nw_dalbe_weight(ca, p);
	law->phi = phi ? phi : NW_DALBE_FIRST_PHI;
	nw_dalbe_first(law, p);
	nw_others_begin(&ca->seen.others);
	if (f->srtt_us && ca->last.remaining && p->mode == NW_DALBE_IMPROVED) {
		u64 target = nw_dalbe_target(&p->rules, &ca->last);

		/* It begins as a scavenger: with half of what it needs. */
		ca->seen.others.cap = nw_others_cap(
			nw_dalbe_in_flight(target, f->srtt_us >> 3, f->mss) / 2,
			NW_OTHERS_ROOM);
	}
	nw_dalbe_pace(ca, f, d);
	nw_dalbe_begin(ca, f);
	ca->due_ns = nw_dalbe_next(ca, p, f);
}

static inline void nw_dalbe_release(struct nw_dalbe *ca)
{
	(void)ca;
}

/* A reduction begins. One that is ignored leaves the window, and the control below
 * does not learn of it.
 */
static inline u32 nw_dalbe_ssthresh(struct nw_dalbe *ca,
				    const struct nw_dalbe_params *p,
				    const struct nw_facts *f)
{
	u32 ignored = ca->seen.law.ignored;

	ca->seen.events = (u16)nw_min(ca->seen.events + 1, 0xffff);
	ca->seen.losses = (u16)nw_min(ca->seen.losses + 1, 0xffff);
	ca->seen.others.reduced = 1;
	ca->seen.ignoring = 0;
#define NW_DALBE_REDUCE(n)						\
	case NW_DALBE_OVER_##n:						\
		if (nw_model_##n##_IGNORES && f->random < ignored) {	\
			ca->seen.ignoring = 1;				\
			return nw_max(f->cwnd, NW_RENO_SSTHRESH_MIN);	\
		}							\
		return nw_model_##n##_reduce(&ca->inner.n, &p->n,	\
					     &ca->seen, f);
	NW_DALBE_EACH(NW_DALBE_REDUCE)
	return nw_max(f->cwnd >> 1, NW_RENO_SSTHRESH_MIN);
}

static inline u32 nw_dalbe_undo_cwnd(struct nw_dalbe *ca,
				     const struct nw_dalbe_params *p,
				     const struct nw_facts *f)
{
#define NW_DALBE_UNDO(n)						\
	case NW_DALBE_OVER_##n:						\
		return nw_##n##_undo_cwnd(&ca->inner.n, &p->n, f);
	NW_DALBE_EACH(NW_DALBE_UNDO)
	return nw_max(nw_max(f->cwnd, f->prior_cwnd), 1);
}

static inline void nw_dalbe_set_state(struct nw_dalbe *ca,
				      const struct nw_dalbe_params *p,
				      const struct nw_facts *f, u8 new_state,
				      struct nw_decision *d)
{
	if (new_state < NW_CA_CWR)
		ca->seen.ignoring = 0;
#define NW_DALBE_STATE(n)						\
	NW_DALBE_CASE(n, nw_##n##_set_state(&ca->inner.n, &p->n, f,	\
					    new_state, d))
	NW_DALBE_EACH(NW_DALBE_STATE)
}

static inline void nw_dalbe_cwnd_event(struct nw_dalbe *ca,
				       const struct nw_dalbe_params *p,
				       const struct nw_facts *f, u32 event,
				       struct nw_decision *d)
{
#define NW_DALBE_EVENT(n)						\
	NW_DALBE_CASE(n, nw_##n##_cwnd_event(&ca->inner.n, &p->n, f,	\
					     event, d);			\
		if (event == NW_EV_LOSS && ca->seen.ignoring)		\
			nw_set_ssthresh(d,				\
				nw_##n##_ssthresh(&ca->inner.n, &p->n, f)))
	NW_DALBE_EACH(NW_DALBE_EVENT)
	if (event == NW_EV_LOSS)
		ca->seen.ignoring = 0;
}

static inline void nw_dalbe_in_ack_event(struct nw_dalbe *ca,
					 const struct nw_dalbe_params *p,
					 const struct nw_facts *f,
					 struct nw_decision *d)
{
	nw_dalbe_inner_in_ack_event(ca, p, f, d);
}

static inline u32 nw_dalbe_sees_acks(const struct nw_dalbe_params *p)
{
#define NW_DALBE_SEES_ACKS(n)						\
	case NW_DALBE_OVER_##n:						\
		return nw_##n##_sees_acks(&p->n);
	NW_DALBE_EACH(NW_DALBE_SEES_ACKS)
	return 0;
}

/* Once all is acknowledged no interval ends, until there is more. */
static inline u64 nw_dalbe_timer_at(const struct nw_dalbe *ca,
				    const struct nw_dalbe_params *p)
{
	if (!ca->due_ns && p->size > ca->acked)
		return ca->since_ns;
	return ca->due_ns;
}

static inline void nw_dalbe_timer(struct nw_dalbe *ca,
				  const struct nw_dalbe_params *p,
				  const struct nw_facts *f, struct nw_decision *d)
{
	ca->intervals = nw_dalbe_end(ca, p, f);
	nw_dalbe_pace(ca, f, d);
}

static inline void nw_dalbe_pkts_acked(struct nw_dalbe *ca,
				       const struct nw_dalbe_params *p,
				       const struct nw_facts *f,
				       struct nw_decision *d)
{
	struct nw_dalbe_seen *s = &ca->seen;
	u32 full = f->acked_sacked * s->mss;

	if (nw_before(ca->una, f->snd_una)) {
		u32 bytes = f->snd_una - ca->una;

		ca->acked += bytes;
		ca->una = f->snd_una;
		if (bytes >= full && f->rtt_us && f->ca_state == NW_CA_OPEN)
			nw_others_see(&s->others, f->rtt_us);
	}
	s->packets = nw_min(nw_add_sat(s->packets, f->acked_sacked), 1U << 31);
	if (f->rtt_us) {
		s->base_us = nw_min(s->base_us, f->rtt_us);
		if (s->rtts < NW_DALBE_TOO_MANY) {
			s->rtt_sum_us += f->rtt_us;
			s->rtts++;
		}
	}
	nw_dalbe_inner_acked(ca, p, f, d);
	if (!s->others.cap)
		nw_dalbe_pace(ca, f, d);
}

static inline void nw_dalbe_cong_avoid(struct nw_dalbe *ca,
				       const struct nw_dalbe_params *p,
				       const struct nw_facts *f, u32 acked,
				       struct nw_decision *d)
{
#define NW_DALBE_AVOID(n)						\
	NW_DALBE_CASE(n, nw_model_##n##_avoid(&ca->inner.n, &p->n,	\
					      &ca->seen, f, d))
	ca->seen.acked = acked;
	NW_DALBE_EACH(NW_DALBE_AVOID)
	if ((d->set & NW_SET_CWND) && d->cwnd < f->cwnd)
		ca->seen.reduced = nw_min(nw_add_sat(ca->seen.reduced,
			nw_q16_ratio(f->cwnd - d->cwnd, f->cwnd)), 1U << 31);
	nw_dalbe_hold(ca, f, d);
}

static inline u32 nw_dalbe_needs(const struct nw_dalbe_params *p)
{
#define NW_DALBE_NEEDS(n)						\
	case NW_DALBE_OVER_##n:						\
		return nw_##n##_needs(&p->n);
	NW_DALBE_EACH(NW_DALBE_NEEDS)
	return 0;
}

/* When all will be delivered at the rate of the last interval, us after the start. */
static inline s64 nw_dalbe_finish(const struct nw_dalbe *ca)
{
	u64 us = (ca->since_ns - ca->start_ns) / 1000;
	u64 rate = ca->seen.law.achieved;

	if (!rate || !ca->last.remaining)
		return NW_UNKNOWN;
	return (s64)(us + nw_min64(ca->last.remaining, 1ULL << 44) * 1000000 / rate);
}

/* Target less achieved rate, bits/s. */
static inline s64 nw_dalbe_behind(const struct nw_dalbe *ca)
{
	const struct nw_dalbe_law *law = &ca->seen.law;

	return (s64)NW_DALBE_BITS(law->target) - (s64)NW_DALBE_BITS(law->achieved);
}

NW_NO_HOOK(dalbe, cong_control)
NW_NO_TSO_LIMIT(dalbe)
NW_HAS_TIMER(dalbe)

#endif /* NW_DALBE_H */
