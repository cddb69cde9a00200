/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Hybla: on a path of a long round trip, growth as fast in time as on one of rtt0.
 * With rho = RTT / rtt0, at least 1, each segment acked adds 2^rho - 1 segments in
 * slow start and rho^2 / cwnd in congestion avoidance. C. Caini, R. Firrincieli,
 * "TCP Hybla: a TCP enhancement for heterogeneous networks", International Journal of
 * Satellite Communications and Networking 22, 2004, with the arithmetic of Linux
 * net/ipv4/tcp_hybla.c, v6.17. Reductions are Reno's.
 *
 * As in Linux, an ACK counts as one segment, however many it acknowledges; rho is of
 * the smallest smoothed round trip; and outside the Open state growth is Reno's.
 *
 * Deviation: Linux begins with a window of rho segments and at most 65535; here the
 * stack's initial window and clamp stay.
 */
#ifndef NW_HYBLA_H
#define NW_HYBLA_H

#include "reno.h"

#define nw_hybla_MODE	NW_MODE_WINDOW

#define NW_HYBLA_BITS	7U		/* of increments: 2^-7 segments */
#define NW_HYBLA_ONE	(1U << NW_HYBLA_BITS)
#define NW_HYBLA_MOST	16U		/* rho in slow start: hybla_cong_avoid() */
#define NW_HYBLA_RHO	0xffffU		/* eighths; its square fits: 1024 s over 125 ms */

struct nw_hybla {
	u32 rho;		/* eighths, at least 8; 0 before the first sample */
	u32 least_srtt_us;	/* smallest smoothed round trip, << 3 */
	u32 cents;		/* growth not given yet, 2^-7 segments */
	u8 is_open;		/* in the Open state */
};

struct nw_hybla_params {
	u32 rtt0_us;
};
/* rtt0 25 ms: the default of the module's parameter. */
#define nw_hybla_DEFAULTS	{ .rtt0_us = 25000 }
#define nw_hybla_OPTIONS(P)						\
	NW_TIME(P, "rtt0", rtt0_us, 1000, 1000000,			\
		"the round trip that the growth is to be like")
#define nw_hybla_TELEMETRY(FIELD)					\
	FIELD("rho", "", 8, ca->rho ? (s64)ca->rho : NW_UNKNOWN,	\
	      "the round trip by the one that growth is to be like")

static inline void nw_hybla_set_rho(struct nw_hybla *ca,
				    const struct nw_hybla_params *p,
				    const struct nw_facts *f)
{
	/* srtt in eighths over rtt0 is rho in eighths */
	ca->rho = nw_min(nw_max(f->srtt_us / nw_max(p->rtt0_us, 1), 8),
			 NW_HYBLA_RHO);
}

static inline void nw_hybla_init(struct nw_hybla *ca,
				 const struct nw_hybla_params *p,
				 const struct nw_facts *f, struct nw_decision *d)
{
	(void)d;
	nw_hybla_set_rho(ca, p, f);
	ca->least_srtt_us = f->srtt_us ? f->srtt_us : NW_NONE;
	ca->cents = 0;
	ca->is_open = 1;
}

static inline void nw_hybla_release(struct nw_hybla *ca)
{
	(void)ca;
}

static inline u32 nw_hybla_ssthresh(struct nw_hybla *ca,
				    const struct nw_hybla_params *p,
				    const struct nw_facts *f)
{
	(void)ca; (void)p;
	return nw_max(f->cwnd >> 1, NW_RENO_SSTHRESH_MIN);
}

static inline u32 nw_hybla_undo_cwnd(struct nw_hybla *ca,
				     const struct nw_hybla_params *p,
				     const struct nw_facts *f)
{
	(void)ca; (void)p;
	return nw_max(nw_max(f->cwnd, f->prior_cwnd), 1);
}

static inline void nw_hybla_set_state(struct nw_hybla *ca,
				      const struct nw_hybla_params *p,
				      const struct nw_facts *f, u8 new_state,
				      struct nw_decision *d)
{
	(void)p; (void)f; (void)d;
	ca->is_open = new_state == NW_CA_OPEN;
}

NW_NO_HOOK_WITH(hybla, cwnd_event, u32)
NW_NO_ACK_HOOK(hybla)
NW_NO_HOOK(hybla, pkts_acked)

/* 2^(eighths / 8) in 2^-7 */
static inline u32 nw_hybla_power(u32 eighths)
{
	switch (eighths) {
	case 1: return 139;
	case 2: return 152;
	case 3: return 165;
	case 4: return 181;
	case 5: return 197;
	case 6: return 215;
	case 7: return 234;
	default: return 128;
	}
}

static inline void nw_hybla_cong_avoid(struct nw_hybla *ca,
				       const struct nw_hybla_params *p,
				       const struct nw_facts *f, u32 acked,
				       struct nw_decision *d)
{
	const struct nw_reno_params reno = nw_reno_DEFAULTS;
	u32 in_slow_start = f->cwnd < f->ssthresh;
	u32 cwnd = f->cwnd;
	u32 cnt = f->cwnd_cnt;
	u32 more;

	if (f->srtt_us && f->srtt_us < ca->least_srtt_us) {
		nw_hybla_set_rho(ca, p, f);
		ca->least_srtt_us = f->srtt_us;
	}
	if (!(f->flags & NW_F_CWND_LIMITED))
		return;
	if (!ca->is_open) {
		nw_reno_cong_avoid(0, &reno, f, acked, d);
		return;
	}
	if (!ca->rho)
		nw_hybla_set_rho(ca, p, f);
	if (in_slow_start) {
		/* whole = 16 and a fraction are 2^23.9 in 2^-7 */
		more = (1U << nw_min(ca->rho >> 3, NW_HYBLA_MOST)) *
		       nw_hybla_power(ca->rho & 7) - NW_HYBLA_ONE;
	} else {
		/* rho^2 in 2^-6 is twice as much in 2^-7 */
		more = (u32)nw_min64(2ULL * ca->rho * ca->rho / nw_max(cwnd, 1),
				     ~0U >> 1);
		if (more < NW_HYBLA_ONE)
			cnt = nw_add_sat(cnt, 1);
	}
	cwnd = nw_add_sat(cwnd, more >> NW_HYBLA_BITS);
	ca->cents = (ca->cents & (NW_HYBLA_ONE - 1)) + (more & (NW_HYBLA_ONE - 1));
	if (ca->cents >= NW_HYBLA_ONE) {
		cwnd = nw_add_sat(cwnd, 1);
		ca->cents -= NW_HYBLA_ONE;
		cnt = 0;
	}
	/* Where rho^2 / cwnd is nothing in 2^-7, as much as Reno. */
	if (!more && cnt >= cwnd) {
		cwnd = nw_add_sat(cwnd, 1);
		cnt = 0;
	}
	if (in_slow_start)
		cwnd = nw_min(cwnd, f->ssthresh);
	nw_set_cwnd(d, nw_clamp_cwnd(f, cwnd));
	nw_set_cwnd_cnt(d, cnt);
}

NW_NO_HOOK(hybla, cong_control)
NW_NO_TSO_LIMIT(hybla)
NW_NO_TIMER(hybla)
NW_NO_NEEDS(hybla)
NW_NO_SETTLE(hybla)

#endif /* NW_HYBLA_H */
