/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Reno: additive increase by one segment per window, halving on loss or ECN.
 * RFC 5681 and RFC 3168 section 6.1.2 with the arithmetic of Linux's
 * tcp_reno_* (net/ipv4/tcp_cong.c, v6.17).
 */
#ifndef NW_RENO_H
#define NW_RENO_H

#include "nw_cc.h"

#define nw_reno_MODE	NW_MODE_WINDOW

#define NW_RENO_SSTHRESH_MIN	2U	/* segments, RFC 5681 equation 4 */

struct nw_reno {
	u32 unused;		/* the window itself is all the state there is */
};

struct nw_reno_params {
	u32 unused;
};
#define nw_reno_DEFAULTS	{ 0 }
#define nw_reno_OPTIONS(P)
#define nw_reno_TELEMETRY(FIELD)

NW_NO_HOOK(reno, init)

static inline void nw_reno_release(struct nw_reno *ca)
{
	(void)ca;
}

static inline u32 nw_reno_ssthresh(struct nw_reno *ca,
				   const struct nw_reno_params *p,
				   const struct nw_facts *f)
{
	(void)ca;
	(void)p;
	return nw_max(f->cwnd >> 1, NW_RENO_SSTHRESH_MIN);
}

static inline u32 nw_reno_undo_cwnd(struct nw_reno *ca,
				    const struct nw_reno_params *p,
				    const struct nw_facts *f)
{
	(void)ca;
	(void)p;
	return nw_max(nw_max(f->cwnd, f->prior_cwnd), 1);
}

NW_NO_HOOK_WITH(reno, set_state, u8)
NW_NO_HOOK_WITH(reno, cwnd_event, u32)
NW_NO_ACK_HOOK(reno)
NW_NO_HOOK(reno, pkts_acked)

static inline void nw_reno_cong_avoid(struct nw_reno *ca,
				      const struct nw_reno_params *p,
				      const struct nw_facts *f, u32 acked,
				      struct nw_decision *d)
{
	u32 cwnd = f->cwnd;
	u32 cnt = f->cwnd_cnt;

	(void)ca;
	(void)p;
	if (!(f->flags & NW_F_CWND_LIMITED))
		return;
	if (cwnd < f->ssthresh)
		acked = nw_slow_start(f, &cwnd, acked);
	if (acked)
		nw_cong_avoid_ai(f, &cwnd, &cnt, cwnd, acked);
	nw_set_cwnd(d, cwnd);
	nw_set_cwnd_cnt(d, cnt);
}

NW_NO_HOOK(reno, cong_control)
NW_NO_TSO_LIMIT(reno)
NW_NO_TIMER(reno)
NW_NO_NEEDS(reno)
NW_NO_SETTLE(reno)

#endif /* NW_RENO_H */
