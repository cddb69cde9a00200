/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What BBR makes of a delivery rate and a round trip, in all variants: rounds, the
 * bandwidth-delay product, aggregation of ACKs, the pacing rate.
 */
#ifndef NW_BBR_MODEL_H
#define NW_BBR_MODEL_H

#include "bbr_state.h"

static inline void nw_bbr_max_reset(struct nw_bbr_max *m, u32 at, u32 value)
{
	m->at[0] = m->at[1] = m->at[2] = at;
	m->value[0] = m->value[1] = m->value[2] = value;
}

/* The best has left the window: those behind it move up. */
static inline void nw_bbr_max_shift(struct nw_bbr_max *m, u32 at, u32 value)
{
	m->at[0] = m->at[1];
	m->value[0] = m->value[1];
	m->at[1] = m->at[2];
	m->value[1] = m->value[2];
	m->at[2] = at;
	m->value[2] = value;
}

/* Takes `value` in at time `at`, and forgets what is older than `window`. */
static inline void nw_bbr_max_update(struct nw_bbr_max *m, u32 window, u32 at,
				     u32 value)
{
	u32 age = at - m->at[0];

	if (value >= m->value[0] || at - m->at[2] > window) {
		nw_bbr_max_reset(m, at, value);
		return;
	}
	if (value >= m->value[1]) {
		m->at[1] = m->at[2] = at;
		m->value[1] = m->value[2] = value;
	} else if (value >= m->value[2]) {
		m->at[2] = at;
		m->value[2] = value;
	}
	if (age > window) {
		nw_bbr_max_shift(m, at, value);
		if (at - m->at[0] > window)
			nw_bbr_max_shift(m, at, value);
	} else if (m->at[1] == m->at[0] && age > window / 4) {
		m->at[1] = m->at[2] = at;
		m->value[1] = m->value[2] = value;
	} else if (m->at[2] == m->at[1] && age > window / 2) {
		m->at[2] = at;
		m->value[2] = value;
	}
}

/* Segments per us of this ACK's sample: rounded down in v1, up in the others. */
static inline u32 nw_bbr_sample(const struct nw_bbr_params *p, const struct nw_facts *f)
{
	u64 scaled;

	if (f->rs_delivered <= 0 || !f->rs_interval_us)
		return 0;
	scaled = (u64)(u32)f->rs_delivered << NW_BBR_BW_SHIFT;
	if (p->variant != NW_BBR_V1)
		scaled += f->rs_interval_us - 1;
	return (u32)nw_min64(nw_div(scaled, f->rs_interval_us), NW_NONE - 1);
}

/* bbr_update_round_start(): a round ends with the ACK of what was sent after its
 * start.
 */
static inline void nw_bbr_update_round(struct nw_bbr *ca, const struct nw_facts *f)
{
	ca->round_start = 0;
	if (f->rs_delivered < 0 || !f->rs_interval_us ||
	    nw_before(f->rs_prior_delivered, ca->next_round))
		return;
	ca->next_round = f->delivered;
	ca->round_count++;
	ca->round_start = 1;
}

static inline u32 nw_bbr_max_bw(const struct nw_bbr *ca, const struct nw_bbr_params *p)
{
	if (p->variant == NW_BBR_V1)
		return ca->bw_max.value[0];
	return nw_max(ca->bw_hi[0], ca->bw_hi[1]);
}

/* The rate that is taken for the path's. */
static inline u32 nw_bbr_bw(const struct nw_bbr *ca, const struct nw_bbr_params *p)
{
	if (p->variant == NW_BBR_V1)
		return ca->lt_use_bw ? ca->lt_bw : nw_bbr_max_bw(ca, p);
	return nw_min(nw_bbr_max_bw(ca, p), ca->bw_lo);
}

/* gain bw min_rtt in segments, rounded up (bbr_bdp, BDPMultiple). */
static inline u32 nw_bbr_bdp(const struct nw_bbr *ca, u32 bw, u32 gain)
{
	u64 bdp;

	if (ca->min_rtt_us == NW_NONE)
		return ca->init_cwnd;
	bdp = nw_mul_shift((u64)bw * ca->min_rtt_us, gain, NW_BBR_GAIN_SHIFT);
	bdp = nw_min64(bdp, 1ULL << 54);
	return (u32)((bdp + NW_BBR_BW_UNIT - 1) >> NW_BBR_BW_SHIFT);
}

/* Segments that leave at once: bbr_tso_segs_goal(), SetSendQuantum(). Found anew when
 * what it depends on has changed.
 */
static inline void nw_bbr_set_burst(struct nw_bbr *ca, const struct nw_bbr_params *p,
				    u64 rate)
{
	u32 mss = nw_max(ca->mss, 1);
	u64 bytes = rate >> NW_BBR_BURST_SHIFT;
	u32 shift;

	if (rate == ca->burst_rate && mss == ca->burst_mss &&
	    ca->min_rtt_us == ca->burst_rtt_us)
		return;
	ca->burst_rate = rate;
	ca->burst_mss = mss;
	ca->burst_rtt_us = ca->min_rtt_us;
	if (p->variant == NW_BBR_V1) {
		ca->burst = (u32)nw_min64(bytes, NW_BBR_BURST_BYTES) / mss;
		ca->burst = nw_max(ca->burst, rate < NW_BBR_SLOW_RATE ? 1 : 2);
		ca->burst = nw_min(ca->burst, NW_BBR_BURST_SEGMENTS);
		return;
	}
	if (nw_bbr_is_draft(p)) {
		bytes = nw_min64(nw_min64(rate, NW_NONE) / 1000, NW_BBR_QUANTUM_BYTES);
	} else {
		shift = ca->min_rtt_us >> NW_BBR_RTT_SHIFT;
		if (shift < 32)
			bytes += NW_BBR_QUANTUM_BYTES >> shift;
		bytes = nw_min64(bytes, NW_BBR_BURST_BYTES);
	}
	ca->burst = nw_max((u32)bytes / mss, 2);
}

/* Room for bursts at both ends (bbr_quantization_budget, QuantizationBudget). */
static inline u32 nw_bbr_quantize(const struct nw_bbr *ca, const struct nw_bbr_params *p,
				  u32 window)
{
	u32 bursts = 3 * ca->burst;

	if (p->variant == NW_BBR_V1) {
		window = nw_add_sat(window, bursts + 1) & ~1U;
	} else {
		window = nw_max(window, bursts);
		window = nw_max(window, NW_BBR_MIN_CWND);
	}
	if (ca->phase == NW_BBR_UP)
		window = nw_add_sat(window, 2);
	return window;
}

/* bbr_inflight(), Inflight() */
static inline u32 nw_bbr_inflight(const struct nw_bbr *ca, const struct nw_bbr_params *p,
				  u32 bw, u32 gain)
{
	return nw_bbr_quantize(ca, p, nw_bbr_bdp(ca, bw, gain));
}

/* gain bw in bytes/s, less the margin of 1 % */
static inline u64 nw_bbr_rate(u32 bw, u32 mss, u32 gain)
{
	u64 rate = nw_mul_shift((u64)bw * nw_min(mss, 0xffffff), gain,
				NW_BBR_GAIN_SHIFT);

	return nw_max64(nw_mul_shift(rate, NW_BBR_MARGIN_RATE, NW_BBR_BW_SHIFT), 1);
}

/* bw in bytes/s, for reports */
static inline u64 nw_bbr_bytes(u32 bw, u32 mss)
{
	return nw_mul_shift((u64)bw * nw_min(mss, 0xffffff), 1000000, NW_BBR_BW_SHIFT);
}

/* The window per round trip, or per ms without one (InitPacingRate). */
static inline u64 nw_bbr_first_rate(struct nw_bbr *ca, const struct nw_bbr_params *p,
				    const struct nw_facts *f, u32 cwnd)
{
	u32 rtt = NW_BBR_FIRST_RTT_US;
	u64 bw;

	if (f->srtt_us) {
		rtt = nw_max(f->srtt_us >> 3, 1);
		ca->has_seen_rtt = 1;
	}
	bw = ((u64)nw_min(cwnd, 1U << 30) << NW_BBR_BW_SHIFT) / rtt;
	return nw_bbr_rate((u32)nw_min64(bw, NW_NONE), f->mss, p->startup_gain);
}

/* Until the pipe was full once, the rate only rises (SetPacingRateWithGain). */
static inline void nw_bbr_pace(struct nw_bbr *ca, const struct nw_bbr_params *p,
			       const struct nw_facts *f, struct nw_bbr_now *now,
			       u32 gain)
{
	u32 bw = nw_bbr_bw(ca, p);

	if (bw != ca->paced_bw || gain != ca->paced_gain || f->mss != ca->paced_mss ||
	    !ca->paced) {
		ca->paced = nw_bbr_rate(bw, f->mss, gain);
		ca->paced_bw = bw;
		ca->paced_gain = gain;
		ca->paced_mss = f->mss;
	}
	if (!ca->has_seen_rtt && f->srtt_us)
		now->rate = nw_bbr_first_rate(ca, p, f, f->cwnd);
	if (ca->full_bw_reached || ca->paced > now->rate)
		now->rate = ca->paced;
	nw_bbr_set_burst(ca, p, now->rate);
}

/*
 * How much more was acknowledged than the bandwidth makes of the time since an
 * interval began, which it does anew when that is nothing (UpdateACKAggregation). The
 * draft takes the maximum over the last 10 rounds, Linux over 5 to 10; in Startup it
 * is one round, or in v1 the same.
 */
static inline void nw_bbr_aggregate(struct nw_bbr *ca, const struct nw_bbr_params *p,
				    const struct nw_facts *f,
				    const struct nw_bbr_now *now)
{
	u32 rounds = NW_BBR_EXTRA_ROUNDS;
	u64 expected;
	u32 extra;

	if (!f->acked_sacked || f->rs_delivered < 0 || !f->rs_interval_us)
		return;
	if (p->variant != NW_BBR_V1 && !ca->full_bw_reached)
		rounds = 1;
	if (ca->round_start && ++ca->extra_rounds >= rounds) {
		ca->extra_rounds = 0;
		ca->extra_at ^= 1;
		ca->extra_acked[ca->extra_at & 1] = 0;
	}
	/* 2^31 us are more than half an hour */
	expected = ((u64)nw_bbr_bw(ca, p) *
		    nw_min64(now->us - ca->epoch_us, 1U << 31)) >> NW_BBR_BW_SHIFT;
	if (ca->epoch_acked <= expected ||
	    nw_add_sat(ca->epoch_acked, f->acked_sacked) >= NW_BBR_EXTRA_RESET) {
		ca->epoch_acked = 0;
		ca->epoch_us = now->us;
		expected = 0;
	}
	ca->epoch_acked = nw_min(nw_add_sat(ca->epoch_acked, f->acked_sacked),
				 NW_BBR_EXTRA_RESET - 1);
	extra = nw_min(ca->epoch_acked - (u32)nw_min64(expected, ca->epoch_acked),
		       f->cwnd);
	if (nw_bbr_is_draft(p)) {
		nw_bbr_max_update(&ca->extra_max, ca->full_bw_reached ?
				  NW_BBR_EXTRA_FILTER : 1, ca->round_count, extra);
		return;
	}
	if (extra > ca->extra_acked[ca->extra_at & 1])
		ca->extra_acked[ca->extra_at & 1] = extra;
}

static inline u32 nw_bbr_extra_acked(const struct nw_bbr *ca,
				     const struct nw_bbr_params *p)
{
	if (nw_bbr_is_draft(p))
		return ca->extra_max.value[0];
	return nw_max(ca->extra_acked[0], ca->extra_acked[1]);
}

/* What the window has for aggregation: Linux bounds it by what 100 ms carry, and v1
 * has it once the pipe was full.
 */
static inline u32 nw_bbr_aggregation_cwnd(const struct nw_bbr *ca,
					  const struct nw_bbr_params *p)
{
	u64 most;

	if (nw_bbr_is_draft(p))
		return nw_bbr_extra_acked(ca, p);
	if (p->variant == NW_BBR_V1 && !ca->full_bw_reached)
		return 0;
	most = ((u64)nw_bbr_bw(ca, p) * NW_BBR_EXTRA_MOST_US) >> NW_BBR_BW_SHIFT;
	return (u32)nw_min64(nw_bbr_extra_acked(ca, p), most);
}

/* The last window that neither recovery nor ProbeRTT had cut. */
static inline void nw_bbr_save_cwnd(struct nw_bbr *ca, u32 cwnd)
{
	if (ca->prev_ca_state < NW_CA_RECOVERY && ca->phase != NW_BBR_PROBE_RTT)
		ca->prior_cwnd = cwnd;
	else
		ca->prior_cwnd = nw_max(ca->prior_cwnd, cwnd);
}

static inline void nw_bbr_enter_probe_rtt(struct nw_bbr *ca, u32 cwnd)
{
	nw_bbr_save_cwnd(ca, cwnd);
	ca->counts.probe_rtts++;
	ca->counts.early_probe_rtts += ca->phase == NW_BBR_STARTUP;
	ca->phase = NW_BBR_PROBE_RTT;
	ca->probe_rtt_done_us = 0;
}

/* Within a window that a clamp allows. */
static inline u32 nw_bbr_clamp(const struct nw_facts *f, u32 cwnd)
{
	return f->cwnd_clamp ? nw_min(cwnd, f->cwnd_clamp) : cwnd;
}

#endif /* NW_BBR_MODEL_H */
