/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A control of tests that uses all that one can declare: 300 bytes of state, an
 * option that is set while it runs, a timer, two fields of telemetry. Its window is
 * Reno's below a ceiling; every period it notes what was delivered.
 */
#ifndef NW_ROOMY_H
#define NW_ROOMY_H

#include "reno.h"

#define nw_roomy_MODE	NW_MODE_WINDOW

#define NW_ROOMY_PERIODS	64U	/* a power of 2 */

struct nw_roomy {
	struct nw_reno reno;
	u32 delivered;		/* at the end of the last period */
	u64 due_ns;
	u32 periods;
	u32 noted;		/* sum of the history, segments */
	u32 history[NW_ROOMY_PERIODS];	/* segments delivered in each */
	u32 mss;
	u32 spare[4];
};
_Static_assert(sizeof(struct nw_roomy) >= 300, "beyond icsk_ca_priv");

struct nw_roomy_params {
	struct nw_reno_params reno;
	u32 ceiling;
	u32 period_us;
};
#define nw_roomy_DEFAULTS	{ .ceiling = NW_NONE, .period_us = 100000 }
#define nw_roomy_OPTIONS(P)						\
	NW_NUMBER(P, "ceiling", ceiling, 2, NW_NONE,			\
		  "segments of window at most")				\
	NW_TIME(P, "period", period_us, 1000, 10000000,			\
		"the time after which it notes what was delivered")

/* kbit/s: a sum of bytes over so many periods of microseconds, times 8000 */
static inline u64 nw_roomy_rate(const struct nw_roomy *ca,
				const struct nw_roomy_params *p)
{
	u64 us = (u64)nw_min(ca->periods, NW_ROOMY_PERIODS) * p->period_us;

	return us ? 8000ULL * ca->noted * ca->mss / us : 0;
}

#define nw_roomy_TELEMETRY(FIELD)					\
	FIELD("periods", "", 1, ca->periods, "periods that have passed") \
	FIELD("noted", "mbit", 1000,					\
	      ca->periods ? (s64)nw_roomy_rate(ca, p) : NW_UNKNOWN,	\
	      "rate over the periods that it remembers")

static inline void nw_roomy_init(struct nw_roomy *ca,
				 const struct nw_roomy_params *p,
				 const struct nw_facts *f,
				 struct nw_decision *d)
{
	(void)d;
	ca->delivered = f->delivered;
	ca->mss = f->mss;
	ca->due_ns = f->now_ns + 1000ULL * p->period_us;
}

static inline void nw_roomy_release(struct nw_roomy *ca)
{
	(void)ca;
}

static inline u32 nw_roomy_ssthresh(struct nw_roomy *ca,
				    const struct nw_roomy_params *p,
				    const struct nw_facts *f)
{
	return nw_reno_ssthresh(&ca->reno, &p->reno, f);
}

static inline u32 nw_roomy_undo_cwnd(struct nw_roomy *ca,
				     const struct nw_roomy_params *p,
				     const struct nw_facts *f)
{
	return nw_reno_undo_cwnd(&ca->reno, &p->reno, f);
}

NW_NO_HOOK_WITH(roomy, set_state, u8)
NW_NO_HOOK_WITH(roomy, cwnd_event, u32)
NW_NO_ACK_HOOK(roomy)
NW_NO_HOOK(roomy, pkts_acked)

static inline void nw_roomy_cong_avoid(struct nw_roomy *ca,
				       const struct nw_roomy_params *p,
				       const struct nw_facts *f, u32 acked,
				       struct nw_decision *d)
{
	nw_reno_cong_avoid(&ca->reno, &p->reno, f, acked, d);
	if (d->set & NW_SET_CWND)
		nw_set_cwnd(d, nw_min(d->cwnd, p->ceiling));
}

NW_NO_HOOK(roomy, cong_control)
NW_NO_TSO_LIMIT(roomy)
NW_NO_NEEDS(roomy)
NW_NO_SETTLE(roomy)

NW_HAS_TIMER(roomy)

static inline u64 nw_roomy_timer_at(const struct nw_roomy *ca,
				    const struct nw_roomy_params *p)
{
	(void)p;
	return ca->due_ns;
}

static inline void nw_roomy_timer(struct nw_roomy *ca,
				  const struct nw_roomy_params *p,
				  const struct nw_facts *f,
				  struct nw_decision *d)
{
	u32 *slot = &ca->history[ca->periods & (NW_ROOMY_PERIODS - 1)];

	ca->noted -= *slot;
	*slot = f->delivered - ca->delivered;
	ca->noted += *slot;
	ca->delivered = f->delivered;
	ca->periods++;
	ca->due_ns = f->now_ns + 1000ULL * p->period_us;
	if (f->cwnd > p->ceiling)
		nw_set_cwnd(d, p->ceiling);
}

#endif /* NW_ROOMY_H */
