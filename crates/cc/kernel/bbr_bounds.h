/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What BBR version 3 makes of losses and marks: the long-term bound of what may be in
 * flight (inflight_hi of Linux, inflight_longterm of the draft), which probing finds,
 * and the short-term bounds of rate and flight (bw_lo, inflight_lo; bw_shortterm,
 * inflight_shortterm) between probes. Draft section 5.5.10.
 *
 * No mainline kernel keeps of a packet what was in flight and lost when it left, nor
 * calls for each packet that is lost. Both follow from what there is: what was in flight
 * when the sampled segment left is by now delivered or lost, as long as the path keeps
 * the order; and `marks` remembers how much had been lost at which count of deliveries.
 */
#ifndef NW_BBR_BOUNDS_H
#define NW_BBR_BOUNDS_H

#include "bbr_model.h"

static inline void nw_bbr_reset_full_bw(struct nw_bbr *ca)
{
	ca->full_bw = 0;
	ca->full_bw_count = 0;
	ca->full_bw_now = 0;
}

static inline void nw_bbr_reset_signals(struct nw_bbr *ca)
{
	ca->loss_in_round = 0;
	ca->ecn_in_round = 0;
	ca->loss_in_cycle = 0;
	ca->ecn_in_cycle = 0;
	ca->bw_latest = 0;
	ca->inflight_latest = 0;
}

static inline void nw_bbr_reset_short_term(struct nw_bbr *ca)
{
	ca->bw_lo = NW_NONE;
	ca->inflight_lo = NW_NONE;
}

/* In flight for the path's rate, unless congestion has cut the window: Linux with
 * room for bursts, TargetInflight() of the draft without.
 */
static inline u32 nw_bbr_target(const struct nw_bbr *ca, const struct nw_bbr_params *p,
				const struct nw_bbr_now *now)
{
	u32 bdp = nw_bbr_bdp(ca, nw_bbr_bw(ca, p), NW_BBR_ONE);

	if (!nw_bbr_is_draft(p))
		bdp = nw_bbr_quantize(ca, p, bdp);
	return nw_min(bdp, now->cwnd);
}

static inline int nw_bbr_is_probing(const struct nw_bbr *ca)
{
	return ca->phase == NW_BBR_STARTUP || ca->phase == NW_BBR_REFILL ||
	       ca->phase == NW_BBR_UP;
}

static inline u32 nw_bbr_share(u32 of, u32 share)
{
	return (u32)(((u64)of * share) >> NW_BBR_GAIN_SHIFT);
}

/* More than 2 % of what was in flight is lost. */
static inline int nw_bbr_loses_too_much(const struct nw_bbr_params *p, u32 lost,
					u32 in_flight)
{
	return lost && in_flight && lost > nw_bbr_share(in_flight, p->loss_thresh);
}

/* Or, with ECN, more than half of the last round was marked. */
static inline int nw_bbr_is_too_high(const struct nw_bbr *ca,
				     const struct nw_bbr_params *p,
				     const struct nw_bbr_now *now)
{
	if (nw_bbr_loses_too_much(p, now->lost, now->tx_in_flight))
		return 1;
	return ca->ecn_eligible && ca->round_start && ca->ce_ratio > NW_BBR_ECN_THRESH;
}

/*
 * What was in flight where losses crossed the threshold T, of the segments of which
 * `lost` are lost with this one: it is lost as well, `before` were in flight before it
 * and lost - 1 of them are lost, so that the prefix x with
 * (lost - 1 + x) / (before + x) = T counts (InflightAtLoss; Linux rounds as here).
 */
static inline u32 nw_bbr_inflight_at_loss(const struct nw_bbr_params *p, u32 lost,
					  u32 in_flight)
{
	u32 before = in_flight - 1;
	u64 budget = ((u64)before * p->loss_thresh + NW_BBR_ONE - 1) >> NW_BBR_GAIN_SHIFT;
	u64 prefix;

	if (lost - 1 >= budget)
		return before;
	prefix = (budget - (lost - 1)) << NW_BBR_GAIN_SHIFT;
	return before + (u32)(prefix / (NW_BBR_ONE - p->loss_thresh));
}

/* InflightWithHeadroom() */
static inline u32 nw_bbr_with_headroom(const struct nw_bbr *ca,
				       const struct nw_bbr_params *p)
{
	u32 headroom;

	if (ca->inflight_hi == NW_NONE)
		return NW_NONE;
	headroom = nw_max(nw_bbr_share(ca->inflight_hi, p->headroom), 1);
	return nw_max(ca->inflight_hi > headroom ? ca->inflight_hi - headroom : 0,
		      NW_BBR_MIN_CWND);
}

/* What may have to be undone (SaveStateUponLoss). */
static inline void nw_bbr_save_bounds(struct nw_bbr *ca, u32 cwnd)
{
	nw_bbr_save_cwnd(ca, cwnd);
	ca->undo_phase = NW_BBR_NO_PHASE;
	ca->undo_bw_lo = ca->bw_lo;
	ca->undo_inflight_lo = ca->inflight_lo;
	ca->undo_inflight_hi = ca->inflight_hi;
}

/* Remembers the losses so far. Where there is no room, each two become one. */
static inline void nw_bbr_mark(struct nw_bbr *ca, const struct nw_facts *f)
{
	u32 i;

	if (ca->marks_count >= NW_BBR_MARKS) {
		for (i = 0; i < NW_BBR_MARKS / 2; i++) {
			u32 of = (ca->marks_at + 2 * i + 1) & (NW_BBR_MARKS - 1);
			u32 to = (ca->marks_at + i) & (NW_BBR_MARKS - 1);

			ca->marks[to] = ca->marks[of];
		}
		ca->marks_count = NW_BBR_MARKS / 2;
	}
	i = (ca->marks_at + ca->marks_count) & (NW_BBR_MARKS - 1);
	ca->marks[i].delivered = f->delivered;
	ca->marks[i].lost = f->lost;
	ca->marks_count++;
}

/* What was in flight and lost when the segment of this ACK's sample left. */
static inline void nw_bbr_look_back(struct nw_bbr *ca, const struct nw_facts *f,
				    struct nw_bbr_now *now)
{
	u32 i;

	if (f->rs_delivered <= 0 || !f->rs_interval_us)
		return;
	for (i = 0; i < NW_BBR_MARKS; i++) {
		const struct nw_bbr_mark *mark =
			&ca->marks[ca->marks_at & (NW_BBR_MARKS - 1)];

		if (!ca->marks_count || nw_before(f->rs_prior_delivered, mark->delivered))
			break;
		ca->lost_at_send = mark->lost;
		ca->marks_at = (ca->marks_at + 1) & (NW_BBR_MARKS - 1);
		ca->marks_count--;
	}
	now->lost = f->lost - ca->lost_at_send;
	now->tx_in_flight = nw_add_sat((u32)f->rs_delivered, now->lost);
}

/* The first loss of a round begins a round, so that what is delivered is measured over
 * a whole one (NoteLoss). The draft saves the state with each such loss.
 */
static inline void nw_bbr_note_loss(struct nw_bbr *ca, const struct nw_bbr_params *p,
				    const struct nw_facts *f, struct nw_bbr_now *now)
{
	if (!ca->loss_in_round) {
		ca->loss_round = f->delivered;
		if (nw_bbr_is_draft(p))
			nw_bbr_save_bounds(ca, now->cwnd);
	}
	ca->loss_in_round = 1;
	ca->loss_in_cycle = 1;
}

/* UpdateLatestDeliverySignals(), bbr_update_latest_delivery_signals() */
static inline void nw_bbr_update_latest(struct nw_bbr *ca, const struct nw_facts *f,
					const struct nw_bbr_now *now)
{
	ca->loss_round_start = 0;
	if (!f->rs_interval_us || !f->acked_sacked || f->rs_delivered < 0)
		return;
	ca->bw_latest = nw_max(ca->bw_latest, now->sample);
	ca->inflight_latest = nw_max(ca->inflight_latest, (u32)f->rs_delivered);
	if (!nw_before(f->rs_prior_delivered, ca->loss_round)) {
		ca->loss_round = f->delivered;
		ca->loss_round_start = 1;
	}
}

/* Linux: marks lower the flight by a third of alpha. */
static inline u32 nw_bbr_ecn_cut(const struct nw_bbr *ca)
{
	return NW_BBR_ONE - nw_bbr_share(ca->ecn_alpha, NW_BBR_ECN_FACTOR);
}

/* Once per round outside probing (AdaptLowerBoundsFromCongestion). */
static inline void nw_bbr_adapt_short_term(struct nw_bbr *ca,
					   const struct nw_bbr_params *p,
					   const struct nw_bbr_now *now)
{
	u32 by_marks = NW_NONE;

	if (nw_bbr_is_probing(ca))
		return;
	if (ca->ecn_in_round) {
		if (ca->inflight_lo == NW_NONE)
			ca->inflight_lo = now->cwnd;
		by_marks = nw_bbr_share(ca->inflight_lo, nw_bbr_ecn_cut(ca));
	}
	if (ca->loss_in_round) {
		if (ca->bw_lo == NW_NONE)
			ca->bw_lo = nw_bbr_max_bw(ca, p);
		if (ca->inflight_lo == NW_NONE)
			ca->inflight_lo = now->cwnd;
		ca->bw_lo = nw_max(ca->bw_latest, nw_bbr_share(ca->bw_lo, p->kept));
		ca->inflight_lo = nw_max(ca->inflight_latest,
					 nw_bbr_share(ca->inflight_lo, p->kept));
	}
	ca->inflight_lo = nw_min(ca->inflight_lo, by_marks);
	ca->bw_lo = nw_max(ca->bw_lo, 1);
}

/* UpdateCongestionSignals(), bbr_update_congestion_signals() */
static inline void nw_bbr_update_signals(struct nw_bbr *ca, const struct nw_bbr_params *p,
					 const struct nw_facts *f,
					 const struct nw_bbr_now *now)
{
	if (!f->rs_interval_us || !f->acked_sacked || f->rs_delivered < 0)
		return;
	if (!(f->flags & NW_F_APP_LIMITED) || now->sample >= nw_bbr_max_bw(ca, p))
		ca->bw_hi[1] = nw_max(ca->bw_hi[1], now->sample);
	if (!ca->loss_round_start)
		return;
	nw_bbr_adapt_short_term(ca, p, now);
	ca->loss_in_round = 0;
	ca->ecn_in_round = 0;
}

/* AdvanceLatestDeliverySignals() */
static inline void nw_bbr_advance_latest(struct nw_bbr *ca, const struct nw_facts *f,
					 const struct nw_bbr_now *now)
{
	if (!ca->loss_round_start)
		return;
	ca->bw_latest = now->sample;
	ca->inflight_latest = f->rs_delivered > 0 ? (u32)f->rs_delivered : 0;
}

/* AdvanceMaxBwFilter(): forgets the cycle before the last, if this one has a sample. */
static inline void nw_bbr_advance_max_bw(struct nw_bbr *ca)
{
	if (!ca->bw_hi[1])
		return;
	ca->bw_hi[0] = ca->bw_hi[1];
	ca->bw_hi[1] = 0;
}

/* Linux, bbr_update_ecn_alpha(): the marked share of each round, averaged with 1/16. */
static inline void nw_bbr_update_alpha(struct nw_bbr *ca, const struct nw_bbr_params *p,
				       const struct nw_facts *f)
{
	u32 delivered = f->delivered - ca->round_delivered;
	u32 marked = f->delivered_ce - ca->round_ce;

	ca->ce_ratio = 0;
	if (p->ecn && ca->min_rtt_us <= NW_BBR_ECN_MOST_RTT_US)
		ca->ecn_eligible = 1;
	if (!ca->ecn_eligible || !delivered)
		return;
	ca->ce_ratio = (u32)nw_min64(((u64)marked << NW_BBR_GAIN_SHIFT) / delivered,
				     NW_BBR_ONE);
	ca->ecn_alpha -= ca->ecn_alpha >> NW_BBR_ECN_GAIN_SHIFT;
	ca->ecn_alpha = nw_min(ca->ecn_alpha + (ca->ce_ratio >> NW_BBR_ECN_GAIN_SHIFT),
			       NW_BBR_ONE);
	ca->round_delivered = f->delivered;
	ca->round_ce = f->delivered_ce;
}

#endif /* NW_BBR_BOUNDS_H */
