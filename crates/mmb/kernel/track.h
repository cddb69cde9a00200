/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Connections: their keys in packets, and how long they are kept.
 */
#ifndef NW_MMB_TRACK_H
#define NW_MMB_TRACK_H

#include "translate.h"

#define NW_MMB_S		1000000000ull
/* Idle time-outs of mmb 0.4 (mmb_conn.h); what is neither of TCP nor of UDP is kept as long
 * as a TCP connection that is not established.
 */
#define NW_MMB_ESTABLISHED	(14400 * NW_MMB_S)
#define NW_MMB_TRANSIENT	(120 * NW_MMB_S)
#define NW_MMB_UDP_IDLE		(600 * NW_MMB_S)
/* How long a fragmented packet is followed: Linux's ipfrag_time. */
#define NW_MMB_FOLLOWED		(30 * NW_MMB_S)

#define NW_MMB_TCP_SYN		0x02
#define NW_MMB_TCP_RST		0x04
#define NW_MMB_TCP_CLOSING	0x05	/* FIN, RST */
#define NW_MMB_TCP_OPEN		0x12	/* SYN, ACK */

/* Whether so long a time has passed; another processor may have read the clock later. */
NW_INLINE int nw_mmb_is_past(u64 since, u64 span, u64 now)
{
	return (s64)(now - since) >= (s64)span;
}

/* Ports of TCP and UDP, the identifier of ICMP echo. 0 if other ICMP has neither. */
NW_INLINE int nw_mmb_ports(struct nw_mmb_flow *flow, const u8 *above)
{
	u32 echo = flow->protocol == 1 ? 8 : 128, reply = flow->protocol == 1 ? 0 : 129;

	if (flow->protocol == 6 || flow->protocol == 17) {
		flow->source_port = *(nw_u16 *)above;
		flow->destination_port = *(nw_u16 *)(above + 2);
	} else if (flow->protocol == 1 || flow->protocol == 58) {
		if ((above[0] != echo && above[0] != reply) || above[1])
			return 0;
		flow->source_port = *(nw_u16 *)(above + 4);
		flow->destination_port = *(nw_u16 *)(above + 4);
	}
	return 1;
}

NW_INLINE void nw_mmb_clear(struct nw_mmb_flow *flow)
{
	u32 i;

	for (i = 0; i < sizeof(*flow) / 8; i++)
		((nw_u64 *)flow)[i] = 0;
}

/* The key of the packet as it stands. 0 if it has none, as ICMP other than echo. */
NW_MMB_GLOBAL int nw_mmb_key_of(struct nw_skb *skb,
				struct nw_mmb_packet *p,
				struct nw_mmb_flow *flow)
{
	u32 net_at = NW_MMB_NET_AT, above_at;
	u8 above[8] __attribute__((aligned(8))) = {};

	if (!p || !flow)
		return 0;
	above_at = net_at + p->header_len;
	nw_mmb_clear(flow);
	flow->protocol = p->window[NW_MMB_UPPER];
	if (p->layers & NW_MMB_IP4) {
		if (nw_load(skb, net_at + 12, flow->source, 4) ||
		    nw_load(skb, net_at + 16, flow->destination, 4))
			return 0;
	} else {
		flow->v6 = 1;
		if (nw_load(skb, net_at + 8, flow->source, 16) ||
		    nw_load(skb, net_at + 24, flow->destination, 16))
			return 0;
	}
	if (flow->protocol == 1 || flow->protocol == 58)
		return !nw_load(skb, above_at, above, 8) && nw_mmb_ports(flow, above);
	if (!p->later && !nw_load(skb, above_at, above, 4))
		nw_mmb_ports(flow, above);
	return 1;
}

/* The addresses of a fragment, and by what its packet is known. */
NW_INLINE void nw_mmb_fragment_of(struct nw_mmb_packet *p)
{
	struct nw_mmb_fragmented *f = &p->fragmented;
	nw_u64 *to = (nw_u64 *)f;
	u32 v4 = p->layers & NW_MMB_IP4, i;

	for (i = 0; i < sizeof(*f) / 8; i++)
		to[i] = 0;
	if (v4) {
		*(nw_u32 *)f->source = *(nw_u32 *)(p->window + 12);
		*(nw_u32 *)f->destination = *(nw_u32 *)(p->window + 16);
	} else {
		for (i = 0; i < 4; i++)
			to[i] = *(nw_u64 *)(p->window + 8 + 8 * i);
	}
	f->ident = p->fragment_ident;
	f->protocol = p->window[NW_MMB_UPPER];
	f->v6 = !v4;
}

/* The key of a packet that is no fragment as it came, into p->flow. 0 if it has none. */
NW_INLINE int nw_mmb_key(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	const u8 *h = p->window, *above = p->window + NW_MMB_ABOVE;
	struct nw_mmb_flow *flow = &p->flow;
	nw_u64 *to = (nw_u64 *)flow;
	u32 i;

	if (!(p->layers & (NW_MMB_TCP | NW_MMB_UDP | NW_MMB_ICMP | NW_MMB_ICMP6))) {
		/* without a header that can be read ICMP has addresses only */
		if (!nw_mmb_key_of(skb, p, flow)) {
			flow->source_port = 0;
			flow->destination_port = 0;
		} else if (flow->protocol == 1 || flow->protocol == 58) {
			flow->source_port = 0;
			flow->destination_port = 0;
		}
		return 1;
	}
	nw_mmb_clear(flow);
	flow->protocol = h[NW_MMB_UPPER];
	if (p->layers & NW_MMB_IP4) {
		*(nw_u32 *)flow->source = *(nw_u32 *)(h + 12);
		*(nw_u32 *)flow->destination = *(nw_u32 *)(h + 16);
	} else {
		flow->v6 = 1;
		for (i = 0; i < 4; i++)
			to[i] = *(nw_u64 *)(h + 8 + 8 * i);
	}
	return nw_mmb_ports(flow, above);
}

NW_INLINE int nw_mmb_is_closing(const struct nw_mmb_tracked *c)
{
	return (c->flags[0] | c->flags[1]) & NW_MMB_TCP_CLOSING;
}

/* How long it is kept without packets. */
NW_INLINE u64 nw_mmb_kept_for(const struct nw_mmb_tracked *c)
{
	if (c->reverse.protocol == 17)
		return NW_MMB_UDP_IDLE;
	if (c->reverse.protocol == 6 && !nw_mmb_is_closing(c) &&
	    (c->flags[0] & c->flags[1] & NW_MMB_TCP_OPEN) == NW_MMB_TCP_OPEN)
		return NW_MMB_ESTABLISHED;
	return NW_MMB_TRANSIENT;
}

/* Whether its other end has shown itself: it makes no room for others. */
NW_INLINE int nw_mmb_is_assured(const struct nw_mmb_tracked *c)
{
	if (c->reverse.protocol != 6)
		return c->replied & 1;
	return !nw_mmb_is_closing(c) &&
	       (c->flags[0] & c->flags[1] & NW_MMB_TCP_OPEN) == NW_MMB_TCP_OPEN;
}

/* Whether it was idle for too long. */
NW_INLINE int nw_mmb_has_expired(const struct nw_mmb_tracked *c, u64 now)
{
	return nw_mmb_is_past(c->last_active, nw_mmb_kept_for(c), now);
}

/*
 * The flags of a segment. A RST counts only with the number that the other end waits for (RFC
 * 5961 section 3.2), as far as that is known: anybody can send another one.
 */
NW_INLINE void nw_mmb_see(struct nw_mmb_packet *p, struct nw_mmb_tracked *c, u32 reverse,
			  u8 flags)
{
	const u8 *tcp = p->window + NW_MMB_ABOVE;
	u32 seq = nw_be32(*(nw_u32 *)(tcp + 4)), ack = nw_be32(*(nw_u32 *)(tcp + 8));

	if (flags & NW_MMB_TCP_RST) {
		if (reverse ? c->replied & 2 && c->acked[0] != seq :
			      c->replied & 4 && c->acked[1] != seq)
			flags &= (u8)~NW_MMB_TCP_RST;
	} else if (flags & NW_MMB_TCP_ACK) {
		/* as the other end has its numbers, before or after they are shifted */
		if (reverse)
			c->acked[1] = ack - c->seq;
		else
			c->acked[0] = ack + c->ack;
		c->replied |= reverse ? 4 : 2;
	}
	c->flags[reverse] |= flags;
}

/*
 * Whether the packet's connection is over: it was idle for too long, or it is closed and its
 * beginner begins another.
 */
NW_INLINE int nw_mmb_is_over(const struct nw_mmb_packet *p, const struct nw_mmb_tracked *c,
			     u32 reverse)
{
	u8 flags = p->layers & NW_MMB_TCP ? p->window[NW_MMB_ABOVE + 13] : 0;

	return nw_mmb_has_expired(c, p->now) ||
	       (!reverse && (flags & NW_MMB_TCP_OPEN) == NW_MMB_TCP_SYN && nw_mmb_is_closing(c));
}

/* A packet of the connection came. */
NW_INLINE void nw_mmb_came(struct nw_mmb_packet *p, struct nw_mmb_tracked *c, u32 reverse)
{
	c->last_active = p->now;
	c->replied |= (u8)reverse;
	if (p->layers & NW_MMB_TCP)
		nw_mmb_see(p, c, reverse & 1, p->window[NW_MMB_ABOVE + 13]);
}

#endif /* NW_MMB_TRACK_H */
