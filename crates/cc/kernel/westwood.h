/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Westwood+: grows as Reno; after congestion the window is what the estimated
 * bandwidth fills over the smallest round trip. L. Grieco, S. Mascolo, "Performance
 * evaluation and comparison of Westwood+, New Reno and Vegas TCP congestion control",
 * CCR 34(2), 2004, with the rules of Linux net/ipv4/tcp_westwood.c, v6.17.
 *
 * A sample of bandwidth is what was acknowledged over the last round trip, 50 ms at
 * least, and goes through two low-pass filters of gain 1/8. After a timeout the
 * smallest round trip is found anew.
 *
 * Deviations: times are microseconds where Linux has ticks, so that its rates, bytes
 * per tick, are here bytes/s; and what an ACK acknowledges is counted in segments
 * delivered, where Linux reckons them from the acknowledgement number.
 */
#ifndef NW_WESTWOOD_H
#define NW_WESTWOOD_H

#include "reno.h"

#define nw_westwood_MODE	NW_MODE_WINDOW

#define NW_WESTWOOD_LEAST_US	50000U		/* a sample: TCP_WESTWOOD_RTT_MIN */
#define NW_WESTWOOD_FIRST_US	20000000U	/* RTT at first: TCP_WESTWOOD_INIT_RTT */
#define NW_WESTWOOD_MIN		2U		/* segments */

struct nw_westwood {
	u64 since_ns;		/* start of the sample; 0 before the first ACK */
	u64 once;		/* bytes/s, after the first filter */
	u64 twice;		/* bytes/s, after both: the estimate */
	u32 delivered;		/* at the start of the sample */
	u32 rtt_us;		/* the last one */
	u32 least_rtt_us;
	u8 forget_rtt;		/* the next round trip is the smallest */
	u8 has_sample;
};

struct nw_westwood_params {
	u32 unused;
};
#define nw_westwood_DEFAULTS	{ 0 }
#define nw_westwood_OPTIONS(P)
#define nw_westwood_TELEMETRY(FIELD)					\
	FIELD("bandwidth", "mbit", 125000, ca->has_sample ?		\
	      (s64)nw_min64(ca->twice, ~0ULL >> 1) : NW_UNKNOWN,	\
	      "bandwidth, as the sender estimates it")

static inline void nw_westwood_init(struct nw_westwood *ca,
				    const struct nw_westwood_params *p,
				    const struct nw_facts *f,
				    struct nw_decision *d)
{
	(void)p; (void)d;
	ca->since_ns = f->now_ns;
	ca->delivered = f->delivered;
	ca->once = 0;
	ca->twice = 0;
	ca->rtt_us = NW_WESTWOOD_FIRST_US;
	ca->least_rtt_us = NW_WESTWOOD_FIRST_US;
	ca->forget_rtt = 1;
	ca->has_sample = 0;
}

static inline void nw_westwood_release(struct nw_westwood *ca)
{
	(void)ca;
}

/* westwood_filter(): 7/8 of what was and 1/8 of what is. */
static inline u64 nw_westwood_low_pass(u64 was, u64 is)
{
	return was - (was >> 3) + (is >> 3);
}

/* Bandwidth by the smallest round trip, in segments. */
static inline u32 nw_westwood_window(const struct nw_westwood *ca,
				     const struct nw_facts *f)
{
	/* rates below 2^40 bytes/s, round trips below 2^24 us */
	u64 bytes = nw_min64(ca->twice, 1ULL << 39) *
		    nw_min(ca->least_rtt_us, NW_WESTWOOD_FIRST_US) / 1000000;
	u64 window = bytes / nw_max(f->mss, 1);

	return (u32)nw_max64(nw_min64(window, ~0U >> 1), NW_WESTWOOD_MIN);
}

NW_NO_HOOK_WITH(westwood, set_state, u8)

static inline u32 nw_westwood_ssthresh(struct nw_westwood *ca,
				       const struct nw_westwood_params *p,
				       const struct nw_facts *f)
{
	(void)ca; (void)p;
	return nw_max(f->cwnd >> 1, NW_RENO_SSTHRESH_MIN);
}

static inline u32 nw_westwood_undo_cwnd(struct nw_westwood *ca,
					const struct nw_westwood_params *p,
					const struct nw_facts *f)
{
	(void)ca; (void)p;
	return nw_max(nw_max(f->cwnd, f->prior_cwnd), 1);
}

/* tcp_westwood_event(): during the reduction it is Reno's, and at its end this. */
static inline void nw_westwood_cwnd_event(struct nw_westwood *ca,
					  const struct nw_westwood_params *p,
					  const struct nw_facts *f, u32 event,
					  struct nw_decision *d)
{
	(void)p;
	if (event == NW_EV_COMPLETE_CWR) {
		nw_set_ssthresh(d, nw_westwood_window(ca, f));
		nw_set_cwnd(d, nw_clamp_cwnd(f, nw_westwood_window(ca, f)));
	} else if (event == NW_EV_LOSS) {
		nw_set_ssthresh(d, nw_westwood_window(ca, f));
		ca->forget_rtt = 1;
	}
}

static inline void nw_westwood_in_ack_event(struct nw_westwood *ca,
					    const struct nw_westwood_params *p,
					    const struct nw_facts *f,
					    struct nw_decision *d)
{
	u64 us = (f->now_ns - ca->since_ns) / 1000;
	u64 rate;

	(void)p; (void)d;
	if (ca->rtt_us && us > nw_max(ca->rtt_us, NW_WESTWOOD_LEAST_US)) {
		rate = nw_mul_sat((u64)(f->delivered - ca->delivered) *
				  nw_min(f->mss, 0xffff), 1000000) / us;
		if (ca->has_sample) {
			ca->once = nw_westwood_low_pass(ca->once, rate);
			ca->twice = nw_westwood_low_pass(ca->twice, ca->once);
		} else {
			ca->once = rate;
			ca->twice = rate;
			ca->has_sample = 1;
		}
		ca->since_ns = f->now_ns;
		ca->delivered = f->delivered;
	}
	if (ca->forget_rtt) {
		ca->least_rtt_us = ca->rtt_us;
		ca->forget_rtt = 0;
	} else {
		ca->least_rtt_us = nw_min(ca->least_rtt_us, ca->rtt_us);
	}
}

static inline u32 nw_westwood_sees_acks(const struct nw_westwood_params *p)
{
	(void)p;
	return 1;
}

static inline void nw_westwood_pkts_acked(struct nw_westwood *ca,
					  const struct nw_westwood_params *p,
					  const struct nw_facts *f,
					  struct nw_decision *d)
{
	(void)p; (void)d;
	if (f->rtt_us)
		ca->rtt_us = f->rtt_us;
}

static inline void nw_westwood_cong_avoid(struct nw_westwood *ca,
					  const struct nw_westwood_params *p,
					  const struct nw_facts *f, u32 acked,
					  struct nw_decision *d)
{
	const struct nw_reno_params reno = nw_reno_DEFAULTS;

	(void)ca;
	(void)p;
	nw_reno_cong_avoid(0, &reno, f, acked, d);
}

NW_NO_HOOK(westwood, cong_control)
NW_NO_TSO_LIMIT(westwood)
NW_NO_TIMER(westwood)
NW_NO_NEEDS(westwood)
NW_NO_SETTLE(westwood)

#endif /* NW_WESTWOOD_H */
