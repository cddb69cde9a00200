/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What the rules that a packet matches make of it: counters, the verdict, and
 * changes of 16-bit words with their checksums. Those above IP are the kernel's to
 * mend, which alone knows whether the device will compute them.
 */
#ifndef NW_MMB_CHANGE_H
#define NW_MMB_CHANGE_H

#include "mmb_match.h"

#define NW_F_RECOMPUTE	1	/* BPF_F_RECOMPUTE_CSUM */
#define NW_F_PSEUDO	0x10	/* BPF_F_PSEUDO_HDR */
#define NW_F_MANGLED_0	0x20	/* BPF_F_MARK_MANGLED_0 */

struct nw_mmb_apply {
	struct nw_skb *skb;
	struct nw_mmb_packet *p;
	struct nw_mmb_action *action;
	const struct nw_mmb_body *body;
	u64 segments;
	u64 bytes;
	u32 option_at;		/* bytes from the network header */
	u32 settled;
	u32 drop;
	u32 failed;
	u32 unchanged;
};

/* Where the checksum above IP is; 0 if there is none. */
NW_INLINE u32 nw_mmb_sum_at(struct nw_skb *skb, const struct nw_mmb_packet *p)
{
	u32 at = p->header_len;
	u16 sum;

	if (p->layers & NW_MMB_TCP)
		return at + 16;
	if (p->layers & NW_MMB_UDP) {
		/* a datagram over IPv4 may have none (RFC 768) */
		if (nw_load(skb, nw_mmb.net_at + at + 6, &sum, 2) || !sum)
			return 0;
		return at + 6;
	}
	if (p->layers & (NW_MMB_ICMP | NW_MMB_ICMP6))
		return at + 2;
	return 0;
}

/*
 * Changes the word at `at`, an even number of bytes from the network header, and the
 * checksums that cover it and are not written by it. 0 if it was done.
 */
static __attribute__((noinline)) int nw_mmb_write(struct nw_skb *skb,
						  struct nw_mmb_packet *p, u32 at,
						  u32 keep, u32 value)
{
	u32 net_at = nw_mmb.net_at, sum_at, len = 2, address;
	u64 flags = 0, l4 = 2;
	u16 old = 0, new;

	if (nw_load(skb, net_at + at, &old, 2)) {
		/* the last byte of an odd packet: the sum takes a zero behind it */
		if (nw_load(skb, net_at + at, &old, 1))
			return -1;
		len = 1;
	}
	new = (old & (u16)keep) | (u16)value;
	if (old == new)
		return 0;
	sum_at = nw_mmb_sum_at(skb, p);
	if (p->layers & NW_MMB_IP4) {
		address = at >= 12 && at < 20;
		if (at < p->header_len) {
			if (at == 10)
				flags = NW_F_RECOMPUTE;
			else if (nw_ip_checksum(skb, net_at + 10, old, new, 2))
				return -1;
		}
	} else {
		address = at >= 8 && at < 40;
		if (at < 40)
			flags = NW_F_RECOMPUTE;
	}
	address = address && p->layers & (NW_MMB_TCP | NW_MMB_UDP | NW_MMB_ICMP6);
	if (at >= p->header_len && (!sum_at || at == sum_at))
		flags = NW_F_RECOMPUTE;
	if (sum_at && at != sum_at && (at >= p->header_len || address)) {
		if (address)
			l4 |= NW_F_PSEUDO;
		if (p->layers & NW_MMB_UDP)
			l4 |= NW_F_MANGLED_0;
		if (nw_l4_checksum(skb, net_at + sum_at, old, new, l4))
			return -1;
	}
	if (len == 1)
		return nw_store(skb, net_at + at, &new, 1, flags) ? -1 : 0;
	return nw_store(skb, net_at + at, &new, 2, flags) ? -1 : 0;
}

static long nw_mmb_set_word(u32 i, struct nw_mmb_apply *a)
{
	struct nw_mmb_packet *p = a->p;
	struct nw_mmb_set *set;
	u32 at;

	if (i >= NW_MMB_SETS)
		return 1;
	set = &a->action->set[i];
	if ((p->layers & set->layer) != set->layer)
		return 0;
	at = set->at + (set->ip ? 0 : p->header_len);
	if (nw_mmb_write(a->skb, p, at, set->keep, set->value)) {
		a->failed = 1;
		return 1;
	}
	return 0;
}

/* One byte of what an option gets. */
static long nw_mmb_set_byte(u32 i, struct nw_mmb_apply *a)
{
	u8 word[2] = { 0, 0 }, keep[2] = { 0xff, 0xff };
	u32 at = a->option_at + i;

	if (i >= sizeof(a->body->bytes))
		return 1;
	if (at & 1) {
		word[1] = a->body->bytes[i];
		keep[1] = 0;
	} else {
		word[0] = a->body->bytes[i];
		keep[0] = 0;
	}
	if (nw_mmb_write(a->skb, a->p, at & ~1u, *(u16 *)keep, *(u16 *)word))
		a->failed = 1;
	return a->failed != 0;
}

/* Gives the option that was found as number `i` other contents, if it is meant. */
static long nw_mmb_set_option(u32 i, struct nw_mmb_apply *a)
{
	const struct nw_mmb_body *body = a->body;
	struct nw_mmb_packet *p = a->p;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	if (p->option[i].kind != body->kind || p->option[i].len != body->len)
		return 0;
	a->option_at = p->header_len + 20 + p->option[i].at;
	nw_loop(body->len, nw_mmb_set_byte, a, 0);
	return a->failed != 0;
}

static long nw_mmb_set_body(u32 i, struct nw_mmb_apply *a)
{
	if (i >= NW_MMB_BODIES)
		return 1;
	a->body = &a->action->body[i];
	nw_loop(a->p->found, nw_mmb_set_option, a, 0);
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
		    (u64)nw_random() * 10000 >> 32 >= verdict)
			continue;
		a->settled = 1;
		a->drop = verdict != NW_MMB_ACCEPT;
		break;
	}
	return 0;
}

static long nw_mmb_set(u32 i, struct nw_mmb_apply *a)
{
	struct nw_mmb_rule *rule;
	u32 number, at;

	if (i >= NW_MMB_MATCHED)
		return 1;
	number = a->p->sorted[i];
	rule = nw_map_lookup(&nw_mmb_rules, &number);
	if (!rule)
		return 1;
	at = rule->action;
	a->action = nw_map_lookup(&nw_mmb_actions, &at);
	if (!a->action)
		return 1;
	nw_loop(a->action->sets, nw_mmb_set_word, a, 0);
	return a->failed != 0;
}

static long nw_mmb_set_options(u32 i, struct nw_mmb_apply *a)
{
	struct nw_mmb_packet *p = a->p;
	struct nw_mmb_rule *rule;
	u32 number, at;

	if (i >= NW_MMB_MATCHED)
		return 1;
	number = p->sorted[i];
	rule = nw_map_lookup(&nw_mmb_rules, &number);
	if (!rule)
		return 1;
	at = rule->action;
	a->action = nw_map_lookup(&nw_mmb_actions, &at);
	if (!a->action)
		return 1;
	if (!a->action->bodies)
		return 0;
	if (p->broken || p->more_fragments) {
		a->unchanged = 1;
		return 1;
	}
	nw_loop(a->action->bodies, nw_mmb_set_body, a, 0);
	return a->failed != 0;
}

#endif /* NW_MMB_CHANGE_H */
