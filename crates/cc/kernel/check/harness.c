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

#define ROUNDS	30000

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
		return ops->alpha(ca, p) ^ ops->max_tso_segs(ca, p);
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
#define TRANSPARENT(name, wrapped)					\
struct nw_##wrapped {							\
	struct nw_##name inner;						\
};									\
struct nw_##wrapped##_params {						\
	struct nw_##name##_params inner;				\
};									\
static inline void nw_##wrapped##_view(struct nw_##wrapped *ca,		\
				       const struct nw_##wrapped##_params *p, \
				       const struct nw_facts *f,	\
				       struct nw_facts *view)		\
{									\
	(void)ca; (void)p; (void)f; (void)view;				\
}									\
NW_NEST(wrapped, name)							\
NW_EXPORT(wrapped)

#define nw_in_cubic_MODE	nw_cubic_MODE
#define nw_in_prague_MODE	nw_prague_MODE
#define nw_in_reno_MODE		nw_reno_MODE
TRANSPARENT(cubic, in_cubic)
TRANSPARENT(prague, in_prague)
TRANSPARENT(reno, in_reno)

struct state {
	u64 words[NW_STATE_MAX / 8];
};

static int drive(const char *name, const struct nw_ops *ops,
		 const struct nw_ops *wrapped, const void *p)
{
	struct nw_decision d = {0}, other;
	struct state state = {{0}}, second = {{0}};
	struct nw_facts f = {0};
	u64 sum = 0;
	u32 i;

	f.mss = 1448;
	f.cwnd = 10;
	f.ssthresh = 0x7fffffff;
	ops->init(&state, p, &f, &d);
	wrapped->init(&second, p, &f, &d);
	for (i = 0; i < ROUNDS; i++) {
		u32 which = (u32)draw(), what = (u32)(draw() >> 32);
		u32 answer, same;

		next_facts(&f, &d);
		memset(&d, 0, sizeof(d));
		memset(&other, 0, sizeof(other));
		answer = call(ops, &state, p, &f, which, what, &d);
		same = call(wrapped, &second, p, &f, which, what, &other);
		if (answer != same || memcmp(&d, &other, sizeof(d))) {
			printf("%s: the wrapper differs in round %u\n", name, i);
			return 1;
		}
		if ((d.set & NW_SET_CWND) && !d.cwnd) {
			printf("%s: a window of 0 in round %u\n", name, i);
			return 1;
		}
		sum = sum * 31 + d.cwnd + d.ssthresh + d.pacing_rate + answer;
	}
	printf("%s: %016llx\n", name, sum);
	return 0;
}

int main(void)
{
	struct nw_cubic_params cubic = NW_CUBIC_DEFAULTS;
	struct nw_prague_params prague = {
		.alpha_bits = 20,
		.rtt_target_us = 25000,
		.rtt_transition = 4,
	};
	struct nw_reno_params reno = {0};
	int bad = 0;
	u32 i;

	bad |= drive("reno", &nw_ops_reno, &nw_ops_in_reno, &reno);
	for (i = 0; i < 10; i++) {
		cubic.hystart.detect = i % 5;
		cubic.mutant = i / 5;
		bad |= drive("cubic", &nw_ops_cubic, &nw_ops_in_cubic, &cubic);
	}
	for (i = 0; i < 3 * 4 * 3 * 3; i++) {
		static const u32 flags[] = {
			0, NW_PRAGUE_FRACTIONAL,
			NW_PRAGUE_FRACTIONAL | NW_PRAGUE_2024,
		};

		prague.flags = flags[i % 3];
		prague.mutant = i / 36;
		prague.alpha_bits = i % 3 == 2 || prague.mutant == 2 ? 24 : 20;
		prague.rtt_control = i / 3 % 4;
		prague.ecn_fallback = i / 12 % 3;
		bad |= drive("prague", &nw_ops_prague, &nw_ops_in_prague, &prague);
	}
	return bad;
}
