/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Changes of bytes of a packet, with its checksums (RFC 1624). Those above IP are the
 * helper's to mend, which alone knows whether a device will compute them.
 */
#ifndef NW_MMB_EDIT_H
#define NW_MMB_EDIT_H

#include "packet.h"

#define NW_F_RECOMPUTE	1	/* BPF_F_RECOMPUTE_CSUM */
#define NW_F_PSEUDO	0x10	/* BPF_F_PSEUDO_HDR */
#define NW_F_MANGLED_0	0x20	/* BPF_F_MARK_MANGLED_0 */

/* A change of bytes: `len` of them, 1, 2 or 4, `at` bytes from the network header. */
struct nw_mmb_edit {
	u32 at;
	u32 len;
	u32 old;
	u32 new;
};

/* In a one's-complement sum over words four bytes at an odd place count as if they were
 * turned by one.
 */
NW_INLINE u32 nw_mmb_turned(u32 four, u32 at)
{
	if (!(at & 1))
		return four;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return four << 8 | four >> 24;
#else
	return four >> 8 | four << 24;
#endif
}

/*
 * Makes the change, and updates the checksums that cover it and are not written by it.
 * 0 if it was done.
 */
NW_MMB_GLOBAL int nw_mmb_replace(struct nw_skb *skb,
				struct nw_mmb_packet *p,
				struct nw_mmb_edit *e)
{
	u32 net_at = NW_MMB_NET_AT, at, old, new, sum_at, address;
	u64 flags = 0, size, l4;
	u16 two;

	if (!p || !e)
		return -1;
	at = e->at;
	sum_at = p->sum_at;
	old = nw_mmb_turned(e->old, at);
	new = nw_mmb_turned(e->new, at);
	size = e->len == 4 ? 4 : 2;
	l4 = size;
	if (old == new)
		return 0;
	if (p->layers & NW_MMB_IP4) {
		address = at >= 12 && at < 20;
		if (at < p->header_len) {
			if (at == 10)
				flags = NW_F_RECOMPUTE;
			else if (nw_ip_checksum(skb, net_at + 10, old, new, size))
				return -1;
		}
	} else {
		address = at >= 8 && at < 40;
		if (at < 40)
			flags = NW_F_RECOMPUTE;
	}
	address = address && p->covers;
	if (at >= p->header_len && (!sum_at || at == sum_at))
		flags = NW_F_RECOMPUTE;
	if (sum_at && at != sum_at && (at >= p->header_len || address)) {
		if (address)
			l4 |= NW_F_PSEUDO;
		if (p->window[NW_MMB_UPPER] == 17)
			l4 |= NW_F_MANGLED_0;
		if (nw_l4_checksum(skb, net_at + sum_at, old, new, l4))
			return -1;
	}
	two = (u16)e->new;
	if (e->len == 1)
		return nw_store(skb, net_at + at, &two, 1, flags) ? -1 : 0;
	if (e->len == 2)
		return nw_store(skb, net_at + at, &two, 2, flags) ? -1 : 0;
	return nw_store(skb, net_at + at, &e->new, 4, flags) ? -1 : 0;
}

/* Changes bits of the word at `at`, an even number of bytes from the network header. */
NW_MMB_APART int nw_mmb_write(struct nw_skb *skb,
						  struct nw_mmb_packet *p, u32 at,
						  u32 keep, u32 value)
{
	struct nw_mmb_edit e = { .at = at, .len = 2 };
	u16 old = 0;

	if (nw_load(skb, NW_MMB_NET_AT + at, &old, 2)) {
		/* the last byte of an odd packet: the sum takes a zero behind it */
		if (nw_load(skb, NW_MMB_NET_AT + at, &old, 1))
			return -1;
		e.len = 1;
	}
	e.old = old;
	e.new = (old & (u16)keep) | (u16)value;
	return nw_mmb_replace(skb, p, &e);
}

/* Puts the four bytes at `from` to `at`. */
NW_MMB_APART int nw_mmb_put(struct nw_skb *skb,
						struct nw_mmb_packet *p, u32 at, u32 new)
{
	struct nw_mmb_edit e = { .at = at, .len = 4, .new = new };

	if (nw_load(skb, NW_MMB_NET_AT + at, &e.old, 4))
		return -1;
	return nw_mmb_replace(skb, p, &e);
}

/* Adds `shift` to the number of four bytes at `at`. */
NW_MMB_APART int nw_mmb_shift(struct nw_skb *skb,
						  struct nw_mmb_packet *p, u32 at,
						  u32 shift)
{
	struct nw_mmb_edit e = { .at = at, .len = 4 };

	if (!shift)
		return 0;
	if (nw_load(skb, NW_MMB_NET_AT + at, &e.old, 4))
		return -1;
	e.new = nw_be32(nw_be32(e.old) + shift);
	return nw_mmb_replace(skb, p, &e);
}

/* Changes a word if its layer is there. 0 unless that failed. */
NW_INLINE int nw_mmb_set_word(struct nw_skb *skb, struct nw_mmb_packet *p,
			      const struct nw_mmb_set *set)
{
	u32 at = set->at + (set->ip ? 0 : p->header_len);

	if ((p->layers & set->layer) != set->layer)
		return 0;
	return nw_mmb_write(skb, p, at, set->keep, set->value);
}

#endif /* NW_MMB_EDIT_H */
