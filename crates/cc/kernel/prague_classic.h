/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Prague's fall-back: does the bottleneck mark as RFC 3168 does? Briscoe and
 * Ahmed, "TCP Prague Fall-back on Detection of a Classic ECN AQM" (arXiv
 * 1911.00710), as L4STeam/linux net/ipv4/tcp_prague.c has it: a score on the
 * scale of 2^20, moved once per round by V lg(mdev / V0) + D lg(max(depth / D0,
 * 1)). The term for self-limited flows is not built: the tree has it commented
 * out.
 */
#ifndef NW_PRAGUE_CLASSIC_H
#define NW_PRAGUE_CLASSIC_H

#include "prague_state.h"

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

/* 2024 has no fall-back, and no room for one. */
static inline int nw_prague_detects(const struct nw_prague_params *p)
{
	return p->ecn_fallback != NW_PRAGUE_FALLBACK_OFF &&
	       !(p->flags & NW_PRAGUE_2024);
}

static inline void nw_prague_classic_init(struct nw_prague *ca, u32 srtt_us)
{
	ca->pace = NW_PRAGUE_SRTT_BITS;
	ca->srtt_slow = (u64)srtt_us << NW_PRAGUE_SRTT_BITS;
	ca->mdev_slow = 1ULL << (NW_PRAGUE_SRTT_BITS + 1);
	ca->mdev_rest = NW_PRAGUE_CARRY_START;
	ca->depth_rest = NW_PRAGUE_CARRY_START >> 1;
	ca->score = 0;
}

/* RTT and its mean deviation, filtered slowly. */
static inline void nw_prague_slow_rtt(struct nw_prague *ca, u32 rtt_us)
{
	u64 srtt = ca->srtt_slow >> ca->pace;
	u64 error = rtt_us > srtt ? rtt_us - srtt : srtt - rtt_us;

	if (ca->srtt_slow) {
		ca->srtt_slow = ca->srtt_slow - srtt + rtt_us;
		ca->mdev_slow = ca->mdev_slow -
				(ca->mdev_slow >> (ca->pace + 1)) + error;
	} else {
		ca->srtt_slow = (u64)rtt_us << ca->pace;
		ca->mdev_slow = 1ULL << (ca->pace + 1);
	}
	ca->srtt_slow = nw_max64(ca->srtt_slow, 1);
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

		/* a deep queue is a sign of a classic AQM, a shallow one of none */
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

/* Alpha with its `alpha_bits`, raised towards Reno's response while the score
 * says that the bottleneck marks as RFC 3168 does.
 */
static inline u64 nw_prague_effective_alpha(const struct nw_prague *ca,
					    const struct nw_prague_params *p)
{
	u64 alpha = ca->alpha_up >> NW_PRAGUE_GAIN;
	u64 c;

	if (!nw_prague_detects(p) || p->ecn_fallback != NW_PRAGUE_FALLBACK_ON ||
	    ca->score <= NW_PRAGUE_L_STICKY)
		return alpha;
	c = nw_min(ca->score, NW_PRAGUE_CLASSIC) - NW_PRAGUE_L_STICKY;
	c = (c >> 1) + (c >> 3);	/* CUBIC's 0.3 is alpha / 2 with alpha 0.6 */
	c <<= p->alpha_bits - NW_PRAGUE_SCORE_BITS;
	return nw_max64(alpha, c);
}

#endif /* NW_PRAGUE_CLASSIC_H */
