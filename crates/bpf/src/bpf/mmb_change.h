/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What the rules that a packet matches make of it: counters, the verdict, and
 * changes of 16-bit words with their checksums. Those above IP are the kernel's to
 * mend, which alone knows whether the device will compute them.
 */
#ifndef NW_MMB_CHANGE_H
#define NW_MMB_CHANGE_H

#include "mmb_match.h"

/* Helpers by their numbers in include/uapi/linux/bpf.h. */
static void (*nw_lock)(struct bpf_spin_lock *lock) = (void *)93;
static void (*nw_unlock)(struct bpf_spin_lock *lock) = (void *)94;

#define NW_F_RECOMPUTE	1	/* BPF_F_RECOMPUTE_CSUM */
#define NW_F_PSEUDO	0x10	/* BPF_F_PSEUDO_HDR */
#define NW_F_MANGLED_0	0x20	/* BPF_F_MARK_MANGLED_0 */

/* The high half of the product of two numbers of 64 bits. */
NW_INLINE u64 nw_mmb_high(u64 a, u64 b)
{
	u64 low = (u32)a * (u64)(u32)b, cross = (a >> 32) * (u32)b + (low >> 32);
	u64 other = (u32)a * (b >> 32) + (u32)cross;

	return (a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32);
}

/* 32 bits of the box's generator, as `draw_u32` of narrows-units has them
 * (M. O'Neill, PCG, HMC-CS-2014-0905; the multiplier is that of rand_pcg).
 */
static __attribute__((noinline)) u32 nw_mmb_draw(void)
{
	const u64 low = 0x4385df649fccf645, high = 0x2360ed051fc65da4;
	struct nw_mmb_draws *draws;
	u64 a, b, mixed;
	u32 zero = 0, turn;

	draws = nw_map_lookup(&nw_mmb_generator, &zero);
	if (!draws)
		return 0;
	nw_lock(&draws->lock);
	a = draws->low;
	b = draws->high * low + a * high + nw_mmb_high(a, low);
	a *= low;
	draws->low = a;
	draws->high = b;
	nw_unlock(&draws->lock);
	turn = b >> 58;
	mixed = a ^ b;
	mixed = mixed >> turn | mixed << ((64 - turn) & 63);
	return mixed >> 32;
}

/* A number below `below`, as `below` of narrows-units has it. */
NW_INLINE u32 nw_mmb_below(u32 below)
{
	return (u64)nw_mmb_draw() * below >> 32;
}

struct nw_mmb_apply {
	struct nw_skb *skb;
	struct nw_mmb_packet *p;
	struct nw_mmb_action *action;
	u64 segments;
	u64 bytes;
	u32 settled;
	u32 drop;
	u32 failed;
	u32 unchanged;
	u32 listed;		/* whether options were changed */
	u32 last;		/* whether checksums are written, not the rest */
};

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
__attribute__((noinline)) int nw_mmb_replace(struct nw_skb *skb,
				struct nw_mmb_packet *p,
				struct nw_mmb_edit *e)
{
	u32 net_at = nw_mmb.net_at, at, old, new, sum_at, address;
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
static __attribute__((noinline)) int nw_mmb_write(struct nw_skb *skb,
						  struct nw_mmb_packet *p, u32 at,
						  u32 keep, u32 value)
{
	struct nw_mmb_edit e = { .at = at, .len = 2 };
	u16 old = 0;

	if (nw_load(skb, nw_mmb.net_at + at, &old, 2)) {
		/* the last byte of an odd packet: the sum takes a zero behind it */
		if (nw_load(skb, nw_mmb.net_at + at, &old, 1))
			return -1;
		e.len = 1;
	}
	e.old = old;
	e.new = (old & (u16)keep) | (u16)value;
	return nw_mmb_replace(skb, p, &e);
}

/* What the rule of that number does; null if there is none. */
NW_INLINE struct nw_mmb_action *nw_mmb_action_of(u32 number)
{
	struct nw_mmb_rule *rule = nw_map_lookup(&nw_mmb_rules, &number);
	u32 at;

	if (!rule)
		return 0;
	at = rule->action;
	return nw_map_lookup(&nw_mmb_actions, &at);
}

static long nw_mmb_set_word(u32 i, struct nw_mmb_apply *a)
{
	struct nw_mmb_packet *p = a->p;
	struct nw_mmb_set *set;
	u32 at, which = i + (a->last ? a->action->sets : 0);

	if (which >= NW_MMB_SETS)
		return 1;
	set = &a->action->set[which];
	if ((p->layers & set->layer) != set->layer)
		return 0;
	at = set->at + (set->ip ? 0 : p->header_len);
	if (nw_mmb_write(a->skb, p, at, set->keep, set->value)) {
		a->failed = 1;
		return 1;
	}
	return 0;
}

static long nw_mmb_decide(u32 i, struct nw_mmb_apply *a)
{
	struct nw_mmb_action *action;
	struct nw_mmb_count *count;
	struct nw_mmb_rule *rule;
	u32 number, at, k;

	if (i >= NW_MMB_MATCHED)
		return 1;
	number = a->p->sorted[i];
	count = nw_map_lookup(&nw_mmb_counts, &number);
	rule = nw_map_lookup(&nw_mmb_rules, &number);
	if (!count || !rule)
		return 1;
	__sync_fetch_and_add(&count->packets, a->segments);
	__sync_fetch_and_add(&count->bytes, a->bytes);
	if (a->settled)
		return 0;
	at = rule->action;
	action = nw_map_lookup(&nw_mmb_actions, &at);
	if (!action)
		return 1;
	for (k = 0; k < 4; k++) {
		u32 verdict = action->verdict[k];

		if (!verdict)
			break;
		if (verdict != NW_MMB_ACCEPT && verdict < 10000 &&
		    nw_mmb_below(10000) >= verdict)
			continue;
		a->settled = 1;
		a->drop = verdict != NW_MMB_ACCEPT;
		break;
	}
	return 0;
}

/* Changes the words of the rule at `i`; checksums after all other changes. */
static long nw_mmb_set(u32 i, struct nw_mmb_apply *a)
{
	if (i >= NW_MMB_MATCHED)
		return 1;
	a->action = nw_mmb_action_of(a->p->sorted[i]);
	if (!a->action)
		return 1;
	nw_loop(a->last ? a->action->sums : a->action->sets, nw_mmb_set_word, a, 0);
	return a->failed != 0;
}

#endif /* NW_MMB_CHANGE_H */
