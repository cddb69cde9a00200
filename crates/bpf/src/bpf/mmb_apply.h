/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What the rules that a packet matches make of it: counters, the verdict, and the changes
 * of words and of TCP options that their actions list.
 */
#ifndef NW_MMB_APPLY_H
#define NW_MMB_APPLY_H

#include "mmb_match.h"
#include "mmb_resize.h"

/* Helpers by their numbers in include/uapi/linux/bpf.h. */
static void (*nw_lock)(struct bpf_spin_lock *lock) = (void *)93;
static void (*nw_unlock)(struct bpf_spin_lock *lock) = (void *)94;

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
NW_MMB_APART u32 nw_mmb_draw(void)
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

static long nw_mmb_set_one(u32 i, struct nw_mmb_apply *a)
{
	u32 which = i + (a->last ? a->action->sets : 0);

	if (which >= NW_MMB_SETS)
		return 1;
	if (nw_mmb_set_word(a->skb, a->p, &a->action->set[which]))
		a->failed = 1;
	return a->failed != 0;
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
	nw_loop(a->last ? a->action->sums : a->action->sets, nw_mmb_set_one, a, 0);
	return a->failed != 0;
}

/* Makes change number `i` of an action. */
static long nw_mmb_change_options(u32 i, struct nw_mmb_apply *a)
{
	struct nw_mmb_packet *p = a->p;
	u32 at = a->action->change + i;
	struct nw_mmb_change *change = nw_map_lookup(&nw_mmb_changes, &at);

	if (!change)
		return 1;
	p->change = *change;
	if (nw_mmb_change_list(p))
		a->unchanged = 1;
	return 0;
}

/* Makes the changes of the rule at `i`. */
static long nw_mmb_set_options(u32 i, struct nw_mmb_apply *a)
{
	struct nw_mmb_packet *p = a->p;

	if (i >= NW_MMB_MATCHED)
		return 1;
	a->action = nw_mmb_action_of(p->sorted[i]);
	if (!a->action)
		return 1;
	if (!a->action->changes)
		return 0;
	if (p->broken || p->more_fragments) {
		a->unchanged = 1;
		return 1;
	}
	/* SACK blocks may have been shifted since they were read */
	if (!a->listed && nw_mmb_load_options(a->skb, p)) {
		a->failed = 1;
		return 1;
	}
	a->listed = 1;
	nw_loop(a->action->changes, nw_mmb_change_options, a, 0);
	return 0;
}

/* Makes the changes of all rules that apply. 0 if all were made, 1 if some were not. */
NW_MMB_GLOBAL int nw_mmb_rewrite_options(struct nw_skb *skb,
						     struct nw_mmb_packet *p)
{
	struct nw_mmb_apply a = { .skb = skb, .p = p };
	int how = 0;

	if (!p)
		return -1;
	nw_loop(p->matched, nw_mmb_set_options, &a, 0);
	if (a.listed && !a.failed)
		how = nw_mmb_put_options(skb, p);
	if (a.failed || how < 0)
		return -1;
	return a.unchanged || how;
}

#endif /* NW_MMB_APPLY_H */
