/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * BBR version 3's states: Startup, Drain, the four of ProbeBW and ProbeRTT. Draft
 * sections 5.3 and 5.5.10.2; google/bbr, branch v3, net/ipv4/tcp_bbr.c.
 */
#ifndef NW_BBR_PROBE_H
#define NW_BBR_PROBE_H

#include "bbr_bounds.h"

/* StartProbeBW_DOWN() with PickProbeWait() */
static inline void nw_bbr_start_down(struct nw_bbr *ca, const struct nw_facts *f, u64 us)
{
	nw_bbr_reset_signals(ca);
	ca->up_count = NW_NONE;
	ca->rounds_since_probe = f->random & 1;
	ca->probe_wait_us = NW_BBR_PROBE_BASE_US + nw_bbr_random(f, NW_BBR_PROBE_RAND_US);
	ca->cycle_us = us;
	ca->ack_phase = NW_BBR_ACKS_PROBE_STOPPING;
	ca->next_round = f->delivered;
	ca->phase = NW_BBR_DOWN;
}

/* StartProbeBW_CRUISE() */
static inline void nw_bbr_start_cruise(struct nw_bbr *ca, const struct nw_bbr_params *p)
{
	if (!nw_bbr_is_draft(p) && ca->inflight_lo != NW_NONE)
		ca->inflight_lo = nw_min(ca->inflight_lo, ca->inflight_hi);
	ca->phase = NW_BBR_CRUISE;
}

/* StartProbeBW_REFILL() */
static inline void nw_bbr_start_refill(struct nw_bbr *ca, const struct nw_facts *f,
				       u32 up_rounds)
{
	nw_bbr_reset_short_term(ca);
	ca->up_rounds = (u8)nw_min(up_rounds, NW_BBR_UP_ROUNDS);
	ca->up_acked = 0;
	ca->precautionary = 0;
	ca->ack_phase = NW_BBR_ACKS_REFILLING;
	ca->next_round = f->delivered;
	ca->phase = NW_BBR_REFILL;
}

/* Growth of inflight_hi doubles with each round (RaiseInflightLongtermSlope). */
static inline void nw_bbr_raise_slope(struct nw_bbr *ca, const struct nw_bbr_now *now)
{
	u32 growth = 1U << nw_min(ca->up_rounds, NW_BBR_UP_ROUNDS);

	ca->up_rounds = (u8)nw_min(ca->up_rounds + 1U, NW_BBR_UP_ROUNDS);
	ca->up_count = nw_max(now->cwnd / growth, 1);
}

/* StartProbeBW_UP(); Linux begins the wall clock of the phase anew. */
static inline void nw_bbr_start_up(struct nw_bbr *ca, const struct nw_bbr_params *p,
				   const struct nw_facts *f, const struct nw_bbr_now *now)
{
	ca->ack_phase = NW_BBR_ACKS_PROBE_STARTING;
	ca->next_round = f->delivered;
	if (!nw_bbr_is_draft(p))
		ca->cycle_us = now->us;
	nw_bbr_reset_full_bw(ca);
	ca->full_bw = now->sample;
	ca->phase = NW_BBR_UP;
	nw_bbr_raise_slope(ca, now);
}

/* HandleInflightTooHigh() */
static inline void nw_bbr_handle_too_high(struct nw_bbr *ca, const struct nw_bbr_params *p,
					  const struct nw_facts *f,
					  const struct nw_bbr_now *now, u32 tx_in_flight)
{
	ca->prev_probe_too_high = 1;
	ca->is_probe_sample = 0;
	if (!(f->flags & NW_F_APP_LIMITED))
		ca->inflight_hi = nw_max(tx_in_flight,
					 nw_bbr_share(nw_bbr_target(ca, p, now),
						      p->kept));
	if (ca->phase == NW_BBR_UP) {
		ca->counts.up_losses++;
		ca->undo_phase = NW_BBR_UP;
		nw_bbr_start_down(ca, f, now->us);
	}
}

/*
 * Segments were found lost since the last call (HandleLostPacket): the first of them
 * with which the losses of a flight pass the threshold decides.
 */
static inline void nw_bbr_handle_losses(struct nw_bbr *ca, const struct nw_bbr_params *p,
					const struct nw_facts *f, struct nw_bbr_now *now)
{
	u32 newly = f->lost - ca->seen_lost;
	u32 in_flight = now->tx_in_flight;
	u32 lost = now->lost;
	u32 first;

	ca->seen_lost = f->lost;
	if (!newly)
		return;
	nw_bbr_mark(ca, f);
	nw_bbr_note_loss(ca, p, f, now);
	if (!ca->is_probe_sample || !nw_bbr_loses_too_much(p, lost, in_flight))
		return;
	first = nw_bbr_share(in_flight, p->loss_thresh) + 1;
	if (lost >= newly)
		first = nw_max(first, lost - newly + 1);
	nw_bbr_handle_too_high(ca, p, f, now,
			       nw_bbr_inflight_at_loss(p, first, in_flight));
}

/* Startup is left for losses or marks: what was in flight is the bound. */
static inline void nw_bbr_leave_startup(struct nw_bbr *ca, const struct nw_bbr_params *p,
					u8 reason)
{
	u32 bdp = nw_bbr_bdp(ca, nw_bbr_max_bw(ca, p), NW_BBR_ONE);

	if (!nw_bbr_is_draft(p))
		bdp = nw_bbr_quantize(ca, p, bdp);
	ca->undo_phase = NW_BBR_STARTUP;
	ca->counts.startup_exit = reason;
	ca->full_bw_reached = 1;
	if (nw_bbr_is_draft(p))
		ca->full_bw_now = 1;	/* test case A.2 */
	ca->inflight_hi = nw_max(bdp, ca->inflight_latest);
}

/* CheckStartupHighLoss() */
static inline void nw_bbr_check_startup_loss(struct nw_bbr *ca,
					     const struct nw_bbr_params *p,
					     const struct nw_facts *f,
					     const struct nw_bbr_now *now)
{
	if (ca->full_bw_reached)
		return;
	if (f->rs_losses && ca->loss_events < 15)
		ca->loss_events++;
	if (!ca->loss_round_start)
		return;
	if (f->ca_state == NW_CA_RECOVERY && ca->loss_events >= NW_BBR_LOSS_EVENTS &&
	    nw_bbr_is_too_high(ca, p, now))
		nw_bbr_leave_startup(ca, p, NW_BBR_BY_LOSSES);
	ca->loss_events = 0;
}

/* bbr_check_ecn_too_high_in_startup(), at the end of a round */
static inline void nw_bbr_check_startup_ecn(struct nw_bbr *ca,
					    const struct nw_bbr_params *p)
{
	if (ca->full_bw_reached || !ca->ecn_eligible)
		return;
	if (ca->ce_ratio < NW_BBR_ECN_THRESH) {
		ca->ecn_rounds = 0;
		return;
	}
	if (++ca->ecn_rounds >= NW_BBR_ECN_ROUNDS)
		nw_bbr_leave_startup(ca, p, NW_BBR_BY_MARKS);
}

/* CheckFullBWReached(). Linux looks for growth with each ACK. */
static inline void nw_bbr_check_full_bw(struct nw_bbr *ca, const struct nw_bbr_params *p,
					const struct nw_facts *f,
					const struct nw_bbr_now *now)
{
	if (ca->full_bw_now || (f->flags & NW_F_APP_LIMITED))
		return;
	if (nw_bbr_is_draft(p) && !ca->round_start)
		return;
	if (now->sample >= (u64)ca->full_bw + (ca->full_bw >> NW_BBR_FULL_SHIFT)) {
		nw_bbr_reset_full_bw(ca);
		ca->full_bw = now->sample;
		return;
	}
	if (!ca->round_start)
		return;
	ca->full_bw_count++;
	ca->full_bw_now = ca->full_bw_count >= NW_BBR_FULL_COUNT;
	if (ca->full_bw_now && !ca->full_bw_reached) {
		ca->full_bw_reached = 1;
		ca->counts.startup_exit = NW_BBR_BY_PLATEAU;
	}
}

/* CheckStartupDone(), CheckDrainDone(), bbr_check_drain() */
static inline void nw_bbr_check_drain(struct nw_bbr *ca, const struct nw_bbr_params *p,
				      const struct nw_facts *f, struct nw_bbr_now *now)
{
	u32 full;

	if (ca->phase == NW_BBR_STARTUP && ca->full_bw_reached) {
		ca->phase = NW_BBR_DRAIN;
		ca->drain_round = ca->round_count;
		now->ssthresh = nw_bbr_inflight(ca, p, nw_bbr_max_bw(ca, p),
						NW_BBR_ONE);
		if (!nw_bbr_is_draft(p))
			nw_bbr_reset_signals(ca);
	}
	if (ca->phase != NW_BBR_DRAIN)
		return;
	full = nw_bbr_inflight(ca, p, nw_bbr_is_draft(p) ?
			       nw_bbr_bw(ca, p) : nw_bbr_max_bw(ca, p), NW_BBR_ONE);
	if (f->in_flight <= full)
		ca->counts.drain_exit = NW_BBR_BY_FLIGHT;
	else if (nw_bbr_is_draft(p) &&
		 ca->round_count - ca->drain_round > NW_BBR_DRAIN_ROUNDS)
		ca->counts.drain_exit = NW_BBR_BY_ROUNDS;
	else
		return;
	nw_bbr_start_down(ca, f, now->us);
}

/* ProbeInflightLongtermUpward() */
static inline void nw_bbr_probe_upward(struct nw_bbr *ca, const struct nw_facts *f,
				       const struct nw_bbr_now *now)
{
	u32 delta;

	if (!(f->flags & NW_F_CWND_LIMITED) || now->cwnd < ca->inflight_hi)
		return;
	ca->up_acked = nw_add_sat(ca->up_acked, f->acked_sacked);
	if (ca->up_acked >= ca->up_count) {
		delta = ca->up_acked / nw_max(ca->up_count, 1);
		ca->up_acked -= delta * ca->up_count;
		ca->inflight_hi = nw_min(nw_add_sat(ca->inflight_hi, delta), NW_NONE - 1);
	}
	if (ca->round_start)
		nw_bbr_raise_slope(ca, now);
}

/* AdaptLongTermModel(): whether it decided a change of state. */
static inline int nw_bbr_adapt_long_term(struct nw_bbr *ca, const struct nw_bbr_params *p,
					 const struct nw_facts *f,
					 const struct nw_bbr_now *now)
{
	if (ca->ack_phase == NW_BBR_ACKS_PROBE_STARTING && ca->round_start)
		ca->ack_phase = NW_BBR_ACKS_PROBE_FEEDBACK;
	if (ca->ack_phase == NW_BBR_ACKS_PROBE_STOPPING && ca->round_start) {
		ca->is_probe_sample = 0;
		ca->ack_phase = NW_BBR_ACKS_INIT;
		if (nw_bbr_in_probe_bw(ca)) {
			if (!(f->flags & NW_F_APP_LIMITED))
				nw_bbr_advance_max_bw(ca);
			if (ca->precautionary && !ca->prev_probe_too_high) {
				nw_bbr_start_refill(ca, f, 0);
				return 1;
			}
		}
	}
	if (nw_bbr_is_too_high(ca, p, now)) {
		/* Linux judges the ACK's own sample too, not lost segments alone. */
		if (!nw_bbr_is_draft(p) && ca->is_probe_sample)
			nw_bbr_handle_too_high(ca, p, f, now, now->tx_in_flight);
		return 0;
	}
	if (ca->inflight_hi == NW_NONE)
		return 0;
	ca->inflight_hi = nw_max(ca->inflight_hi, now->tx_in_flight);
	if (ca->phase == NW_BBR_UP)
		nw_bbr_probe_upward(ca, f, now);
	return 0;
}

/* IsTimeToProbeBW() */
static inline int nw_bbr_time_to_probe(struct nw_bbr *ca, const struct nw_bbr_params *p,
				       const struct nw_facts *f,
				       const struct nw_bbr_now *now)
{
	u32 rounds;

	/* Linux: marks without losses have ceased. */
	if (ca->ecn_eligible && ca->ecn_in_cycle && !ca->loss_in_cycle &&
	    f->ca_state == NW_CA_OPEN) {
		nw_bbr_start_refill(ca, f, nw_ilog2(ca->inflight_hi >> 1));
		return 1;
	}
	rounds = nw_min(nw_bbr_target(ca, p, now), NW_BBR_PROBE_ROUNDS);
	if (now->us > ca->cycle_us + ca->probe_wait_us || ca->rounds_since_probe >= rounds) {
		nw_bbr_start_refill(ca, f, 0);
		return 1;
	}
	return 0;
}

/* IsTimeToCruise() */
static inline int nw_bbr_time_to_cruise(const struct nw_bbr *ca,
					const struct nw_bbr_params *p,
					const struct nw_bbr_now *now)
{
	return now->in_flight <= nw_bbr_with_headroom(ca, p) &&
	       now->in_flight <= nw_bbr_inflight(ca, p, nw_bbr_max_bw(ca, p), NW_BBR_ONE);
}

/* IsTimeToGoDown() */
static inline int nw_bbr_time_to_go_down(struct nw_bbr *ca, const struct nw_facts *f,
					 const struct nw_bbr_now *now)
{
	if (ca->prev_probe_too_high && now->in_flight >= ca->inflight_hi) {
		ca->precautionary = 1;
		ca->counts.up_stops++;
		return 1;
	}
	if ((f->flags & NW_F_CWND_LIMITED) && now->cwnd >= ca->inflight_hi) {
		nw_bbr_reset_full_bw(ca);
		ca->full_bw = now->sample;
		return 0;
	}
	ca->counts.up_plateaus += ca->full_bw_now;
	return ca->full_bw_now;
}

/* UpdateProbeBWCyclePhase() */
static inline void nw_bbr_update_cycle(struct nw_bbr *ca, const struct nw_bbr_params *p,
				       const struct nw_facts *f, struct nw_bbr_now *now)
{
	if (!ca->full_bw_reached || nw_bbr_adapt_long_term(ca, p, f, now))
		return;
	switch (ca->phase) {
	case NW_BBR_CRUISE:
		nw_bbr_time_to_probe(ca, p, f, now);
		break;
	case NW_BBR_REFILL:
		if (ca->round_start) {
			ca->is_probe_sample = 1;
			nw_bbr_start_up(ca, p, f, now);
		}
		break;
	case NW_BBR_UP:
		if (nw_bbr_time_to_go_down(ca, f, now)) {
			ca->prev_probe_too_high = 0;
			nw_bbr_start_down(ca, f, now->us);
		}
		break;
	case NW_BBR_DOWN:
		if (nw_bbr_time_to_probe(ca, p, f, now))
			ca->counts.late_downs++;
		else if (nw_bbr_time_to_cruise(ca, p, now))
			nw_bbr_start_cruise(ca, p);
		break;
	}
}

/* ProbeRTTCwnd() */
static inline u32 nw_bbr_probe_rtt_cwnd(const struct nw_bbr *ca,
					const struct nw_bbr_params *p)
{
	return nw_max(nw_bbr_bdp(ca, nw_bbr_bw(ca, p), NW_BBR_ONE >> 1), NW_BBR_MIN_CWND);
}

/* CheckProbeRTTDone() with ExitProbeRTT() */
static inline void nw_bbr_check_probe_rtt_done(struct nw_bbr *ca,
					       const struct nw_bbr_params *p,
					       const struct nw_facts *f,
					       struct nw_bbr_now *now)
{
	if (!ca->probe_rtt_done_us || now->us <= ca->probe_rtt_done_us)
		return;
	ca->probe_rtt_min_stamp_us = now->us;
	now->cwnd = nw_max(now->cwnd, ca->prior_cwnd);
	nw_bbr_reset_short_term(ca);
	if (ca->full_bw_reached) {
		nw_bbr_start_down(ca, f, now->us);
		nw_bbr_start_cruise(ca, p);
	} else {
		ca->phase = NW_BBR_STARTUP;
	}
}

/* UpdateMinRTT(): a new minimum is less in the draft, and no more in Linux. */
static inline int nw_bbr_update_min_rtt(struct nw_bbr *ca, const struct nw_bbr_params *p,
					const struct nw_facts *f,
					const struct nw_bbr_now *now)
{
	int expired = now->us > ca->probe_rtt_min_stamp_us + NW_BBR_PROBE_RTT_US;

	if (f->rtt_us && (f->rtt_us < ca->probe_rtt_min_us || expired)) {
		ca->probe_rtt_min_us = f->rtt_us;
		ca->probe_rtt_min_stamp_us = now->us;
	}
	if (ca->probe_rtt_min_us < ca->min_rtt_us ||
	    (!nw_bbr_is_draft(p) && ca->probe_rtt_min_us == ca->min_rtt_us) ||
	    now->us > ca->min_rtt_stamp_us + NW_BBR_MIN_RTT_US) {
		ca->min_rtt_us = ca->probe_rtt_min_us;
		ca->min_rtt_stamp_us = ca->probe_rtt_min_stamp_us;
	}
	return expired;
}

/* CheckProbeRTT() */
static inline void nw_bbr_check_probe_rtt(struct nw_bbr *ca, const struct nw_bbr_params *p,
					  const struct nw_facts *f, struct nw_bbr_now *now)
{
	int expired = nw_bbr_update_min_rtt(ca, p, f, now);

	if (expired && !ca->idle_restart && ca->phase != NW_BBR_PROBE_RTT) {
		nw_bbr_enter_probe_rtt(ca, now->cwnd);
		ca->ack_phase = NW_BBR_ACKS_PROBE_STOPPING;
		ca->next_round = f->delivered;
	}
	if (ca->phase == NW_BBR_PROBE_RTT) {
		now->app_limited = 1;
		if (!ca->probe_rtt_done_us &&
		    f->in_flight <= nw_bbr_probe_rtt_cwnd(ca, p)) {
			ca->probe_rtt_done_us = now->us + NW_BBR_PROBE_RTT_FOR_US;
			ca->probe_rtt_round_done = 0;
			ca->next_round = f->delivered;
		} else if (ca->probe_rtt_done_us) {
			if (ca->round_start)
				ca->probe_rtt_round_done = 1;
			if (ca->probe_rtt_round_done)
				nw_bbr_check_probe_rtt_done(ca, p, f, now);
		}
	}
	if (f->rs_delivered > 0)
		ca->idle_restart = 0;
}

#endif /* NW_BBR_PROBE_H */
