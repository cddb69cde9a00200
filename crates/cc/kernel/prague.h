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
 *   2024	module version 0.7 in its fractional-window mode: alpha has 24 bits,
 *		starts at 0 and the first mark halves; the fraction follows slow
 *		start; RTTs are compared in 1/8 us. Its rate-based mode for windows
 *		under four segments, its MSS changes and its +-3 % rate variation
 *		are not built.
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

#include "nw_cc.h"

#define nw_prague_MODE	NW_MODE_RATE

#define NW_PRAGUE_MIN_CWND	2U		/* segments */
#define NW_PRAGUE_GAIN		4U		/* EWMA gain 2^-4 */
#define NW_PRAGUE_UNIT		20U		/* window fractions: 2^-20 segments */
#define NW_PRAGUE_ONE		(1ULL << NW_PRAGUE_UNIT)
#define NW_PRAGUE_FRAC_MAX	(0xfffffffeULL << NW_PRAGUE_UNIT)
#define NW_PRAGUE_BURST_SHIFT	12U		/* burst 2^-12 s, about 0.25 ms */
#define NW_PRAGUE_COARSE_RTT	7U		/* RTT unit of 2020 and 2022: 128 us */
#define NW_PRAGUE_FINE_RTT	3U		/* RTT unit of 2024: 1/8 us */
/* Round trips longer than this are not scaled. The tree compares 100000 with
 * an RTT in the unit above, so it is 12.8 s in 2020 and 2022 and 100 ms in 2024.
 */
#define NW_PRAGUE_MAX_SCALED	100000U
#define NW_PRAGUE_MIN_RATE	12500U		/* bytes/s, 2024: 100 kbit/s */

/* Classic-AQM detection (Briscoe and Ahmed, "TCP Prague Fall-back on Detection
 * of a Classic ECN AQM", arXiv 1911.00710): a score with alpha's scale of 2^20,
 * moved once per round by V lg(mdev / V0) + D lg(max(depth / D0, 1)).
 */
#define NW_PRAGUE_SCORE_BITS	20U
#define NW_PRAGUE_HALF		1U		/* V = D = 2^-1 */
#define NW_PRAGUE_SCORE_ONE	(1U << NW_PRAGUE_SCORE_BITS)
#define NW_PRAGUE_L_STICKY	(16U << (NW_PRAGUE_SCORE_BITS - NW_PRAGUE_HALF))
#define NW_PRAGUE_CLASSIC	(NW_PRAGUE_L_STICKY + NW_PRAGUE_SCORE_ONE)
#define NW_PRAGUE_C_STICKY	(NW_PRAGUE_CLASSIC + NW_PRAGUE_L_STICKY)
#define NW_PRAGUE_V0_LG		(10014683U >> NW_PRAGUE_HALF)	/* lg 750 us */
#define NW_PRAGUE_D0_LG		(11498458U >> NW_PRAGUE_HALF)	/* lg 2 ms */
#define NW_PRAGUE_SRTT_BITS	18U		/* slowest pace of the RTT filters */
#define NW_PRAGUE_CARRY_START	741455U		/* 2^19.5: log's rounding carry */

enum nw_prague_rtt_control {
	NW_PRAGUE_RTT_NONE = 0,
	NW_PRAGUE_RTT_RATE = 1,		/* equal rates below the target RTT */
	NW_PRAGUE_RTT_SCALABLE = 2,	/* ... with a floor on marks per RTT */
	NW_PRAGUE_RTT_ADDITIVE = 3,	/* as if the target were added to the RTT */
};

enum nw_prague_fallback {
	NW_PRAGUE_FALLBACK_OFF = 0,
	NW_PRAGUE_FALLBACK_ON = 1,
	NW_PRAGUE_FALLBACK_DETECT = 2,	/* keep the score, change nothing */
};

enum nw_prague_flag {
	NW_PRAGUE_FRACTIONAL = 1,	/* 2022, 2024 */
	NW_PRAGUE_FRAC_IN_SLOW_START = 2,	/* 2024: it follows slow start */
	NW_PRAGUE_FIRST_MARK_HALVES = 4,	/* 2024: alpha starts at 0 */
	NW_PRAGUE_FINE = 8,		/* 2024: fine RTT unit, least rate */
};

/* Wrong on purpose: plausible rules that a test must be able to tell. */
enum nw_prague_mutant {
	NW_PRAGUE_MUTANT_ROUNDS = 1,	/* reduce at the end of a marked round */
	NW_PRAGUE_MUTANT_SCALE = 2,	/* alpha of 24 bits read as one of 20 */
};

struct nw_prague_params {
	u32 alpha_bits;		/* 20 or 24 */
	u32 flags;		/* enum nw_prague_flag */
	u32 rtt_control;	/* enum nw_prague_rtt_control */
	u32 rtt_target_us;
	u32 rtt_transition;	/* rounds after slow start */
	u32 ecn_fallback;	/* enum nw_prague_fallback */
	u32 mutant;		/* enum nw_prague_mutant */
};
_Static_assert(sizeof(struct nw_prague_params) == 28, "layout of nw_prague_params");

struct nw_prague {
	u64 cwr_stamp_ns;	/* last reduction */
	u64 alpha_stamp_ns;	/* last update of alpha */
	union {
		s64 carry;	/* 2020: of the window, 2^-20 segments */
		u64 frac;	/* later: the window itself, 2^-20 segments */
	};
	union {
		s64 loss_carry;	/* before the last loss */
		u64 loss_frac;
	};
	u64 srtt_slow;		/* us << pace, for detection only */
	u64 mdev_slow;		/* us << (pace + 1) */
	u32 alpha_up;		/* alpha << NW_PRAGUE_GAIN: keeps the remainder */
	u32 ai;			/* growth per unmarked window, 2^-20 segments */
	u32 loss_cwnd;
	u32 burst;		/* segments */
	u32 old_delivered;	/* at the start of the round */
	u32 old_delivered_ce;
	u32 seen_ce;		/* delivered_ce at the last ACK */
	u32 next_seq;		/* the round ends when this is acknowledged */
	u32 round;		/* rounds since slow start */
	u32 depth_rest;		/* what the logarithms rounded off, as a factor */
	u32 mdev_rest;
	u32 score;		/* classic-AQM detection */
	u8 pace;		/* shift of the slow RTT filter */
	u8 saw_ce;
	u8 in_loss;
};
NW_ASSERT_STATE(prague);

static inline u32 nw_prague_rtt_unit(const struct nw_prague_params *p, u32 us8)
{
	/* from 1/8 us */
	return p->flags & NW_PRAGUE_FINE ? us8 :
	       us8 >> (3 + NW_PRAGUE_COARSE_RTT);
}

/* Target round trip in the variant's RTT unit. */
static inline u64 nw_prague_target(const struct nw_prague_params *p,
				   const struct nw_facts *f)
{
	u64 target = p->flags & NW_PRAGUE_FINE ?
		     (u64)p->rtt_target_us << NW_PRAGUE_FINE_RTT :
		     p->rtt_target_us >> NW_PRAGUE_COARSE_RTT;

	if (p->rtt_control == NW_PRAGUE_RTT_ADDITIVE)
		target += nw_prague_rtt_unit(p, f->srtt_us);
	return target;
}

static inline u64 nw_prague_target_ns(const struct nw_prague_params *p,
				      const struct nw_facts *f)
{
	u64 target = nw_prague_target(p, f);

	if (p->flags & NW_PRAGUE_FINE)
		return (target >> NW_PRAGUE_FINE_RTT) * 1000;
	return (target << NW_PRAGUE_COARSE_RTT) * 1000;
}

static inline int nw_prague_is_rtt_independent(const struct nw_prague *ca,
					       const struct nw_prague_params *p,
					       u32 cwnd, u32 ssthresh)
{
	return p->rtt_control != NW_PRAGUE_RTT_NONE && cwnd >= ssthresh &&
	       ca->round >= p->rtt_transition;
}

/* One segment per target RTT, at the rate that a window of that RTT has. */
static inline u64 nw_prague_rate_scaled(u64 rtt, u64 target)
{
	u64 divisor = target * target;

	if (rtt >= target || !divisor)
		return NW_PRAGUE_ONE;
	return ((rtt << NW_PRAGUE_UNIT) * rtt + (divisor >> 1)) / divisor;
}

/* At least an eighth of a segment per RTT, from R1 on more, up to R0 further. */
static inline u64 nw_prague_scalable(const struct nw_prague_params *p, u64 rtt)
{
	u32 unit = p->flags & NW_PRAGUE_FINE ? 0 : 3 + NW_PRAGUE_COARSE_RTT;
	u64 r0 = (16384ULL << 3) >> unit;	/* about 16 ms */
	u64 r1 = (1536ULL << 3) >> unit;	/* about 1.5 ms */
	u64 above = rtt > r1 ? nw_min64(rtt - r1, r0) : 0;
	u64 divisor = r0 * r0;

	return ((NW_PRAGUE_ONE * above + (NW_PRAGUE_ONE >> 3) * r0) * rtt +
		(divisor >> 1)) / divisor;
}

/* What a whole window of unmarked segments adds. */
static inline void nw_prague_set_ai(struct nw_prague *ca,
				    const struct nw_prague_params *p,
				    const struct nw_facts *f)
{
	u64 rtt = nw_prague_rtt_unit(p, f->srtt_us);
	u64 most = p->flags & NW_PRAGUE_FINE ?
		   NW_PRAGUE_MAX_SCALED << NW_PRAGUE_FINE_RTT :
		   NW_PRAGUE_MAX_SCALED;
	u64 ai = NW_PRAGUE_ONE;

	if (p->rtt_control != NW_PRAGUE_RTT_NONE &&
	    ca->round >= p->rtt_transition && rtt && rtt <= most) {
		if (p->rtt_control == NW_PRAGUE_RTT_SCALABLE)
			ai = nw_prague_scalable(p, rtt);
		else
			ai = nw_prague_rate_scaled(rtt, nw_prague_target(p, f));
	}
	ca->ai = (u32)nw_min64(ai, ~0U);
}

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
				  const struct nw_facts *f, u32 cwnd,
				  u32 ssthresh, struct nw_decision *d)
{
	u64 mtu = (u64)f->mss + (f->header ? f->header : 52);
	u64 rate = 8000000ULL * mtu;	/* bytes/s per segment, srtt in 1/8 us */

	if (cwnd < ssthresh / 2)
		rate <<= 1;
	if (f->srtt_us)
		rate /= f->srtt_us;
	if ((p->flags & NW_PRAGUE_FRACTIONAL) && !(p->flags & NW_PRAGUE_FINE)) {
		u32 part = (u32)(ca->frac & (NW_PRAGUE_ONE - 1));
		u64 least = (((rate & (NW_PRAGUE_ONE - 1)) * part) +
			     (NW_PRAGUE_ONE >> 1)) >> NW_PRAGUE_UNIT;

		least += (rate >> NW_PRAGUE_UNIT) * part;
		rate = nw_mul_sat(rate, (u32)(ca->frac >> NW_PRAGUE_UNIT));
		rate = rate + least < rate ? ~0ULL : rate + least;
	} else {
		rate = nw_mul_sat(rate, nw_max(cwnd, f->in_flight));
	}
	rate = nw_max64(rate, p->flags & NW_PRAGUE_FINE ? NW_PRAGUE_MIN_RATE : 1);
	nw_set_pacing_rate(d, rate);
	/* mtu >= 1: either header is */
	ca->burst = (u32)nw_min64((rate / mtu) >> NW_PRAGUE_BURST_SHIFT, ~0U - 1);
	ca->burst = nw_max(ca->burst, 1);
}

/* The share alpha / 2 of a window in 2^-20 segments, rounded to nearest. */
static inline u64 nw_prague_reduction(const struct nw_prague_params *p,
				      u64 alpha, u64 window)
{
	u32 bits = p->mutant & NW_PRAGUE_MUTANT_SCALE ? 20 : p->alpha_bits;
	u32 shift = bits + 1 - NW_PRAGUE_UNIT;
	/* window = high 2^20 + low, so that no product passes 2^64 */
	u64 high = alpha * (window >> NW_PRAGUE_UNIT);
	u64 low = alpha * (window & (NW_PRAGUE_ONE - 1));
	u64 rest = high & ((1ULL << shift) - 1);

	return (high >> shift) +
	       (((rest << NW_PRAGUE_UNIT) + low + (1ULL << bits)) >> (bits + 1));
}

/* Alpha with its `alpha_bits`, raised towards Reno's response while the score
 * says that the bottleneck marks as RFC 3168 does.
 */
static inline u64 nw_prague_effective_alpha(const struct nw_prague *ca,
					    const struct nw_prague_params *p)
{
	u64 alpha = ca->alpha_up >> NW_PRAGUE_GAIN;
	u64 c;

	if (p->ecn_fallback != NW_PRAGUE_FALLBACK_ON ||
	    ca->score <= NW_PRAGUE_L_STICKY)
		return alpha;
	c = nw_min(ca->score, NW_PRAGUE_CLASSIC) - NW_PRAGUE_L_STICKY;
	c = (c >> 1) + (c >> 3);	/* CUBIC's 0.3 is alpha / 2 with alpha 0.6 */
	c <<= p->alpha_bits - NW_PRAGUE_SCORE_BITS;
	return nw_max64(alpha, c);
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
				    const struct nw_prague_params *p, u32 cwnd)
{
	u64 alpha = nw_prague_effective_alpha(ca, p);
	u64 window = p->flags & NW_PRAGUE_FRACTIONAL ?
		     ca->frac : (u64)cwnd << NW_PRAGUE_UNIT;
	u64 less = nw_prague_reduction(p, alpha, window);

	if (p->flags & NW_PRAGUE_FRACTIONAL)
		ca->frac -= nw_min64(less, ca->frac);
	else
		nw_prague_add_carry(ca, -(s64)less);
}

static inline void nw_prague_enter_cwr(struct nw_prague *ca,
				       const struct nw_prague_params *p,
				       const struct nw_facts *f)
{
	if (p->mutant & NW_PRAGUE_MUTANT_ROUNDS)
		return;
	if (nw_prague_is_rtt_independent(ca, p, f->cwnd, f->ssthresh) &&
	    nw_prague_target_ns(p, f) > f->now_ns - ca->cwr_stamp_ns)
		return;
	ca->cwr_stamp_ns = f->now_ns;
	nw_prague_reduce(ca, p, f->cwnd);
}

static inline void nw_prague_enter_loss(struct nw_prague *ca,
					const struct nw_prague_params *p,
					const struct nw_facts *f)
{
	ca->loss_cwnd = f->cwnd;
	if (p->flags & NW_PRAGUE_FRACTIONAL) {
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

/*
 * The logarithm of x rest as a whole number, times 2^-`bits`, with what it
 * rounds off kept as a factor in *rest for the next time: over many rounds the
 * mean of whole logarithms is then that of exact ones.
 */
static inline u32 nw_prague_carried_log(u64 x, u32 *rest, u32 add, u32 bits)
{
	u64 product = x * *rest + add;
	u32 log = nw_max(nw_ilog2(product), bits) - bits;

	*rest = (u32)(product >> log);
	return log << (NW_PRAGUE_SCORE_BITS - NW_PRAGUE_HALF);
}

/* Once per round: is the queue of the kind that RFC 3168 marking builds? */
static inline void nw_prague_detect(struct nw_prague *ca,
				    const struct nw_facts *f)
{
	u64 srtt = ca->srtt_slow >> ca->pace;
	u64 mdev = ca->mdev_slow >> (ca->pace + 1);
	u32 half = 1U << ca->pace;	/* half of mdev's unit, so that it rounds */
	s64 score = ca->score;

	if (!srtt || !f->min_rtt_us || f->min_rtt_us == ~0U)
		return;
	score += nw_prague_carried_log(mdev, &ca->mdev_rest, half,
				       ca->pace + 1U);
	score -= NW_PRAGUE_V0_LG;
	if (srtt > f->min_rtt_us) {
		u32 depth = nw_prague_carried_log(srtt - f->min_rtt_us,
						  &ca->depth_rest, half >> 1,
						  ca->pace);

		/* a deep queue speaks for a classic AQM, a shallow one for none */
		if (depth > NW_PRAGUE_D0_LG)
			score += depth - NW_PRAGUE_D0_LG;
	}
	if (score < 0)
		score = 0;
	ca->score = (u32)nw_min64((u64)score, NW_PRAGUE_C_STICKY);
}

/* RTT filters that are slower, the larger the window: a pace of
 * 1.5 lg ssthresh + 1 sees past the sawtooth.
 */
static inline void nw_prague_set_pace(struct nw_prague *ca, u32 ssthresh)
{
	u32 log = nw_ilog2(ssthresh);
	u32 pace = nw_min(log + (log >> 1) + 1, NW_PRAGUE_SRTT_BITS);

	if (pace >= ca->pace) {
		u32 by = pace - ca->pace;

		ca->srtt_slow <<= by;
		ca->mdev_slow <<= by;
		ca->depth_rest <<= by;
		ca->mdev_rest <<= by;
	} else {
		u32 by = ca->pace - pace;

		ca->srtt_slow >>= by;
		ca->mdev_slow >>= by;
		ca->depth_rest >>= by;
		ca->mdev_rest >>= by;
	}
	ca->pace = (u8)pace;
}

static inline void nw_prague_update_alpha(struct nw_prague *ca,
					  const struct nw_prague_params *p,
					  const struct nw_facts *f, u32 cwnd)
{
	u32 marked = f->delivered_ce - ca->old_delivered_ce;
	u32 acked = nw_max(f->delivered - ca->old_delivered, 1);
	u64 share = marked ? ((u64)marked << p->alpha_bits) / acked : 0;
	u64 most = 1ULL << (p->alpha_bits + NW_PRAGUE_GAIN);
	u64 alpha = ca->alpha_up;

	if (p->ecn_fallback != NW_PRAGUE_FALLBACK_OFF)
		nw_prague_detect(ca, f);
	alpha = alpha - (alpha >> NW_PRAGUE_GAIN) + share;
	ca->alpha_up = (u32)nw_min64(alpha, most);
	ca->alpha_stamp_ns = f->now_ns;
	if ((p->mutant & NW_PRAGUE_MUTANT_ROUNDS) && marked)
		nw_prague_reduce(ca, p, cwnd);
}

/* Window from the fraction, rounded up. */
static inline u32 nw_prague_whole(const struct nw_prague *ca)
{
	return (u32)((ca->frac + NW_PRAGUE_ONE - 1) >> NW_PRAGUE_UNIT);
}

/* Unmarked segments, beyond slow start: ai / cwnd each, at least 2^-20. */
static inline void nw_prague_increase(struct nw_prague *ca,
				      const struct nw_prague_params *p, u32 cwnd,
				      u32 unmarked)
{
	u64 more = (u64)unmarked * ca->ai;
	u32 by = p->flags & NW_PRAGUE_FRACTIONAL && !(p->flags & NW_PRAGUE_FINE) ?
		 nw_prague_whole(ca) : cwnd;

	by = nw_max(by, 1);
	more = nw_max64((more + (by >> 1)) / by, unmarked);
	if (p->flags & NW_PRAGUE_FRACTIONAL)
		ca->frac = nw_min64(ca->frac + more, NW_PRAGUE_FRAC_MAX);
	else
		nw_prague_add_carry(ca, (s64)more);
}

/* The socket's window goes one segment towards what it should be. */
static inline void nw_prague_step(struct nw_prague *ca,
				  const struct nw_prague_params *p,
				  const struct nw_facts *f, u32 *cwnd,
				  u32 *ssthresh)
{
	int down, up;

	if (p->flags & NW_PRAGUE_FRACTIONAL) {
		u32 want = nw_prague_whole(ca);

		if (p->flags & NW_PRAGUE_FINE)
			want = nw_max(want, NW_PRAGUE_MIN_CWND);
		down = *cwnd > want && *cwnd > NW_PRAGUE_MIN_CWND;
		up = *cwnd < want;
	} else {
		down = ca->carry <= -(s64)NW_PRAGUE_ONE;
		up = ca->carry >= (s64)NW_PRAGUE_ONE;
		if (down)
			ca->carry += (s64)NW_PRAGUE_ONE;
		if (up)
			ca->carry -= (s64)NW_PRAGUE_ONE;
	}
	if (down) {
		if (*cwnd <= NW_PRAGUE_MIN_CWND) {
			/* 2020: the rest of the reduction is forgotten */
			*cwnd = NW_PRAGUE_MIN_CWND;
			ca->carry = 0;
		} else {
			(*cwnd)--;
		}
		*ssthresh = *cwnd;
	} else if (up) {
		*cwnd = nw_clamp_cwnd(f, nw_add_sat(*cwnd, 1));
	}
	if (down || up)
		nw_prague_set_ai(ca, p, f);
}

/* This ACK's share in the window. */
static inline void nw_prague_update_cwnd(struct nw_prague *ca,
					 const struct nw_prague_params *p,
					 const struct nw_facts *f, u32 *cwnd,
					 u32 *ssthresh)
{
	u32 marked = f->delivered_ce - ca->seen_ce;
	u32 unmarked = f->acked_sacked > marked ? f->acked_sacked - marked : 0;

	ca->seen_ce = f->delivered_ce;
	if (marked) {
		if (!ca->saw_ce && (p->flags & NW_PRAGUE_FIRST_MARK_HALVES))
			ca->frac = (ca->frac + 1) >> 1;
		ca->saw_ce = 1;
	}
	if (unmarked && !ca->in_loss && (f->flags & NW_F_CWND_LIMITED)) {
		if (*cwnd < *ssthresh) {
			unmarked = nw_slow_start(f, cwnd, unmarked);
			if (p->flags & NW_PRAGUE_FRAC_IN_SLOW_START)
				ca->frac = nw_min64((u64)*cwnd << NW_PRAGUE_UNIT,
						    NW_PRAGUE_FRAC_MAX);
			if (!unmarked) {
				nw_prague_set_ai(ca, p, f);
				return;
			}
		}
		nw_prague_increase(ca, p, *cwnd, unmarked);
	}
	nw_prague_step(ca, p, f, cwnd, ssthresh);
}

static inline void nw_prague_init(struct nw_prague *ca,
				  const struct nw_prague_params *p,
				  const struct nw_facts *f,
				  struct nw_decision *d)
{
	u32 alpha_start = p->flags & NW_PRAGUE_FIRST_MARK_HALVES ? 0 : 1;

	ca->cwr_stamp_ns = 0;
	ca->alpha_stamp_ns = f->now_ns;
	ca->alpha_up = alpha_start << (p->alpha_bits + NW_PRAGUE_GAIN);
	ca->loss_frac = 0;
	ca->loss_cwnd = 0;
	ca->burst = 1;
	ca->round = 0;
	ca->saw_ce = f->delivered_ce != 0;
	ca->in_loss = 0;
	ca->seen_ce = f->delivered_ce;

	ca->pace = NW_PRAGUE_SRTT_BITS;
	ca->srtt_slow = (u64)(f->srtt_us >> 3) << NW_PRAGUE_SRTT_BITS;
	ca->mdev_slow = 1ULL << (NW_PRAGUE_SRTT_BITS + 1);
	ca->mdev_rest = NW_PRAGUE_CARRY_START;
	ca->depth_rest = NW_PRAGUE_CARRY_START >> 1;
	ca->score = 0;

	if (p->flags & NW_PRAGUE_FRACTIONAL)
		ca->frac = nw_min64((u64)f->cwnd << NW_PRAGUE_UNIT,
				    NW_PRAGUE_FRAC_MAX);
	else
		ca->carry = 0;
	nw_prague_new_round(ca, p, f, f->cwnd, f->ssthresh);
	if (f->srtt_us)
		nw_prague_pace(ca, p, f, f->cwnd, f->ssthresh, d);
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
	if (p->ecn_fallback != NW_PRAGUE_FALLBACK_OFF)
		nw_prague_set_pace(ca, f->ssthresh);
	return f->ssthresh;
}

static inline u32 nw_prague_undo_cwnd(struct nw_prague *ca,
				      const struct nw_prague_params *p,
				      const struct nw_facts *f)
{
	if (p->flags & NW_PRAGUE_FRACTIONAL) {
		ca->frac = nw_max64(ca->frac, ca->loss_frac);
		if (p->flags & NW_PRAGUE_FINE)
			ca->in_loss = 0;
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

NW_NO_HOOK(prague, in_ack_event)

/* The slow RTT filters of the detection. */
static inline void nw_prague_pkts_acked(struct nw_prague *ca,
					const struct nw_prague_params *p,
					const struct nw_facts *f,
					struct nw_decision *d)
{
	u64 rtt = f->rtt_us;
	u64 srtt = ca->srtt_slow >> ca->pace;
	u64 error = rtt > srtt ? rtt - srtt : srtt - rtt;

	(void)d;
	if (p->ecn_fallback == NW_PRAGUE_FALLBACK_OFF || !rtt)
		return;
	if (ca->srtt_slow) {
		ca->srtt_slow = ca->srtt_slow - srtt + rtt;
		ca->mdev_slow = ca->mdev_slow -
				(ca->mdev_slow >> (ca->pace + 1)) + error;
	} else {
		ca->srtt_slow = rtt << ca->pace;
		ca->mdev_slow = 1ULL << (ca->pace + 1);
	}
	ca->srtt_slow = nw_max64(ca->srtt_slow, 1);
}

NW_NO_HOOK_WITH(prague, cong_avoid, u32)

static inline void nw_prague_cong_control(struct nw_prague *ca,
					  const struct nw_prague_params *p,
					  const struct nw_facts *f,
					  struct nw_decision *d)
{
	u32 cwnd = f->cwnd;
	u32 ssthresh = f->ssthresh;

	nw_prague_update_cwnd(ca, p, f, &cwnd, &ssthresh);
	if (!nw_before(f->snd_una, ca->next_seq) &&
	    (!nw_prague_is_rtt_independent(ca, p, cwnd, ssthresh) ||
	     nw_prague_target_ns(p, f) <= f->now_ns - ca->alpha_stamp_ns)) {
		if (ca->saw_ce)
			nw_prague_update_alpha(ca, p, f, cwnd);
		nw_prague_new_round(ca, p, f, cwnd, ssthresh);
	}
	nw_prague_pace(ca, p, f, cwnd, ssthresh, d);
	if (cwnd < ssthresh ? 0 : f->cwnd < f->ssthresh)
		d->events |= NW_DID_SLOW_START_EXIT;
	nw_set_cwnd(d, cwnd);
	nw_set_ssthresh(d, ssthresh);
}

/* Scaled to 2^20 in every variant. */
static inline u32 nw_prague_alpha(const struct nw_prague *ca,
				  const struct nw_prague_params *p)
{
	return ca->alpha_up >> (NW_PRAGUE_GAIN + p->alpha_bits - 20);
}

static inline u32 nw_prague_max_tso_segs(const struct nw_prague *ca,
					 const struct nw_prague_params *p)
{
	(void)p;
	return ca->burst;
}

#endif /* NW_PRAGUE_H */
