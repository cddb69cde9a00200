/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Prague's RTT independence: below a target RTT, additive increase, reductions
 * and updates of alpha go at the pace of that RTT. L4STeam/linux
 * net/ipv4/tcp_prague.c, prague_rtt_scaling.
 */
#ifndef NW_PRAGUE_RTT_H
#define NW_PRAGUE_RTT_H

#include "prague_state.h"

static inline u32 nw_prague_rtt_unit(const struct nw_prague_params *p, u32 us8)
{
	/* from 1/8 us */
	return p->flags & NW_PRAGUE_2024 ? us8 :
	       us8 >> (3 + NW_PRAGUE_COARSE_RTT);
}

/* Target round trip in the variant's RTT unit. */
static inline u64 nw_prague_target(const struct nw_prague_params *p,
				   const struct nw_facts *f)
{
	u64 target = p->flags & NW_PRAGUE_2024 ?
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

	if (p->flags & NW_PRAGUE_2024)
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
	u32 unit = p->flags & NW_PRAGUE_2024 ? 0 : 3 + NW_PRAGUE_COARSE_RTT;
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
	u64 most = p->flags & NW_PRAGUE_2024 ?
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

#endif /* NW_PRAGUE_RTT_H */
