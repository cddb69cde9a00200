/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The connections of a box: their keys in packets, how they are found, and how long they
 * are kept, as in connections.rs of narrows-mmb.
 */
#ifndef NW_MMB_TRACK_H
#define NW_MMB_TRACK_H

#include "mmb_translate.h"

/* Helpers by their numbers in include/uapi/linux/bpf.h. A tick of the clock is enough. */
static u64 (*nw_coarse_ns)(void) = (void *)160;
static long (*nw_for_each)(void *map, void *callback, void *context,
			   u64 flags) = (void *)164;

#define NW_MMB_S		1000000000ull
/* Idle time-outs of mmb 0.4, as in connections.rs. */
#define NW_MMB_ESTABLISHED	(14400 * NW_MMB_S)
#define NW_MMB_TRANSIENT	(120 * NW_MMB_S)
#define NW_MMB_UDP_IDLE		(600 * NW_MMB_S)
/* How long a fragmented packet is followed: Linux's ipfrag_time. */
#define NW_MMB_FOLLOWED		(30 * NW_MMB_S)

#define NW_MMB_TCP_SYN		0x02
#define NW_MMB_TCP_RST		0x04
#define NW_MMB_TCP_CLOSING	0x05	/* FIN, RST */
#define NW_MMB_TCP_OPEN		0x12	/* SYN, ACK */

/* Whether so long a time has passed; another processor may have read the clock later. */
NW_INLINE int nw_mmb_is_past(u64 since, u64 span, u64 now)
{
	return (s64)(now - since) >= (s64)span;
}

/* Ports of TCP and UDP, the identifier of ICMP echo. 0 if other ICMP has neither. */
NW_INLINE int nw_mmb_ports(struct nw_mmb_flow *flow, const u8 *above)
{
	u32 echo = flow->protocol == 1 ? 8 : 128, reply = flow->protocol == 1 ? 0 : 129;

	if (flow->protocol == 6 || flow->protocol == 17) {
		flow->source_port = *(u16 *)above;
		flow->destination_port = *(u16 *)(above + 2);
	} else if (flow->protocol == 1 || flow->protocol == 58) {
		if ((above[0] != echo && above[0] != reply) || above[1])
			return 0;
		flow->source_port = *(u16 *)(above + 4);
		flow->destination_port = *(u16 *)(above + 4);
	}
	return 1;
}

NW_INLINE void nw_mmb_clear(struct nw_mmb_flow *flow)
{
	u32 i;

	for (i = 0; i < sizeof(*flow) / 8; i++)
		((u64 *)flow)[i] = 0;
}

/* The key of the packet as it stands. 0 if it has none, as ICMP other than echo. */
__attribute__((noinline)) int nw_mmb_key_of(struct nw_skb *skb,
				struct nw_mmb_packet *p,
				struct nw_mmb_flow *flow)
{
	u32 net_at = nw_mmb.net_at, above_at;
	u8 above[8] = {};

	if (!p || !flow)
		return 0;
	above_at = net_at + p->header_len;
	nw_mmb_clear(flow);
	flow->protocol = p->window[NW_MMB_UPPER];
	if (p->layers & NW_MMB_IP4) {
		if (nw_load(skb, net_at + 12, flow->source, 4) ||
		    nw_load(skb, net_at + 16, flow->destination, 4))
			return 0;
	} else {
		flow->v6 = 1;
		if (nw_load(skb, net_at + 8, flow->source, 16) ||
		    nw_load(skb, net_at + 24, flow->destination, 16))
			return 0;
	}
	if (flow->protocol == 1 || flow->protocol == 58)
		return !nw_load(skb, above_at, above, 8) && nw_mmb_ports(flow, above);
	if (!p->later && !nw_load(skb, above_at, above, 4))
		nw_mmb_ports(flow, above);
	return 1;
}

/* The addresses of a fragment, and by what its packet is known. */
NW_INLINE void nw_mmb_fragment_of(struct nw_mmb_packet *p)
{
	struct nw_mmb_fragmented *f = &p->fragmented;
	u64 *to = (u64 *)f;
	u32 v4 = p->layers & NW_MMB_IP4, i;

	for (i = 0; i < sizeof(*f) / 8; i++)
		to[i] = 0;
	if (v4) {
		*(u32 *)f->source = *(u32 *)(p->window + 12);
		*(u32 *)f->destination = *(u32 *)(p->window + 16);
	} else {
		for (i = 0; i < 4; i++)
			to[i] = *(u64 *)(p->window + 8 + 8 * i);
	}
	f->ident = p->fragment_ident;
	f->protocol = p->window[NW_MMB_UPPER];
	f->v6 = !v4;
}

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

/* Its key as it came, into p->flow. 0 if it has none. */
NW_INLINE int nw_mmb_key(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	const u8 *h = p->window, *above = p->window + NW_MMB_ABOVE;
	struct nw_mmb_flow *flow = &p->flow;
	u64 *to = (u64 *)flow;
	u32 i;

	if (p->more_fragments || p->later)
		return nw_mmb_fragment_key(skb, p);
	if (!(p->layers & (NW_MMB_TCP | NW_MMB_UDP | NW_MMB_ICMP | NW_MMB_ICMP6))) {
		/* without a header that can be read ICMP has addresses only */
		if (!nw_mmb_key_of(skb, p, flow)) {
			flow->source_port = 0;
			flow->destination_port = 0;
		} else if (flow->protocol == 1 || flow->protocol == 58) {
			flow->source_port = 0;
			flow->destination_port = 0;
		}
		return 1;
	}
	nw_mmb_clear(flow);
	flow->protocol = h[NW_MMB_UPPER];
	if (p->layers & NW_MMB_IP4) {
		*(u32 *)flow->source = *(u32 *)(h + 12);
		*(u32 *)flow->destination = *(u32 *)(h + 16);
	} else {
		flow->v6 = 1;
		for (i = 0; i < 4; i++)
			to[i] = *(u64 *)(h + 8 + 8 * i);
	}
	return nw_mmb_ports(flow, above);
}

NW_INLINE int nw_mmb_is_closing(const struct nw_mmb_connection *c)
{
	return (c->flags[0] | c->flags[1]) & NW_MMB_TCP_CLOSING;
}

/* How long it is kept without packets. */
NW_INLINE u64 nw_mmb_kept_for(const struct nw_mmb_connection *c)
{
	if (c->reverse.protocol == 17)
		return NW_MMB_UDP_IDLE;
	if (c->reverse.protocol == 6 && !nw_mmb_is_closing(c) &&
	    (c->flags[0] & c->flags[1] & NW_MMB_TCP_OPEN) == NW_MMB_TCP_OPEN)
		return NW_MMB_ESTABLISHED;
	return NW_MMB_TRANSIENT;
}

/* Whether its other end has shown itself: it makes no room for others. */
NW_INLINE int nw_mmb_is_assured(const struct nw_mmb_connection *c)
{
	if (c->reverse.protocol != 6)
		return c->replied & 1;
	return !nw_mmb_is_closing(c) &&
	       (c->flags[0] & c->flags[1] & NW_MMB_TCP_OPEN) == NW_MMB_TCP_OPEN;
}

/* Whether it was idle for too long. */
NW_INLINE int nw_mmb_has_expired(const struct nw_mmb_connection *c, u64 now)
{
	return nw_mmb_is_past(c->last_active, nw_mmb_kept_for(c), now);
}

NW_INLINE void nw_mmb_forget(struct nw_mmb_connection *c, struct nw_mmb_flow *forward)
{
	u32 zero = 0;
	struct nw_mmb_totals *totals = nw_map_lookup(&nw_mmb_all, &zero);

	nw_map_delete(&nw_mmb_reverses, &c->reverse);
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
 * The flags of a segment. A RST counts only with the number that the other end waits for (RFC
 * 5961 section 3.2), as far as that is known: anybody can send another one.
 */
NW_INLINE void nw_mmb_see(struct nw_mmb_packet *p, struct nw_mmb_connection *c, u32 reverse,
			  u8 flags)
{
	const u8 *tcp = p->window + NW_MMB_ABOVE;
	u32 seq = nw_be32(*(u32 *)(tcp + 4)), ack = nw_be32(*(u32 *)(tcp + 8));

	if (flags & NW_MMB_TCP_RST) {
		if (reverse ? c->replied & 2 && c->acked[0] != seq :
			      c->replied & 4 && c->acked[1] != seq)
			flags &= (u8)~NW_MMB_TCP_RST;
	} else if (flags & NW_MMB_TCP_ACK) {
		/* as the other end has its numbers, before or after they are shifted */
		if (reverse)
			c->acked[1] = ack - c->seq;
		else
			c->acked[0] = ack + c->ack;
		c->replied |= reverse ? 4 : 2;
	}
	c->flags[reverse] |= flags;
}

/*
 * The packet's connection. One that was idle too long is forgotten, and so is a closed
 * one whose beginner begins another.
 */
NW_INLINE struct nw_mmb_connection *nw_mmb_find_live(struct nw_mmb_packet *p)
{
	u8 flags = p->layers & NW_MMB_TCP ? p->window[NW_MMB_ABOVE + 13] : 0;
	struct nw_mmb_connection *c;
	u32 reverse;

	c = nw_mmb_find(&p->flow, &p->forward, &reverse);
	if (!c)
		return 0;
	p->reverse = reverse;
	if (nw_mmb_has_expired(c, p->now) ||
	    (!reverse && (flags & NW_MMB_TCP_OPEN) == NW_MMB_TCP_SYN &&
	     nw_mmb_is_closing(c))) {
		nw_mmb_forget(c, &p->forward);
		return 0;
	}
	c->last_active = p->now;
	c->replied |= (u8)reverse;
	if (p->layers & NW_MMB_TCP)
		nw_mmb_see(p, c, reverse & 1, flags);
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
	u64 kept = nw_mmb_kept_for(c), expiry = c->last_active + kept;

	(void)map;
	if (nw_mmb_is_past(c->last_active, kept, swept->now))
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

#endif /* NW_MMB_TRACK_H */
