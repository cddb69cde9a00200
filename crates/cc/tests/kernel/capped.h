/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A wrapper of tests: CUBIC that is shown a smaller clamp than its socket has, so
 * that its window does not pass `cap`, with CUBIC's plateau as telemetry.
 */
#ifndef NW_CAPPED_H
#define NW_CAPPED_H

#include "cubic.h"
#include "nest.h"

#define nw_capped_MODE	NW_MODE_WINDOW

struct nw_capped {
	NW_STATE(cubic) inner;
	struct nw_facts view;
};

struct nw_capped_params {
	NW_PARAMS(cubic) inner;
	u32 cap;
};
#define nw_capped_DEFAULTS	{ .inner = nw_cubic_DEFAULTS, .cap = 20 }
#define nw_capped_OPTIONS(P)						\
	NW_NUMBER(P, "cap", cap, 2, NW_NONE, "segments of window at most") \
	NW_NUMBER(P, "beta", inner.beta, 1, 1023, "CUBIC's, of 1024")
#define nw_capped_TELEMETRY(FIELD)					\
	FIELD("plateau", "packets", 1, ca->inner.last_max,		\
	      "window at the last reduction, as CUBIC remembers it")

static inline void nw_capped_view(struct nw_capped *ca,
				  const struct nw_capped_params *p,
				  const struct nw_facts *f,
				  struct nw_facts *view)
{
	(void)ca;
	if (!f->cwnd_clamp || f->cwnd_clamp > p->cap)
		view->cwnd_clamp = p->cap;
}

NW_NEST(capped, cubic)
NW_NEST_TIMER(capped, cubic)
NW_NEST_NEEDS(capped, cubic)
NW_NEST_SETTLE(capped, cubic)

#endif /* NW_CAPPED_H */
