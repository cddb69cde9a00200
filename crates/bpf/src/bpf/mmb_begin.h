/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A connection begins: what its packets are to get, drawn where a rule says so, and its
 * place in the maps.
 */
#ifndef NW_MMB_BEGINNING_H
#define NW_MMB_BEGINNING_H

#include "mmb_related.h"
#include "begin.h"

#define NW_EEXIST		17

struct nw_mmb_begin {
	struct nw_mmb_packet *p;
	u32 mapping;
	u32 drawn;		/* a source port */
	u32 done;
	u32 full;
	u32 over;
};

static long nw_mmb_map(u32 i, struct nw_mmb_begin *b)
{
	struct nw_mmb_packet *p = b->p;
	struct nw_mmb_mapping *m;
	u32 at = b->mapping + i;

	m = nw_map_lookup(&nw_mmb_mappings, &at);
	if (!m)
		return 1;
	if (!nw_mmb_is_there(m->what, &p->left))
		return 0;
	b->drawn |= nw_mmb_draws_port(m);
	nw_mmb_map_one(p, &p->fresh.tracked, m, m->drawn ? nw_mmb_draw() : 0);
	return 0;
}

/* What the rule at `i` of those that apply gives the connection. */
static long nw_mmb_plan_rule(u32 i, struct nw_mmb_begin *b)
{
	struct nw_mmb_connection *c = &b->p->fresh;
	struct nw_mmb_action *action;
	struct nw_mmb_rule *rule;
	u32 number, at, *ident, n = c->rules;

	if (i >= NW_MMB_MATCHED)
		return 1;
	number = b->p->sorted[i];
	rule = nw_map_lookup(&nw_mmb_rules, &number);
	if (!rule)
		return 1;
	if (!rule->stateful)
		return 0;
	ident = nw_map_lookup(&nw_mmb_idents, &number);
	if (n >= NW_MMB_JOINED || !ident) {
		b->over = 1;
		return 1;
	}
	c->rule[n] = *ident;
	c->rules = n + 1;
	at = rule->action;
	action = nw_map_lookup(&nw_mmb_actions, &at);
	if (!action)
		return 1;
	b->mapping = action->mapping;
	nw_loop(action->mappings, nw_mmb_map, b, 0);
	return 0;
}

/* Takes the reverse key, if it is free; the next port if it is not. */
static long nw_mmb_take(u32 i, struct nw_mmb_begin *b)
{
	struct nw_mmb_packet *p = b->p;
	struct nw_mmb_flow *reverse = &p->fresh.tracked.reverse;
	struct nw_mmb_connection *c;
	u32 unused;
	long failed;

	(void)i;
	nw_mmb_answered_at(reverse, p->left.source_port);
	c = nw_mmb_find(reverse, &p->other, &unused);
	if (c && nw_mmb_has_expired(&c->tracked, p->now)) {
		nw_mmb_forget(c, &p->other);
		c = 0;
	}
	if (!c) {
		failed = nw_map_update(&nw_mmb_reverses, reverse, &p->flow, NW_NOEXIST);
		if (failed != -NW_EEXIST) {
			b->done = !failed;
			b->full = failed != 0;
			return 1;
		}
	}
	p->left.source_port = nw_mmb_next_port(p->left.source_port);
	return 0;
}

/* Connections that are tried before there is no room. */
#define NW_MMB_TRIED	64

struct nw_mmb_room {
	struct nw_mmb_packet *p;
	u32 made;
};

static long nw_mmb_evict(u32 i, struct nw_mmb_room *room)
{
	struct nw_mmb_flow *forward = &room->p->other;
	struct nw_mmb_connection *c;

	(void)i;
	if (nw_pop(&nw_mmb_newest, forward))
		return 1;
	c = nw_map_lookup(&nw_mmb_connections, forward);
	if (!c || nw_mmb_is_assured(&c->tracked))
		return 0;
	nw_mmb_forget(c, forward);
	room->made = 1;
	return 1;
}

/*
 * One of the connections that began last and have had no answer makes room, the oldest
 * first: a flood of openings takes the place of its own. Whether one did.
 */
static __attribute__((noinline)) int nw_mmb_make_room(struct nw_mmb_packet *p)
{
	struct nw_mmb_room room = { .p = p };

	nw_loop(NW_MMB_TRIED, nw_mmb_evict, &room, 0);
	return room.made;
}

/*
 * The packet begins a connection, if a stateful rule applies to it. 0 unless it is to be
 * dropped.
 */
NW_MMB_GLOBAL int nw_mmb_begin(struct nw_skb *skb,
				struct nw_mmb_packet *p)
{
	struct nw_mmb_begin b = { .p = p };
	struct nw_mmb_connection *c;
	struct nw_mmb_totals *totals;
	u32 zero = 0, i;
	long failed;

	if (!p)
		return -1;
	c = &p->fresh;
	totals = nw_map_lookup(&nw_mmb_all, &zero);
	if (!totals)
		return -1;
	if (!nw_mmb_key_of(skb, p, &p->left))
		p->left = p->flow;
	for (i = 0; i < sizeof(*c) / 8; i++)
		((u64 *)c)[i] = 0;
	nw_loop(p->matched, nw_mmb_plan_rule, &b, 0);
	if (b.over) {
		totals->overmatched++;
		return -1;
	}
	c->begun = p->now;
	if (nw_mmb_first(skb, p, &c->tracked))
		return -1;
	nw_loop(b.drawn ? NW_MMB_PORTS : 1, nw_mmb_take, &b, 0);
	if (b.full && nw_mmb_make_room(p)) {
		totals->evicted++;
		b.full = 0;
		nw_loop(1, nw_mmb_take, &b, 0);
	}
	if (!b.done) {
		totals->table_full += b.full;
		totals->ports_used_up += !b.full;
		return -1;
	}
	failed = nw_map_update(&nw_mmb_connections, &p->flow, c, NW_NOEXIST);
	if (failed) {
		nw_map_delete(&nw_mmb_reverses, &c->tracked.reverse);
	} else {
		totals->begun++;
		nw_push(&nw_mmb_newest, &p->flow, NW_EXIST);
	}
	/* another processor may have begun it meanwhile */
	c = nw_map_lookup(&nw_mmb_connections, &p->flow);
	if (!c) {
		totals->table_full++;
		return -1;
	}
	__sync_fetch_and_add(&c->packets, skb->gso_segs > 1 ? skb->gso_segs : 1);
	p->reverse = 0;
	if (nw_mmb_translate(skb, p, &c->tracked)) {
		totals->unwritten++;
		return -1;
	}
	return 0;
}

#endif /* NW_MMB_BEGINNING_H */
