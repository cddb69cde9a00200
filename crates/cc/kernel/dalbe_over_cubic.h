/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * DA-LBE over CUBIC: the price is the probability that a packet brings a reduction.
 * Its model is the greater of CUBIC's, of rate x = 1.054 / (RTT^1/4 p^3/4) packets/s
 * (RFC 8312 section 5.1 with C 0.4 and beta 0.7), and Reno's, which CUBIC follows
 * where that is faster: p = 1.0724 / (x W^1/3) of a window W = x RTT.
 */
#ifndef NW_MODEL_CUBIC_H
#define NW_MODEL_CUBIC_H

#include "cubic.h"
#include "dalbe_model.h"

#define NW_MODEL_CUBIC_SCALE	61112U	/* 1 / 1.0724, Q16.16 */

#define nw_model_cubic_OPTIONS(P)
#define nw_model_cubic_DEFAULTS	nw_cubic_DEFAULTS

NW_MODEL_OF_EVENTS(cubic)
NW_MODEL_TENTHS(cubic, NW_DALBE_CUBIC_TENTHS)

static inline u64 nw_model_cubic_invert(const struct nw_cubic_params *q,
					const struct nw_dalbe_seen *s, u64 target)
{
	u64 rate = nw_dalbe_packet_rate(s, target);
	u64 window = nw_dalbe_packets(s, target);
	/* packets between two reductions, 2^-16 */
	u64 apart = nw_min64(rate, 1ULL << 40) >> 8;

	(void)q;
	apart = (apart * nw_q16_cube_root(nw_q_of(window))) >> 8;
	apart = (nw_min64(apart, 1ULL << 44) * NW_MODEL_CUBIC_SCALE) >> NW_Q16;
	return nw_max64(nw_dalbe_ratio(1U << 16, nw_max64(apart, 1)),
			nw_dalbe_reno_price(window));
}

#endif /* NW_MODEL_CUBIC_H */
