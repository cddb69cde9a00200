/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The connection that an ICMP error is about, and which of its rules apply to the error.
 */
#ifndef NW_MMB_OF_ERROR_H
#define NW_MMB_OF_ERROR_H

#include "mmb_track.h"
#include "related.h"

/* To the error applies the rule of its connection at `i`, if it accepts. */
static long nw_mmb_apply_accept(u32 i, struct nw_mmb_join *j)
{
	struct nw_mmb_action *action;
	u32 k, accepts = 0;

	if (i >= NW_MMB_JOINED)
		return 1;
	action = nw_mmb_action_of(nw_mmb_number_of(j->c->rule[i]));
	if (!action)
		return 1;
	for (k = 0; k < 4; k++)
		accepts |= action->verdict[k] == NW_MMB_ACCEPT;
	return accepts ? nw_mmb_apply_rule(i, j) : 0;
}

/* The error's connection; its rules that accept apply. */
NW_INLINE struct nw_mmb_connection *nw_mmb_related(struct nw_skb *skb,
						   struct nw_mmb_packet *p, int *room)
{
	struct nw_mmb_join j = { .p = p, .own = p->matched };
	struct nw_mmb_connection *c;
	u32 reverse;

	if (!(p->layers & (NW_MMB_ICMP | NW_MMB_ICMP6)) || !nw_mmb_quotes(skb, p))
		return 0;
	c = nw_mmb_find(&p->left, &p->forward, &reverse);
	if (!c)
		return 0;
	if (nw_mmb_has_expired(&c->tracked, p->now)) {
		nw_mmb_forget(c, &p->forward);
		return 0;
	}
	p->reverse = reverse;
	j.c = c;
	nw_loop(c->rules, nw_mmb_apply_accept, &j, 0);
	*room = !j.over;
	return c;
}

#endif /* NW_MMB_OF_ERROR_H */
