/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What DA-LBE reports of itself: of the last interval, unless it says otherwise. From
 * one interval to the next it is all that the law in double precision needs (src/dalbe.rs).
 */
#ifndef NW_DALBE_REPORT_H
#define NW_DALBE_REPORT_H

/* After a first interval. */
#define NW_DALBE_TOLD(value)	(ca->intervals ? (s64)(value) : NW_UNKNOWN)
/* bytes/s as bits/s */
#define NW_DALBE_BITS(rate)	(8 * nw_min64(rate, 1ULL << 59))

/* What Linux has before a first one, TCP_INFINITE_SSTHRESH, and more. */
#define NW_DALBE_NO_SSTHRESH	0x7fffffffU

/* The thesis's five graphs of a transfer (4.7.1). */
#define NW_DALBE_WEIGHTS	"weight, phi and losses ignored"
#define NW_DALBE_RATES		"target and achieved rate"
#define NW_DALBE_PRICES		"congestion price, measured and modelled"
#define NW_DALBE_TRIPS		"round trips of an interval"
#define NW_DALBE_WINDOW		"congestion window and slow start threshold"
#define NW_DALBE_OTHERS		"share of packets that waited for others"

#define nw_dalbe_TELEMETRY(FIELD)					\
	FIELD("w", "", 1ULL << 30, ca->seen.law.w,			\
	      "weight: 0.05 a scavenger, 1 best effort", NW_DALBE_WEIGHTS) \
	FIELD("mu", "", 1 << 16, nw_dalbe_mu(&ca->seen.law, &p->rules),	\
	      "w phi, where the price fades w phi / (1 - w): it counts 1 / mu times") \
	FIELD("phi", "", 1 << 16, ca->seen.law.phi,			\
	      "how much more the price takes off a window than CUBIC's", \
	      NW_DALBE_WEIGHTS)						\
	FIELD("ignored", "", 1ULL << 32, ca->seen.law.ignored,		\
	      "share of losses that are ignored", NW_DALBE_WEIGHTS)	\
	FIELD("target", "mbit", 1000000,				\
	      NW_DALBE_TOLD(NW_DALBE_BITS(ca->seen.law.target)),	\
	      "rate at which what remains is delivered by the deadline", \
	      NW_DALBE_RATES)						\
	FIELD("achieved", "mbit", 1000000,				\
	      NW_DALBE_TOLD(NW_DALBE_BITS(ca->seen.law.achieved)),	\
	      "rate of the last interval", NW_DALBE_RATES)		\
	FIELD("behind", "mbit", 1000000, NW_DALBE_TOLD(nw_dalbe_behind(ca)), \
	      "target less achieved rate", NW_DALBE_RATES)		\
	FIELD("error", "", 1ULL << 30, NW_DALBE_TOLD(ca->seen.law.error), \
	      "the policy's error")					\
	FIELD("price", "", 1ULL << 40, NW_DALBE_TOLD(ca->seen.law.price), \
	      "congestion price, seconds or a probability", \
	      NW_DALBE_PRICES)						\
	FIELD("model_price", "", 1ULL << 40,				\
	      NW_DALBE_TOLD(ca->seen.law.model),			\
	      "price at which the control below sends the target rate",	\
	      NW_DALBE_PRICES)						\
	FIELD("mean_rtt", "ms", 1000,					\
	      ca->seen.mean_us ? (s64)ca->seen.mean_us : NW_UNKNOWN,	\
	      "mean round trip of the last interval", NW_DALBE_TRIPS)	\
	FIELD("smoothed_rtt", "ms", 1000, NW_DALBE_TOLD(ca->seen.srtt_us),	\
	      "smoothed round trip at its end", NW_DALBE_TRIPS)		\
	FIELD("least_rtt", "ms", 1000,					\
	      ca->seen.base_us == NW_NONE ? NW_UNKNOWN :		\
	      (s64)ca->seen.base_us, "least round trip of the connection", \
	      NW_DALBE_TRIPS)						\
	FIELD("cwnd", "segments", 1, NW_DALBE_TOLD(ca->cwnd),		\
	      "congestion window at its end", NW_DALBE_WINDOW)		\
	FIELD("ssthresh", "segments", 1,				\
	      ca->intervals && ca->ssthresh < NW_DALBE_NO_SSTHRESH ?	\
	      (s64)ca->ssthresh : NW_UNKNOWN,				\
	      "slow start threshold at its end", NW_DALBE_WINDOW)	\
	FIELD("sum", "", 1 << 16, NW_DALBE_TOLD(ca->seen.law.sum),	\
	      "PID's sum of errors, seconds")				\
	FIELD("bias", "", 1 << 16, ca->seen.law.bias,			\
	      "what the model is multiplied by")			\
	FIELD("learns", "", 1 << 16, NW_DALBE_TOLD(ca->seen.law.learns),	\
	      "how much of an excess the bias learns, of what it does of a lack") \
	FIELD("busy", "", 1 << 16,					\
	      ca->seen.others.share,					\
	      "share of packets that waited for others', when last judged", \
	      NW_DALBE_OTHERS)						\
	FIELD("held_to", "segments", 1,					\
	      ca->seen.others.cap ? (s64)ca->seen.others.cap : NW_UNKNOWN, \
	      "window that others leave by the deadline", NW_DALBE_WINDOW) \
	FIELD("free", "", 1, ca->seen.others.free,			\
	      "intervals for which it is not held any more, as nobody else was found") \
	FIELD("losses", "", 1, ca->seen.losses,				\
	      "reductions that the next phi is computed from")		\
	FIELD("intervals", "", 1, ca->intervals, "intervals that have passed") \
	FIELD("interval", "s", 1000000, NW_DALBE_TOLD(ca->last.took_us), \
	      "length of the last one")					\
	FIELD("interval_bytes", "", 1, NW_DALBE_TOLD(ca->last.bytes),	\
	      "bytes acknowledged in the last one")			\
	FIELD("remaining", "bytes", 1, ca->last.remaining,		\
	      "bytes to be delivered, at its end")			\
	FIELD("left", "s", 1000000, ca->last.left_us,			\
	      "time to the deadline, at its end")			\
	FIELD("finish", "s", 1000000, nw_dalbe_finish(ca),		\
	      "when all is delivered if the rate stays, after the start") \
	FIELD("reach", "mbit", 1000000,					\
	      ca->mean_w > 1 ? (s64)NW_DALBE_BITS(nw_dalbe_reach(ca)) : NW_UNKNOWN, \
	      "rate at best effort, as reckoned from mean rate and mean weight") \
	FIELD("short_of", "", 1, ca->short_of,				\
	      "intervals in which that was less than is needed, and none between in which it was not: 6 mean that the deadline is out of reach") \
	FIELD("out_of_reach", "s", 1000,				\
	      ca->out_of_reach_ms ? (s64)ca->out_of_reach_ms : NW_UNKNOWN, \
	      "when the deadline was first found to be out of reach, after the start")

#endif /* NW_DALBE_REPORT_H */
