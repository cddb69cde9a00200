/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/* DA-LBE over Reno: the price is the probability that a packet brings a reduction. */
#ifndef NW_MODEL_RENO_H
#define NW_MODEL_RENO_H

#include "dalbe_model.h"
#include "reno.h"

#define nw_model_reno_OPTIONS(P)
#define nw_model_reno_DEFAULTS	nw_reno_DEFAULTS

NW_MODEL_OF_EVENTS(reno)
NW_MODEL_TENTHS(reno, NW_DALBE_RENO_TENTHS)

static inline u64 nw_model_reno_invert(const struct nw_reno_params *q,
				       const struct nw_dalbe_seen *s, u64 target)
{
	(void)q;
	return nw_dalbe_reno_price(nw_dalbe_packets(s, target));
}

#endif /* NW_MODEL_RENO_H */
