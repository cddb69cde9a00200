/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * DCTCP: the window is reduced by half of the share of packets that were marked.
 * RFC 8257 with the arithmetic of Linux net/ipv4/tcp_dctcp.c, v6.17; growth and
 * the reaction to loss are Reno's.
 *
 * Deviations: the receiver's part is the stack's. Feedback is that of AccECN
 * (RFC 9768), which counts what RFC 8257 section 3.2 signals by its own echo; a
 * kernel without AccECN gets that echo from the BPF build. Linux's protective load
 * balancing is left out.
 */
#ifndef NW_DCTCP_H
#define NW_DCTCP_H

#include "reno.h"

#define nw_dctcp_MODE	NW_MODE_WINDOW

#define NW_DCTCP_BITS		10U		/* of alpha: DCTCP_MAX_ALPHA 1024 */
#define NW_DCTCP_ONE		(1U << NW_DCTCP_BITS)
#define NW_DCTCP_MIN_CWND	2U		/* segments */

struct nw_dctcp {
	u32 alpha;		/* of NW_DCTCP_ONE */
	u32 old_delivered;	/* at the start of the round */
	u32 old_delivered_ce;
	u32 next_seq;		/* the round ends when this is acknowledged */
	u32 loss_cwnd;		/* before the last reduction */
};

struct nw_dctcp_params {
	u32 shift_g;		/* g = 2^-shift_g */
	u32 alpha_on_init;	/* of NW_DCTCP_ONE */
};

/* RFC 8257 section 4.2 (g 1/16) and section 3.3 (alpha 1 at first) */
#define nw_dctcp_DEFAULTS { .shift_g = 4, .alpha_on_init = NW_DCTCP_ONE }
#define nw_dctcp_OPTIONS(P)						\
	NW_NUMBER(P, "shift_g", shift_g, 1, 10,				\
		  "the weight of a round trip in alpha is 2 to the minus this") \
	NW_NUMBER(P, "alpha_on_init", alpha_on_init, 0, NW_DCTCP_ONE,	\
		  "alpha at the start, of 1024")
/* Scaled as Prague's, with which it shares the series. */
#define nw_dctcp_TELEMETRY(FIELD)					\
	FIELD("alpha", "", 1 << 20, (s64)ca->alpha << (20 - NW_DCTCP_BITS), \
	      "share of packets marked, as the sender estimates it")

static inline void nw_dctcp_new_round(struct nw_dctcp *ca,
				      const struct nw_facts *f)
{
	ca->next_seq = f->snd_nxt;
	ca->old_delivered = f->delivered;
	ca->old_delivered_ce = f->delivered_ce;
}

static inline void nw_dctcp_init(struct nw_dctcp *ca,
				 const struct nw_dctcp_params *p,
				 const struct nw_facts *f,
				 struct nw_decision *d)
{
	(void)d;
	ca->alpha = nw_min(p->alpha_on_init, NW_DCTCP_ONE);
	ca->loss_cwnd = 0;
	nw_dctcp_new_round(ca, f);
}

static inline void nw_dctcp_release(struct nw_dctcp *ca)
{
	(void)ca;
}

/* cwnd (1 - alpha / 2), RFC 8257 section 3.3 */
static inline u32 nw_dctcp_ssthresh(struct nw_dctcp *ca,
				    const struct nw_dctcp_params *p,
				    const struct nw_facts *f)
{
	u32 by = (u32)(((u64)f->cwnd * ca->alpha) >> (NW_DCTCP_BITS + 1));

	(void)p;
	ca->loss_cwnd = f->cwnd;
	return nw_max(f->cwnd - by, NW_DCTCP_MIN_CWND);
}

static inline u32 nw_dctcp_undo_cwnd(struct nw_dctcp *ca,
				     const struct nw_dctcp_params *p,
				     const struct nw_facts *f)
{
	(void)p;
	return nw_max(nw_max(f->cwnd, ca->loss_cwnd), 1);
}

/* Loss halves, whatever alpha is: RFC 8257 section 3.4. */
static inline void nw_dctcp_lost(struct nw_dctcp *ca, const struct nw_facts *f,
				 struct nw_decision *d)
{
	ca->loss_cwnd = f->cwnd;
	nw_set_ssthresh(d, nw_max(f->cwnd >> 1, NW_DCTCP_MIN_CWND));
}

static inline void nw_dctcp_set_state(struct nw_dctcp *ca,
				      const struct nw_dctcp_params *p,
				      const struct nw_facts *f, u8 new_state,
				      struct nw_decision *d)
{
	(void)p;
	if (new_state == NW_CA_RECOVERY && new_state != f->ca_state)
		nw_dctcp_lost(ca, f, d);
}

static inline void nw_dctcp_cwnd_event(struct nw_dctcp *ca,
				       const struct nw_dctcp_params *p,
				       const struct nw_facts *f, u32 event,
				       struct nw_decision *d)
{
	(void)p;
	if (event == NW_EV_LOSS)
		nw_dctcp_lost(ca, f, d);
}

/* alpha = (1 - g) alpha + g F once per round trip, RFC 8257 section 3.3. The part
 * that falls off is at least 1 in all but 0, so that alpha gets there.
 */
static inline void nw_dctcp_in_ack_event(struct nw_dctcp *ca,
					 const struct nw_dctcp_params *p,
					 const struct nw_facts *f,
					 struct nw_decision *d)
{
	u32 shift = nw_min(p->shift_g, NW_DCTCP_BITS);
	u32 delivered, marked, off;

	(void)d;
	if (nw_before(f->snd_una, ca->next_seq))
		return;
	delivered = f->delivered - ca->old_delivered;
	marked = f->delivered_ce - ca->old_delivered_ce;
	/* min_not_zero(alpha, alpha >> g) */
	off = ca->alpha >> shift;
	ca->alpha -= off ? off : ca->alpha;
	if (marked) {
		u64 share = ((u64)marked << (NW_DCTCP_BITS - shift)) /
			    nw_max(delivered, 1);

		ca->alpha = (u32)nw_min64(ca->alpha + share, NW_DCTCP_ONE);
	}
	nw_dctcp_new_round(ca, f);
}

static inline u32 nw_dctcp_sees_acks(const struct nw_dctcp_params *p)
{
	(void)p;
	return 1;
}

NW_NO_HOOK(dctcp, pkts_acked)

static inline void nw_dctcp_cong_avoid(struct nw_dctcp *ca,
				       const struct nw_dctcp_params *p,
				       const struct nw_facts *f, u32 acked,
				       struct nw_decision *d)
{
	const struct nw_reno_params reno = nw_reno_DEFAULTS;

	(void)ca;
	(void)p;
	nw_reno_cong_avoid(0, &reno, f, acked, d);
}

static inline u32 nw_dctcp_needs(const struct nw_dctcp_params *p)
{
	(void)p;
	return NW_NEEDS_ECN | NW_NEEDS_ACCECN;
}

NW_NO_HOOK(dctcp, cong_control)
NW_NO_TSO_LIMIT(dctcp)
NW_NO_TIMER(dctcp)
NW_NO_SETTLE(dctcp)

#endif /* NW_DCTCP_H */
