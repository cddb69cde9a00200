/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * TCP Prague, the L4S congestion control (draft-briscoe-iccrg-prague-congestion-
 * control; RFC 9331 section 4). Behaviour and constants are those of the
 * L4STeam/linux tree, net/ipv4/tcp_prague.c, of which three stages differ
 * enough to matter:
 *
 *   2020	module version 0.6. The window is whole segments with a carry in
 *		2^-20 segments beside it; pacing follows the window.
 *   2022	the 5.15 tree. The window is kept in 2^-20 segments and the socket
 *		gets it rounded up; pacing follows the fraction. Slow start moves
 *		the socket's window only, so that the fraction, and with it the
 *		rate, grows from the initial window by additive increase.
 *   2024	module version 0.7, the newest: alpha has 24 bits, starts at 0 and the
 *		first mark halves; the fraction follows slow start; RTTs are compared
 *		in 1/8 us. Small windows are led by a rate, and packets get smaller
 *		where two per target round trip are too much: prague_rate.h. It has
 *		no fall-back for a classic AQM.
 *
 * 2022 and 2024 are made for the fq discipline: their pacing follows a fraction
 * that is less than the socket's window, so that TCP's own pacing timer, which
 * keeps packets back inside TCP, leaves room in the window and with it no reason to
 * grow. Under fq, packets leave TCP at once and fill the window.
 *
 * Common to all: alpha is an EWMA (gain 1/16) of the share of marked segments,
 * once per round trip, not touched before the first mark. The reduction, by
 * alpha / 2, happens when the stack enters CWR and not at the end of a round.
 * Additive increase goes on in every state but loss recovery, for unmarked
 * segments only. The socket's window moves by at most one segment per ACK. A
 * loss halves.
 */
#ifndef NW_PRAGUE_H
#define NW_PRAGUE_H

#include "prague_classic.h"
#include "prague_rate.h"

#define nw_prague_MODE	NW_MODE_RATE

static inline void nw_prague_new_round(struct nw_prague *ca,
				       const struct nw_prague_params *p,
				       const struct nw_facts *f, u32 cwnd,
				       u32 ssthresh)
{
	ca->next_seq = f->snd_nxt;
	ca->old_delivered = f->delivered;
	ca->old_delivered_ce = f->delivered_ce;
	if (cwnd >= ssthresh) {
		ca->round++;
		if (!ca->round)
			ca->round = p->rtt_transition;
	}
	nw_prague_set_ai(ca, p, f);
}

/*
 * Pacing at 100 % of window / srtt, at 200 % below half of ssthresh, and the
 * burst that takes 2^-12 s at this rate. Rates count headers, as the bottleneck
 * does.
 */
static inline void nw_prague_pace(struct nw_prague *ca,
				  const struct nw_prague_params *p,
				  const struct nw_facts *f,
				  const struct nw_prague_window *w,
				  struct nw_decision *d)
{
	int doubled = w->cwnd < w->ssthresh / 2;
	u64 rate;

	if (p->flags & NW_PRAGUE_2024) {
		rate = nw_prague_2024_pace(ca, p, f, w);
		if (doubled)
			rate = nw_mul_sat(rate, 2);
	} else {
		rate = 8000000ULL * w->mtu;	/* srtt is in 1/8 us */
		if (doubled)
			rate <<= 1;
		if (f->srtt_us)
			rate = nw_div(rate, f->srtt_us);
		if (p->flags & NW_PRAGUE_FRACTIONAL) {
			u32 part = (u32)(ca->frac & (NW_PRAGUE_ONE - 1));
			u64 least = (((rate & (NW_PRAGUE_ONE - 1)) * part) +
				     (NW_PRAGUE_ONE >> 1)) >> NW_PRAGUE_UNIT;

			least += (rate >> NW_PRAGUE_UNIT) * part;
			rate = nw_mul_sat(rate, (u32)(ca->frac >> NW_PRAGUE_UNIT));
			rate = rate + least < rate ? ~0ULL : rate + least;
		} else {
			rate = nw_mul_sat(rate, nw_max(w->cwnd, f->in_flight));
		}
		rate = nw_max64(rate, 1);
	}
	nw_set_pacing_rate(d, rate);
	/* a sum beyond 32 bits is no packet's */
	ca->burst = (u32)nw_min64(nw_div(rate >> NW_PRAGUE_BURST_SHIFT, w->mtu),
				  ~0U - 1);
	ca->burst = nw_max(ca->burst, 1);
}

/* The share alpha / 2 of a window in 2^-20 segments, rounded to nearest. */
static inline u64 nw_prague_reduction(const struct nw_prague_params *p,
				      u64 alpha, u64 window)
{
	u32 bits = p->alpha_bits;
	u32 shift = bits + 1 - NW_PRAGUE_UNIT;
	/* window = high 2^20 + low, so that no product passes 2^64 */
	u64 high = alpha * (window >> NW_PRAGUE_UNIT);
	u64 low = alpha * (window & (NW_PRAGUE_ONE - 1));
	u64 rest = high & ((1ULL << shift) - 1);

	return (high >> shift) +
	       (((rest << NW_PRAGUE_UNIT) + low + (1ULL << bits)) >> (bits + 1));
}

/* Carries stay far from the ends of their type, whatever an ACK says. */
static inline void nw_prague_add_carry(struct nw_prague *ca, s64 more)
{
	s64 most = (s64)(1ULL << 54);

	ca->carry += more;
	if (ca->carry > most)
		ca->carry = most;
	if (ca->carry < -most)
		ca->carry = -most;
}

static inline void nw_prague_reduce(struct nw_prague *ca,
				    const struct nw_prague_params *p,
				    const struct nw_facts *f, u32 cwnd,
				    u32 ssthresh)
{
	u64 alpha = nw_prague_effective_alpha(ca, p);
	u64 window = p->flags & NW_PRAGUE_FRACTIONAL ?
		     ca->frac : (u64)cwnd << NW_PRAGUE_UNIT;
	u32 mtu = nw_prague_mtu(f);
	u64 less;

	if (nw_prague_is_rate_led(ca, p, cwnd, ssthresh)) {
		less = nw_mul_shift(ca->rate, (u32)alpha, p->alpha_bits + 1);
		ca->rate = nw_max64(ca->rate - less, NW_PRAGUE_MIN_RATE);
		ca->frac = nw_prague_frac_of(ca, f, mtu, ca->rate);
		return;
	}
	less = nw_prague_reduction(p, alpha, window);
	if (p->flags & NW_PRAGUE_FRACTIONAL)
		ca->frac -= nw_min64(less, ca->frac);
	else
		nw_prague_add_carry(ca, -(s64)less);
	if (p->flags & NW_PRAGUE_2024)
		ca->rate = nw_prague_rate_of(f, mtu, ca->frac);
}

static inline void nw_prague_enter_cwr(struct nw_prague *ca,
				       const struct nw_prague_params *p,
				       const struct nw_facts *f)
{
	if (nw_prague_is_rtt_independent(ca, p, f->cwnd, f->ssthresh) &&
	    nw_prague_target_ns(p, f) > f->now_ns - ca->cwr_stamp_ns)
		return;
	ca->cwr_stamp_ns = f->now_ns;
	nw_prague_reduce(ca, p, f, f->cwnd, f->ssthresh);
}

static inline void nw_prague_enter_loss(struct nw_prague *ca,
					const struct nw_prague_params *p,
					const struct nw_facts *f)
{
	ca->loss_cwnd = f->cwnd;
	if (p->flags & NW_PRAGUE_2024) {
		u32 mtu = nw_prague_mtu(f);

		ca->loss_rate = ca->rate;
		if (nw_prague_is_rate_led(ca, p, f->cwnd, f->ssthresh)) {
			ca->rate -= ca->rate >> 1;
			ca->frac = nw_prague_frac_of(ca, f, mtu, ca->rate);
		} else {
			ca->frac -= ca->frac >> 1;
			ca->rate = nw_prague_rate_of(f, mtu, ca->frac);
		}
	} else if (p->flags & NW_PRAGUE_FRACTIONAL) {
		ca->loss_frac = ca->frac;
		ca->frac -= ca->frac >> 1;
	} else {
		/* half of window and carry together */
		s64 half = (s64)((u64)f->cwnd << (NW_PRAGUE_UNIT - 1));

		ca->loss_carry = ca->carry;
		nw_prague_add_carry(ca, -half - (ca->carry >> 1));
	}
	ca->in_loss = 1;
	nw_prague_set_ai(ca, p, f);
}

static inline void nw_prague_update_alpha(struct nw_prague *ca,
					  const struct nw_prague_params *p,
					  const struct nw_facts *f)
{
	u32 marked = f->delivered_ce - ca->old_delivered_ce;
	u32 acked = nw_max(f->delivered - ca->old_delivered, 1);
	u64 share = marked ? ((u64)marked << p->alpha_bits) / acked : 0;
	u64 most = 1ULL << (p->alpha_bits + NW_PRAGUE_GAIN);
	u64 alpha = ca->alpha_up;

	if (nw_prague_detects(p))
		nw_prague_detect(ca, f);
	alpha = alpha - (alpha >> NW_PRAGUE_GAIN) + share;
	ca->alpha_up = (u32)nw_min64(alpha, most);
	ca->alpha_stamp_ns = f->now_ns;
}

/* 2024, led by the window: ai / fraction each, of packets of NW_PRAGUE_MTU. */
static inline void nw_prague_raise_frac(struct nw_prague *ca,
					const struct nw_facts *f, u32 unmarked)
{
	/* 2^23 segments by one ACK, and 2^32 of growth, are far beyond use */
	u64 more = nw_min64((u64)unmarked * ca->ai, 1ULL << 43);
	u64 by = nw_max64(ca->frac, 1);

	more = nw_min64(((more << NW_PRAGUE_UNIT) + (by >> 1)) / by, 1ULL << 52);
	more = nw_max64(nw_div(more * NW_PRAGUE_MTU, nw_prague_mtu(f)), unmarked);
	ca->frac = nw_min64(ca->frac + more, NW_PRAGUE_FRAC_MAX);
}

/* Unmarked segments, beyond slow start: ai / cwnd each, at least 2^-20. */
static inline void nw_prague_increase(struct nw_prague *ca,
				      const struct nw_prague_params *p,
				      const struct nw_facts *f,
				      const struct nw_prague_window *w,
				      u32 unmarked)
{
	u64 more = (u64)unmarked * ca->ai;
	u32 by = p->flags & NW_PRAGUE_FRACTIONAL ?
		 nw_prague_whole(ca, p, f) : w->cwnd;

	if (nw_prague_is_rate_led(ca, p, w->cwnd, w->ssthresh)) {
		nw_prague_raise_rate(ca, p, f, unmarked);
		return;
	}
	if (p->flags & NW_PRAGUE_2024) {
		nw_prague_raise_frac(ca, f, unmarked);
		return;
	}
	by = nw_max(by, 1);
	more = nw_max64(nw_div(more + (by >> 1), by), unmarked);
	if (p->flags & NW_PRAGUE_FRACTIONAL)
		ca->frac = nw_min64(ca->frac + more, NW_PRAGUE_FRAC_MAX);
	else
		nw_prague_add_carry(ca, (s64)more);
}

/* The socket's window goes one segment towards what it should be. */
static inline void nw_prague_step(struct nw_prague *ca,
				  const struct nw_prague_params *p,
				  const struct nw_facts *f,
				  struct nw_prague_window *w)
{
	int down, up;

	if (p->flags & NW_PRAGUE_FRACTIONAL) {
		u32 want = nw_prague_whole(ca, p, f);

		down = w->cwnd > want && w->cwnd > NW_PRAGUE_MIN_CWND;
		up = w->cwnd < want;
	} else {
		down = ca->carry <= -(s64)NW_PRAGUE_ONE;
		up = ca->carry >= (s64)NW_PRAGUE_ONE;
		if (down)
			ca->carry += (s64)NW_PRAGUE_ONE;
		if (up)
			ca->carry -= (s64)NW_PRAGUE_ONE;
	}
	if (down) {
		if (w->cwnd <= NW_PRAGUE_MIN_CWND) {
			/* 2020: the rest of the reduction is forgotten */
			w->cwnd = NW_PRAGUE_MIN_CWND;
			ca->carry = 0;
		} else {
			w->cwnd--;
		}
		w->ssthresh = w->cwnd;
	} else if (up) {
		w->cwnd = nw_clamp_cwnd(f, nw_add_sat(w->cwnd, 1));
	}
	if (down || up)
		nw_prague_set_ai(ca, p, f);
}

/* Does the window limit the sender? TCP's own pacing timer may stop a burst
 * before the window does; 2020 then goes by whether data waits.
 */
static inline int nw_prague_is_limited(const struct nw_prague_params *p,
				       const struct nw_facts *f)
{
	if (f->flags & NW_F_CWND_LIMITED)
		return 1;
	return !(p->flags & NW_PRAGUE_FRACTIONAL) &&
	       f->pacing_status == NW_PACING_NEEDED && (f->flags & NW_F_UNSENT);
}

/* This ACK's share in the window. */
static inline void nw_prague_update_cwnd(struct nw_prague *ca,
					 const struct nw_prague_params *p,
					 const struct nw_facts *f,
					 struct nw_prague_window *w)
{
	u32 marked = f->delivered_ce - ca->seen_ce;
	u32 unmarked = f->acked_sacked > marked ? f->acked_sacked - marked : 0;

	ca->seen_ce = f->delivered_ce;
	if (marked) {
		if (!ca->saw_ce && (p->flags & NW_PRAGUE_2024))
			ca->frac = (ca->frac + 1) >> 1;
		ca->saw_ce = 1;
	}
	if (unmarked && !ca->in_loss && nw_prague_is_limited(p, f)) {
		if (w->cwnd < w->ssthresh) {
			unmarked = nw_slow_start(f, &w->cwnd, unmarked);
			if (p->flags & NW_PRAGUE_2024)
				ca->frac = nw_min64((u64)w->cwnd << NW_PRAGUE_UNIT,
						    NW_PRAGUE_FRAC_MAX);
			if (!unmarked) {
				nw_prague_set_ai(ca, p, f);
				return;
			}
		}
		nw_prague_increase(ca, p, f, w, unmarked);
	}
	nw_prague_step(ca, p, f, w);
}

static inline void nw_prague_init(struct nw_prague *ca,
				  const struct nw_prague_params *p,
				  const struct nw_facts *f,
				  struct nw_decision *d)
{
	u32 alpha_start = p->flags & NW_PRAGUE_2024 ? 0 : 1;
	struct nw_prague_window w = {
		.cwnd = f->cwnd,
		.ssthresh = f->ssthresh,
		.mtu = nw_prague_mtu(f),
	};

	ca->cwr_stamp_ns = 0;
	ca->alpha_stamp_ns = f->now_ns;
	ca->alpha_up = alpha_start << (p->alpha_bits + NW_PRAGUE_GAIN);
	ca->loss_cwnd = 0;
	ca->burst = 1;
	ca->round = 0;
	ca->saw_ce = f->delivered_ce != 0;
	ca->in_loss = 0;
	ca->seen_ce = f->delivered_ce;

	if (p->flags & NW_PRAGUE_FRACTIONAL)
		ca->frac = nw_min64((u64)f->cwnd << NW_PRAGUE_UNIT,
				    NW_PRAGUE_FRAC_MAX);
	else
		ca->carry = 0;
	if (p->flags & NW_PRAGUE_2024) {
		ca->loss_rate = 0;
		ca->rate = NW_PRAGUE_MIN_RATE;
		ca->mean_rtt = (u64)nw_max(f->srtt_us, 8) << NW_PRAGUE_MEAN;
		ca->mtu = w.mtu;
		ca->rate_mode = 0;
	} else {
		ca->loss_frac = 0;
		nw_prague_classic_init(ca, f->srtt_us >> 3);
	}
	nw_prague_new_round(ca, p, f, f->cwnd, f->ssthresh);
	if (f->srtt_us)
		nw_prague_pace(ca, p, f, &w, d);
	if (f->pacing_status == NW_PACING_NONE)
		nw_set_pacing_status(d, NW_PACING_NEEDED);
}

static inline void nw_prague_release(struct nw_prague *ca)
{
	(void)ca;
}

/* The threshold stays: the first step down sets it to the window. */
static inline u32 nw_prague_ssthresh(struct nw_prague *ca,
				     const struct nw_prague_params *p,
				     const struct nw_facts *f)
{
	if (nw_prague_detects(p))
		nw_prague_set_pace(ca, f->ssthresh);
	return f->ssthresh;
}

static inline u32 nw_prague_undo_cwnd(struct nw_prague *ca,
				      const struct nw_prague_params *p,
				      const struct nw_facts *f)
{
	if (p->flags & NW_PRAGUE_2024) {
		ca->in_loss = 0;
		ca->rate = nw_max64(ca->rate, ca->loss_rate);
		ca->frac = nw_prague_frac_of(ca, f, nw_prague_mtu(f), ca->rate);
	} else if (p->flags & NW_PRAGUE_FRACTIONAL) {
		ca->frac = nw_max64(ca->frac, ca->loss_frac);
	} else {
		/* As the tree has it: the change since the loss counts twice. */
		nw_prague_add_carry(ca, ca->carry - ca->loss_carry);
	}
	return nw_max(nw_max(ca->loss_cwnd, f->cwnd), 1);
}

static inline void nw_prague_set_state(struct nw_prague *ca,
				       const struct nw_prague_params *p,
				       const struct nw_facts *f, u8 new_state,
				       struct nw_decision *d)
{
	(void)d;
	if (new_state == f->ca_state)
		return;
	if (new_state == NW_CA_RECOVERY)
		nw_prague_enter_loss(ca, p, f);
	else if (new_state == NW_CA_CWR)
		nw_prague_enter_cwr(ca, p, f);
	else if (new_state == NW_CA_OPEN)
		ca->in_loss = 0;
}

static inline void nw_prague_cwnd_event(struct nw_prague *ca,
					const struct nw_prague_params *p,
					const struct nw_facts *f, u32 event,
					struct nw_decision *d)
{
	(void)d;
	if (event == NW_EV_LOSS)
		nw_prague_enter_loss(ca, p, f);
}

NW_NO_ACK_HOOK(prague)

static inline void nw_prague_pkts_acked(struct nw_prague *ca,
					const struct nw_prague_params *p,
					const struct nw_facts *f,
					struct nw_decision *d)
{
	(void)d;
	if (nw_prague_detects(p) && f->rtt_us)
		nw_prague_slow_rtt(ca, f->rtt_us);
}

NW_NO_HOOK_WITH(prague, cong_avoid, u32)

static inline void nw_prague_cong_control(struct nw_prague *ca,
					  const struct nw_prague_params *p,
					  const struct nw_facts *f,
					  struct nw_decision *d)
{
	struct nw_prague_window w = {
		.cwnd = f->cwnd,
		.ssthresh = f->ssthresh,
		.mtu = nw_prague_mtu(f),
	};

	nw_prague_update_cwnd(ca, p, f, &w);
	if (!nw_before(f->snd_una, ca->next_seq) &&
	    (!nw_prague_is_rtt_independent(ca, p, w.cwnd, w.ssthresh) ||
	     nw_prague_target_ns(p, f) <= f->now_ns - ca->alpha_stamp_ns)) {
		if (ca->saw_ce)
			nw_prague_update_alpha(ca, p, f);
		if (p->flags & NW_PRAGUE_2024) {
			if (ca->saw_ce)
				nw_prague_fit(ca, p, f, &w, d);
			ca->mean_rtt += (u64)f->srtt_us -
					(ca->mean_rtt >> NW_PRAGUE_MEAN);
		}
		nw_prague_new_round(ca, p, f, w.cwnd, w.ssthresh);
	}
	nw_prague_pace(ca, p, f, &w, d);
	if (p->flags & NW_PRAGUE_2024)
		nw_prague_choose_mode(ca, f, &w);
	if (w.cwnd < w.ssthresh ? 0 : f->cwnd < f->ssthresh)
		d->events |= NW_DID_SLOW_START_EXIT;
	nw_set_cwnd(d, w.cwnd);
	nw_set_ssthresh(d, w.ssthresh);
}

/* Alpha is scaled to 2^20 in every variant. */
#define nw_prague_TELEMETRY(FIELD)					\
	FIELD("alpha", "", 1 << 20,					\
	      ca->alpha_up >> (NW_PRAGUE_GAIN + p->alpha_bits - 20),	\
	      "share of packets marked, as the sender estimates it")

/*
 * Longest burst. 2022 takes net.ipv4.tcp_min_tso_segs where that is more
 * (prague_tso_segs of the 5.15 tree); 2024 sends single segments, and so does the
 * tree of August 2020, which takes the lesser of this and what autosizing says.
 */
static inline u32 nw_prague_max_tso_segs(const struct nw_prague *ca,
					 const struct nw_prague_params *p)
{
	u32 least = p->flags & NW_PRAGUE_FRACTIONAL &&
		    !(p->flags & NW_PRAGUE_2024) ? NW_PRAGUE_LEAST_BURST : 1;

	return nw_max(ca->burst, least);	/* before init, too */
}

NW_NO_TIMER(prague)

#endif /* NW_PRAGUE_H */
