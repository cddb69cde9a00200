/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Relentless: the window comes down by what the congestion signals were, segment by
 * segment, and not by a share of itself. Each mark takes half a segment, so that a
 * round trip of which every segment is marked halves the window, without smoothing:
 * the kernel of the MAMI study (mami-project/ns3-aqm-l4s kernel/tcp_dctcp.c, Linux
 * 4.7). Each loss takes one segment: M. Mathis, "Relentless congestion control",
 * PFLDNeT 2009. Growth and the reaction to a timeout are Reno's.
 *
 * A mark puts the stack into CWR, where the window does not grow for a round trip, as
 * in the study's kernel.
 *
 * Deviations from the study's kernel: marks are those that AccECN (RFC 9768) counts,
 * there the acknowledged bytes of ACKs with ECE in segments of 1448 bytes; its losses
 * and timeouts take nothing (`loss none` does so for losses); and its packets have
 * ECT(1), which here is asked for (`ect1 on`).
 */
#ifndef NW_RELENTLESS_H
#define NW_RELENTLESS_H

#include "reno.h"

#define nw_relentless_MODE	NW_MODE_WINDOW

#define NW_RELENTLESS_MIN	2U	/* segments, as ssthresh: tcp_dctcp.c of the study */

enum nw_relentless_loss {
	NW_RELENTLESS_LOSS_SEGMENT = 0,	/* a segment for each */
	NW_RELENTLESS_LOSS_NONE = 1,
};

struct nw_relentless {
	u32 seen_ce;		/* delivered_ce at the last ACK */
	u32 seen_lost;		/* lost at the last ACK */
	u32 odd;		/* a mark that has not taken its half yet: 0 or 1 */
	u32 former_cwnd;	/* before the last reduction by the stack */
};

struct nw_relentless_params {
	u32 loss;		/* enum nw_relentless_loss */
	u32 ect1;
};

#define nw_relentless_DEFAULTS	{ .loss = NW_RELENTLESS_LOSS_SEGMENT }
#define nw_relentless_OPTIONS(P)					\
	NW_CHOICE(P, "loss", loss, "segment none",			\
		  "what a lost segment takes off the window")		\
	NW_CHOICE(P, "ect1", ect1, "off on",				\
		  "whether its packets carry ECT(1)")
#define nw_relentless_TELEMETRY(FIELD)

static inline void nw_relentless_init(struct nw_relentless *ca,
				      const struct nw_relentless_params *p,
				      const struct nw_facts *f,
				      struct nw_decision *d)
{
	(void)p; (void)d;
	ca->seen_ce = f->delivered_ce;
	ca->seen_lost = f->lost;
	ca->odd = 0;
	ca->former_cwnd = 0;
}

static inline void nw_relentless_release(struct nw_relentless *ca)
{
	(void)ca;
}

/* Entering CWR or recovery takes nothing: the marks and losses themselves do. */
static inline u32 nw_relentless_ssthresh(struct nw_relentless *ca,
					 const struct nw_relentless_params *p,
					 const struct nw_facts *f)
{
	(void)p;
	ca->former_cwnd = f->cwnd;
	return nw_max(f->cwnd, NW_RELENTLESS_MIN);
}

static inline u32 nw_relentless_undo_cwnd(struct nw_relentless *ca,
					  const struct nw_relentless_params *p,
					  const struct nw_facts *f)
{
	(void)p;
	return nw_max(nw_max(f->cwnd, ca->former_cwnd), 1);
}

/* What a timeout marks as lost is not counted: it halves instead. */
static inline void nw_relentless_set_state(struct nw_relentless *ca,
					   const struct nw_relentless_params *p,
					   const struct nw_facts *f, u8 new_state,
					   struct nw_decision *d)
{
	(void)p; (void)d;
	if (new_state == NW_CA_LOSS)
		ca->seen_lost = f->lost;
}

static inline void nw_relentless_cwnd_event(struct nw_relentless *ca,
					    const struct nw_relentless_params *p,
					    const struct nw_facts *f, u32 event,
					    struct nw_decision *d)
{
	(void)ca; (void)p;
	if (event == NW_EV_LOSS)
		nw_set_ssthresh(d, nw_max(f->cwnd >> 1, NW_RELENTLESS_MIN));
}

/*
 * In recovery the window is that of proportional rate reduction, which has taken the
 * lost segments out already, so that a loss lowers what it leads to; a mark lowers
 * both.
 */
static inline void nw_relentless_in_ack_event(struct nw_relentless *ca,
					      const struct nw_relentless_params *p,
					      const struct nw_facts *f,
					      struct nw_decision *d)
{
	u32 marked = f->delivered_ce - ca->seen_ce;
	u32 lost = f->lost - ca->seen_lost;
	u32 ssthresh = f->ssthresh;
	u32 cwnd = f->cwnd;
	u32 take;

	ca->seen_ce = f->delivered_ce;
	ca->seen_lost = f->lost;
	if (marked) {
		take = (marked >> 1) + ((marked & 1) + ca->odd) / 2;
		ca->odd = (marked + ca->odd) & 1;
		cwnd = cwnd > take ? cwnd - take : 1;
		ssthresh = nw_min(ssthresh, cwnd);
		nw_set_cwnd(d, cwnd);
		nw_set_ssthresh(d, ssthresh);
	}
	if (lost && p->loss == NW_RELENTLESS_LOSS_SEGMENT) {
		ssthresh = nw_min(ssthresh, f->ca_state < NW_CA_RECOVERY ?
				  cwnd : ssthresh);
		ssthresh = ssthresh > lost ? ssthresh - lost : 0;
		nw_set_ssthresh(d, nw_max(ssthresh, NW_RELENTLESS_MIN));
	}
}

static inline u32 nw_relentless_sees_acks(const struct nw_relentless_params *p)
{
	(void)p;
	return 1;
}

NW_NO_HOOK(relentless, pkts_acked)

static inline void nw_relentless_cong_avoid(struct nw_relentless *ca,
					    const struct nw_relentless_params *p,
					    const struct nw_facts *f, u32 acked,
					    struct nw_decision *d)
{
	const struct nw_reno_params reno = nw_reno_DEFAULTS;

	(void)ca;
	(void)p;
	nw_reno_cong_avoid(0, &reno, f, acked, d);
}

static inline u32 nw_relentless_needs(const struct nw_relentless_params *p)
{
	return NW_NEEDS_ECN | NW_NEEDS_ACCECN | (p->ect1 ? NW_NEEDS_ECT1 : 0);
}

NW_NO_HOOK(relentless, cong_control)
NW_NO_TSO_LIMIT(relentless)
NW_NO_TIMER(relentless)
NW_NO_SETTLE(relentless)

#endif /* NW_RELENTLESS_H */
