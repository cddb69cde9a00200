/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What the packets of a connection get in place of what they have, and back.
 */
#ifndef NW_MMB_TRANSLATE_H
#define NW_MMB_TRANSLATE_H

#include "options.h"

#define NW_MMB_SACK	5
#define NW_MMB_TCP_ACK	0x10

/* What of a connection's packet is under change. */
struct nw_mmb_translation {
	struct nw_skb *skb;
	struct nw_mmb_packet *p;
	u32 seq;
	u32 ack;
	u32 block_at;		/* of what a SACK option holds, in the options */
	u32 block_end;
	u32 failed;
};

static long nw_mmb_shift_block(u32 i, struct nw_mmb_translation *t)
{
	u32 at = t->block_at + 4 * i;

	if (at + 4 > t->block_end || at + 4 > t->p->options_len)
		return 1;
	if (nw_mmb_shift(t->skb, t->p, t->p->header_len + 20 + at, t->ack))
		t->failed = 1;
	return t->failed != 0;
}

static long nw_mmb_shift_sack(u32 i, struct nw_mmb_translation *t)
{
	struct nw_mmb_packet *p = t->p;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	if (p->option[i].kind != NW_MMB_SACK)
		return 0;
	t->block_at = p->option[i].at;
	t->block_end = t->block_at + p->option[i].len;
	nw_loop(NW_MMB_OPTIONS / 4, nw_mmb_shift_block, t, 0);
	return t->failed != 0;
}

/* Shifts the numbers of a segment, and those of its SACK blocks. */
NW_INLINE int nw_mmb_shift_numbers(struct nw_skb *skb, struct nw_mmb_packet *p, u32 seq,
				   u32 ack)
{
	struct nw_mmb_translation t = { .skb = skb, .p = p, .ack = ack };
	u8 flags;

	if (nw_mmb_shift(skb, p, p->header_len + 4, seq) ||
	    nw_load(skb, NW_MMB_NET_AT + p->header_len + 13, &flags, 1))
		return -1;
	if (!(flags & NW_MMB_TCP_ACK) || !ack)
		return 0;
	if (nw_mmb_shift(skb, p, p->header_len + 8, ack))
		return -1;
	nw_loop(p->found, nw_mmb_shift_sack, &t, 0);
	return t.failed ? -1 : 0;
}

/* Whether what is above IP has ports, at least as far as they are there. */
NW_INLINE int nw_mmb_has_ports(struct nw_skb *skb, const struct nw_mmb_packet *p, u32 at)
{
	u32 protocol = p->window[NW_MMB_UPPER];

	return !p->later && (protocol == 6 || protocol == 17) &&
	       skb->len >= NW_MMB_NET_AT + at + 2;
}

/* One end of the packet gets the address and the port of `to`, as far as `what` says. */
NW_INLINE int nw_mmb_set_end(struct nw_skb *skb, struct nw_mmb_packet *p, u32 address_at,
			     u32 port_at, const u8 *address, u16 port, u32 what)
{
	u32 i;

	if (what & NW_MMB_SOURCE) {
		if (nw_mmb_put(skb, p, address_at, *(const nw_u32 *)address))
			return -1;
		if (p->layers & NW_MMB_IP6) {
			for (i = 4; i < 16; i += 4)
				if (nw_mmb_put(skb, p, address_at + i, *(const nw_u32 *)(address + i)))
					return -1;
		}
	}
	if (what & NW_MMB_SOURCE_PORT && nw_mmb_has_ports(skb, p, port_at))
		return nw_mmb_write(skb, p, port_at, 0, port);
	return 0;
}

/*
 * Where the checksum stands of what does not hold a whole header, or of which the
 * protocol belongs to the other version of IP. Addresses and ports are set there too.
 */
NW_INLINE void nw_mmb_loose_sum(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	u32 protocol = p->window[NW_MMB_UPPER], at = p->header_len;
	u16 sum = 0;

	if (p->later)
		return;
	if (protocol == 6)
		at += 16;
	else if (protocol == 17)
		at += 6;
	else if (protocol == 1 || protocol == 58)
		at += 2;
	else
		return;
	if (nw_load(skb, NW_MMB_NET_AT + at, &sum, 2) || (protocol == 17 && !sum))
		return;
	p->sum_at = at;
	p->covers = protocol != 1;
}

/* The identification or the flow label. */
NW_INLINE int nw_mmb_translate_ident(struct nw_skb *skb, struct nw_mmb_packet *p,
				     const struct nw_mmb_tracked *c, u32 reverse)
{
	u32 came, new;

	if (p->layers & NW_MMB_IP4) {
		came = nw_mmb_word(p->window + 4);
		new = came + (reverse ? -(u32)c->ident : c->ident);
		new &= 0xffff;
		if (c->sets_ident && !reverse)
			new = c->ident_set;
		else if (c->sets_ident && new == c->ident_set)
			new = c->ident_before;
		return new == came ? 0 : nw_mmb_write(skb, p, 4, 0, nw_be16((u16)new));
	}
	if (!c->sets_label)
		return 0;
	new = (u32)(p->window[1] & 15) << 16 | nw_mmb_word(p->window + 2);
	if (!reverse)
		new = c->label;
	else if (new == c->label)
		new = c->label_before;
	return nw_mmb_write(skb, p, 0, nw_be16(0xfff0), nw_be16((u16)(new >> 16))) ||
	       nw_mmb_write(skb, p, 2, 0, nw_be16((u16)new)) ? -1 : 0;
}

/* Changes a packet of the connection. 0 if it was done. */
NW_MMB_GLOBAL int nw_mmb_translate(struct nw_skb *skb,
				struct nw_mmb_packet *p,
				const struct nw_mmb_tracked *c)
{
	u32 v4, above, reverse, sum_at, covers, source, destination, seq, ack;
	const struct nw_mmb_flow *to;

	if (!p || !c)
		return -1;
	v4 = p->layers & NW_MMB_IP4;
	above = p->header_len;
	reverse = p->reverse;
	sum_at = p->sum_at;
	covers = p->covers;
	to = reverse ? &p->forward : &c->reverse;
	if (c->mapped) {
		source = reverse ? c->mapped >> 2 : c->mapped;
		destination = reverse ? c->mapped : c->mapped >> 2;
		if (!sum_at)
			nw_mmb_loose_sum(skb, p);
		if (nw_mmb_set_end(skb, p, v4 ? 12 : 8, above, to->destination,
				   to->destination_port, source & 3) ||
		    nw_mmb_set_end(skb, p, v4 ? 16 : 24, above + 2, to->source,
				   to->source_port, destination & 3))
			return -1;
		/* of ICMP both ports are its identifier, if there is one */
		if (c->mapped & NW_MMB_SOURCE_PORT && !p->later &&
		    (to->protocol == 1 || to->protocol == 58) &&
		    skb->len >= NW_MMB_NET_AT + above + 6 &&
		    nw_mmb_write(skb, p, above + 4, 0, to->source_port))
			return -1;
		p->sum_at = sum_at;
		p->covers = covers;
	}
	if (nw_mmb_translate_ident(skb, p, c, reverse))
		return -1;
	seq = reverse ? -c->ack : c->seq;
	ack = reverse ? -c->seq : c->ack;
	if (p->layers & NW_MMB_TCP && (seq || ack))
		return nw_mmb_shift_numbers(skb, p, seq, ack);
	return 0;
}

#endif /* NW_MMB_TRANSLATE_H */
