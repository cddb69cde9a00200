/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * ICMP errors about a connection's packet: found by what they quote, and translated with
 * it.
 */
#ifndef NW_MMB_RELATED_H
#define NW_MMB_RELATED_H

#include "track.h"

/* The IPv4 header of what is quoted at `at`; `stored` bytes are there. */
NW_INLINE int nw_mmb_quoted_4(struct nw_skb *skb, struct nw_mmb_quote *q, u32 stored)
{
	u8 h[20] __attribute__((aligned(8))) = {};
	u32 total;

	if (stored < 20 || nw_load(skb, NW_MMB_NET_AT + q->at, h, 20) || h[0] >> 4 != 4)
		return 0;
	q->header_len = (u32)(h[0] & 15) * 4;
	total = nw_mmb_word(h + 2);
	if (!total)
		total = stored;
	if (q->header_len < 20 || total < q->header_len || stored < q->header_len)
		return 0;
	q->later = (nw_mmb_word(h + 6) & 0x1fff) != 0;
	q->protocol = h[9];
	return 1;
}

NW_INLINE int nw_mmb_quoted_6(struct nw_skb *skb, struct nw_mmb_quote *q, u32 stored)
{
	struct nw_mmb_chain chain = { .skb = skb, .base = q->at, .at = 40 };
	u8 h[8] __attribute__((aligned(8))) = {};

	if (stored < 40 || nw_load(skb, NW_MMB_NET_AT + q->at, h, 8) || h[0] >> 4 != 6)
		return 0;
	chain.total = nw_mmb_word(h + 4) + 40;
	chain.protocol = h[6];
	if (chain.total == 40 && chain.protocol != 59)
		chain.total = stored;
	nw_loop(NW_MMB_EXTENSIONS, nw_mmb_next_extension, &chain, 0);
	if (chain.bad || stored < chain.at ||
	    (nw_mmb_is_extension(chain.protocol) && !chain.fragment))
		return 0;
	q->header_len = chain.at;
	q->later = chain.fragment != 0;
	q->protocol = chain.protocol;
	return 1;
}

/* The key of the packets that would answer what is quoted, into p->left. */
NW_INLINE int nw_mmb_quoted_key(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	struct nw_mmb_quote *q = &p->quote;
	struct nw_mmb_flow *flow = &p->left;
	u32 at = NW_MMB_NET_AT + q->at, v4 = p->layers & NW_MMB_IP4;
	u8 above[8] __attribute__((aligned(8))) = {};
	u16 port;

	nw_mmb_clear(flow);
	flow->protocol = (u8)q->protocol;
	flow->v6 = !v4;
	if (v4) {
		if (nw_load(skb, at + 12, flow->destination, 4) ||
		    nw_load(skb, at + 16, flow->source, 4))
			return 0;
	} else if (nw_load(skb, at + 8, flow->destination, 16) ||
		   nw_load(skb, at + 24, flow->source, 16)) {
		return 0;
	}
	at += q->header_len;
	if (flow->protocol == 1 || flow->protocol == 58)
		return !nw_load(skb, at, above, 8) && nw_mmb_ports(flow, above);
	if (!q->later && !nw_load(skb, at, above, 4))
		nw_mmb_ports(flow, above);
	port = flow->source_port;
	flow->source_port = flow->destination_port;
	flow->destination_port = port;
	return 1;
}

/* Whether an ICMP error quotes a packet; the key of those that would answer it, into p->left. */
NW_MMB_APART int nw_mmb_quotes(struct nw_skb *skb,
						   struct nw_mmb_packet *p)
{
	const u8 *icmp = p->window + NW_MMB_ABOVE;
	struct nw_mmb_quote *q = &p->quote;
	u32 stored;

	if (p->layers & NW_MMB_ICMP ? (icmp[0] == 8 || !icmp[0]) && !icmp[1] :
				      (icmp[0] == 128 || icmp[0] == 129) && !icmp[1])
		return 0;
	q->at = p->header_len + 8;
	if (skb->len < NW_MMB_NET_AT + q->at)
		return 0;
	stored = skb->len - NW_MMB_NET_AT - q->at;
	if (!(p->layers & NW_MMB_IP4 ? nw_mmb_quoted_4(skb, q, stored) :
				       nw_mmb_quoted_6(skb, q, stored)))
		return 0;
	return nw_mmb_quoted_key(skb, p);
}

/* Puts a word into the quotation; the checksum of the error follows. */
NW_MMB_APART int nw_mmb_quote_word(struct nw_skb *skb,
						       struct nw_mmb_packet *p, u32 at,
						       u32 new)
{
	u16 old, word = (u16)new;

	if (nw_load(skb, NW_MMB_NET_AT + at, &old, 2))
		return -1;
	if (old == word)
		return 0;
	if (nw_l4_checksum(skb, NW_MMB_NET_AT + p->header_len + 2, old, word, 2))
		return -1;
	return nw_store(skb, NW_MMB_NET_AT + at, &word, 2, 0) ? -1 : 0;
}

/* The checksum at `at` of the quotation, a word under which changed (RFC 1624 equation 3). */
NW_INLINE int nw_mmb_quote_sum(struct nw_skb *skb, struct nw_mmb_packet *p, u32 at, u16 old,
			       u16 new)
{
	u16 sum;
	u32 folded;

	if (nw_load(skb, NW_MMB_NET_AT + at, &sum, 2))
		return -1;
	folded = (u16)~sum + (u16)~old + new;
	folded = (folded & 0xffff) + (folded >> 16);
	folded = (folded & 0xffff) + (folded >> 16);
	return nw_mmb_quote_word(skb, p, at, (u16)~folded);
}

/* Changes a word of the quoted packet and the checksums over it, as far as they are quoted. */
NW_MMB_APART int nw_mmb_quote_set(struct nw_skb *skb,
						      struct nw_mmb_packet *p, u32 at,
						      u32 new, u32 covered)
{
	struct nw_mmb_quote *q = &p->quote;
	u16 old;

	if (nw_load(skb, NW_MMB_NET_AT + at, &old, 2))
		return 0;
	if (old == (u16)new)
		return 0;
	if (nw_mmb_quote_word(skb, p, at, new))
		return -1;
	if (at < q->at + q->header_len && p->layers & NW_MMB_IP4 &&
	    nw_mmb_quote_sum(skb, p, q->at + 10, old, (u16)new))
		return -1;
	if (covered && q->sum_at && nw_mmb_quote_sum(skb, p, q->sum_at, old, (u16)new))
		return -1;
	return 0;
}

/* Where the checksum above the quoted IP header stands, if it is quoted. */
NW_INLINE void nw_mmb_quoted_sum(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	struct nw_mmb_quote *q = &p->quote;
	u32 at = q->at + q->header_len;
	u16 sum = 0;

	q->sum_at = 0;
	q->covers = q->protocol != 1;
	if (q->later)
		return;
	if (q->protocol == 6)
		at += 16;
	else if (q->protocol == 17)
		at += 6;
	else if (q->protocol == 1 || q->protocol == 58)
		at += 2;
	else
		return;
	if (!nw_load(skb, NW_MMB_NET_AT + at, &sum, 2) && (q->protocol != 17 || sum))
		q->sum_at = at;
}

/* One end of the quoted packet, and of the error where it is the same host's. */
NW_MMB_APART int nw_mmb_quote_end(struct nw_skb *skb,
						      struct nw_mmb_packet *p,
						      const struct nw_mmb_flow *to, u32 which,
						      u32 what)
{
	/* the quotation travelled the other way */
	u32 v4 = p->layers & NW_MMB_IP4, source = which == NW_MMB_SOURCE, same = 1, i;
	u32 outer_at = v4 ? (source ? 12 : 16) : (source ? 8 : 24);
	u32 quoted_at = p->quote.at + (v4 ? (source ? 16 : 12) : (source ? 24 : 8));
	u32 port_at = p->quote.at + p->quote.header_len + (source ? 2 : 0);
	const u8 *address = source ? to->destination : to->source;
	u32 outer, quoted;
	u16 sum;

	nw_mmb_quoted_sum(skb, p);
	if (what & NW_MMB_SOURCE) {
		for (i = 0; i < 16; i += 4) {
			if (i && v4)
				break;
			if (nw_load(skb, NW_MMB_NET_AT + outer_at + i, &outer, 4) ||
			    nw_load(skb, NW_MMB_NET_AT + quoted_at + i, &quoted, 4))
				return -1;
			same &= outer == quoted;
			if (nw_mmb_quote_set(skb, p, quoted_at + i, *(const nw_u16 *)(address + i),
					     p->quote.covers) ||
			    nw_mmb_quote_set(skb, p, quoted_at + i + 2,
					     *(const nw_u16 *)(address + i + 2), p->quote.covers))
				return -1;
		}
		for (i = 0; same && i < 16; i += 4) {
			if (i && v4)
				break;
			if (nw_mmb_put(skb, p, outer_at + i, *(const nw_u32 *)(address + i)))
				return -1;
		}
	}
	if (what & NW_MMB_SOURCE_PORT && !p->quote.later &&
	    (p->quote.protocol == 6 || p->quote.protocol == 17) &&
	    nw_mmb_quote_set(skb, p, port_at, source ? to->destination_port : to->source_port,
			     1))
		return -1;
	if (what & NW_MMB_SOURCE_PORT && !p->quote.later &&
	    (p->quote.protocol == 1 || p->quote.protocol == 58) &&
	    nw_mmb_quote_set(skb, p, p->quote.at + p->quote.header_len + 4, to->source_port, 1))
		return -1;
	if (p->quote.protocol == 17 && p->quote.sum_at &&
	    !nw_load(skb, NW_MMB_NET_AT + p->quote.sum_at, &sum, 2) && !sum)
		return nw_mmb_quote_word(skb, p, p->quote.sum_at, 0xffff);
	return 0;
}

/* Adds `shift` to a number of the quoted segment. */
NW_INLINE int nw_mmb_quote_shift(struct nw_skb *skb, struct nw_mmb_packet *p, u32 at,
				 u32 shift)
{
	u32 number;
	nw_u16 *half = (nw_u16 *)&number;

	if (!shift || nw_load(skb, NW_MMB_NET_AT + at, &number, 4))
		return 0;
	number = nw_be32(nw_be32(number) + shift);
	return nw_mmb_quote_set(skb, p, at, half[0], 1) ||
	       nw_mmb_quote_set(skb, p, at + 2, half[1], 1);
}

/* The identification or the flow label that the quoted packet had before it was changed. */
NW_INLINE int nw_mmb_quote_ident(struct nw_skb *skb, struct nw_mmb_packet *p,
				 const struct nw_mmb_tracked *c)
{
	u32 v4 = p->layers & NW_MMB_IP4, set = v4 ? c->sets_ident : c->sets_label, came, new;
	u32 value = v4 ? c->ident_set : c->label, before = v4 ? c->ident_before : c->label_before;
	u8 h[8] __attribute__((aligned(8)));

	if (nw_load(skb, NW_MMB_NET_AT + p->quote.at, h, 8))
		return -1;
	came = v4 ? nw_mmb_word(h + 4) : (u32)(h[1] & 15) << 16 | nw_mmb_word(h + 2);
	new = came;
	if (v4)
		new = (came + (p->reverse ? -(u32)c->ident : c->ident)) & 0xffff;
	if (set && new == (p->reverse ? value : before))
		new = p->reverse ? before : value;
	if (new == came)
		return 0;
	if (v4)
		return nw_mmb_quote_set(skb, p, p->quote.at + 4, nw_be16((u16)new), 0);
	return nw_mmb_quote_set(skb, p, p->quote.at,
				nw_be16((u16)((nw_mmb_word(h) & 0xfff0) | new >> 16)), 0) ||
	       nw_mmb_quote_set(skb, p, p->quote.at + 2, nw_be16((u16)new), 0);
}

/* Translates the error. 0 if it was done. */
NW_MMB_GLOBAL int nw_mmb_translate_error(struct nw_skb *skb,
						     struct nw_mmb_packet *p,
						     const struct nw_mmb_tracked *c)
{
	u32 source, destination, seq, ack, at;
	const struct nw_mmb_flow *to;
	u8 flags = 0;

	if (!p || !c)
		return -1;
	/* what the quoted packet had before it was changed */
	seq = p->reverse ? -c->seq : c->ack;
	ack = p->reverse ? -c->ack : c->seq;
	at = p->quote.at + p->quote.header_len;
	nw_mmb_quoted_sum(skb, p);
	if (p->quote.protocol == 6 && !p->quote.later) {
		nw_load(skb, NW_MMB_NET_AT + at + 13, &flags, 1);
		if (nw_mmb_quote_shift(skb, p, at + 4, seq) ||
		    (flags & NW_MMB_TCP_ACK && nw_mmb_quote_shift(skb, p, at + 8, ack)))
			return -1;
	}
	source = p->reverse ? c->mapped >> 2 : c->mapped;
	destination = p->reverse ? c->mapped : c->mapped >> 2;
	/* in the order in which the box has them */
	to = p->reverse ? &p->forward : &c->reverse;
	if (source & 3 && nw_mmb_quote_end(skb, p, to, NW_MMB_SOURCE, source))
		return -1;
	if (destination & 3 && nw_mmb_quote_end(skb, p, to, NW_MMB_DESTINATION, destination))
		return -1;
	return nw_mmb_quote_ident(skb, p, c) ? -1 : 0;
}

#endif /* NW_MMB_RELATED_H */
