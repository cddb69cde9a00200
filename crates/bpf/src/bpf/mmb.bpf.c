// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * A box by rules at a device, in both directions. What leaves by the device came from
 * inside.
 */
#include "mmb_begin.h"

char nw_license[] NW_SECTION("license") = "GPL";

#define NW_TC_SHOT	2	/* TC_ACT_SHOT */

/* Bytes of IP of all segments of a bundle: each has headers of its own. */
NW_INLINE u64 nw_mmb_bytes(const struct nw_mmb_packet *p, u64 segments)
{
	u32 above = p->layers & NW_MMB_TCP ? p->tcp_len : 8;

	return p->len + (segments - 1) * (p->header_len + above);
}

/* It goes on, and is followed if it is a first fragment. */
NW_INLINE int nw_mmb_go_on(struct nw_mmb_packet *p, struct nw_mmb_totals *totals, int keyed,
			   u32 connected)
{
	if (!keyed || p->later || !p->more_fragments || nw_mmb_follow(p, connected) ||
	    !nw_mmb.translates)
		return NW_TC_NEXT;
	totals->fragments_full++;
	return NW_TC_SHOT;
}

/* A frame that is not IP: rules that name its type drop it or not. */
static __attribute__((noinline)) int nw_mmb_frame(struct nw_skb *skb, struct nw_mmb_packet *p,
						  struct nw_mmb_totals *totals)
{
	struct nw_mmb_apply a = { .skb = skb, .p = p };

	if (!p || !totals)
		return NW_TC_NEXT;
	a.segments = 1;
	a.bytes = skb->len - nw_mmb.net_at;
	if (!nw_mmb_match(p)) {
		totals->overmatched++;
		return NW_TC_SHOT;
	}
	if (!p->matched)
		return NW_TC_NEXT;
	nw_mmb_sort(p);
	nw_loop(p->matched, nw_mmb_decide, &a, 0);
	if (!a.drop)
		return NW_TC_NEXT;
	totals->frames_dropped++;
	return NW_TC_SHOT;
}

NW_INLINE int nw_mmb_box(struct nw_skb *skb, u32 way)
{
	u32 which = way - 1, zero = 0;
	struct nw_mmb_packet *p = nw_map_lookup(&nw_mmb_packets, &which);
	struct nw_mmb_totals *totals = nw_map_lookup(&nw_mmb_all, &zero);
	struct nw_mmb_apply a = { .skb = skb, .p = p };
	struct nw_mmb_connection *c = 0;
	int how, keyed = 0, related = 0, begun = 0;

	if (!p || !totals)
		return NW_TC_NEXT;
	a.segments = skb->gso_segs > 1 ? skb->gso_segs : 1;
	p->matched = 0;
	p->stateful = 0;
	how = nw_mmb_read(skb, p, way, nw_mmb.options);
	if (how == NW_MMB_OTHER) {
		totals->other++;
		if (!nw_mmb.frames || !(nw_mmb.enabled & way))
			return NW_TC_NEXT;
		return nw_mmb_frame(skb, p, totals);
	}
	totals->packets += a.segments;
	totals->bundles += a.segments > 1;
	if (how == NW_MMB_MALFORMED) {
		totals->malformed += a.segments;
		return NW_TC_SHOT;
	}
	if (!(nw_mmb.enabled & way) || !nw_mmb.tables)
		return NW_TC_NEXT;
	if (nw_mmb_is_tiny(p)) {
		totals->tiny_fragments++;
		return NW_TC_SHOT;
	}
	how = nw_mmb_match(p);
	if (how && nw_mmb.stateful) {
		p->now = nw_coarse_ns();
		c = nw_mmb_related(skb, p, &how);
		related = c != 0;
		totals->related += related ? a.segments : 0;
		keyed = !related && nw_mmb_keyed(skb, p);
		if (keyed)
			c = nw_mmb_find_live(p);
		if (p->later && p->stray && !c && nw_mmb.translates) {
			totals->stray_fragments++;
			return NW_TC_SHOT;
		}
		if (keyed && c) {
			__sync_fetch_and_add(&c->packets, a.segments);
			how = nw_mmb_merge(p, c);
		}
	}
	if (!how) {
		totals->overmatched += a.segments;
		return NW_TC_SHOT;
	}
	if (!p->matched && !related)
		return nw_mmb_go_on(p, totals, keyed, 0);
	nw_mmb_sort(p);
	a.bytes = nw_mmb_bytes(p, a.segments);
	nw_loop(p->matched, nw_mmb_decide, &a, 0);
	if (a.drop) {
		totals->dropped += a.segments;
		return NW_TC_SHOT;
	}
	if (related)
		a.failed = nw_mmb_translate_error(skb, p, &c->tracked) != 0;
	else if (c && p->reverse && nw_mmb_translate(skb, p, &c->tracked))
		a.failed = 1;
	if (!a.failed)
		nw_loop(p->matched, nw_mmb_set, &a, 0);
	if (!a.failed && p->layers & NW_MMB_TCP && nw_mmb.changes) {
		how = nw_mmb_rewrite_options(skb, p);
		a.failed = how < 0;
		totals->options_unchanged += how > 0;
	}
	if (!a.failed && keyed && c && !p->reverse && nw_mmb_translate(skb, p, &c->tracked))
		a.failed = 1;
	if (!a.failed && !c && keyed && p->stateful && !p->later) {
		if (nw_mmb_begin(skb, p))
			return NW_TC_SHOT;
		begun = 1;
	}
	if (!a.failed && nw_mmb.sums) {
		a.last = 1;
		nw_loop(p->matched, nw_mmb_set, &a, 0);
	}
	if (a.failed) {
		totals->unwritten += a.segments;
		return NW_TC_SHOT;
	}
	return nw_mmb_go_on(p, totals, keyed, c || begun);
}

NW_SECTION("tcx/egress") int nw_mmb_out(struct nw_skb *skb)
{
	return nw_mmb_box(skb, NW_MMB_LEAVES);
}

NW_SECTION("tcx/ingress") int nw_mmb_in(struct nw_skb *skb)
{
	return nw_mmb_box(skb, NW_MMB_COMES);
}

/* Forgets what was idle for too long. User space runs it from time to time. */
NW_SECTION("syscall") int nw_mmb_sweep(void *context)
{
	u64 now = nw_ktime_ns();

	(void)context;
	nw_mmb_sweep_connections(now);
	nw_for_each(&nw_mmb_fragments, nw_mmb_sweep_fragment, &now, 0);
	return 0;
}

/* Other rules have come: those that are gone are forgotten, and may give their identifier away. */
NW_SECTION("syscall") int nw_mmb_renumber(void *context)
{
	(void)context;
	nw_for_each(&nw_mmb_connections, nw_mmb_renumber_one, 0, 0);
	return 0;
}
