/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A connection begins: what its packets are to get. p->left is their key as they leave.
 */
#ifndef NW_MMB_BEGIN_H
#define NW_MMB_BEGIN_H

#include "related.h"

/* Ports that are drawn, as in mmb 0.4: 49152 to 65534. */
#define NW_MMB_FIRST_PORT	49152
#define NW_MMB_PORTS		16383

/* A mapping of an address, or of a port. */
NW_INLINE void nw_mmb_map_address(u8 *to, const struct nw_mmb_mapping *m)
{
	u32 i;

	for (i = 0; i < 16; i += 4)
		*(nw_u32 *)(to + i) = *(const nw_u32 *)(m->address + i);
}

NW_INLINE u16 nw_mmb_port(const struct nw_mmb_mapping *m, u32 draw)
{
	u32 port = m->number;

	if (m->drawn)
		port = NW_MMB_FIRST_PORT + ((u64)draw * NW_MMB_PORTS >> 32);
	return nw_be16((u16)port);
}

/* Mappings of another version of IP, or of another protocol's ports, do nothing. */
NW_INLINE int nw_mmb_is_there(u32 what, const struct nw_mmb_flow *flow)
{
	switch (what) {
	case NW_MMB_SOURCE_4:
	case NW_MMB_DESTINATION_4:
	case NW_MMB_IDENT:
		return !flow->v6;
	case NW_MMB_SOURCE_6:
	case NW_MMB_DESTINATION_6:
	case NW_MMB_LABEL:
		return flow->v6;
	case NW_MMB_UDP_SOURCE:
	case NW_MMB_UDP_DESTINATION:
		return flow->protocol == 17;
	case NW_MMB_ICMP_IDENT:
		return flow->protocol == 1;
	case NW_MMB_ICMP6_IDENT:
		return flow->protocol == 58;
	default:
		return flow->protocol == 6;
	}
}

/* Whether it is of a source port that is drawn: another one may be tried. */
NW_INLINE u32 nw_mmb_draws_port(const struct nw_mmb_mapping *m)
{
	return m->drawn && (m->what == NW_MMB_TCP_SOURCE || m->what == NW_MMB_UDP_SOURCE ||
			    m->what == NW_MMB_ICMP_IDENT || m->what == NW_MMB_ICMP6_IDENT);
}

/* Gives the connection what the mapping says, of `draw` where that is drawn. */
NW_INLINE void nw_mmb_map_one(struct nw_mmb_packet *p, struct nw_mmb_tracked *c,
			      const struct nw_mmb_mapping *m, u32 draw)
{
	struct nw_mmb_flow *left = &p->left;

	switch (m->what) {
	case NW_MMB_SOURCE_4:
	case NW_MMB_SOURCE_6:
		nw_mmb_map_address(left->source, m);
		c->mapped |= NW_MMB_SOURCE;
		break;
	case NW_MMB_DESTINATION_4:
	case NW_MMB_DESTINATION_6:
		nw_mmb_map_address(left->destination, m);
		c->mapped |= NW_MMB_DESTINATION;
		break;
	case NW_MMB_TCP_SOURCE:
	case NW_MMB_UDP_SOURCE:
		left->source_port = nw_mmb_port(m, draw);
		c->mapped |= NW_MMB_SOURCE_PORT;
		break;
	case NW_MMB_TCP_DESTINATION:
	case NW_MMB_UDP_DESTINATION:
		left->destination_port = nw_mmb_port(m, draw);
		c->mapped |= NW_MMB_DESTINATION_PORT;
		break;
	case NW_MMB_ICMP_IDENT:
	case NW_MMB_ICMP6_IDENT:
		left->source_port = nw_mmb_port(m, draw);
		left->destination_port = left->source_port;
		c->mapped |= NW_MMB_SOURCE_PORT;
		break;
	case NW_MMB_IDENT:
		if (m->drawn) {
			c->ident = (u16)draw;
			break;
		}
		c->sets_ident = 1;
		c->ident_set = (u16)m->number;
		c->ident_before = (u16)nw_mmb_word(p->window + 4);
		break;
	case NW_MMB_LABEL:
		c->sets_label = 1;
		c->label = m->drawn ? draw & 0xfffff : m->number;
		c->label_before = (u32)(p->window[1] & 15) << 16 | nw_mmb_word(p->window + 2);
		break;
	case NW_MMB_SEQ:
		c->seq = draw;
		break;
	default:
		c->ack = draw;
	}
}

/* The connection begins with this packet, as it is now. 0 if that can be read. */
NW_INLINE int nw_mmb_first(struct nw_skb *skb, struct nw_mmb_packet *p,
			   struct nw_mmb_tracked *c)
{
	u32 i;

	for (i = 0; i < 16; i += 4) {
		*(nw_u32 *)(c->reverse.source + i) = *(nw_u32 *)(p->left.destination + i);
		*(nw_u32 *)(c->reverse.destination + i) = *(nw_u32 *)(p->left.source + i);
	}
	c->reverse.source_port = p->left.destination_port;
	c->reverse.destination_port = p->left.source_port;
	c->reverse.protocol = p->left.protocol;
	c->reverse.v6 = p->left.v6;
	c->last_active = p->now;
	if (p->layers & NW_MMB_TCP &&
	    nw_load(skb, NW_MMB_NET_AT + p->header_len + 13, &c->flags[0], 1))
		return -1;
	return 0;
}

/* The key of what answers packets with this source port. */
NW_INLINE void nw_mmb_answered_at(struct nw_mmb_flow *reverse, u16 source_port)
{
	reverse->destination_port = source_port;
	/* the identifier of ICMP stands for both */
	if (reverse->protocol == 1 || reverse->protocol == 58)
		reverse->source_port = source_port;
}

/* The drawn port behind this one. */
NW_INLINE u16 nw_mmb_next_port(u16 source_port)
{
	u32 port = (u16)(nw_be16(source_port) - NW_MMB_FIRST_PORT);

	port = (u16)(port + 1) % NW_MMB_PORTS;
	return nw_be16((u16)(NW_MMB_FIRST_PORT + port));
}

#endif /* NW_MMB_BEGIN_H */
