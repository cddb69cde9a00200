/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/* Prague's constants, parameters and state; its rules are in prague.h. */
#ifndef NW_PRAGUE_STATE_H
#define NW_PRAGUE_STATE_H

#include "nw_cc.h"

#define NW_PRAGUE_MIN_CWND	2U		/* segments */
#define NW_PRAGUE_GAIN		4U		/* EWMA gain 2^-4 */
#define NW_PRAGUE_UNIT		20U		/* window fractions: 2^-20 segments */
#define NW_PRAGUE_ONE		(1ULL << NW_PRAGUE_UNIT)
#define NW_PRAGUE_FRAC_MAX	(0xfffffffeULL << NW_PRAGUE_UNIT)
#define NW_PRAGUE_BURST_SHIFT	12U		/* burst 2^-12 s, about 0.25 ms */
#define NW_PRAGUE_LEAST_BURST	2U		/* 2022: tcp_min_tso_segs */
#define NW_PRAGUE_COARSE_RTT	7U		/* RTT unit of 2020 and 2022: 128 us */
#define NW_PRAGUE_FINE_RTT	3U		/* RTT unit of 2024: 1/8 us */
/* Round trips longer than this are not scaled. The tree compares 100000 with
 * an RTT in the unit above, so it is 12.8 s in 2020 and 2022 and 100 ms in 2024.
 */
#define NW_PRAGUE_MAX_SCALED	100000U

/* 2024 */
#define NW_PRAGUE_MIN_RATE	12500U		/* bytes/s: 100 kbit/s */
#define NW_PRAGUE_MIN_MSS	150U		/* bytes */
#define NW_PRAGUE_MTU		1500U		/* bytes: increase counts these */
#define NW_PRAGUE_RATE_BELOW	(4U * NW_PRAGUE_MTU)	/* window for rate mode, bytes */
#define NW_PRAGUE_SECOND	23U		/* a second is taken as 2^23 / 8 us */
#define NW_PRAGUE_MEAN		7U		/* gain 2^-7 of the mean RTT */
#define NW_PRAGUE_SWAY		5U		/* the rate varies by 2^-5, 3 % */

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
	NW_PRAGUE_FRACTIONAL = 1,	/* 2022, 2024: the window is a fraction */
	NW_PRAGUE_2024 = 2,		/* and all else that 2024 does */
};

/* The socket's window while an ACK is processed. */
struct nw_prague_window {
	u32 cwnd;
	u32 ssthresh;
	u32 mtu;		/* bytes of a full packet, as rates count them */
};

enum nw_prague_variant {
	NW_PRAGUE_OF_2020 = 0,
	NW_PRAGUE_OF_2022 = 1,
	NW_PRAGUE_OF_2024 = 2,
};

struct nw_prague_params {
	u32 variant;		/* enum nw_prague_variant */
	u32 rtt_control;	/* enum nw_prague_rtt_control */
	u32 rtt_target_us;
	u32 rtt_transition;	/* rounds after slow start */
	u32 ecn_fallback;	/* enum nw_prague_fallback; off in 2024 */
	u32 settled;		/* the variant from which the rest was derived */
	u32 alpha_bits;		/* 20 or 24 */
	u32 flags;		/* enum nw_prague_flag */
};

#define nw_prague_DEFAULTS {						\
	.variant = NW_PRAGUE_OF_2024,					\
	.rtt_control = NW_PRAGUE_RTT_RATE,				\
	.rtt_target_us = 25000,						\
	.rtt_transition = 4,						\
	.settled = NW_PRAGUE_OF_2024,					\
	.alpha_bits = 24,						\
	.flags = NW_PRAGUE_FRACTIONAL | NW_PRAGUE_2024,			\
}

/* The coarsest variant counts in 128 us; the square of 1 s, in the finest unit, is
 * far inside 64 bits.
 */
#define nw_prague_OPTIONS(P)						\
	NW_VARIANT(P, "variant", variant, "2020 2022 2024",		\
		   "the state of the L4S team's tree")			\
	NW_CHOICE(P, "rtt_control", rtt_control,			\
		  "none rate scalable additive", "RTT independence")	\
	NW_TIME(P, "rtt_target", rtt_target_us, 128, 1000000,		\
		"the round trip below which it is independent")		\
	NW_NUMBER(P, "rtt_transition", rtt_transition, 0, NW_NONE,	\
		  "rounds after slow start before it is independent")	\
	NW_CHOICE(P, "ecn_fallback", ecn_fallback, "off on detect",	\
		  "what it does about a classic AQM")

/* The defaults of a variant. Sources: L4STeam/linux net/ipv4/tcp_prague.c, module
 * version 0.6; the 5.15 tree; version 0.7. Deviation: 2020 has its RTT independence
 * off, as in the published tests of that year (heistp/l4s-tests).
 */
static inline const char *nw_prague_settle(struct nw_prague_params *p)
{
	if (p->settled != p->variant) {
		p->settled = p->variant;
		p->rtt_control = p->variant == NW_PRAGUE_OF_2020 ?
				 NW_PRAGUE_RTT_NONE : NW_PRAGUE_RTT_RATE;
		p->rtt_transition = p->variant == NW_PRAGUE_OF_2024 ? 4 : 500;
		p->alpha_bits = p->variant == NW_PRAGUE_OF_2024 ? 24 : 20;
		p->flags = 0;
		if (p->variant != NW_PRAGUE_OF_2020)
			p->flags |= NW_PRAGUE_FRACTIONAL;
		if (p->variant == NW_PRAGUE_OF_2024)
			p->flags |= NW_PRAGUE_2024;
	}
	if (p->ecn_fallback != NW_PRAGUE_FALLBACK_OFF &&
	    p->variant == NW_PRAGUE_OF_2024)
		return "`ecn_fallback off`: variant 2024 has no fall-back; "
		       "name `variant 2020` or `variant 2022`";
	return 0;
}

/* 2022 and 2024 pace by a fraction below the window, for the fq qdisc. */
static inline u32 nw_prague_needs(const struct nw_prague_params *p)
{
	return NW_NEEDS_ECN | NW_NEEDS_ACCECN | NW_NEEDS_ECT1 |
	       (p->flags & NW_PRAGUE_FRACTIONAL ? NW_WANTS_FQ : 0);
}

struct nw_prague {
	u64 cwr_stamp_ns;	/* last reduction */
	u64 alpha_stamp_ns;	/* last update of alpha */
	union {
		s64 carry;	/* 2020: of the window, 2^-20 segments */
		u64 frac;	/* later: the window itself, 2^-20 segments */
	};
	union {			/* before the last loss */
		s64 loss_carry;
		u64 loss_frac;
		u64 loss_rate;	/* 2024 */
	};
	union {
		struct {	/* 2020, 2022: detection of a classic AQM */
			u64 srtt_slow;	/* us << pace */
			u64 mdev_slow;	/* us << (pace + 1) */
			u32 depth_rest;	/* what the logarithms rounded off, */
			u32 mdev_rest;	/* as a factor */
			u32 score;
			u8 pace;	/* shift of the slow RTT filter */
		};
		struct {	/* 2024 */
			u64 rate;	/* bytes/s */
			u64 mean_rtt;	/* of srtt_us, << NW_PRAGUE_MEAN */
			u32 mtu;	/* largest packet, bytes */
			u8 rate_mode;	/* the rate leads, not the window */
		};
	};
	u32 alpha_up;		/* alpha << NW_PRAGUE_GAIN: keeps the remainder */
	u32 ai;			/* growth per unmarked window, 2^-20 segments */
	u32 loss_cwnd;
	u32 burst;		/* segments */
	u32 old_delivered;	/* at the start of the round */
	u32 old_delivered_ce;
	u32 seen_ce;		/* delivered_ce at the last ACK */
	u32 next_seq;		/* the round ends when this is acknowledged */
	u32 round;		/* rounds since slow start */
	u8 saw_ce;
	u8 in_loss;
};

#endif /* NW_PRAGUE_STATE_H */
