/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Which rules a packet matches: the classifier of narrows-mmb over maps. Rows of bits
 * say which tables can match; words without any are left out. Of each such table the
 * masked window is looked up, and the rules of that key are tried one after the other.
 */
#ifndef NW_MMB_MATCH_H
#define NW_MMB_MATCH_H

#include "mmb_maps.h"
#include "read.h"

struct nw_mmb_search {
	struct nw_mmb_packet *p;
	struct nw_mmb_row *row[NW_MMB_PROBE_BYTES];
	u64 words;		/* those that may hold tables, without the ones before */
	u64 bits;		/* tables of `word` that are left */
	u32 word;
	u32 rule;		/* to be tried, or LAST */
	u32 over;
};

/* Eight of 72 bytes, the first one the most significant. */
NW_INLINE u64 nw_mmb_eight(const u8 *bytes, u32 at)
{
	u64 value = 0;
	u32 i;

	at &= 63;
	for (i = 0; i < 8; i++)
		value = value << 8 | bytes[at + i];
	return value;
}

NW_INLINE int nw_mmb_compares(const struct nw_mmb_test *test, u64 high, u64 low)
{
	int less, equal;

	high &= test->mask[0];
	low &= test->mask[1];
	equal = high == test->value[0] && low == test->value[1];
	less = high < test->value[0] || (high == test->value[0] && low < test->value[1]);
	switch (test->condition) {
	case NW_MMB_EQUAL:
		return equal;
	case NW_MMB_NOT_EQUAL:
		return !equal;
	case NW_MMB_LESS:
		return less;
	case NW_MMB_GREATER:
		return !less && !equal;
	case NW_MMB_AT_MOST:
		return less || equal;
	default:
		return !less;
	}
}

NW_INLINE int nw_mmb_number(const struct nw_mmb_packet *p, const struct nw_mmb_test *test)
{
	u32 at = test->at, width = test->width;
	u64 value;

	if (width > 64)
		return nw_mmb_compares(test, nw_mmb_eight(p->window, at >> 3),
				       nw_mmb_eight(p->window, (at >> 3) + 8));
	/* what has more than 57 bits starts at a whole byte */
	value = nw_mmb_eight(p->window, at >> 3) << (at & 7);
	return nw_mmb_compares(test, 0, value >> ((64 - width) & 63));
}

struct nw_mmb_option_search {
	const struct nw_mmb_packet *p;
	const struct nw_mmb_test *test;
	u32 there;
	u32 at;
	u32 len;
};

static long nw_mmb_is_option(u32 i, struct nw_mmb_option_search *search)
{
	const struct nw_mmb_packet *p = search->p;

	if (i >= NW_MMB_OPTIONS)
		return 1;
	if (!search->test->any_kind && p->option[i].kind != search->test->kind)
		return 0;
	search->there = 1;
	search->at = p->option[i].at;
	search->len = p->option[i].len;
	return 1;
}

/* The first option of the kind: the one that rules match. */
NW_INLINE int nw_mmb_option(const struct nw_mmb_packet *p, const struct nw_mmb_test *test)
{
	struct nw_mmb_option_search search = { .p = p, .test = test };
	u64 value;

	nw_loop(p->found, nw_mmb_is_option, &search, 0);
	if (!search.there || test->what == NW_MMB_OPTION)
		return (int)search.there;
	if (search.len * 8 != test->width)
		return 0;
	value = nw_mmb_eight(p->options, search.at) >> ((64 - test->width) & 63);
	return nw_mmb_compares(test, 0, value);
}

NW_INLINE int nw_mmb_holds(const struct nw_mmb_packet *p, const struct nw_mmb_test *test)
{
	int holds = (p->layers & test->layer) == test->layer;

	if (holds) {
		switch (test->what) {
		case NW_MMB_PRESENT:
			break;
		case NW_MMB_NUMBER:
			holds = nw_mmb_number(p, test);
			break;
		case NW_MMB_PAYLOAD:
			holds = p->len > nw_mmb_payload_at(p, test->layer);
			break;
		default:
			holds = nw_mmb_option(p, test);
		}
	}
	return holds != test->negated;
}

struct nw_mmb_trial {
	const struct nw_mmb_packet *p;
	u32 test;
	u32 failed;
};

static long nw_mmb_try_test(u32 i, struct nw_mmb_trial *trial)
{
	u32 at = trial->test + i;
	struct nw_mmb_test *test = nw_map_lookup(&nw_mmb_tests, &at);

	if (!test || !nw_mmb_holds(trial->p, test)) {
		trial->failed = 1;
		return 1;
	}
	return 0;
}

/* Tries a rule of the key that was found, and goes on to the next. */
NW_INLINE long nw_mmb_try(struct nw_mmb_search *s)
{
	struct nw_mmb_packet *p = s->p;
	struct nw_mmb_trial trial = { .p = p };
	u32 n = p->matched, at = s->rule;
	struct nw_mmb_rule *rule = nw_map_lookup(&nw_mmb_rules, &at);

	if (!rule)
		return 1;
	s->rule = rule->next;
	if (nw_mmb.frames && p->layers & NW_MMB_FRAME && !rule->frames)
		return 0;
	if (rule->tests) {
		trial.test = rule->test;
		nw_loop(rule->tests, nw_mmb_try_test, &trial, 0);
		if (trial.failed)
			return 0;
	}
	if (n >= NW_MMB_MATCHED) {
		s->over = 1;
		return 1;
	}
	p->rule[n] = at;
	p->stateful |= (u64)rule->stateful << (n & 63);
	p->matched = n + 1;
	return 0;
}

/* The place of the lowest bit that is set: how many are below it, without branches, each of
 * which the verifier would follow. clang 14 runs out of memory at __builtin_ctzll for BPF. Newer
 * ones make a lookup in a table of this, and know that what it holds is at most 64; the
 * verifier does not.
 */
NW_INLINE u32 nw_mmb_lowest(u64 bits)
{
	u64 below = (bits & -bits) - 1;

	below -= below >> 1 & 0x5555555555555555;
	below = (below & 0x3333333333333333) + (below >> 2 & 0x3333333333333333);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return below * 0x0101010101010101 >> 56;
}

/* The first of the tables that are left. */
NW_INLINE void nw_mmb_look_up(struct nw_mmb_search *s)
{
	u64 bits = s->bits;
	struct nw_mmb_packet *p = s->p;
	struct nw_mmb_mask *mask;
	u32 table, *first, i;

	s->bits = bits & (bits - 1);
	table = s->word * 64 + nw_mmb_lowest(bits);
	mask = nw_map_lookup(&nw_mmb_masks, &table);
	if (!mask)
		return;
	for (i = 0; i < NW_MMB_LANES; i++) {
		if (i >= nw_mmb.lanes)
			break;
		p->key.lane[i] = *(u64 *)(p->window + (mask->at[i] & 56)) & mask->bits[i];
	}
	p->key.table = table;
	first = nw_map_lookup(&nw_mmb_keys, &p->key);
	if (first)
		s->rule = *first;
}

static long nw_mmb_step(u32 i, struct nw_mmb_search *s)
{
	u64 words = s->words;
	u32 word;

	(void)i;
	if (s->rule != NW_MMB_LAST)
		return nw_mmb_try(s);
	if (!s->bits) {
		if (!words)
			return 1;
		word = nw_mmb_lowest(words);
		nw_forget(word);
		word &= NW_MMB_WORDS - 1;
		s->words = words & (words - 1);
		s->bits = s->row[0]->word[word] & s->row[1]->word[word] &
			  s->row[2]->word[word] & s->row[3]->word[word] &
			  s->row[4]->word[word] & s->row[5]->word[word] &
			  s->row[6]->word[word] & s->row[7]->word[word];
		s->word = word;
	}
	if (s->bits)
		nw_mmb_look_up(s);
	return s->rule == NW_MMB_LAST && !s->bits && !s->words;
}

struct nw_mmb_order {
	struct nw_mmb_packet *p;
	u32 rule;
	u32 before;
};

static long nw_mmb_count_lower(u32 i, struct nw_mmb_order *order)
{
	if (i >= NW_MMB_MATCHED)
		return 1;
	order->before += order->p->rule[i] < order->rule;
	return 0;
}

/* Puts the rule at `i` where as many others are before it as have lower numbers. */
static long nw_mmb_place(u32 i, struct nw_mmb_order *order)
{
	struct nw_mmb_packet *p = order->p;

	if (i >= NW_MMB_MATCHED)
		return 1;
	order->rule = p->rule[i];
	order->before = 0;
	nw_loop(p->matched, nw_mmb_count_lower, order, 0);
	if (order->before < NW_MMB_MATCHED)
		p->sorted[order->before] = order->rule;
	return 0;
}

/* Puts them into the order of the rules. */
NW_INLINE void nw_mmb_sort(struct nw_mmb_packet *p)
{
	if (p->matched == 1) {
		p->sorted[0] = p->rule[0];
	} else if (p->matched) {
		struct nw_mmb_order order = { .p = p };

		nw_loop(p->matched, nw_mmb_place, &order, 0);
	}
}

/* Finds them; whether there was room for all. Its stack is not to be that of all else. */
static __attribute__((noinline)) int nw_mmb_match(struct nw_mmb_packet *p)
{
	struct nw_mmb_search s = { .p = p, .words = ~0ull, .rule = NW_MMB_LAST };
	u32 i;

	for (i = 0; i < NW_MMB_PROBE_BYTES; i++) {
		/* the row behind all looks is that of every table */
		u32 at = nw_mmb.probe_bytes * 256;

		if (i && i >= nw_mmb.probe_bytes) {
			s.row[i] = s.row[0];
			continue;
		}
		if (i < nw_mmb.probe_bytes)
			at = i * 256 + p->window[nw_mmb.probe_at[i] & 63];
		s.row[i] = nw_map_lookup(&nw_mmb_rows, &at);
		if (!s.row[i])
			return 0;
		s.words &= s.row[i]->filled;
	}
	nw_loop(nw_mmb.steps, nw_mmb_step, &s, 0);
	return !s.over;
}

#endif /* NW_MMB_MATCH_H */
