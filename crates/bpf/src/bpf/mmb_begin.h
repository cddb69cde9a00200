/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A connection begins: what its packets are to get, drawn where a rule says so, as
 * `plan` in translate.rs of narrows-mmb.
 */
#ifndef NW_MMB_BEGIN_H
#define NW_MMB_BEGIN_H

#include "mmb_related.h"

/* Ports that are drawn, as in translate.rs. */
#define NW_MMB_FIRST_PORT	49152
#define NW_MMB_PORTS		16383

#define NW_EEXIST		17

struct nw_mmb_begin {
	struct nw_mmb_packet *p;
	u32 mapping;
	u32 drawn;		/* a source port */
	u32 done;
	u32 full;
	u32 over;
};

/* A mapping of an address, or of a port. */
NW_INLINE void nw_mmb_map_address(u8 *to, const struct nw_mmb_mapping *m)
{
	u32 i;

	for (i = 0; i < 16; i += 4)
		*(u32 *)(to + i) = *(u32 *)(m->address + i);
}

NW_INLINE u16 nw_mmb_port(const struct nw_mmb_mapping *m)
{
	u32 port = m->number;

	if (m->drawn)
		port = NW_MMB_FIRST_PORT + nw_mmb_below(NW_MMB_PORTS);
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

static long nw_mmb_map(u32 i, struct nw_mmb_begin *b)
{
	struct nw_mmb_packet *p = b->p;
	struct nw_mmb_flow *left = &p->left;
	struct nw_mmb_connection *c = &p->fresh;
	struct nw_mmb_mapping *m;
	u32 at = b->mapping + i;

	m = nw_map_lookup(&nw_mmb_mappings, &at);
	if (!m)
		return 1;
	if (!nw_mmb_is_there(m->what, left))
		return 0;
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
		b->drawn |= m->drawn;
		left->source_port = nw_mmb_port(m);
		c->mapped |= NW_MMB_SOURCE_PORT;
		break;
	case NW_MMB_TCP_DESTINATION:
	case NW_MMB_UDP_DESTINATION:
		left->destination_port = nw_mmb_port(m);
		c->mapped |= NW_MMB_DESTINATION_PORT;
		break;
	case NW_MMB_ICMP_IDENT:
	case NW_MMB_ICMP6_IDENT:
		b->drawn |= m->drawn;
		left->source_port = nw_mmb_port(m);
		left->destination_port = left->source_port;
		c->mapped |= NW_MMB_SOURCE_PORT;
		break;
	case NW_MMB_IDENT:
		if (m->drawn) {
			c->ident = (u16)nw_mmb_draw();
			break;
		}
		c->sets_ident = 1;
		c->ident_set = (u16)m->number;
		c->ident_before = (u16)nw_mmb_word(p->window + 4);
		break;
	case NW_MMB_LABEL:
		c->sets_label = 1;
		c->label = m->drawn ? nw_mmb_draw() & 0xfffff : m->number;
		c->label_before = (u32)(p->window[1] & 15) << 16 | nw_mmb_word(p->window + 2);
		break;
	case NW_MMB_SEQ:
		c->seq = nw_mmb_draw();
		break;
	default:
		c->ack = nw_mmb_draw();
	}
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
	struct nw_mmb_flow *reverse = &p->fresh.reverse;
	struct nw_mmb_connection *c;
	u32 unused, port;
	long failed;

	(void)i;
	reverse->destination_port = p->left.source_port;
	/* the identifier of ICMP stands for both */
	if (reverse->protocol == 1 || reverse->protocol == 58)
		reverse->source_port = reverse->destination_port;
	c = nw_mmb_find(reverse, &p->other, &unused);
	if (c && nw_mmb_has_expired(c, p->now)) {
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
	port = (u16)(nw_be16(p->left.source_port) - NW_MMB_FIRST_PORT);
	port = (u16)(port + 1) % NW_MMB_PORTS;
	p->left.source_port = nw_be16((u16)(NW_MMB_FIRST_PORT + port));
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
	if (!c || nw_mmb_is_assured(c))
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
__attribute__((noinline)) int nw_mmb_begin(struct nw_skb *skb,
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
	for (i = 0; i < 16; i += 4) {
		*(u32 *)(c->reverse.source + i) = *(u32 *)(p->left.destination + i);
		*(u32 *)(c->reverse.destination + i) = *(u32 *)(p->left.source + i);
	}
	c->reverse.source_port = p->left.destination_port;
	c->reverse.protocol = p->left.protocol;
	c->reverse.v6 = p->left.v6;
	c->last_active = p->now;
	c->begun = p->now;
	if (p->layers & NW_MMB_TCP &&
	    nw_load(skb, nw_mmb.net_at + p->header_len + 13, &c->flags[0], 1))
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
		nw_map_delete(&nw_mmb_reverses, &c->reverse);
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
	if (nw_mmb_translate(skb, p, c)) {
		totals->unwritten++;
		return -1;
	}
	return 0;
}

#endif /* NW_MMB_BEGIN_H */
