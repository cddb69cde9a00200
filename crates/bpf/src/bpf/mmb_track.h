/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The connections of a box: how they are found and forgotten, and their rules.
 */
#ifndef NW_MMB_CONNECTIONS_H
#define NW_MMB_CONNECTIONS_H

#include "mmb_apply.h"
#include "track.h"

/* Helpers by their numbers in include/uapi/linux/bpf.h. A tick of the clock is enough. */
static u64 (*nw_coarse_ns)(void) = (void *)160;
static long (*nw_for_each)(void *map, void *callback, void *context,
			   u64 flags) = (void *)164;

/* The key of a fragment: of a later one that of the first, if that one went on before. */
__attribute__((noinline)) int nw_mmb_fragment_key(struct nw_skb *skb,
				struct nw_mmb_packet *p)
{
	struct nw_mmb_followed *followed;

	if (!p)
		return 0;
	nw_mmb_fragment_of(p);
	if (!p->later)
		return nw_mmb_key_of(skb, p, &p->flow);
	p->stray = 1;
	followed = nw_map_lookup(&nw_mmb_fragments, &p->fragmented);
	if (!followed || nw_mmb_is_past(followed->seen, NW_MMB_FOLLOWED, p->now))
		return 0;
	p->flow = followed->flow;
	p->stray = (u32)followed->connected;
	return 1;
}

/* Its key as it came, into p->flow. 0 if it has none. */
NW_INLINE int nw_mmb_keyed(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	if (p->more_fragments || p->later)
		return nw_mmb_fragment_key(skb, p);
	return nw_mmb_key(skb, p);
}

/*
 * A fragment that goes on is followed, if it is the first one: only then do later ones, of
 * which nobody could tell the connection. Whether there is room.
 */
static __attribute__((noinline)) int nw_mmb_follow(struct nw_mmb_packet *p, u32 connected)
{
	p->followed.flow = p->flow;
	p->followed.seen = p->now;
	p->followed.connected = connected;
	return !nw_map_update(&nw_mmb_fragments, &p->fragmented, &p->followed, NW_ANY);
}

NW_INLINE void nw_mmb_forget(struct nw_mmb_connection *c, struct nw_mmb_flow *forward)
{
	u32 zero = 0;
	struct nw_mmb_totals *totals = nw_map_lookup(&nw_mmb_all, &zero);

	nw_map_delete(&nw_mmb_reverses, &c->tracked.reverse);
	if (!nw_map_delete(&nw_mmb_connections, forward) && totals)
		totals->forgotten++;
}

/* The connection whose packets have this key, and its own key. */
NW_INLINE struct nw_mmb_connection *nw_mmb_find(const struct nw_mmb_flow *key,
						struct nw_mmb_flow *forward, u32 *reverse)
{
	struct nw_mmb_connection *c = nw_map_lookup(&nw_mmb_connections, key);
	struct nw_mmb_flow *found;

	*reverse = 0;
	*forward = *key;
	if (c)
		return c;
	found = nw_map_lookup(&nw_mmb_reverses, key);
	if (!found)
		return 0;
	*reverse = 1;
	*forward = *found;
	return nw_map_lookup(&nw_mmb_connections, forward);
}

/*
 * The packet's connection. One that was idle too long is forgotten, and so is a closed
 * one whose beginner begins another.
 */
NW_INLINE struct nw_mmb_connection *nw_mmb_find_live(struct nw_mmb_packet *p)
{
	struct nw_mmb_connection *c;
	u32 reverse;

	c = nw_mmb_find(&p->flow, &p->forward, &reverse);
	if (!c)
		return 0;
	p->reverse = reverse;
	if (nw_mmb_is_over(p, &c->tracked, reverse)) {
		nw_mmb_forget(c, &p->forward);
		return 0;
	}
	nw_mmb_came(p, &c->tracked, reverse);
	return c;
}

/* The rules of a packet and those of its connection. */
struct nw_mmb_join {
	struct nw_mmb_packet *p;
	struct nw_mmb_connection *c;
	u32 own;		/* rules that the packet matches itself */
	u32 rule;
	u32 there;
	u32 place;		/* that of a rule that is gone */
	u32 over;
};

static long nw_mmb_is_joined(u32 i, struct nw_mmb_join *j)
{
	if (i >= NW_MMB_JOINED)
		return 1;
	if (j->c->rule[i] == NW_MMB_LAST)
		j->place = i;
	if (j->c->rule[i] != j->rule)
		return 0;
	j->there = 1;
	return 1;
}

/* The connection also belongs to the stateful rule at `i`. */
static long nw_mmb_join_rule(u32 i, struct nw_mmb_join *j)
{
	u32 n = j->c->rules, number, place, *ident;

	if (i >= NW_MMB_MATCHED)
		return 1;
	if (!(j->p->stateful >> i & 1))
		return 0;
	number = j->p->rule[i];
	ident = nw_map_lookup(&nw_mmb_idents, &number);
	if (!ident)
		return 1;
	j->rule = *ident;
	j->there = 0;
	j->place = n;
	nw_loop(n, nw_mmb_is_joined, j, 0);
	if (j->there)
		return 0;
	place = j->place;
	if (place >= NW_MMB_JOINED) {
		j->over = 1;
		return 1;
	}
	j->c->rule[place] = j->rule;
	if (place == n)
		j->c->rules = n + 1;
	return 0;
}

static long nw_mmb_is_matched(u32 i, struct nw_mmb_join *j)
{
	if (i >= NW_MMB_MATCHED)
		return 1;
	if (j->p->rule[i] != j->rule)
		return 0;
	j->there = 1;
	return 1;
}

/* The number of a rule of a connection; NW_MMB_LAST if it is gone. */
NW_INLINE u32 nw_mmb_number_of(u32 ident)
{
	u32 *number = nw_map_lookup(&nw_mmb_numbers, &ident);

	return number ? *number : NW_MMB_LAST;
}

/* To the packet applies the rule of its connection at `i`. */
static long nw_mmb_apply_rule(u32 i, struct nw_mmb_join *j)
{
	struct nw_mmb_packet *p = j->p;
	u32 n = p->matched;

	if (i >= NW_MMB_JOINED)
		return 1;
	j->rule = nw_mmb_number_of(j->c->rule[i]);
	if (j->rule == NW_MMB_LAST)
		return 0;
	j->there = 0;
	nw_loop(j->own, nw_mmb_is_matched, j, 0);
	if (j->there)
		return 0;
	if (n >= NW_MMB_MATCHED) {
		j->over = 1;
		return 1;
	}
	p->rule[n] = j->rule;
	p->matched = n + 1;
	return 0;
}

/* Joins the rules of both; whether there was room for them. */
static __attribute__((noinline)) int nw_mmb_merge(struct nw_mmb_packet *p,
						  struct nw_mmb_connection *c)
{
	struct nw_mmb_join j = { .p = p, .c = c, .own = p->matched };

	if (p->stateful)
		nw_loop(p->matched, nw_mmb_join_rule, &j, 0);
	nw_loop(c->rules, nw_mmb_apply_rule, &j, 0);
	return !j.over;
}

/* One walk over all connections. */
struct nw_mmb_swept {
	u64 now;
	u64 expiry;		/* no connection that is left expires before */
};

static long nw_mmb_sweep_one(void *map, struct nw_mmb_flow *key,
			     struct nw_mmb_connection *c, struct nw_mmb_swept *swept)
{
	u64 kept = nw_mmb_kept_for(&c->tracked), expiry = c->tracked.last_active + kept;

	(void)map;
	if (nw_mmb_is_past(c->tracked.last_active, kept, swept->now))
		nw_mmb_forget(c, key);
	else if (expiry < swept->expiry)
		swept->expiry = expiry;
	return 0;
}

/*
 * Forgets the connections that were idle for too long, if one can be. What begins, or gets a
 * packet, after a walk has begun is kept for NW_MMB_TRANSIENT at least, so that a walk knows
 * until when no other is needed. A second is for clocks: the one of packets is coarser, and
 * another processor may have read it a while ago.
 */
NW_INLINE void nw_mmb_sweep_connections(u64 now)
{
	struct nw_mmb_swept swept = {
		.now = now,
		.expiry = now + NW_MMB_TRANSIENT - NW_MMB_S,
	};
	u32 zero = 0;
	u64 *earliest = nw_map_lookup(&nw_mmb_earliest, &zero);

	if (!earliest || (s64)(now - *earliest) < 0)
		return;
	nw_for_each(&nw_mmb_connections, nw_mmb_sweep_one, &swept, 0);
	*earliest = swept.expiry;
}

/* A connection forgets its rules that are gone; one without any is forgotten. */
static long nw_mmb_renumber_one(void *map, struct nw_mmb_flow *key,
				struct nw_mmb_connection *c, void *context)
{
	u32 i, left = 0;

	(void)map;
	(void)context;
	for (i = 0; i < NW_MMB_JOINED; i++) {
		if (i >= c->rules)
			break;
		if (nw_mmb_number_of(c->rule[i]) == NW_MMB_LAST)
			c->rule[i] = NW_MMB_LAST;
		else
			left = 1;
	}
	if (!left)
		nw_mmb_forget(c, key);
	return 0;
}

static long nw_mmb_sweep_fragment(void *map, struct nw_mmb_fragmented *key,
				  struct nw_mmb_followed *followed, u64 *now)
{
	if (nw_mmb_is_past(followed->seen, NW_MMB_FOLLOWED, *now))
		nw_map_delete(map, key);
	return 0;
}

#endif /* NW_MMB_CONNECTIONS_H */
