/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * BBR: a model of the path, its bandwidth and its round trip, decides the pacing rate
 * and the window. Three states of it:
 *
 *   v1		Linux v6.17 net/ipv4/tcp_bbr.c (bbr_v1.h)
 *   linux-v3	google/bbr, branch v3, net/ipv4/tcp_bbr.c (bbr_probe.h, bbr_bounds.h)
 *   draft-06	draft-ietf-ccwg-bbr-06, with the same two files; what differs from
 *		linux-v3 is asked for by nw_bbr_is_draft() where it is
 *
 * Deviations, of all: data is counted in segments, as in Linux, where the draft has
 * bytes; times are microseconds where Linux has ticks; a round trip counts whether or
 * not its ACK was delayed; SACK is taken to be there; the earliest departure time of
 * the next packet is taken for now, which is off by a burst at most. Of linux-v3: no
 * fast path for senders that the application limits, no protective load balancing, no
 * reaction to a loss that a tail loss probe repaired, and marks are judged once per
 * round, where Linux judges each sample. Of v3 in both: bbr_bounds.h.
 */
#ifndef NW_BBR_H
#define NW_BBR_H

#include "bbr_v1.h"
#include "bbr_probe.h"

#define nw_bbr_MODE	NW_MODE_RATE

static inline void nw_bbr_begin(struct nw_bbr *ca, const struct nw_bbr_params *p,
				struct nw_bbr_now *now, const struct nw_facts *f)
{
	ca->mss = f->mss;
	nw_bbr_set_burst(ca, p, f->pacing_rate);
	now->us = f->now_ns / 1000;
	now->rate = f->pacing_rate;
	now->cwnd = f->cwnd;
	now->in_flight = f->in_flight;
}

static inline void nw_bbr_decide(const struct nw_bbr_now *now, const struct nw_facts *f,
				 struct nw_decision *d)
{
	nw_set_cwnd(d, now->cwnd);
	nw_set_pacing_rate(d, nw_max64(now->rate, 1));
	if (now->ssthresh) {
		if (f->ssthresh >= NW_INFINITE_SSTHRESH)
			d->events |= NW_DID_SLOW_START_EXIT;
		nw_set_ssthresh(d, now->ssthresh);
	}
	if (now->app_limited)
		d->set |= NW_SET_APP_LIMITED;
}

static inline void nw_bbr_init(struct nw_bbr *ca, const struct nw_bbr_params *p,
			       const struct nw_facts *f, struct nw_decision *d)
{
	u64 us = f->now_ns / 1000;
	u32 rtt = f->min_rtt_us ? f->min_rtt_us : NW_NONE;

	/* OnInit() of the draft takes the smoothed one. */
	if (nw_bbr_is_draft(p) && f->srtt_us)
		rtt = nw_max(f->srtt_us >> 3, 1);
	ca->min_rtt_us = rtt;
	ca->probe_rtt_min_us = rtt;
	ca->min_rtt_stamp_us = us;
	ca->probe_rtt_min_stamp_us = us;
	ca->epoch_us = us;
	ca->mss = f->mss;
	ca->pacing_gain = p->startup_gain;
	ca->cwnd_gain = p->startup_cwnd_gain;
	ca->undo_phase = NW_BBR_NO_PHASE;
	ca->phase = NW_BBR_STARTUP;
	if (p->variant == NW_BBR_V1) {
		ca->init_cwnd = NW_BBR_FIRST_CWND;
		nw_bbr_lt_begin(ca, f, us);
	} else {
		ca->init_cwnd = nw_max(f->cwnd, 1);
		ca->next_round = f->delivered;
		ca->prior_cwnd = f->prior_cwnd;
		nw_bbr_reset_short_term(ca);
		ca->inflight_hi = NW_NONE;
		ca->up_count = NW_NONE;
		ca->loss_round = f->delivered + 1;
		ca->seen_lost = f->lost;
		ca->lost_at_send = f->lost;
		ca->ecn_alpha = NW_BBR_ONE;
		ca->round_delivered = f->delivered;
		ca->round_ce = f->delivered_ce;
	}
	nw_set_ssthresh(d, NW_INFINITE_SSTHRESH);
	nw_set_pacing_rate(d, nw_bbr_first_rate(ca, p, f, f->cwnd));
	if (f->pacing_status == NW_PACING_NONE)
		nw_set_pacing_status(d, NW_PACING_NEEDED);
}

static inline void nw_bbr_release(struct nw_bbr *ca)
{
	(void)ca;
}

/* A reduction begins, which takes nothing: what may have to be restored is kept. */
static inline u32 nw_bbr_ssthresh(struct nw_bbr *ca, const struct nw_bbr_params *p,
				  const struct nw_facts *f)
{
	if (p->variant == NW_BBR_V1)
		nw_bbr_save_cwnd(ca, f->cwnd);
	else
		nw_bbr_save_bounds(ca, f->cwnd);
	return f->ssthresh;
}

/* HandleSpuriousLossDetection(), bbr_undo_cwnd() */
static inline u32 nw_bbr_undo_cwnd(struct nw_bbr *ca, const struct nw_bbr_params *p,
				   const struct nw_facts *f)
{
	u8 undo = ca->undo_phase;

	ca->counts.undone++;
	nw_bbr_reset_full_bw(ca);
	if (p->variant == NW_BBR_V1) {
		nw_bbr_lt_reset(ca, f, f->now_ns / 1000);
		return nw_max(f->cwnd, 1);
	}
	ca->loss_in_round = 0;
	ca->bw_lo = nw_max(ca->bw_lo, ca->undo_bw_lo);
	ca->inflight_lo = nw_max(ca->inflight_lo, ca->undo_inflight_lo);
	ca->inflight_hi = nw_max(ca->inflight_hi, ca->undo_inflight_hi);
	if (!nw_bbr_is_draft(p))
		return nw_max(ca->prior_cwnd, 1);
	if (undo == NW_BBR_STARTUP && ca->phase != NW_BBR_STARTUP) {
		ca->full_bw_reached = 0;
		if (ca->phase != NW_BBR_PROBE_RTT)
			ca->phase = NW_BBR_STARTUP;
	} else if (undo == NW_BBR_UP && ca->phase != NW_BBR_UP &&
		   ca->phase != NW_BBR_PROBE_RTT) {
		nw_bbr_start_refill(ca, f, 0);
	}
	ca->undo_phase = NW_BBR_NO_PHASE;
	return nw_max(nw_max(f->cwnd, ca->prior_cwnd), 1);
}

static inline void nw_bbr_set_state(struct nw_bbr *ca, const struct nw_bbr_params *p,
				    const struct nw_facts *f, u8 new_state,
				    struct nw_decision *d)
{
	u8 former = nw_bbr_is_draft(p) ? f->ca_state : ca->prev_ca_state;
	struct nw_bbr_now now = {};

	nw_bbr_begin(ca, p, &now, f);
	if (p->variant == NW_BBR_V1) {
		if (new_state == NW_CA_LOSS) {
			ca->prev_ca_state = NW_CA_LOSS;
			ca->full_bw = 0;
			ca->round_start = 1;
			nw_bbr_lt_sample(ca, f, now.us, 1, 0);
		}
		return;
	}
	if (new_state == NW_CA_LOSS) {
		/* A timeout takes all that is out for lost, but what has just left. */
		now.tx_in_flight = f->packets_out;
		now.lost = f->lost - ca->seen_lost;
		nw_bbr_handle_losses(ca, p, f, &now);
		ca->prev_ca_state = NW_CA_LOSS;
		if (!nw_bbr_is_draft(p)) {
			nw_bbr_reset_full_bw(ca);
			if (!nw_bbr_is_probing(ca) && ca->inflight_lo == NW_NONE)
				ca->inflight_lo = nw_max(f->cwnd, ca->prior_cwnd);
		}
	} else if (former == NW_CA_LOSS ||
		   (nw_bbr_is_draft(p) && former == NW_CA_RECOVERY &&
		    new_state < NW_CA_RECOVERY)) {
		nw_set_cwnd(d, nw_bbr_clamp(f, nw_max(f->cwnd, ca->prior_cwnd)));
	}
}

/* HandleRestartFromIdle(): data leaves with nothing in flight. */
static inline void nw_bbr_cwnd_event(struct nw_bbr *ca, const struct nw_bbr_params *p,
				     const struct nw_facts *f, u32 event,
				     struct nw_decision *d)
{
	struct nw_bbr_now now = {};

	if (event != NW_EV_TX_START || !(f->flags & NW_F_APP_LIMITED))
		return;
	nw_bbr_begin(ca, p, &now, f);
	ca->idle_restart = 1;
	ca->epoch_us = now.us;
	ca->epoch_acked = 0;
	if (nw_bbr_in_probe_bw(ca)) {
		nw_bbr_pace(ca, p, f, &now, NW_BBR_ONE);
		nw_set_pacing_rate(d, nw_max64(now.rate, 1));
	} else if (ca->phase == NW_BBR_PROBE_RTT) {
		if (p->variant == NW_BBR_V1)
			nw_bbr_v1_probe_rtt_done(ca, f, &now);
		else
			nw_bbr_check_probe_rtt_done(ca, p, f, &now);
		nw_set_cwnd(d, nw_bbr_clamp(f, now.cwnd));
	}
}

NW_NO_ACK_HOOK(bbr)
NW_NO_HOOK(bbr, pkts_acked)
NW_NO_HOOK_WITH(bbr, cong_avoid, u32)

/* The table of draft section 5.6.1; bbr_update_gains(). */
static inline void nw_bbr_set_gains(struct nw_bbr *ca, const struct nw_bbr_params *p)
{
	ca->pacing_gain = NW_BBR_ONE;
	ca->cwnd_gain = NW_BBR_CWND_GAIN;
	switch (ca->phase) {
	case NW_BBR_STARTUP:
		ca->pacing_gain = p->startup_gain;
		break;
	case NW_BBR_DRAIN:
		ca->pacing_gain = p->drain_gain;
		break;
	case NW_BBR_DOWN:
		ca->pacing_gain = p->down_gain;
		break;
	case NW_BBR_UP:
		ca->pacing_gain = NW_BBR_UP_GAIN;
		ca->cwnd_gain = NW_BBR_UP_CWND_GAIN;
		break;
	case NW_BBR_PROBE_RTT:
		ca->cwnd_gain = nw_bbr_is_draft(p) ? NW_BBR_ONE >> 1 : NW_BBR_ONE;
		break;
	}
}

/* SetCwnd() with BoundCwndForProbeRTT() and BoundCwndForModel() */
static inline void nw_bbr_set_cwnd(struct nw_bbr *ca, const struct nw_bbr_params *p,
				   const struct nw_facts *f, struct nw_bbr_now *now)
{
	u32 first = nw_bbr_is_draft(p) ? f->delivered : now->cwnd / 2;
	u32 cwnd = now->cwnd;
	u32 cap = NW_NONE;

	if (f->acked_sacked) {
		u32 most = nw_bbr_bdp(ca, nw_bbr_bw(ca, p), ca->cwnd_gain);

		most = nw_add_sat(most, nw_bbr_aggregation_cwnd(ca, p));
		most = nw_bbr_quantize(ca, p, most);
		if (ca->full_bw_reached)
			cwnd = nw_min(nw_add_sat(cwnd, f->acked_sacked), most);
		else if (cwnd < most || first < ca->init_cwnd)
			cwnd = nw_add_sat(cwnd, f->acked_sacked);
		cwnd = nw_max(cwnd, NW_BBR_MIN_CWND);
	}
	cwnd = nw_bbr_clamp(f, cwnd);
	if (ca->phase == NW_BBR_PROBE_RTT) {
		cwnd = nw_min(cwnd, nw_bbr_probe_rtt_cwnd(ca, p));
		cap = nw_bbr_with_headroom(ca, p);
	} else if (ca->phase == NW_BBR_CRUISE) {
		cap = nw_bbr_with_headroom(ca, p);
	} else if (nw_bbr_in_probe_bw(ca)) {
		cap = ca->inflight_hi;
	}
	cap = nw_max(nw_min(cap, ca->inflight_lo), NW_BBR_MIN_CWND);
	now->cwnd = nw_min(cwnd, cap);
}

/* UpdateOnACK(), bbr_main() */
static inline void nw_bbr_v3_ack(struct nw_bbr *ca, const struct nw_bbr_params *p,
				 const struct nw_facts *f, struct nw_bbr_now *now)
{
	if (!nw_bbr_is_draft(p))
		now->in_flight = f->rs_prior_in_flight;
	nw_bbr_look_back(ca, f, now);
	nw_bbr_handle_losses(ca, p, f, now);
	nw_bbr_update_round(ca, f);
	if (ca->round_start) {
		ca->rounds_since_probe += ca->rounds_since_probe < 255;
		if (p->ecn) {
			nw_bbr_update_alpha(ca, p, f);
			nw_bbr_check_startup_ecn(ca, p);
		}
	}
	if (ca->ecn_eligible && (f->flags & NW_F_ACK_ECE))
		ca->ecn_in_round = 1;
	nw_bbr_update_latest(ca, f, now);
	nw_bbr_update_signals(ca, p, f, now);
	nw_bbr_aggregate(ca, p, f, now);
	nw_bbr_check_startup_loss(ca, p, f, now);
	nw_bbr_check_full_bw(ca, p, f, now);
	nw_bbr_check_drain(ca, p, f, now);
	nw_bbr_update_cycle(ca, p, f, now);
	nw_bbr_check_probe_rtt(ca, p, f, now);
	nw_bbr_set_gains(ca, p);
	nw_bbr_pace(ca, p, f, now, ca->pacing_gain);
	nw_bbr_set_cwnd(ca, p, f, now);
	nw_bbr_advance_latest(ca, f, now);
	ca->prev_ca_state = f->ca_state;
	ca->ecn_in_cycle |= ca->ecn_in_round;
}

static inline void nw_bbr_cong_control(struct nw_bbr *ca, const struct nw_bbr_params *p,
				       const struct nw_facts *f, struct nw_decision *d)
{
	struct nw_bbr_now now = {};

	nw_bbr_begin(ca, p, &now, f);
	now.sample = nw_bbr_sample(p, f);
	if (p->variant == NW_BBR_V1)
		nw_bbr_v1_ack(ca, p, f, &now);
	else
		nw_bbr_v3_ack(ca, p, f, &now);
	nw_bbr_decide(&now, f, d);
}

static inline u32 nw_bbr_max_tso_segs(const struct nw_bbr *ca,
				      const struct nw_bbr_params *p)
{
	return nw_bbr_is_draft(p) && ca->burst ? ca->burst : NW_NONE;
}

NW_NO_TIMER(bbr)

#define NW_BBR_IS_V3(p)		((p)->variant != NW_BBR_V1)
/* Before it begins nothing has a value, and a bound that is not set has none. */
#define NW_BBR_VALUE(value)	(ca->init_cwnd ? (s64)(value) : NW_UNKNOWN)
#define NW_BBR_BOUND(p, bound)						\
	(NW_BBR_IS_V3(p) && (bound) != NW_NONE ? NW_BBR_VALUE(bound) : NW_UNKNOWN)
#define nw_bbr_TELEMETRY(FIELD)						\
	FIELD("phase", "", 1, NW_BBR_VALUE(ca->phase),			\
	      "state: 0 Startup, 1 Drain, 2 down, 3 cruise, 4 refill, 5 up, 6 ProbeRTT") \
	FIELD("bw", "mbit", 125000,					\
	      NW_BBR_VALUE(nw_bbr_bytes(nw_bbr_bw(ca, p), ca->mss)),	\
	      "the path's rate, as the sender takes it", "BBR's bandwidth") \
	FIELD("max_bw", "mbit", 125000,					\
	      NW_BBR_VALUE(nw_bbr_bytes(nw_bbr_max_bw(ca, p), ca->mss)), \
	      "the highest delivery rate of late", "BBR's bandwidth")	\
	FIELD("bw_lo", "mbit", 125000,					\
	      NW_BBR_IS_V3(p) && ca->bw_lo != NW_NONE ?			\
	      NW_BBR_VALUE(nw_bbr_bytes(ca->bw_lo, ca->mss)) : NW_UNKNOWN, \
	      "short-term bound of the rate (bw_shortterm)", "BBR's bandwidth") \
	FIELD("path_rtt", "ms", 1000,					\
	      ca->min_rtt_us == NW_NONE ? NW_UNKNOWN : NW_BBR_VALUE(ca->min_rtt_us), \
	      "round trip of the empty path, as the sender takes it")	\
	FIELD("pacing_gain", "", 1 << 16, NW_BBR_VALUE(ca->pacing_gain), \
	      "pacing rate by the path's rate", "BBR's gains")		\
	FIELD("cwnd_gain", "", 1 << 16, NW_BBR_VALUE(ca->cwnd_gain),	\
	      "window by the bandwidth-delay product", "BBR's gains")	\
	FIELD("inflight_hi", "segments", 1, NW_BBR_BOUND(p, ca->inflight_hi), \
	      "long-term bound of the flight (inflight_longterm)", "BBR's bounds") \
	FIELD("inflight_lo", "segments", 1, NW_BBR_BOUND(p, ca->inflight_lo), \
	      "short-term bound of the flight (inflight_shortterm)", "BBR's bounds") \
	FIELD("extra_acked", "segments", 1, nw_bbr_extra_acked(ca, p),	\
	      "what aggregation of ACKs adds to the window", "BBR's bounds") \
	FIELD("round", "", 1, ca->round_count, "round trips so far")	\
	FIELD("full_bw_count", "", 1, ca->full_bw_count,		\
	      "round trips in which the rate did not grow")		\
	FIELD("full_bw_reached", "", 1, ca->full_bw_reached,		\
	      "whether the pipe was full once")				\
	FIELD("up_rounds", "", 1, NW_BBR_IS_V3(p) ? ca->up_rounds : 0,	\
	      "doublings of the growth of inflight_hi")			\
	FIELD("startup_exit", "", 1, ca->counts.startup_exit,		\
	      "why Startup ended: 0 not yet, 1 plateau, 2 losses, 3 marks") \
	FIELD("drain_exit", "", 1, ca->counts.drain_exit,		\
	      "why Drain ended: 0 not yet, 1 the queue was empty, 2 after three rounds") \
	FIELD("up_plateaus", "", 1, ca->counts.up_plateaus,		\
	      "probes that ended as the rate no longer grew")		\
	FIELD("up_losses", "", 1, ca->counts.up_losses,			\
	      "probes that ended for losses or marks")			\
	FIELD("up_stops", "", 1, ca->counts.up_stops,			\
	      "probes that stopped at the long-term bound")		\
	FIELD("late_downs", "", 1, ca->counts.late_downs,		\
	      "times that the queue was not empty before the next probe") \
	FIELD("probe_rtts", "", 1, ca->counts.probe_rtts,		\
	      "times in ProbeRTT")					\
	FIELD("early_probe_rtts", "", 1, ca->counts.early_probe_rtts,	\
	      "of these, in Startup")					\
	FIELD("undone", "", 1, ca->counts.undone,			\
	      "losses that were none, and undone")			\
	FIELD("idle_restart", "", 1, ca->idle_restart,			\
	      "whether it begins again after an idle time")		\
	FIELD("lt_bw", "mbit", 125000,					\
	      p->variant == NW_BBR_V1 && ca->lt_use_bw ?		\
	      (s64)nw_bbr_bytes(ca->lt_bw, ca->mss) : NW_UNKNOWN,	\
	      "rate of a policer that was found", "BBR's bandwidth")

#endif /* NW_BBR_H */
