/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * BBR version 1: Linux v6.17 net/ipv4/tcp_bbr.c. Bandwidth is the maximum over ten
 * rounds, the pacing gain goes through a cycle of eight phases of a round trip each,
 * losses matter to the window within recovery alone, and a policer is found by two
 * intervals of equal rate and high loss.
 */
#ifndef NW_BBR_V1_H
#define NW_BBR_V1_H

#include "bbr_model.h"

/* Gains of the cycle: 1.25, 0.75, and six times 1. */
static inline void nw_bbr_v1_set_phase(struct nw_bbr *ca)
{
	ca->phase = ca->cycle_at == 0 ? NW_BBR_UP :
		    ca->cycle_at == 1 ? NW_BBR_DOWN : NW_BBR_CRUISE;
}

static inline void nw_bbr_v1_advance_cycle(struct nw_bbr *ca, u64 us)
{
	ca->cycle_at = (ca->cycle_at + 1) & (NW_BBR_V1_CYCLE - 1);
	ca->cycle_us = us;
	nw_bbr_v1_set_phase(ca);
}

/* Into the cycle at random, but not where it drains. */
static inline void nw_bbr_v1_enter_probe_bw(struct nw_bbr *ca, const struct nw_facts *f,
					    u64 us)
{
	ca->cycle_at = (u8)(NW_BBR_V1_CYCLE - 1 - nw_bbr_random(f, NW_BBR_V1_RANDOM));
	nw_bbr_v1_advance_cycle(ca, us);
}

static inline void nw_bbr_v1_reset_phase(struct nw_bbr *ca, const struct nw_facts *f,
					 u64 us)
{
	if (ca->full_bw_reached)
		nw_bbr_v1_enter_probe_bw(ca, f, us);
	else
		ca->phase = NW_BBR_STARTUP;
}

static inline void nw_bbr_lt_begin(struct nw_bbr *ca, const struct nw_facts *f, u64 us)
{
	ca->lt_since_us = us;
	ca->lt_delivered = f->delivered;
	ca->lt_lost = f->lost;
	ca->lt_rounds = 0;
}

static inline void nw_bbr_lt_reset(struct nw_bbr *ca, const struct nw_facts *f, u64 us)
{
	ca->lt_bw = 0;
	ca->lt_use_bw = 0;
	ca->lt_is_sampling = 0;
	nw_bbr_lt_begin(ca, f, us);
}

/* bbr_lt_bw_interval_done(): two intervals in a row of about one rate. */
static inline void nw_bbr_lt_done(struct nw_bbr *ca, const struct nw_facts *f, u64 us,
				  u32 bw)
{
	if (ca->lt_bw) {
		u32 apart = bw > ca->lt_bw ? bw - ca->lt_bw : ca->lt_bw - bw;

		if (apart <= ca->lt_bw >> NW_BBR_LT_RATIO_SHIFT ||
		    nw_bbr_rate(apart, f->mss, NW_BBR_ONE) <= NW_BBR_LT_DIFF) {
			ca->lt_bw = (u32)(((u64)bw + ca->lt_bw) >> 1);
			ca->lt_use_bw = 1;
			ca->lt_rounds = 0;
			return;
		}
	}
	ca->lt_bw = bw;
	nw_bbr_lt_begin(ca, f, us);
}

/* bbr_lt_bw_sampling() */
static inline void nw_bbr_lt_sample(struct nw_bbr *ca, const struct nw_facts *f, u64 us,
				    u32 losses, u32 app_limited)
{
	u32 lost, delivered;
	u64 took;

	if (ca->lt_use_bw) {
		if (nw_bbr_in_probe_bw(ca) && ca->round_start &&
		    ++ca->lt_rounds >= NW_BBR_LT_USE_ROUNDS) {
			nw_bbr_lt_reset(ca, f, us);
			nw_bbr_v1_enter_probe_bw(ca, f, us);
		}
		return;
	}
	if (!ca->lt_is_sampling) {
		if (!losses)
			return;
		nw_bbr_lt_begin(ca, f, us);
		ca->lt_is_sampling = 1;
	}
	if (app_limited) {
		nw_bbr_lt_reset(ca, f, us);
		return;
	}
	if (ca->round_start)
		ca->lt_rounds++;
	if (ca->lt_rounds < NW_BBR_LT_ROUNDS)
		return;
	if (ca->lt_rounds > 4 * NW_BBR_LT_ROUNDS) {
		nw_bbr_lt_reset(ca, f, us);
		return;
	}
	if (!losses)
		return;
	lost = f->lost - ca->lt_lost;
	delivered = f->delivered - ca->lt_delivered;
	if (!delivered || (u64)lost << 8 < (u64)NW_BBR_LT_LOSS * delivered)
		return;
	took = us - ca->lt_since_us;
	if (took < 1000)
		return;
	/* Linux stops where milliseconds no longer fit into 32 bits as microseconds. */
	if (took >> 32) {
		nw_bbr_lt_reset(ca, f, us);
		return;
	}
	took = ((u64)delivered << NW_BBR_BW_SHIFT) / (u32)took;
	nw_bbr_lt_done(ca, f, us, (u32)nw_min64(took, NW_NONE));
}

/* bbr_is_next_cycle_phase() */
static inline int nw_bbr_v1_phase_is_over(const struct nw_bbr *ca,
					  const struct nw_bbr_params *p,
					  const struct nw_facts *f,
					  const struct nw_bbr_now *now)
{
	int whole = now->us - ca->cycle_us > ca->min_rtt_us;
	u32 bw = nw_bbr_max_bw(ca, p);
	u32 in_flight = f->rs_prior_in_flight;

	/* Where a policer's rate is used, the gain stays 1. */
	if (ca->phase == NW_BBR_CRUISE || ca->lt_use_bw)
		return whole;
	if (ca->phase == NW_BBR_UP) {
		in_flight = nw_add_sat(in_flight, ca->burst);
		return whole && (f->rs_losses ||
				 in_flight >= nw_bbr_inflight(ca, p, bw,
							      NW_BBR_UP_GAIN));
	}
	return whole || in_flight <= nw_bbr_inflight(ca, p, bw, NW_BBR_ONE);
}

/* bbr_check_full_bw_reached() */
static inline void nw_bbr_v1_check_full(struct nw_bbr *ca, const struct nw_bbr_params *p,
					const struct nw_facts *f)
{
	u32 bw = nw_bbr_max_bw(ca, p);

	if (ca->full_bw_reached || !ca->round_start || (f->flags & NW_F_APP_LIMITED))
		return;
	if (bw >= (u64)ca->full_bw + (ca->full_bw >> NW_BBR_FULL_SHIFT)) {
		ca->full_bw = bw;
		ca->full_bw_count = 0;
		return;
	}
	ca->full_bw_count++;
	ca->full_bw_reached = ca->full_bw_count >= NW_BBR_FULL_COUNT;
}

static inline void nw_bbr_v1_check_drain(struct nw_bbr *ca, const struct nw_bbr_params *p,
					 const struct nw_facts *f,
					 struct nw_bbr_now *now)
{
	u32 full = nw_bbr_inflight(ca, p, nw_bbr_max_bw(ca, p), NW_BBR_ONE);

	if (ca->phase == NW_BBR_STARTUP && ca->full_bw_reached) {
		ca->phase = NW_BBR_DRAIN;
		ca->counts.startup_exit = NW_BBR_BY_PLATEAU;
		now->ssthresh = full;
	}
	if (ca->phase == NW_BBR_DRAIN && f->in_flight <= full) {
		ca->counts.drain_exit = NW_BBR_BY_FLIGHT;
		nw_bbr_v1_enter_probe_bw(ca, f, now->us);
	}
}

static inline void nw_bbr_v1_probe_rtt_done(struct nw_bbr *ca, const struct nw_facts *f,
					    struct nw_bbr_now *now)
{
	if (!ca->probe_rtt_done_us || now->us <= ca->probe_rtt_done_us)
		return;
	ca->min_rtt_stamp_us = now->us;
	now->cwnd = nw_max(now->cwnd, ca->prior_cwnd);
	nw_bbr_v1_reset_phase(ca, f, now->us);
}

/* bbr_update_min_rtt() */
static inline void nw_bbr_v1_update_min_rtt(struct nw_bbr *ca, const struct nw_facts *f,
					    struct nw_bbr_now *now)
{
	int expired = now->us > ca->min_rtt_stamp_us + NW_BBR_MIN_RTT_US;

	if (f->rtt_us && (f->rtt_us <= ca->min_rtt_us || expired)) {
		ca->min_rtt_us = f->rtt_us;
		ca->min_rtt_stamp_us = now->us;
	}
	if (expired && !ca->idle_restart && ca->phase != NW_BBR_PROBE_RTT) {
		nw_bbr_enter_probe_rtt(ca, now->cwnd);
	}
	if (ca->phase == NW_BBR_PROBE_RTT) {
		now->app_limited = 1;
		if (!ca->probe_rtt_done_us && f->in_flight <= NW_BBR_MIN_CWND) {
			ca->probe_rtt_done_us = now->us + NW_BBR_PROBE_RTT_FOR_US;
			ca->probe_rtt_round_done = 0;
			ca->next_round = f->delivered;
		} else if (ca->probe_rtt_done_us) {
			if (ca->round_start)
				ca->probe_rtt_round_done = 1;
			if (ca->probe_rtt_round_done)
				nw_bbr_v1_probe_rtt_done(ca, f, now);
		}
	}
	if (f->rs_delivered > 0)
		ca->idle_restart = 0;
}

static inline void nw_bbr_v1_set_gains(struct nw_bbr *ca, const struct nw_bbr_params *p)
{
	ca->pacing_gain = NW_BBR_ONE;
	ca->cwnd_gain = NW_BBR_CWND_GAIN;
	switch (ca->phase) {
	case NW_BBR_STARTUP:
		ca->pacing_gain = p->startup_gain;
		ca->cwnd_gain = p->startup_cwnd_gain;
		break;
	case NW_BBR_DRAIN:
		ca->pacing_gain = p->drain_gain;
		ca->cwnd_gain = p->startup_cwnd_gain;
		break;
	case NW_BBR_PROBE_RTT:
		ca->cwnd_gain = NW_BBR_ONE;
		break;
	case NW_BBR_UP:
		if (!ca->lt_use_bw)
			ca->pacing_gain = NW_BBR_UP_GAIN;
		break;
	case NW_BBR_DOWN:
		if (!ca->lt_use_bw)
			ca->pacing_gain = p->down_gain;
		break;
	}
}

/*
 * Less what was lost; in the first round of recovery what was acknowledged leaves
 * again; after it, the window from before (bbr_set_cwnd_to_recover_or_restore).
 * Returns whether that is all.
 */
static inline int nw_bbr_v1_recover(struct nw_bbr *ca, const struct nw_facts *f, u32 *cwnd)
{
	u8 former = ca->prev_ca_state;
	u32 kept = nw_add_sat(f->in_flight, f->acked_sacked);

	if (f->rs_losses)
		*cwnd = *cwnd > f->rs_losses ? *cwnd - f->rs_losses : 1;
	if (f->ca_state == NW_CA_RECOVERY && former != NW_CA_RECOVERY) {
		ca->packet_conservation = 1;
		ca->next_round = f->delivered;
		*cwnd = kept;
	} else if (former >= NW_CA_RECOVERY && f->ca_state < NW_CA_RECOVERY) {
		*cwnd = nw_max(*cwnd, ca->prior_cwnd);
		ca->packet_conservation = 0;
	}
	ca->prev_ca_state = f->ca_state;
	if (!ca->packet_conservation)
		return 0;
	*cwnd = nw_max(*cwnd, kept);
	return 1;
}

/* bbr_set_cwnd() */
static inline void nw_bbr_v1_set_cwnd(struct nw_bbr *ca, const struct nw_bbr_params *p,
				      const struct nw_facts *f, struct nw_bbr_now *now)
{
	u32 cwnd = now->cwnd;

	if (f->acked_sacked && !nw_bbr_v1_recover(ca, f, &cwnd)) {
		u32 target = nw_bbr_bdp(ca, nw_bbr_bw(ca, p), ca->cwnd_gain);

		target = nw_add_sat(target, nw_bbr_aggregation_cwnd(ca, p));
		target = nw_bbr_quantize(ca, p, target);
		if (ca->full_bw_reached)
			cwnd = nw_min(nw_add_sat(cwnd, f->acked_sacked), target);
		else if (cwnd < target || f->delivered < NW_BBR_FIRST_CWND)
			cwnd = nw_add_sat(cwnd, f->acked_sacked);
		cwnd = nw_max(cwnd, NW_BBR_MIN_CWND);
	}
	cwnd = nw_bbr_clamp(f, cwnd);
	if (ca->phase == NW_BBR_PROBE_RTT)
		cwnd = nw_min(cwnd, NW_BBR_MIN_CWND);
	now->cwnd = cwnd;
}

/* bbr_main() */
static inline void nw_bbr_v1_ack(struct nw_bbr *ca, const struct nw_bbr_params *p,
				 const struct nw_facts *f, struct nw_bbr_now *now)
{
	u32 app_limited = f->flags & NW_F_APP_LIMITED;

	nw_bbr_update_round(ca, f);
	if (ca->round_start)
		ca->packet_conservation = 0;
	if (f->rs_delivered >= 0 && f->rs_interval_us) {
		nw_bbr_lt_sample(ca, f, now->us, f->rs_losses, app_limited);
		if (!app_limited || now->sample >= nw_bbr_max_bw(ca, p))
			nw_bbr_max_update(&ca->bw_max, NW_BBR_V1_ROUNDS, ca->round_count,
					  now->sample);
	}
	nw_bbr_aggregate(ca, p, f, now);
	if (nw_bbr_in_probe_bw(ca) && nw_bbr_v1_phase_is_over(ca, p, f, now))
		nw_bbr_v1_advance_cycle(ca, now->us);
	nw_bbr_v1_check_full(ca, p, f);
	nw_bbr_v1_check_drain(ca, p, f, now);
	nw_bbr_v1_update_min_rtt(ca, f, now);
	nw_bbr_v1_set_gains(ca, p);
	nw_bbr_pace(ca, p, f, now, ca->pacing_gain);
	nw_bbr_v1_set_cwnd(ca, p, f, now);
}

#endif /* NW_BBR_V1_H */
