/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The headers of a packet as rules see them.
 *
 * Two limits: a packet with more than NW_MMB_EXTENSIONS IPv6 extension headers is malformed,
 * and the jumbo payload option is not read, the packet being as long as it is.
 */
#ifndef NW_MMB_READ_H
#define NW_MMB_READ_H

#include "packet.h"

#ifndef NW_MMB_EXTENSIONS
#define NW_MMB_EXTENSIONS	8
#endif

#define NW_PROTO_IP		0x0800
#define NW_PROTO_IPV6		0x86dd

enum nw_mmb_read {
	NW_MMB_READ,
	NW_MMB_MALFORMED,
	NW_MMB_OTHER,
};

NW_INLINE u32 nw_mmb_word(const u8 *at)
{
	return (u32)at[0] << 8 | at[1];
}

NW_INLINE int nw_mmb_is_extension(u32 protocol)
{
	return protocol == 0 || protocol == 43 || protocol == 44 || protocol == 51 ||
	       protocol == 60 || protocol == 135;
}

/* The IPv4 header; `stored` bytes are there. */
NW_INLINE int nw_mmb_read_4(struct nw_skb *skb, struct nw_mmb_packet *p, u32 stored,
			    u32 *fragment)
{
	u8 *h = p->window;
	u32 total;

	if (stored < 20 || nw_load(skb, NW_MMB_NET_AT, h, 20) || h[0] >> 4 != 4)
		return NW_MMB_MALFORMED;
	p->header_len = (u32)(h[0] & 15) * 4;
	total = nw_mmb_word(h + 2);
	if (!total)
		total = stored;
	if (p->header_len < 20 || total < p->header_len || stored < p->header_len)
		return NW_MMB_MALFORMED;
	p->len = total < stored ? total : stored;
	*fragment = nw_mmb_word(h + 6) & 0x1fff;
	p->more_fragments = (h[6] & 0x20) != 0;
	p->fragment_ident = *(nw_u16 *)(h + 4);
	h[NW_MMB_UPPER] = h[9];
	p->layers = NW_MMB_IP4;
	return NW_MMB_READ;
}

/* The extension headers of an IPv6 packet as far as they were walked. */
struct nw_mmb_chain {
	struct nw_skb *skb;
	u32 base;		/* where its packet starts, from the network header */
	u32 at;
	u32 protocol;
	u32 total;
	u32 fragment;
	u32 more_fragments;
	u32 ident;
	u32 fragments;
	u32 bad;
};

static long nw_mmb_next_extension(u32 i, struct nw_mmb_chain *chain)
{
	u32 at = chain->at, protocol = chain->protocol;
	u8 header[8] __attribute__((aligned(8)));

	(void)i;
	if (!nw_mmb_is_extension(protocol))
		return 1;
	if (nw_load(chain->skb, NW_MMB_NET_AT + chain->base + at, header, 8)) {
		chain->bad = 1;
		return 1;
	}
	if (protocol == 44) {
		chain->fragment = nw_mmb_word(header + 2) >> 3;
		chain->more_fragments = header[3] & 1;
		if (!chain->fragments++)
			chain->ident = *(nw_u32 *)(header + 4);
		at += 8;
	} else if (protocol == 51) {
		at += ((u32)header[1] + 2) * 4;
	} else {
		at += ((u32)header[1] + 1) * 8;
	}
	chain->protocol = header[0];
	chain->at = at;
	if (at > chain->total) {
		chain->bad = 1;
		return 1;
	}
	return chain->fragment != 0;
}

/* The IPv6 header and its extensions. */
NW_INLINE int nw_mmb_read_6(struct nw_skb *skb, struct nw_mmb_packet *p, u32 stored,
			    u32 *fragment)
{
	struct nw_mmb_chain chain = { .skb = skb, .at = 40 };
	u8 *h = p->window;

	if (stored < 40 || nw_load(skb, NW_MMB_NET_AT, h, 40) || h[0] >> 4 != 6)
		return NW_MMB_MALFORMED;
	chain.total = nw_mmb_word(h + 4) + 40;
	chain.protocol = h[6];
	if (chain.total == 40 && chain.protocol != 59)
		chain.total = stored;
	nw_loop(NW_MMB_EXTENSIONS, nw_mmb_next_extension, &chain, 0);
	*fragment = chain.fragment;
	p->more_fragments = chain.more_fragments;
	p->fragment_ident = chain.ident;
	if (chain.bad || stored < chain.at)
		return NW_MMB_MALFORMED;
	if (nw_mmb_is_extension(chain.protocol) && !chain.fragment)
		return NW_MMB_MALFORMED;
	p->header_len = chain.at;
	p->len = chain.total < stored ? chain.total : stored;
	h[NW_MMB_UPPER] = (u8)chain.protocol;
	p->layers = NW_MMB_IP6;
	return NW_MMB_READ;
}

/* What is above IP, into its place in the window. */
NW_INLINE void nw_mmb_read_above(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	u32 rest = p->len - p->header_len, shown, layer, least = 8;
	u32 at = p->header_len;
	u8 *above = p->window + NW_MMB_ABOVE;
	u32 v4 = p->layers == NW_MMB_IP4;

	switch (p->window[NW_MMB_UPPER]) {
	case 6:
		layer = NW_MMB_TCP;
		least = 20;
		break;
	case 17:
		layer = NW_MMB_UDP;
		break;
	case 1:
		layer = v4 ? NW_MMB_ICMP : 0;
		break;
	case 58:
		layer = v4 ? 0 : NW_MMB_ICMP6;
		break;
	default:
		layer = 0;
	}
	if (!layer || rest < least)
		return;
	shown = rest < 20 ? rest : 20;
	nw_forget(shown);
	if (shown < 8 || shown > 20 ||
	    nw_load(skb, NW_MMB_NET_AT + p->header_len, above, shown))
		return;
	if (layer == NW_MMB_TCP) {
		u32 tcp_len = (u32)(above[12] >> 4) * 4;

		if (tcp_len < 20 || tcp_len > rest) {
			/* not a header, so nothing of it is shown */
			*(nw_u64 *)above = 0;
			*(nw_u64 *)(above + 8) = 0;
			*(nw_u32 *)(above + 16) = 0;
			return;
		}
		p->tcp_len = tcp_len;
		p->sum_at = at + 16;
	} else if (layer == NW_MMB_UDP) {
		/* a datagram over IPv4 may have none (RFC 768) */
		p->sum_at = above[6] | above[7] ? at + 6 : 0;
		if (rest > 8)
			layer |= NW_MMB_UDP_DATA;
	} else {
		p->sum_at = at + 2;
	}
	p->covers = layer != NW_MMB_ICMP;
	p->layers |= layer;
}

/* One option of the list; the context is the packet. */
struct nw_mmb_walk {
	struct nw_mmb_packet *p;
	u32 at;
};

static long nw_mmb_next_option(u32 i, struct nw_mmb_walk *walk)
{
	struct nw_mmb_packet *p = walk->p;
	u32 at = walk->at, len, n;
	u8 kind;

	(void)i;
	if (at >= p->options_len || at >= NW_MMB_OPTIONS)
		return 1;
	kind = p->options[at];
	if (!kind)
		return 1;
	if (kind == 1) {
		walk->at = at + 1;
		return 0;
	}
	if (at + 1 >= p->options_len || at + 1 >= NW_MMB_OPTIONS) {
		p->broken = 1;
		return 1;
	}
	len = p->options[at + 1];
	if (len < 2 || at + len > p->options_len) {
		p->broken = 1;
		return 1;
	}
	n = p->found;
	if (n < NW_MMB_OPTIONS) {
		p->option[n].kind = kind;
		p->option[n].at = (u8)(at + 2);
		p->option[n].len = (u8)(len - 2);
		p->found = n + 1;
	}
	walk->at = at + len;
	return 0;
}

/* The bytes of the TCP options. 0 if they are all there. */
NW_INLINE int nw_mmb_load_options(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	u32 len = p->tcp_len - 20;

	if (p->tcp_len <= 20)
		return 0;
	nw_forget(len);
	if (len < 1 || len > NW_MMB_OPTIONS ||
	    nw_load(skb, NW_MMB_NET_AT + p->header_len + 20, p->options, len))
		return -1;
	p->options_len = len;
	return 0;
}

/* The TCP options, where a rule matches any. */
NW_INLINE void nw_mmb_read_options(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	struct nw_mmb_walk walk = { .p = p };

	p->options_len = 0;
	p->found = 0;
	p->broken = 0;
	if (p->tcp_len <= 20 || nw_mmb_load_options(skb, p))
		return;
	nw_loop(NW_MMB_OPTIONS, nw_mmb_next_option, &walk, 0);
}

/* Where the payload of the layer starts. */
NW_INLINE u32 nw_mmb_payload_at(const struct nw_mmb_packet *p, u32 layer)
{
	if (layer == NW_MMB_TCP)
		return p->header_len + p->tcp_len;
	if (layer == NW_MMB_IP4 || layer == NW_MMB_IP6)
		return p->header_len;
	return p->header_len + 8;
}

/*
 * Whether a fragment hides from rules what is above IP: a first one without the whole
 * header, or one of TCP that writes over a part of it (RFC 1858 section 3, RFC 3128).
 */
NW_INLINE int nw_mmb_is_tiny(const struct nw_mmb_packet *p)
{
	u32 protocol = p->window[NW_MMB_UPPER], v4 = p->layers & NW_MMB_IP4;

	if (p->later)
		return p->later == 1 && protocol == 6;
	return p->more_fragments && !(p->layers & ~(u32)(NW_MMB_IP4 | NW_MMB_IP6)) &&
	       (protocol == 6 || protocol == 17 || protocol == (v4 ? 1 : 58));
}

/* Reads all of it into `p`, the TCP options if `options` is set. */
NW_INLINE int nw_mmb_read(struct nw_skb *skb, struct nw_mmb_packet *p, u32 way, u32 options)
{
	u16 protocol = nw_be16((u16)skb->protocol);
	u32 stored = skb->len - NW_MMB_NET_AT, fragment = 0, i;
	int how;

	for (i = 0; i < sizeof(p->window); i += 8)
		*(nw_u64 *)(p->window + i) = 0;
	p->tcp_len = 0;
	p->more_fragments = 0;
	p->sum_at = 0;
	p->covers = 0;
	p->options_len = 0;
	p->found = 0;
	p->broken = 0;
	p->repacked = 0;
	if (protocol == NW_PROTO_IP)
		how = nw_mmb_read_4(skb, p, stored, &fragment);
	else if (protocol == NW_PROTO_IPV6)
		how = nw_mmb_read_6(skb, p, stored, &fragment);
	else
		how = NW_MMB_OTHER;
	if (how == NW_MMB_OTHER) {
		p->layers = NW_MMB_FRAME;
		p->window[NW_MMB_LAYERS] = NW_MMB_FRAME;
		p->window[NW_MMB_WAY] = (u8)way;
		*(nw_u16 *)p->window = (u16)skb->protocol;
	}
	if (how != NW_MMB_READ)
		return how;
	if (!fragment)
		nw_mmb_read_above(skb, p);
	p->window[NW_MMB_LAYERS] = (u8)p->layers;
	p->window[NW_MMB_WAY] = (u8)way;
	p->later = fragment;
	if (options && p->tcp_len)
		nw_mmb_read_options(skb, p);
	return NW_MMB_READ;
}

#endif /* NW_MMB_READ_H */
