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

#define nw_dalbe_TELEMETRY(FIELD)					\
	FIELD("w", "", 1ULL << 30, ca->seen.law.w,			\
	      "weight: 0.05 a scavenger, 1 best effort")		\
	FIELD("mu", "", 1 << 16, ca->seen.law.mu,			\
	      "w phi: the congestion price counts 1 / mu times")	\
	FIELD("phi", "", 1 << 16, ca->seen.law.phi,			\
	      "how much more the price takes off a window than CUBIC's") \
	FIELD("ignored", "", 1ULL << 32, ca->seen.law.ignored,		\
	      "share of losses that are ignored")			\
	FIELD("target", "mbit", 1000000,				\
	      NW_DALBE_TOLD(NW_DALBE_BITS(ca->seen.law.target)),	\
	      "rate at which what remains is delivered by the deadline") \
	FIELD("achieved", "mbit", 1000000,				\
	      NW_DALBE_TOLD(NW_DALBE_BITS(ca->seen.law.achieved)),	\
	      "rate of the last interval")				\
	FIELD("error", "", 1ULL << 30, NW_DALBE_TOLD(ca->seen.law.error), \
	      "the policy's error")					\
	FIELD("price", "", 1ULL << 40, NW_DALBE_TOLD(ca->seen.law.price), \
	      "congestion price of the last interval, seconds or a probability") \
	FIELD("model_price", "", 1ULL << 40,				\
	      NW_DALBE_TOLD(ca->seen.law.model),			\
	      "price at which the control below sends the target rate")	\
	FIELD("mean_rtt", "ms", 1000,					\
	      ca->seen.mean_us ? (s64)ca->seen.mean_us : NW_UNKNOWN,	\
	      "mean round trip of the last interval")			\
	FIELD("least_rtt", "ms", 1000,					\
	      ca->seen.base_us == NW_NONE ? NW_UNKNOWN :		\
	      (s64)ca->seen.base_us, "least round trip of the connection") \
	FIELD("sum", "", 1 << 16, NW_DALBE_TOLD(ca->seen.law.sum),	\
	      "PID's sum of errors, seconds")				\
	FIELD("bias", "", 1 << 16, ca->seen.law.bias,			\
	      "what the model is multiplied by")			\
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
	FIELD("short_of", "", 1, ca->short_of,				\
	      "intervals in a row at w = 1 and below the target: 3 mean that the deadline is out of reach")

#endif /* NW_DALBE_REPORT_H */
