/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A TCP header that becomes longer or shorter.
 *
 * The payload stays where it is in memory, and the headers before it move: the kernel
 * makes or takes room behind the fixed part of the IP header, and what is between there
 * and the payload is written anew. With that the TCP header starts elsewhere, and the
 * kernel remembers where it started if the checksum is left to the device. Nothing but
 * taking that start away makes it forget, which it does when room is taken beyond it:
 * the packet then counts as one whose checksum is complete, and so it is made.
 */
#ifndef NW_MMB_RESIZE_H
#define NW_MMB_RESIZE_H

#include "mmb_match.h"
#include "options.h"

/* Helpers by their numbers in include/uapi/linux/bpf.h. */
static s64 (*nw_csum_diff)(const void *from, u32 from_len, const void *to, u32 to_len,
			   u32 seed) = (void *)28;
static long (*nw_change_tail)(struct nw_skb *skb, u32 len, u64 flags) = (void *)38;
static long (*nw_adjust_room)(struct nw_skb *skb, s32 more, u32 mode,
			      u64 flags) = (void *)50;
static long (*nw_check_mtu)(struct nw_skb *skb, u32 ifindex, u32 *mtu, s32 more,
			    u64 flags) = (void *)163;

#define NW_ROOM_NET		0	/* BPF_ADJ_ROOM_NET */
#define NW_ROOM_FIXED_GSO	1	/* BPF_F_ADJ_ROOM_FIXED_GSO */
#define NW_ROOM_SAME_SUM	0x20	/* BPF_F_ADJ_ROOM_NO_CSUM_RESET */

/* The one's-complement sum of what a packet has above IP. */
struct nw_mmb_summing {
	struct nw_skb *skb;
	struct nw_mmb_packet *p;
	u32 at;			/* bytes from the network header */
	u32 sum;
	u32 failed;
};

static long nw_mmb_sum_chunk(u32 i, struct nw_mmb_summing *s)
{
	struct nw_mmb_packet *p = s->p;
	u32 at = s->at, len = p->len - at, whole;

	(void)i;
	if (at >= p->len)
		return 1;
	if (len > NW_MMB_CHUNK)
		len = NW_MMB_CHUNK;
	/* an odd end is summed up with zeros behind it */
	*(u32 *)(p->chunk + ((len - 1) & (NW_MMB_CHUNK - 4))) = 0;
	nw_forget(len);
	if (len < 1 || len > NW_MMB_CHUNK ||
	    nw_load(s->skb, nw_mmb.net_at + at, p->chunk, len)) {
		s->failed = 1;
		return 1;
	}
	whole = (len + 3) & ~3u;
	nw_forget(whole);
	whole &= 2 * NW_MMB_CHUNK - 4;
	if (whole < 4 || whole > NW_MMB_CHUNK)
		return 1;
	s->sum = nw_mmb_folded((u64)nw_csum_diff(0, 0, p->chunk, whole, s->sum));
	s->at = at + len;
	return 0;
}

/*
 * Whether the checksum of a segment is left to the device. A change of what only the
 * device will sum up then leaves the field alone.
 */
NW_INLINE int nw_mmb_is_partial(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	u32 at = nw_mmb.net_at + p->header_len + 16;
	u16 before, after;

	if (nw_load(skb, at, &before, 2) || nw_l4_checksum(skb, at, 0, 1, 2) ||
	    nw_load(skb, at, &after, 2))
		return -1;
	if (before == after)
		return 1;
	return nw_store(skb, at, &before, 2, 0) ? -1 : 0;
}

/* Takes `len` bytes behind the IP header away and puts them back. */
NW_INLINE int nw_mmb_take_and_put(struct nw_skb *skb, struct nw_mmb_packet *p, u32 at, u32 len)
{
	const u64 flags = NW_ROOM_FIXED_GSO | NW_ROOM_SAME_SUM;

	nw_forget(len);
	if (len < 1 || len > sizeof(p->chunk) / 2 || nw_load(skb, at, p->chunk, len))
		return NW_MMB_NO_ROOM;
	if (nw_adjust_room(skb, -(s32)len, NW_ROOM_NET, flags))
		return NW_MMB_NO_ROOM;
	if (nw_adjust_room(skb, (s32)len, NW_ROOM_NET, flags))
		return -1;
	nw_forget(len);
	if (len < 1 || len > sizeof(p->chunk) / 2)
		return -1;
	return nw_store(skb, at, p->chunk, len, 0) ? -1 : 0;
}

/* Completes the checksum of a segment that leaves it to the device. */
static __attribute__((noinline)) int nw_mmb_complete(struct nw_skb *skb,
						     struct nw_mmb_packet *p)
{
	struct nw_mmb_summing s = { .skb = skb, .p = p, .at = p->header_len };
	u32 base = p->layers & NW_MMB_IP4 ? 20 : 40, net_at = nw_mmb.net_at;
	u32 was = skb->len, cut, least;
	int how;
	u16 sum;

	/* beyond the start of the TCP header, counted from that of the packet */
	cut = net_at + p->header_len + 1;
	/* as much as an IP header has to be left */
	least = net_at + base + cut;
	if (was < least) {
		if (skb->gso_size || nw_change_tail(skb, least, 0))
			return NW_MMB_NO_ROOM;
	}
	how = nw_mmb_take_and_put(skb, p, net_at + base, cut);
	if (was < least && nw_change_tail(skb, was, 0))
		return -1;
	if (how)
		return how;
	/* of a bundle that leaves it is computed anew when it is cut */
	if (skb->gso_size && p->window[NW_MMB_WAY] == NW_MMB_LEAVES)
		return 0;
	/* the field has the sum of the pseudo header */
	nw_loop(NW_MMB_CHUNKS, nw_mmb_sum_chunk, &s, 0);
	sum = (u16)~s.sum;
	if (s.failed || nw_store(skb, net_at + p->header_len + 16, &sum, 2, 0))
		return -1;
	return 0;
}

/* Headers on their way to another place. */
struct nw_mmb_move {
	struct nw_skb *skb;
	u32 at;			/* of the first byte that moves */
	u32 to;
	u32 words;
	u32 backwards;		/* the last word first */
	u32 failed;
};

static long nw_mmb_move_word(u32 i, struct nw_mmb_move *m)
{
	u32 at = 4 * (m->backwards ? m->words - 1 - i : i), word;

	if (nw_load(m->skb, m->at + at, &word, 4) ||
	    nw_store(m->skb, m->to + at, &word, 4, NW_F_RECOMPUTE))
		m->failed = 1;
	return m->failed != 0;
}

/* Writes the first `len` bytes of p->chunk. */
NW_INLINE int nw_mmb_put_header(struct nw_skb *skb, struct nw_mmb_packet *p, u32 at, u32 len)
{
	nw_forget(len);
	if (len < 20 || len > 60)
		return -1;
	return nw_store(skb, nw_mmb.net_at + at, p->chunk, len, NW_F_RECOMPUTE) ? -1 : 0;
}

/* Of options.h. */
NW_MMB_GLOBAL int nw_mmb_resize(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	u32 base, len, total, mtu = 0;
	struct nw_mmb_move m = { .skb = skb };
	s32 more;
	int how;

	if (!p)
		return -1;
	base = p->layers & NW_MMB_IP4 ? 20 : 40;
	len = 20 + p->options_len;
	more = (s32)(len - p->tcp_len);
	total = p->len + len - p->tcp_len;
	if (total > NW_MMB_LONGEST)
		return NW_MMB_NO_ROOM;
	/* what comes goes on by a device whose packets are hardly longer */
	if (more > 0 && nw_check_mtu(skb, 0, &mtu, more, 0))
		return NW_MMB_NO_ROOM;
	how = nw_mmb_is_partial(skb, p);
	if (how > 0)
		how = nw_mmb_complete(skb, p);
	if (how)
		return how;
	if (nw_mmb_new_header(skb, p, len))
		return -1;
	m.words = (p->header_len - base) / 4;
	m.at = nw_mmb.net_at + base;
	if (more > 0) {
		if (nw_adjust_room(skb, more, NW_ROOM_NET, NW_ROOM_SAME_SUM))
			return NW_MMB_NO_ROOM;
		m.to = m.at;
		m.at += (u32)more;
		nw_loop(m.words, nw_mmb_move_word, &m, 0);
		if (m.failed || nw_mmb_put_header(skb, p, p->header_len, len))
			return -1;
	} else {
		m.to = m.at - (u32)more;
		m.backwards = 1;
		nw_loop(m.words, nw_mmb_move_word, &m, 0);
		if (m.failed || nw_mmb_put_header(skb, p, p->header_len - (u32)more, len) ||
		    nw_adjust_room(skb, more, NW_ROOM_NET,
				   NW_ROOM_FIXED_GSO | NW_ROOM_SAME_SUM))
			return -1;
	}
	return nw_mmb_resized(skb, p, total);
}

#endif /* NW_MMB_RESIZE_H */
