/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The delay bit (RFC 9506 section 2.2): one marked packet, the delay sample,
 * bounces between the ends.
 *
 * A sample that arrives is sent back with the first packet that leaves, unless
 * that packet leaves more than a threshold later (section 2.2.2). Only the
 * initiator makes samples: with its first packet, and when more than T_Max has
 * passed since it last sent one (section 2.2.1). T_Max is fixed, or worked out of
 * the RTT that the samples show (section 2.2.3): 2 RTT + 100 ms with the larger
 * RTT of two samples that came one after the other, at most T_Max_p. Where two
 * samples in a row do not come back, it is T_Max_p again, lest an RTT that grew
 * beyond T_Max be never measured.
 *
 * Guarna's kernel patch (2024) has a fixed T_Max of 100 ms and no threshold, and
 * marks no packet with SACK blocks: the sample waits until a packet has none.
 */
#ifndef NW_EFM_DELAY_H
#define NW_EFM_DELAY_H

#include "nw_efm.h"

#define NW_EFM_T_MAX_ADDED	100000U	/* us, RFC 9506 section 2.2.3 */

/*
 * delay_word: everything that decides about a mark, so that one compare and swap
 * takes it. Times are the low 31 bits of microseconds. Of their differences the
 * upper half is negative: another CPU may have read its clock later and come first.
 * So what is 18 to 36 minutes old seems new, and a flow that was idle for as long
 * makes its sample late.
 */
#define NW_EFM_DELAY_PENDING	(1ULL << 63)	/* a sample waits to go back */
#define NW_EFM_DELAY_SENT	(1ULL << 62)	/* one was sent before */
#define NW_EFM_DELAY_ARRIVED	31		/* shift: when it arrived */
#define NW_EFM_DELAY_TIME	0x7fffffffU	/* low: when one was last sent */

static inline u32 nw_efm_delay_now(const struct nw_efm_packet *p)
{
	return (u32)nw_efm_now_us(p) & NW_EFM_DELAY_TIME;
}

static inline u32 nw_efm_delay_since(u32 now, u64 then)
{
	u32 since = (now - (u32)then) & NW_EFM_DELAY_TIME;

	return since > NW_EFM_DELAY_TIME / 2 ? 0 : since;
}

static inline u32 nw_efm_t_max(const struct nw_efm_flow *f,
			       const struct nw_efm_params *params)
{
	u32 t_max = f->t_max_us;

	return params->rules & NW_EFM_DELAY_DYNAMIC && t_max ?
	       t_max : params->t_max_us;
}

/* The initiator's sample came back after `rtt`. */
static inline void nw_efm_delay_learn(struct nw_efm_flow *f,
				      const struct nw_efm_params *params,
				      u32 rtt)
{
	u32 larger = rtt > f->delay_rtt_us ? rtt : f->delay_rtt_us;

	f->delay_misses = 0;
	/* section 2.2.3: only two samples in a row */
	if (f->delay_rtt_us) {
		u64 t_max = (u64)larger * 2 + NW_EFM_T_MAX_ADDED;

		f->t_max_us = t_max < params->t_max_us ? (u32)t_max
						      : params->t_max_us;
	}
	f->delay_rtt_us = rtt ? rtt : 1;
}

/* A marked packet arrives. */
static inline void nw_efm_delay_in(struct nw_efm_flow *f,
				   const struct nw_efm_params *params,
				   const struct nw_efm_packet *p)
{
	u32 now, i;

	if (!(p->bits & f->mask[NW_EFM_AT_D]))
		return;
	now = nw_efm_delay_now(p);
	for (i = 0; i < NW_EFM_TRIES; i++) {
		u64 old = NW_EFM_READ(&f->delay_word);
		u64 kept = old & (NW_EFM_DELAY_SENT | NW_EFM_DELAY_TIME);

		if (!NW_EFM_CAS(&f->delay_word, old,
				kept | NW_EFM_DELAY_PENDING |
				(u64)now << NW_EFM_DELAY_ARRIVED))
			continue;
		/* a second sample before the first left again gives no round trip */
		if (f->role == NW_EFM_INITIATOR && kept & NW_EFM_DELAY_SENT &&
		    !(old & NW_EFM_DELAY_PENDING))
			nw_efm_delay_learn(f, params,
					   nw_efm_delay_since(now, kept));
		return;
	}
}

/* A sample was made because none came back. */
static inline void nw_efm_delay_missed(struct nw_efm_flow *f)
{
	f->delay_rtt_us = 0;
	if (f->delay_misses < 2)
		f->delay_misses++;
	if (f->delay_misses == 2)
		f->t_max_us = 0;
}

/* A packet leaves; returns its bit. */
static inline u8 nw_efm_delay_out(struct nw_efm_flow *f,
				  const struct nw_efm_params *params,
				  const struct nw_efm_packet *p)
{
	u32 now, i;

	if (params->rules & NW_EFM_DELAY_SKIP_SACK && p->has & NW_EFM_HAS_SACK)
		return 0;
	for (i = 0; i < NW_EFM_TRIES; i++) {
		u64 old = NW_EFM_READ(&f->delay_word);
		u64 new = old & (NW_EFM_DELAY_SENT | NW_EFM_DELAY_TIME);
		u64 arrived = old >> NW_EFM_DELAY_ARRIVED & NW_EFM_DELAY_TIME;
		int mark = 0, made = 0;

		/* a responder without a sample has nothing to time */
		if (!(old & NW_EFM_DELAY_PENDING) &&
		    f->role != NW_EFM_INITIATOR)
			return 0;
		now = nw_efm_delay_now(p);
		/* section 2.2.2: a sample held for longer is dropped */
		if (old & NW_EFM_DELAY_PENDING)
			mark = !(params->rules & NW_EFM_DELAY_HOLD &&
				 nw_efm_delay_since(now, arrived) >
				 params->hold_us);
		/* section 2.2.1: the first sample, and a new one after T_Max */
		if (!mark && f->role == NW_EFM_INITIATOR &&
		    (!(old & NW_EFM_DELAY_SENT) ||
		     nw_efm_delay_since(now, old) > nw_efm_t_max(f, params)))
			mark = made = 1;
		if (mark)
			new = NW_EFM_DELAY_SENT | now;
		if (new == old)
			return 0;
		if (!NW_EFM_CAS(&f->delay_word, old, new))
			continue;
		if (made && old & NW_EFM_DELAY_SENT)
			nw_efm_delay_missed(f);
		return mark ? f->mask[NW_EFM_AT_D] : 0;
	}
	return 0;
}

#endif /* NW_EFM_DELAY_H */
