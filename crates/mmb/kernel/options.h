/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Changes of the TCP options, in a copy of them. A list in which an option comes, goes or
 * changes its length loses its fillers.
 *
 * What changes from one turn of a loop to the next stands in the packet's map and not on
 * the stack, where the verifier would try each value that it can have.
 */
#ifndef NW_MMB_OPTIONS_H
#define NW_MMB_OPTIONS_H

#include "edit.h"
#include "read.h"

/* Options are left as they were: no room for longer ones, or no way to make it. */
#define NW_MMB_NO_ROOM	1

/* Bytes of the longest IP packet. */
#define NW_MMB_LONGEST	65535

/* Whose options are changed. */
struct nw_mmb_list {
	struct nw_mmb_packet *p;
};

NW_INLINE int nw_mmb_stays(const struct nw_mmb_change *change, u32 kind)
{
	if (change->what != NW_MMB_KEEP)
		return 1;
	return change->bytes[kind >> 3 & 31] >> (kind & 7) & 1;
}

NW_INLINE int nw_mmb_gets(const struct nw_mmb_change *change, u32 kind)
{
	return change->what == NW_MMB_SET && change->kind == kind;
}

/* What the option at `i` adds to the room that the list needs. */
static long nw_mmb_weigh(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 kind, len;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	kind = p->option[i].kind;
	len = p->option[i].len;
	if (!nw_mmb_stays(&p->change, kind)) {
		p->pack.differs = 1;
		return 0;
	}
	if (nw_mmb_gets(&p->change, kind)) {
		p->pack.differs |= len != p->change.len;
		len = p->change.len;
	}
	p->pack.room += 2 + len;
	return 0;
}

static long nw_mmb_pack_byte(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 to = p->pack.filled, from = p->pack.from + i;

	if (to >= NW_MMB_OPTIONS || from >= NW_MMB_OPTIONS)
		return 1;
	if (p->pack.own)
		p->packed[to] = p->change.bytes[from];
	else
		p->packed[to] = p->options[from];
	p->pack.filled = to + 1;
	return 0;
}

/* Puts an option behind those of the new list. */
NW_INLINE long nw_mmb_pack_option(struct nw_mmb_list *list, u32 kind, u32 len)
{
	struct nw_mmb_packet *p = list->p;
	u32 to = p->pack.filled, n = p->pack.kept;

	if (to >= NW_MMB_OPTIONS - 1 || n >= NW_MMB_OPTIONS)
		return 1;
	p->packed[to] = (u8)kind;
	p->packed[to + 1] = (u8)(len + 2);
	p->option[n].kind = (u8)kind;
	p->option[n].at = (u8)(to + 2);
	p->option[n].len = (u8)len;
	p->pack.filled = to + 2;
	p->pack.kept = n + 1;
	nw_loop(len, nw_mmb_pack_byte, list, 0);
	return 0;
}

/* The same with the option at `i` of the old list, if it stays. */
static long nw_mmb_pack_one(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 kind, len;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	kind = p->option[i].kind;
	len = p->option[i].len;
	if (!nw_mmb_stays(&p->change, kind))
		return 0;
	p->pack.from = p->option[i].at;
	p->pack.own = 0;
	if (nw_mmb_gets(&p->change, kind)) {
		p->pack.from = 0;
		p->pack.own = 1;
		len = p->change.len;
	}
	return nw_mmb_pack_option(list, kind, len);
}

static long nw_mmb_write_byte(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 at = p->pack.from + i;

	if (i >= NW_MMB_OPTIONS || at >= NW_MMB_OPTIONS)
		return 1;
	p->options[at] = p->change.bytes[i];
	return 0;
}

/* Gives the option at `i` what the change has, where it stands. */
static long nw_mmb_write_option(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	if (p->option[i].kind != p->change.kind || p->option[i].len != p->change.len)
		return 0;
	p->pack.from = p->option[i].at;
	nw_loop(p->change.len, nw_mmb_write_byte, list, 0);
	return 0;
}

/* Makes the change of p->change. 1 if there is no room for it. */
NW_MMB_GLOBAL int nw_mmb_change_list(struct nw_mmb_packet *p)
{
	struct nw_mmb_list list = { .p = p };
	u32 what, k;

	if (!p)
		return -1;
	what = p->change.what;
	p->pack.room = 0;
	p->pack.differs = 0;
	p->pack.filled = 0;
	p->pack.kept = 0;
	nw_loop(p->found, nw_mmb_weigh, &list, 0);
	if (what == NW_MMB_WRITE || (what == NW_MMB_SET && !p->pack.differs)) {
		nw_loop(p->found, nw_mmb_write_option, &list, 0);
		return 0;
	}
	if (what == NW_MMB_ADD)
		p->pack.room += 2 + p->change.len;
	else if (!p->pack.differs)
		return 0;
	if (p->pack.room > NW_MMB_OPTIONS)
		return 1;
	nw_loop(p->found, nw_mmb_pack_one, &list, 0);
	if (what == NW_MMB_ADD) {
		p->pack.from = 0;
		p->pack.own = 1;
		nw_mmb_pack_option(&list, p->change.kind, p->change.len);
	}
	for (k = 0; k < NW_MMB_OPTIONS; k += 4)
		*(nw_u32 *)(p->options + k) = *(nw_u32 *)(p->packed + k);
	p->options_len = p->pack.filled;
	p->found = p->pack.kept;
	p->repacked = 1;
	return 0;
}

NW_INLINE u32 nw_mmb_folded(u64 sum)
{
	sum = (sum >> 32) + (u32)sum;
	sum = (sum >> 16) + (u16)sum;
	sum = (sum >> 16) + (u16)sum;
	sum = (sum >> 16) + (u16)sum;
	return (u32)sum;
}

/* The TCP header with the new options, and its checksum: what changed of it (RFC 1624). */
NW_INLINE int nw_mmb_new_header(struct nw_skb *skb, struct nw_mmb_packet *p, u32 len)
{
	u32 at = NW_MMB_NET_AT + p->header_len, old_len = p->tcp_len, i;
	u32 rest = p->len - p->header_len;
	u8 *h = p->chunk;
	u64 sum;

	for (i = 0; i < 64; i += 4)
		*(nw_u32 *)(h + i) = 0;
	nw_forget(old_len);
	if (old_len < 20 || old_len > 60 || nw_load(skb, at, h, old_len))
		return -1;
	sum = (u16)~nw_mmb_word(h + 16);
	for (i = 20; i < 60; i += 2) {
		sum += (u16)~nw_mmb_word(h + i);
		sum += nw_mmb_word(p->options + i - 20);
		*(nw_u16 *)(h + i) = *(nw_u16 *)(p->options + i - 20);
	}
	sum += (u16)~nw_mmb_word(h + 12);
	h[12] = (u8)((h[12] & 15) | len / 4 << 4);
	sum += nw_mmb_word(h + 12);
	/* the length in the pseudo header */
	sum += (u16)~rest;
	sum += (u16)(rest - p->tcp_len + len);
	*(nw_u16 *)(h + 16) = nw_be16((u16)~nw_mmb_folded(sum));
	return 0;
}

/* The length of IP after its packet became `more` bytes longer, if it has one. 0 if it was done. */
NW_INLINE int nw_mmb_resized(struct nw_skb *skb, struct nw_mmb_packet *p, u32 total)
{
	u32 v4 = p->layers & NW_MMB_IP4, at = v4 ? 2 : 4, of_header = v4 ? 0 : 40;
	u16 word;

	p->len = total;
	p->tcp_len = 20 + p->options_len;
	/* a length of 0 is that of a packet which is cut into segments only later */
	if (nw_load(skb, NW_MMB_NET_AT + at, &word, 2))
		return -1;
	if (!word)
		return 0;
	return nw_mmb_write(skb, p, at, 0, nw_be16((u16)(total - of_header)));
}

/* A list on its way into the packet. */
struct nw_mmb_putting {
	struct nw_skb *skb;
	struct nw_mmb_packet *p;
	u32 failed;
};

/* Puts two bytes of the list where the packet has them. */
static long nw_mmb_put_word(u32 i, struct nw_mmb_putting *putting)
{
	struct nw_mmb_packet *p = putting->p;
	u32 at = 2 * i;

	if (i >= NW_MMB_OPTIONS / 2)
		return 1;
	if (nw_mmb_write(putting->skb, p, p->header_len + 20 + at, 0,
			 *(nw_u16 *)(p->options + at)))
		putting->failed = 1;
	return putting->failed != 0;
}

/* Fills a list up to whole words; what is behind counts as zeros in sums. */
static long nw_mmb_fill_byte(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 len = p->options_len;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	if (i >= len)
		p->options[i] = i < ((len + 3) & ~3u);
	return 0;
}

/*
 * Gives the packet the options of p->options, more or less of them than it has: in its
 * TCP header, its checksums and lengths. 0 if it was done, NW_MMB_NO_ROOM if it is as it
 * was. The includer's, which knows where a packet has room.
 */
NW_MMB_GLOBAL int nw_mmb_resize(struct nw_skb *skb, struct nw_mmb_packet *p);

/* Puts the list into the packet. 0 if it was done, NW_MMB_NO_ROOM if it is as it was. */
NW_INLINE int nw_mmb_put_options(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	struct nw_mmb_putting putting = { .skb = skb, .p = p };
	struct nw_mmb_list list = { .p = p };
	int how;

	if (p->repacked) {
		nw_loop(NW_MMB_OPTIONS, nw_mmb_fill_byte, &list, 0);
		p->options_len = (p->options_len + 3) & ~3u;
	}
	if (p->options_len + 20 != p->tcp_len) {
		how = nw_mmb_resize(skb, p);
		/* a translation that comes yet looks for SACK blocks where the packet has them */
		if (how == NW_MMB_NO_ROOM)
			nw_mmb_read_options(skb, p);
		return how;
	}
	nw_loop(p->options_len / 2, nw_mmb_put_word, &putting, 0);
	return putting.failed ? -1 : 0;
}

#endif /* NW_MMB_OPTIONS_H */
