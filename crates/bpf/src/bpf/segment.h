/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What the marking programs parse: a whole TCP segment in IPv4 or IPv6, and the
 * connection that it belongs to.
 */
#ifndef NW_SEGMENT_H
#define NW_SEGMENT_H

/* One instruction, and one to turn it. */
#define NW_EFM_BE32(at)		nw_be32(*(const u32 *)(at))
/* The clock is read for the packets that need it, which few do. */
#define NW_EFM_CLOCK(p)		nw_clock(p)

#include "skb.h"

struct nw_efm_packet;
NW_INLINE u64 nw_clock(const struct nw_efm_packet *p);

#include "mark.h"

#define NW_PROTO_IP		0x0800
#define NW_PROTO_IPV6		0x86dd
#define NW_IPPROTO_TCP		6
#define NW_IP_FRAGMENT		0x3fff	/* offset, or more to come */
#define NW_IP_MIN		20	/* bytes of a header without options */
#define NW_IPV6_HEADER		40

struct nw_segment {
	struct nw_efm_packet packet;
	struct nw_mark_key key;
	u32 tcp_at;		/* bytes before the TCP header */
	u16 word_12;		/* of that: bytes 12 and 13 */
	u16 unused;
};

/* Options other than the usual ones are read from a copy; one for each direction
 * on each CPU.
 */
struct nw_options {
	struct nw_efm_packet packet;
	u8 tcp[NW_TCP_HEADER_MAX];
};

struct {
	NW_UINT(type, NW_MAP_PERCPU_ARRAY);
	NW_UINT(max_entries, 2);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_options);
} nw_copies NW_SECTION(".maps");

NW_INLINE u64 nw_clock(const struct nw_efm_packet *p)
{
	/* the packet is the program's own, and only the rules may not write it */
	u64 *now = (u64 *)&p->now_ns;

	if (!*now)
		*now = nw_ktime_ns();
	return *now;
}

NW_INLINE void nw_copy_address(u64 *to, const u8 *from)
{
	u32 *words = (u32 *)to;

	words[0] = *(const u32 *)from;
	words[1] = *(const u32 *)(from + 4);
	words[2] = *(const u32 *)(from + 8);
	words[3] = *(const u32 *)(from + 12);
}

NW_INLINE void nw_mapped(u64 *to, const u8 *from)
{
	u32 *words = (u32 *)to;

	to[0] = 0;
	words[2] = nw_be32(0xffff);
	words[3] = *(const u32 *)from;
}

/* Reads options of whatever kind and order into segment->packet. */
NW_INLINE void nw_read_copy(struct nw_skb *skb, struct nw_segment *segment, u32 header,
			    u32 which)
{
	struct nw_options *copy = nw_map_lookup(&nw_copies, &which);
	u32 i;

	if (!copy)
		return;
	/* what is not read is not to be taken for options */
	for (i = 0; i < NW_TCP_HEADER_MAX; i += 4)
		*(u32 *)(copy->tcp + i) = 0;
	asm volatile("" : "+r"(header));
	if (header < NW_TCP_HEADER_MIN || header > NW_TCP_HEADER_MAX)
		return;
	if (nw_load(skb, segment->tcp_at, copy->tcp, header))
		return;
	copy->packet.has = 0;
	copy->packet.tsval = 0;
	nw_efm_read_options(&copy->packet, copy->tcp, header);
	segment->packet.tsval = copy->packet.tsval;
	segment->packet.has |= copy->packet.has & (NW_EFM_HAS_TS | NW_EFM_HAS_SACK);
}

/*
 * Reads a whole TCP segment whose network header is at `at`; 0 if there is none.
 * `in`: the other end sent it. `options`: TCP options are needed too.
 */
NW_INLINE int nw_read_segment(struct nw_skb *skb, struct nw_segment *segment, u32 at,
			      int in, int options)
{
	u16 protocol = nw_be16((u16)skb->protocol);
	u32 total, length, header, rest;
	int whole;
	u8 *net, *tcp;

	/* IPv4 and TCP without options are as long as IPv6 alone */
	net = nw_in_place(skb, at, NW_IPV6_HEADER);
	if (!net) {
		if (nw_pull(skb, at + NW_IPV6_HEADER))
			return 0;
		net = nw_in_place(skb, at, NW_IPV6_HEADER);
		if (!net)
			return 0;
	}
	if (protocol == NW_PROTO_IP) {
		length = (u32)(net[0] & 15) * 4;
		if (net[9] != NW_IPPROTO_TCP || length < NW_IP_MIN ||
		    *(u16 *)(net + 6) & nw_be16(NW_IP_FRAGMENT))
			return 0;
		total = nw_be16(*(u16 *)(net + 2));
		whole = !total;
		nw_mapped(segment->key.local, net + (in ? 16 : 12));
		nw_mapped(segment->key.remote, net + (in ? 12 : 16));
	} else if (protocol == NW_PROTO_IPV6) {
		if (net[6] != NW_IPPROTO_TCP)
			return 0;
		length = NW_IPV6_HEADER;
		total = nw_be16(*(u16 *)(net + 4)) + NW_IPV6_HEADER;
		whole = total == NW_IPV6_HEADER;
		nw_copy_address(segment->key.local, net + (in ? 24 : 8));
		nw_copy_address(segment->key.remote, net + (in ? 8 : 24));
	} else {
		return 0;
	}
	rest = skb->len - at;
	/* a length of 0 stands for more than 16 bits can say; and padding */
	if (whole || skb->gso_size || total > rest)
		total = rest;
	if (total < length + NW_TCP_HEADER_MIN)
		return 0;
	at += length;
	segment->tcp_at = at;
	tcp = nw_in_place(skb, at, NW_TCP_HEADER_MIN);
	if (!tcp) {
		if (nw_pull(skb, at + NW_TCP_HEADER_MIN))
			return 0;
		tcp = nw_in_place(skb, at, NW_TCP_HEADER_MIN);
		if (!tcp)
			return 0;
	}
	segment->packet.has = 0;
	segment->packet.lost = 0;
	segment->packet.spurious = 0;
	segment->packet.delivered_ce = 0;
	segment->packet.unused = 0;
	segment->packet.now_ns = 0;
	segment->word_12 = *(u16 *)(tcp + 12);
	segment->key.local_port = *(u16 *)(tcp + (in ? 2 : 0));
	segment->key.remote_port = *(u16 *)(tcp + (in ? 0 : 2));
	segment->key.unused = 0;
	header = nw_efm_read_fixed(&segment->packet, tcp, total - length);
	if (!header)
		return 0;
	if (options && header > NW_TCP_HEADER_MIN) {
		if (header == NW_TCP_WITH_TIMESTAMP)
			tcp = nw_in_place(skb, at, NW_TCP_WITH_TIMESTAMP);
		else
			tcp = 0;
		if (tcp && nw_efm_be32(tcp + NW_TCP_HEADER_MIN) == NW_TCP_TIMESTAMP) {
			segment->packet.tsval = nw_efm_be32(tcp + NW_TCP_HEADER_MIN + 4);
			segment->packet.has = NW_EFM_HAS_TS;
		} else {
			nw_read_copy(skb, segment, header, in ? NW_MARK_IN : NW_MARK_OUT);
		}
	}
	/* a sender that may not be trusted leaves the count to be worked out */
	segment->packet.segments = skb->gso_segs;
	if (skb->gso_size && segment->packet.segments < 2) {
		u32 payload = segment->packet.seq_end - segment->packet.seq;

		segment->packet.segments = (payload + skb->gso_size - 1) /
					skb->gso_size;
	}
	if (!segment->packet.segments)
		segment->packet.segments = 1;
	return 1;
}

#endif /* NW_SEGMENT_H */
