// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Drives every algorithm with pseudo-random facts, for a build with sanitizers:
 * half of the facts are arbitrary bits, half are near what a connection shows.
 * Exits with 1 when a window of 0 is decided or a transparent wrapper differs
 * from what it wraps. Needs a hosted compiler.
 */
#include <stdio.h>
#include <string.h>

#include "../native.h"
#include "../nest.h"

#define ROUNDS		10000
#define PARAMETERS	20	/* sets of them for each algorithm */
#define MOST		1024	/* bytes of state or parameters */

static u64 seed = 0x9e3779b97f4a7c15ULL;

/* xorshift64* */
static u64 draw(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1dULL;
}

/* A connection that moves on, with now and then a fact from nowhere. */
static void next_facts(struct nw_facts *f, const struct nw_decision *d)
{
	unsigned char *byte = (unsigned char *)f;
	unsigned int i;

	if (draw() % 64 == 0) {
		for (i = 0; i < sizeof(*f); i++)
			byte[i] = (unsigned char)draw();
		return;
	}
	if (draw() % 64 == 0)
		byte[draw() % sizeof(*f)] = (unsigned char)draw();
	if (draw() % 256 == 0) {
		memset(f, 0, sizeof(*f));
		f->mss = 1448;
		f->cwnd = 10;
		f->ssthresh = 0x7fffffff;
	}
	f->now_ns += draw() % 20000000;
	f->acked_sacked = draw() % 40;
	f->delivered += f->acked_sacked;
	f->delivered_ce += draw() % 3 ? 0 : draw() % (f->acked_sacked + 1);
	f->snd_una += f->acked_sacked * 1448;
	f->snd_nxt = f->snd_una + f->cwnd * 1448;
	f->rtt_us = draw() % 5 ? 10000 + draw() % 30000 : 0;
	f->srtt_us = (10000 + draw() % 30000) << 3;
	f->min_rtt_us = 10000;
	f->in_flight = f->cwnd;
	f->flags = (u16)(draw() % 64);
	if (d->set & NW_SET_CWND)
		f->cwnd = d->cwnd;
	if (d->set & NW_SET_CWND_CNT)
		f->cwnd_cnt = d->cwnd_cnt;
	if (d->set & NW_SET_SSTHRESH)
		f->ssthresh = d->ssthresh;
	if (d->set & NW_SET_PACING_RATE)
		f->pacing_rate = d->pacing_rate;
}

static u32 call(const struct nw_ops *ops, void *ca, const void *p,
		const struct nw_facts *f, u32 which, u32 what,
		struct nw_decision *d)
{
	switch (which % 24) {
	case 0:
		return ops->ssthresh(ca, p, f);
	case 1:
		return ops->undo_cwnd(ca, p, f);
	case 2:
		ops->set_state(ca, p, f, what % 5, d);
		break;
	case 3:
		ops->cwnd_event(ca, p, f, what % 6, d);
		break;
	case 4:
		ops->in_ack_event(ca, p, f, d);
		break;
	case 5:
		if (what % 1000 == 0) {
			ops->release(ca);
			ops->init(ca, p, f, d);
		}
		break;
	case 6:
		return ops->max_tso_segs(ca, p);
	case 7:
		if (ops->has_timer && ops->timer_at(ca, p) <= f->now_ns)
			ops->timer(ca, p, f, d);
		break;
	default:
		ops->pkts_acked(ca, p, f, d);
		if (ops->mode == NW_MODE_WINDOW)
			ops->cong_avoid(ca, p, f, what % 64 ? what % 50 : what, d);
		else
			ops->cong_control(ca, p, f, d);
	}
	return 0;
}

/* A wrapper that changes nothing, around each algorithm. */
#define TRANSPARENT(name)						\
struct nw_in_##name {							\
	struct nw_##name inner;						\
	struct nw_facts view;						\
};									\
struct nw_in_##name##_params {						\
	struct nw_##name##_params inner;				\
};									\
enum { nw_in_##name##_MODE = nw_##name##_MODE };			\
NW_NEST_PLAIN_VIEW(in_##name)						\
NW_NEST(in_##name, name)						\
NW_NEST_TIMER(in_##name, name)						\
NW_NEST_NEEDS(in_##name, name)						\
NW_NEST_SETTLE(in_##name, name)						\
NW_HOOKS(in_##name)							\
static const struct nw_ops nw_ops_in_##name = { NW_HOOK_ROWS(in_##name) };

NW_CONTROLS(TRANSPARENT)
NW_TEST_CONTROLS(TRANSPARENT)

static void set(u8 *params, const struct nw_option *option, u64 value)
{
	u32 low = (u32)value;

	if (option->size == 8)
		memcpy(params + option->offset, &value, 8);
	else
		memcpy(params + option->offset, &low, 4);
}

/* Any value of any option, as far as they go together. */
static void choose(const struct nw_ops *ops, u8 *params)
{
	const struct nw_option *option;
	u8 kept[MOST];

	for (option = ops->options; option->name; option++) {
		u64 range = option->most - option->least, value = option->least;
		const char *at;

		if (draw() % 2)
			continue;
		if (*option->words) {
			for (range = 0, at = option->words; *at; at++)
				range += *at == ' ';
			value = 0;
		}
		if (draw() % 4)
			value += draw() % (range + 1);
		else if (draw() % 2)
			value += range;
		memcpy(kept, params, ops->params_size);
		set(params, option, value);
		if (ops->settle(params))
			memcpy(params, kept, ops->params_size);
	}
}

static int drive(const struct nw_ops *ops, const struct nw_ops *wrapped)
{
	static u64 state[MOST / 8], second[MOST / 8], params[MOST / 8];
	struct nw_decision d = {0}, other;
	struct nw_facts f = {0};
	u64 sum = 0;
	u32 i;

	memset(state, 0, sizeof(state));
	memset(second, 0, sizeof(second));
	memcpy(params, ops->defaults, ops->params_size);
	choose(ops, (u8 *)params);
	f.mss = 1448;
	f.cwnd = 10;
	f.ssthresh = 0x7fffffff;
	ops->init(state, params, &f, &d);
	wrapped->init(second, params, &f, &d);
	for (i = 0; i < ROUNDS; i++) {
		u32 which = (u32)draw(), what = (u32)(draw() >> 32);
		u32 answer, same;

		next_facts(&f, &d);
		memset(&d, 0, sizeof(d));
		memset(&other, 0, sizeof(other));
		answer = call(ops, state, params, &f, which, what, &d);
		same = call(wrapped, second, params, &f, which, what, &other);
		if (answer != same || memcmp(&d, &other, sizeof(d))) {
			printf("%s: the wrapper differs in round %u\n", ops->name, i);
			return 1;
		}
		if ((d.set & NW_SET_CWND) && !d.cwnd) {
			printf("%s: a window of 0 in round %u\n", ops->name, i);
			return 1;
		}
		sum = sum * 31 + d.cwnd + d.ssthresh + d.pacing_rate + answer;
	}
	printf("%s: %016llx\n", ops->name, sum);
	return 0;
}

int main(void)
{
	int bad = 0;
	u32 i;

#define DRIVE(name)	bad |= drive(&nw_ops_##name, &nw_ops_in_##name);
	for (i = 0; i < PARAMETERS; i++) {
		NW_CONTROLS(DRIVE)
		NW_TEST_CONTROLS(DRIVE)
	}
	return bad;
}
