/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/* BBR's constants, parameters and state; its rules are in bbr.h. */
#ifndef NW_BBR_STATE_H
#define NW_BBR_STATE_H

#include "nw_cc.h"

#define NW_BBR_BW_SHIFT		24U	/* rates: 2^-24 segments per us, as in Linux */
#define NW_BBR_BW_UNIT		(1U << NW_BBR_BW_SHIFT)
#define NW_BBR_GAIN_SHIFT	16U	/* gains and shares: 2^-16 */
#define NW_BBR_ONE		(1U << NW_BBR_GAIN_SHIFT)
/* Linux counts gains in 2^-8 and truncates them there; they stand here as there are. */
#define NW_BBR_LINUX(x256)	((u32)(x256) << 8)

#define NW_BBR_MIN_CWND		4U		/* segments: MinPipeCwnd */
#define NW_BBR_FIRST_CWND	10U		/* segments, v1 without an RTT: TCP_INIT_CWND */
#define NW_BBR_MARGIN_RATE	990000U		/* us per s, less PacingMarginPercent 1 */
#define NW_BBR_FIRST_RTT_US	1000U		/* nominal RTT before there is one */
#define NW_BBR_MIN_RTT_US	10000000ULL	/* MinRTTFilterLen, 10 s */
#define NW_BBR_PROBE_RTT_US	5000000ULL	/* ProbeRTTInterval; v1 has 10 s alone */
#define NW_BBR_PROBE_RTT_FOR_US	200000ULL	/* ProbeRTTDuration */
#define NW_BBR_FULL_COUNT	3U		/* rounds without growth: the pipe is full */
#define NW_BBR_FULL_SHIFT	2U		/* growth is 1 + 2^-2 */
#define NW_BBR_DRAIN_ROUNDS	3U		/* draft: longest Drain */
#define NW_BBR_LOSS_EVENTS	6U		/* BBRStartupFullLossCnt */
#define NW_BBR_PROBE_ROUNDS	63U		/* T_reno_bound */
#define NW_BBR_PROBE_BASE_US	2000000U	/* T_bbr: 2 s ... */
#define NW_BBR_PROBE_RAND_US	1000000U	/* ... to 3 s */
#define NW_BBR_UP_ROUNDS	30U		/* most doublings of the slope */

#define NW_BBR_EXTRA_ROUNDS	5U	/* Linux: bbr_extra_acked_win_rtts, twice */
#define NW_BBR_EXTRA_FILTER	10U	/* draft: ExtraAckedFilterLen, rounds */
#define NW_BBR_EXTRA_MOST_US	100000U	/* Linux: bbr_extra_acked_max_us */
#define NW_BBR_EXTRA_RESET	(1U << 20)	/* segments; ack_epoch_acked_reset_thresh */

#define NW_BBR_BURST_SHIFT	10U	/* sk_pacing_shift: what 2^-10 s carry */
#define NW_BBR_BURST_BYTES	65215U	/* 65536 - 1 - MAX_TCP_HEADER (320) */
#define NW_BBR_QUANTUM_BYTES	65536U	/* draft: largest send quantum, 64 KBytes */
#define NW_BBR_RTT_SHIFT	9U	/* linux-v3: bbr_tso_rtt_shift, 512 us */
#define NW_BBR_SLOW_RATE	150000U	/* bytes/s, v1: bbr_min_tso_rate, 1.2 Mbit/s */
#define NW_BBR_BURST_SEGMENTS	127U	/* v1: most of bbr_tso_segs_goal() */

/* v1 */
#define NW_BBR_V1_ROUNDS	10U	/* bandwidth filter: bbr_bw_rtts */
#define NW_BBR_V1_CYCLE		8U	/* phases of the gain cycle */
#define NW_BBR_V1_RANDOM	7U	/* bbr_cycle_rand */
#define NW_BBR_LT_ROUNDS	4U	/* least rounds of a policer's interval */
#define NW_BBR_LT_LOSS		50U	/* of 256: its loss rate, 20 % */
#define NW_BBR_LT_RATIO_SHIFT	3U	/* two intervals differ by 1/8 at most */
#define NW_BBR_LT_DIFF		500U	/* ... or by 4 kbit/s, in bytes/s */
#define NW_BBR_LT_USE_ROUNDS	48U	/* rounds that its rate is used */

/* linux-v3 with ECN */
#define NW_BBR_ECN_MOST_RTT_US	5000U	/* bbr_ecn_max_rtt_us */
#define NW_BBR_ECN_GAIN_SHIFT	4U	/* bbr_ecn_alpha_gain, 1/16 */
#define NW_BBR_ECN_FACTOR	NW_BBR_LINUX(85)	/* bbr_ecn_factor, 1/3 */
#define NW_BBR_ECN_THRESH	NW_BBR_LINUX(128)	/* bbr_ecn_thresh, 1/2 */
#define NW_BBR_ECN_ROUNDS	2U	/* bbr_full_ecn_cnt */

/* Losses of a flight, by when they were seen; a power of 2. */
#define NW_BBR_MARKS		32U

enum nw_bbr_variant {
	NW_BBR_V1 = 0,
	NW_BBR_LINUX_V3 = 1,
	NW_BBR_DRAFT_06 = 2,
};

enum nw_bbr_phase {
	NW_BBR_STARTUP = 0,
	NW_BBR_DRAIN = 1,
	NW_BBR_DOWN = 2,	/* ProbeBW: these four */
	NW_BBR_CRUISE = 3,
	NW_BBR_REFILL = 4,
	NW_BBR_UP = 5,
	NW_BBR_PROBE_RTT = 6,
	NW_BBR_NO_PHASE = 7,
};

/* How ACKs relate to bandwidth probing. */
enum nw_bbr_ack_phase {
	NW_BBR_ACKS_INIT = 0,
	NW_BBR_ACKS_REFILLING = 1,
	NW_BBR_ACKS_PROBE_STARTING = 2,
	NW_BBR_ACKS_PROBE_FEEDBACK = 3,
	NW_BBR_ACKS_PROBE_STOPPING = 4,
};

struct nw_bbr_params {
	u32 variant;		/* enum nw_bbr_variant */
	u32 ecn;		/* linux-v3: reacts to marks */
	u32 settled;		/* the variant from which the rest was derived */
	u32 startup_gain;	/* pacing gains, 2^-16 */
	u32 drain_gain;
	u32 down_gain;
	u32 startup_cwnd_gain;
	u32 loss_thresh;	/* LossThresh */
	u32 kept;		/* Beta of the draft, 1 - beta of Linux */
	u32 headroom;
};

#define NW_BBR_UP_GAIN		(NW_BBR_ONE + (NW_BBR_ONE >> 2))	/* 1.25 */
#define NW_BBR_V1_DOWN_GAIN	(NW_BBR_ONE - (NW_BBR_ONE >> 2))	/* 0.75 */
#define NW_BBR_CWND_GAIN	(2 * NW_BBR_ONE)
#define NW_BBR_UP_CWND_GAIN	(NW_BBR_CWND_GAIN + (NW_BBR_ONE >> 2))	/* 2.25 */

/* draft-ietf-ccwg-bbr-06: 2.77, 0.5, 0.90, 2, 2 %, 0.7, 0.15, to the nearest 2^-16 */
#define nw_bbr_DEFAULTS {						\
	.variant = NW_BBR_DRAFT_06,					\
	.settled = NW_BBR_DRAFT_06,					\
	.startup_gain = 181535,						\
	.drain_gain = 32768,						\
	.down_gain = 58982,						\
	.startup_cwnd_gain = 131072,					\
	.loss_thresh = 1311,						\
	.kept = 45875,							\
	.headroom = 9830,						\
}

#define nw_bbr_OPTIONS(P)						\
	NW_VARIANT(P, "variant", variant, "v1 linux-v3 draft-06",	\
		   "the state of BBR")					\
	NW_CHOICE(P, "ecn", ecn, "off on",				\
		  "whether it asks for and reacts to marks of a shallow threshold")

/* The constants of a variant: Linux v6.17 net/ipv4/tcp_bbr.c; google/bbr, branch v3,
 * the same file; the draft.
 */
static inline const char *nw_bbr_settle(struct nw_bbr_params *p)
{
	const struct nw_bbr_params draft = nw_bbr_DEFAULTS;
	u32 ecn = p->ecn;

	if (p->settled != p->variant) {
		u32 variant = p->variant;

		*p = draft;
		p->ecn = ecn;
		p->variant = variant;
		p->settled = variant;
		if (variant == NW_BBR_V1) {
			p->startup_gain = NW_BBR_LINUX(256 * 2885 / 1000 + 1);
			p->startup_cwnd_gain = p->startup_gain;
			p->drain_gain = NW_BBR_LINUX(256 * 1000 / 2885);
			p->down_gain = NW_BBR_V1_DOWN_GAIN;
		} else if (variant == NW_BBR_LINUX_V3) {
			p->startup_gain = NW_BBR_LINUX(256 * 277 / 100 + 1);
			p->drain_gain = NW_BBR_LINUX(256 * 1000 / 2885);
			p->down_gain = NW_BBR_LINUX(256 * 91 / 100);
			p->loss_thresh = NW_BBR_LINUX(256 * 2 / 100);
			p->kept = NW_BBR_LINUX(256 - 256 * 30 / 100);
			p->headroom = NW_BBR_LINUX(256 * 15 / 100);
		}
	}
	if (p->ecn && p->variant != NW_BBR_LINUX_V3)
		return "`ecn off`: variants v1 and draft-06 have no reaction to marks; "
		       "name `variant linux-v3`";
	return 0;
}

static inline u32 nw_bbr_needs(const struct nw_bbr_params *p)
{
	return p->ecn ? NW_NEEDS_ECN | NW_NEEDS_ACCECN : 0;
}

/* A maximum over a window: the best, the best since it, and the best since that
 * (lib/win_minmax.c of Linux has K. Nichols' algorithm).
 */
struct nw_bbr_max {
	u32 at[3];
	u32 value[3];
};

struct nw_bbr_mark {
	u32 delivered;		/* when this was lost */
	u32 lost;		/* in total then */
};

enum nw_bbr_startup_exit {
	NW_BBR_BY_PLATEAU = 1,
	NW_BBR_BY_LOSSES = 2,
	NW_BBR_BY_MARKS = 3,
};

enum nw_bbr_drain_exit {
	NW_BBR_BY_FLIGHT = 1,	/* the queue is empty */
	NW_BBR_BY_ROUNDS = 2,
};

/* What has happened, for reports. */
struct nw_bbr_counts {
	u32 up_plateaus;	/* probes that ended as the rate no longer grew */
	u32 up_losses;		/* ... for losses or marks */
	u32 up_stops;		/* ... at the bound that the one before had set */
	u32 late_downs;		/* DOWN that lasted to the next probe */
	u32 probe_rtts;
	u32 early_probe_rtts;	/* in Startup */
	u32 undone;		/* losses that were none */
	u8 startup_exit;	/* enum nw_bbr_startup_exit; 0: not yet */
	u8 drain_exit;		/* enum nw_bbr_drain_exit */
};

struct nw_bbr {
	struct nw_bbr_counts counts;
	u64 min_rtt_stamp_us;
	u64 probe_rtt_min_stamp_us;
	u64 probe_rtt_done_us;	/* 0: in flight is still too much */
	u64 cycle_us;		/* start of the phase */
	u64 epoch_us;		/* start of an interval of aggregation */
	u32 min_rtt_us;		/* NW_NONE before the first sample */
	u32 probe_rtt_min_us;
	u32 round_count;
	u32 next_round;		/* delivered at the end of the round */
	u32 prior_cwnd;
	u32 full_bw;
	u32 epoch_acked;
	u32 mss;		/* of the last ACK */
	u32 burst;		/* segments that leave at once, at ... */
	u32 burst_mss;
	u32 burst_rtt_us;
	u64 burst_rate;
	u64 paced;		/* rate of the product paced_bw paced_gain */
	u32 paced_bw;
	u32 paced_gain;
	u32 paced_mss;
	u32 pacing_gain;	/* those in force */
	u32 cwnd_gain;
	u32 init_cwnd;
	u32 extra_acked[2];	/* Linux: of the last rounds, and of those before */
	struct nw_bbr_max extra_max;	/* draft */
	u8 phase;		/* enum nw_bbr_phase */
	u8 prev_ca_state;	/* enum nw_ca_state */
	u8 round_start;
	u8 idle_restart;
	u8 probe_rtt_round_done;
	u8 full_bw_reached;
	u8 full_bw_count;
	u8 has_seen_rtt;
	u8 extra_rounds;
	u8 extra_at;
	/* v1 */
	u8 packet_conservation;
	u8 cycle_at;		/* place in the cycle of gains */
	u8 lt_is_sampling;
	u8 lt_use_bw;
	u8 lt_rounds;
	/* linux-v3 and draft-06 */
	u8 full_bw_now;
	u8 ack_phase;		/* enum nw_bbr_ack_phase */
	u8 up_rounds;
	u8 rounds_since_probe;
	u8 is_probe_sample;	/* ACKs are of data sent while probing */
	u8 prev_probe_too_high;
	u8 precautionary;	/* the last probe stopped at inflight_hi */
	u8 loss_round_start;
	u8 loss_in_round;
	u8 loss_events;		/* ACKs that found losses, in this round */
	u8 undo_phase;		/* draft: the phase that losses ended; NW_BBR_NO_PHASE */
	u8 ecn_eligible;
	u8 ecn_in_round;
	u8 ecn_in_cycle;
	u8 loss_in_cycle;
	u8 ecn_rounds;
	u8 marks_at;		/* the oldest of marks */
	u8 marks_count;
	union {
		struct {	/* v1 */
			struct nw_bbr_max bw_max;
			u64 lt_since_us;
			u32 lt_bw;
			u32 lt_delivered;
			u32 lt_lost;
		};
		struct {
			u32 bw_hi[2];	/* of the last cycle, and of this */
			u32 bw_lo;	/* NW_NONE: not set */
			u32 bw_latest;
			u32 inflight_latest;
			u32 inflight_hi;	/* inflight_longterm of the draft */
			u32 inflight_lo;	/* inflight_shortterm */
			u32 loss_round;	/* delivered at the end of the loss round */
			u32 up_count;	/* segments per increment of inflight_hi */
			u32 up_acked;
			u32 probe_wait_us;
			u32 drain_round;	/* round_count on entering Drain */
			u32 undo_bw_lo;
			u32 undo_inflight_lo;
			u32 undo_inflight_hi;
			u32 seen_lost;	/* of the facts, at the last ACK */
			u32 lost_at_send;	/* ... when the sampled segment left */
			u32 ecn_alpha;	/* 2^-16 */
			u32 ce_ratio;	/* of the round that ended last, 2^-16 */
			u32 round_delivered;	/* at its end */
			u32 round_ce;
			struct nw_bbr_mark marks[NW_BBR_MARKS];
		};
	};
};

/* What holds while a hook runs: of the ACK, and what is being decided. */
struct nw_bbr_now {
	u64 us;
	u64 rate;		/* pacing rate, bytes/s */
	u32 cwnd;
	u32 sample;		/* delivery rate of the ACK; 0 if it has none */
	u32 in_flight;
	u32 tx_in_flight;	/* in flight when the sampled segment left */
	u32 lost;		/* lost since */
	u32 ssthresh;		/* 0: stays */
	u32 app_limited;	/* the connection is to count as application-limited */
};

static inline int nw_bbr_is_draft(const struct nw_bbr_params *p)
{
	return p->variant == NW_BBR_DRAFT_06;
}

static inline int nw_bbr_in_probe_bw(const struct nw_bbr *ca)
{
	return ca->phase >= NW_BBR_DOWN && ca->phase <= NW_BBR_UP;
}

/* A random number below n. */
static inline u32 nw_bbr_random(const struct nw_facts *f, u32 n)
{
	return (u32)(((u64)f->random * n) >> 32);
}

#endif /* NW_BBR_STATE_H */
