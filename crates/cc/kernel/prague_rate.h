/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What Prague of 2024 does with rates (L4STeam/linux net/ipv4/tcp_prague.c,
 * version 0.7 of 2024). A window of at most four full packets that was marked is
 * led by a rate: two packets per round trip are then no lower bound, as pacing
 * goes on below them, down to 100 kbit/s. The rate varies by 3 % in the two halves
 * of a round trip. Where two packets per target round trip are too much, packets
 * get smaller.
 *
 * Both directions between rate and window stand as the tree has them: from window
 * to rate a second is 8000000 / 8 us, back it is 2^23 / 8 us, 4.9 % more.
 */
#ifndef NW_PRAGUE_RATE_H
#define NW_PRAGUE_RATE_H

#include "prague_rtt.h"

/* Bytes of a full packet on the path's first link, as rates count them. */
static inline u32 nw_prague_mtu(const struct nw_facts *f)
{
	return nw_max(nw_add_sat(f->mss, f->header ? f->header : 52), 1);
}

/* The socket's window from the fraction, rounded up. */
static inline u32 nw_prague_whole(const struct nw_prague *ca,
				  const struct nw_prague_params *p,
				  const struct nw_facts *f)
{
	u32 whole = (u32)((ca->frac + NW_PRAGUE_ONE - 1) >> NW_PRAGUE_UNIT);

	return p->flags & NW_PRAGUE_2024 ?
	       nw_clamp_cwnd(f, nw_max(whole, NW_PRAGUE_MIN_CWND)) : whole;
}

/* Bytes/s of one segment per round trip. */
static inline u64 nw_prague_segment_rate(const struct nw_facts *f, u32 mtu)
{
	u64 rate = 8000000ULL * mtu;	/* srtt in 1/8 us */

	return f->srtt_us ? nw_div(rate, f->srtt_us) : rate;
}

/* The rate of a window in 2^-20 segments. */
static inline u64 nw_prague_rate_of(const struct nw_facts *f, u32 mtu, u64 frac)
{
	u64 one = nw_prague_segment_rate(f, mtu);
	u64 whole = nw_mul_sat(one, (u32)(frac >> NW_PRAGUE_UNIT));
	u64 part = nw_mul_shift(one, (u32)(frac & (NW_PRAGUE_ONE - 1)),
				NW_PRAGUE_UNIT);
	u64 rate = whole + part < whole ? ~0ULL : whole + part;

	return nw_max64(rate, NW_PRAGUE_MIN_RATE);
}

/* The window in 2^-20 segments that has this rate over the mean round trip. */
static inline u64 nw_prague_frac_of(const struct nw_prague *ca,
				    const struct nw_facts *f, u32 mtu, u64 rate)
{
	u32 rtt = (u32)nw_min64(ca->mean_rtt >> NW_PRAGUE_MEAN, ~0U);
	u64 bytes = nw_mul_shift(rate, rtt ? rtt : f->srtt_us,
				 NW_PRAGUE_SECOND - NW_PRAGUE_UNIT);
	u64 frac = bytes / mtu + (bytes % mtu != 0);

	return nw_min64(frac, NW_PRAGUE_FRAC_MAX);
}

/* The longer of target and measured round trip, 1/8 us. */
static inline u32 nw_prague_virtual_rtt(const struct nw_prague_params *p,
					const struct nw_facts *f)
{
	u64 rtt = nw_max64(nw_prague_target(p, f), f->srtt_us);

	return (u32)nw_max64(nw_min64(rtt, ~0U), 1);
}

static inline int nw_prague_is_rate_led(const struct nw_prague *ca,
					const struct nw_prague_params *p,
					u32 cwnd, u32 ssthresh)
{
	return (p->flags & NW_PRAGUE_2024) && ca->rate_mode &&
	       nw_prague_is_rtt_independent(ca, p, cwnd, ssthresh);
}

/* One packet more per target round trip and round trip, for unmarked segments. */
static inline void nw_prague_raise_rate(struct nw_prague *ca,
					const struct nw_prague_params *p,
					const struct nw_facts *f, u32 unmarked)
{
	u32 mtu = nw_prague_mtu(f);
	u32 rtt = nw_prague_virtual_rtt(p, f);
	/* no ACK brings 2^20 segments; the product stays below 2^54 */
	u64 bytes = (u64)nw_min(unmarked, 1U << 20) * NW_PRAGUE_MTU;
	u64 more = (bytes << NW_PRAGUE_SECOND) / rtt;
	u64 window = nw_mul_shift(ca->rate, rtt, NW_PRAGUE_SECOND) / mtu + 1;

	more = (more + (window >> 1)) / window;
	ca->rate = ca->rate + more < more ? ~0ULL : ca->rate + more;
	ca->frac = nw_max64(nw_min64(ca->frac + unmarked, NW_PRAGUE_FRAC_MAX),
			    nw_prague_frac_of(ca, f, mtu, ca->rate));
}

/* Pacing: by the rate, or by whole segments of the window. */
static inline u64 nw_prague_2024_pace(struct nw_prague *ca,
				      const struct nw_prague_params *p,
				      const struct nw_facts *f,
				      const struct nw_prague_window *w)
{
	if (nw_prague_is_rate_led(ca, p, w->cwnd, w->ssthresh)) {
		u64 half_ns = (u64)(nw_prague_virtual_rtt(p, f) >> 4) * 1000;
		u64 sway = ca->rate >> NW_PRAGUE_SWAY;

		if (half_ns <= f->now_ns - ca->alpha_stamp_ns)
			return ca->rate - sway;
		return ca->rate + sway < sway ? ~0ULL : ca->rate + sway;
	}
	ca->rate = nw_mul_sat(nw_prague_segment_rate(f, w->mtu),
			      nw_max((u32)(ca->frac >> NW_PRAGUE_UNIT),
				     f->in_flight));
	ca->rate = nw_max64(ca->rate, NW_PRAGUE_MIN_RATE);
	return ca->rate;
}

/* Which of rate and window leads from here on; the other follows. */
static inline void nw_prague_choose_mode(struct nw_prague *ca,
					 const struct nw_facts *f,
					 const struct nw_prague_window *w)
{
	ca->rate_mode = ca->saw_ce &&
			(u64)w->cwnd * w->mtu <= NW_PRAGUE_RATE_BELOW;
	if (ca->rate_mode)
		ca->frac = nw_prague_frac_of(ca, f, w->mtu, ca->rate);
	else
		ca->rate = nw_prague_rate_of(f, w->mtu, ca->frac);
}

/* Largest packet of which two fit into a target round trip. */
static inline u32 nw_prague_fitting_mtu(const struct nw_prague *ca,
					const struct nw_prague_params *p,
					const struct nw_facts *f,
					const struct nw_prague_window *w)
{
	u32 least = nw_add_sat(NW_PRAGUE_MIN_MSS, f->header ? f->header : 52);
	u64 bytes;

	if (nw_prague_is_rate_led(ca, p, w->cwnd, w->ssthresh)) {
		bytes = nw_mul_shift(ca->rate, nw_prague_virtual_rtt(p, f),
				     NW_PRAGUE_SECOND);
	} else {
		/* a second at most; 2^20 segments need no smaller packets */
		u64 target = nw_min64(nw_prague_target(p, f),
				      1ULL << NW_PRAGUE_SECOND);
		u64 frac = nw_min64(ca->frac, 1ULL << (20 + NW_PRAGUE_UNIT));

		if (f->srtt_us && f->srtt_us < target)
			frac = frac * target / f->srtt_us;
		bytes = nw_mul_shift(frac, w->mtu, NW_PRAGUE_UNIT);
	}
	bytes = (bytes >> 1) + (bytes & 1);
	return nw_max((u32)nw_min64(ca->mtu, bytes), least);
}

/* The window is from here on counted in packets of the size that fits. */
static inline void nw_prague_fit(struct nw_prague *ca,
				 const struct nw_prague_params *p,
				 const struct nw_facts *f,
				 struct nw_prague_window *w,
				 struct nw_decision *d)
{
	u32 used = w->mtu;
	u32 whole;

	if (!(f->flags & NW_F_TAKES_MSS) || ca->in_loss ||
	    !nw_prague_is_rtt_independent(ca, p, w->cwnd, w->ssthresh))
		return;
	w->mtu = nw_prague_fitting_mtu(ca, p, f, w);
	if (w->mtu == used)
		return;
	nw_set_mss(d, w->mtu - (f->header ? f->header : 52));
	ca->frac = nw_min64(ca->frac, 1ULL << (20 + NW_PRAGUE_UNIT)) * used /
		   w->mtu;
	whole = nw_prague_whole(ca, p, f);
	if (w->cwnd != whole) {
		w->cwnd = whole;
		w->ssthresh = (u32)nw_min64((u64)w->ssthresh * used / w->mtu, ~0U);
		nw_prague_set_ai(ca, p, f);
	}
}

#endif /* NW_PRAGUE_RATE_H */
