/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Changes of the TCP options, in a copy of them: as OptionList in options.rs of narrows-mmb.
 * A list in which an option comes, goes or changes its length loses its fillers.
 *
 * What changes from one turn of a loop to the next stands in the packet's map and not on
 * the stack, where the verifier would try each value that it can have.
 */
#ifndef NW_MMB_OPTIONS_H
#define NW_MMB_OPTIONS_H

#include "mmb_resize.h"

/* Whose options are changed. */
struct nw_mmb_list {
	struct nw_mmb_packet *p;
};

NW_INLINE int nw_mmb_stays(const struct nw_mmb_change *change, u32 kind)
{
	if (change->what != NW_MMB_KEEP)
		return 1;
	return change->bytes[kind >> 3 & 31] >> (kind & 7) & 1;
}

NW_INLINE int nw_mmb_gets(const struct nw_mmb_change *change, u32 kind)
{
	return change->what == NW_MMB_SET && change->kind == kind;
}

/* What the option at `i` adds to the room that the list needs. */
static long nw_mmb_weigh(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 kind, len;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	kind = p->option[i].kind;
	len = p->option[i].len;
	if (!nw_mmb_stays(&p->change, kind)) {
		p->pack.differs = 1;
		return 0;
	}
	if (nw_mmb_gets(&p->change, kind)) {
		p->pack.differs |= len != p->change.len;
		len = p->change.len;
	}
	p->pack.room += 2 + len;
	return 0;
}

static long nw_mmb_pack_byte(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 to = p->pack.filled, from = p->pack.from + i;

	if (to >= NW_MMB_OPTIONS || from >= NW_MMB_OPTIONS)
		return 1;
	if (p->pack.own)
		p->packed[to] = p->change.bytes[from];
	else
		p->packed[to] = p->options[from];
	p->pack.filled = to + 1;
	return 0;
}

/* Puts an option behind those of the new list. */
NW_INLINE long nw_mmb_pack_option(struct nw_mmb_list *list, u32 kind, u32 len)
{
	struct nw_mmb_packet *p = list->p;
	u32 to = p->pack.filled, n = p->pack.kept;

	if (to >= NW_MMB_OPTIONS - 1 || n >= NW_MMB_OPTIONS)
		return 1;
	p->packed[to] = (u8)kind;
	p->packed[to + 1] = (u8)(len + 2);
	p->option[n].kind = (u8)kind;
	p->option[n].at = (u8)(to + 2);
	p->option[n].len = (u8)len;
	p->pack.filled = to + 2;
	p->pack.kept = n + 1;
	nw_loop(len, nw_mmb_pack_byte, list, 0);
	return 0;
}

/* The same with the option at `i` of the old list, if it stays. */
static long nw_mmb_pack_one(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 kind, len;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	kind = p->option[i].kind;
	len = p->option[i].len;
	if (!nw_mmb_stays(&p->change, kind))
		return 0;
	p->pack.from = p->option[i].at;
	p->pack.own = 0;
	if (nw_mmb_gets(&p->change, kind)) {
		p->pack.from = 0;
		p->pack.own = 1;
		len = p->change.len;
	}
	return nw_mmb_pack_option(list, kind, len);
}

static long nw_mmb_write_byte(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 at = p->pack.from + i;

	if (i >= NW_MMB_OPTIONS || at >= NW_MMB_OPTIONS)
		return 1;
	p->options[at] = p->change.bytes[i];
	return 0;
}

/* Gives the option at `i` what the change has, where it stands. */
static long nw_mmb_write_option(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	if (p->option[i].kind != p->change.kind || p->option[i].len != p->change.len)
		return 0;
	p->pack.from = p->option[i].at;
	nw_loop(p->change.len, nw_mmb_write_byte, list, 0);
	return 0;
}

/* Makes the change of p->change. 1 if there is no room for it. */
__attribute__((noinline)) int nw_mmb_change_list(struct nw_mmb_packet *p)
{
	struct nw_mmb_list list = { .p = p };
	u32 what, k;

	if (!p)
		return -1;
	what = p->change.what;
	p->pack.room = 0;
	p->pack.differs = 0;
	p->pack.filled = 0;
	p->pack.kept = 0;
	nw_loop(p->found, nw_mmb_weigh, &list, 0);
	if (what == NW_MMB_WRITE || (what == NW_MMB_SET && !p->pack.differs)) {
		nw_loop(p->found, nw_mmb_write_option, &list, 0);
		return 0;
	}
	if (what == NW_MMB_ADD)
		p->pack.room += 2 + p->change.len;
	else if (!p->pack.differs)
		return 0;
	if (p->pack.room > NW_MMB_OPTIONS)
		return 1;
	nw_loop(p->found, nw_mmb_pack_one, &list, 0);
	if (what == NW_MMB_ADD) {
		p->pack.from = 0;
		p->pack.own = 1;
		nw_mmb_pack_option(&list, p->change.kind, p->change.len);
	}
	for (k = 0; k < NW_MMB_OPTIONS; k += 4)
		*(u32 *)(p->options + k) = *(u32 *)(p->packed + k);
	p->options_len = p->pack.filled;
	p->found = p->pack.kept;
	p->repacked = 1;
	return 0;
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

/* Puts two bytes of the list where the packet has them. */
static long nw_mmb_put_word(u32 i, struct nw_mmb_apply *a)
{
	struct nw_mmb_packet *p = a->p;
	u32 at = 2 * i;

	if (i >= NW_MMB_OPTIONS / 2)
		return 1;
	if (nw_mmb_write(a->skb, p, p->header_len + 20 + at, 0, *(u16 *)(p->options + at)))
		a->failed = 1;
	return a->failed != 0;
}

/* Fills a list up to whole words; what is behind counts as zeros in sums. */
static long nw_mmb_fill_byte(u32 i, struct nw_mmb_list *list)
{
	struct nw_mmb_packet *p = list->p;
	u32 len = p->options_len;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	if (i >= len)
		p->options[i] = i < ((len + 3) & ~3u);
	return 0;
}

/* Puts the list into the packet. 0 if it was done, NW_MMB_NO_ROOM if it is as it was. */
NW_INLINE int nw_mmb_put_options(struct nw_mmb_apply *a)
{
	struct nw_mmb_packet *p = a->p;
	struct nw_mmb_list list = { .p = p };

	if (p->repacked) {
		nw_loop(NW_MMB_OPTIONS, nw_mmb_fill_byte, &list, 0);
		p->options_len = (p->options_len + 3) & ~3u;
	}
	if (p->options_len + 20 != p->tcp_len)
		return nw_mmb_resize(a->skb, p);
	nw_loop(p->options_len / 2, nw_mmb_put_word, a, 0);
	return a->failed ? -1 : 0;
}

/* Makes the changes of all rules that apply. 0 if all were made, 1 if some were not. */
__attribute__((noinline)) int nw_mmb_rewrite_options(struct nw_skb *skb,
						     struct nw_mmb_packet *p)
{
	struct nw_mmb_apply a = { .skb = skb, .p = p };
	int how = 0;

	if (!p)
		return -1;
	nw_loop(p->matched, nw_mmb_set_options, &a, 0);
	if (a.listed && !a.failed)
		how = nw_mmb_put_options(&a);
	if (a.failed || how < 0)
		return -1;
	return a.unchanged || how;
}

#endif /* NW_MMB_OPTIONS_H */
