/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The native table of an algorithm: its hooks behind untyped pointers. `ca`
 * points to 104 zeroed bytes aligned to 8, `p` to the algorithm's parameters.
 */
#ifndef NW_NATIVE_H
#define NW_NATIVE_H

#include "nw_cc.h"
#include "cubic.h"
#include "prague.h"
#include "reno.h"

struct nw_ops {
	void (*init)(void *ca, const void *p, const struct nw_facts *f,
		     struct nw_decision *d);
	void (*release)(void *ca);
	u32 (*ssthresh)(void *ca, const void *p, const struct nw_facts *f);
	u32 (*undo_cwnd)(void *ca, const void *p, const struct nw_facts *f);
	void (*set_state)(void *ca, const void *p, const struct nw_facts *f,
			  u32 new_state, struct nw_decision *d);
	void (*cwnd_event)(void *ca, const void *p, const struct nw_facts *f,
			   u32 event, struct nw_decision *d);
	void (*in_ack_event)(void *ca, const void *p, const struct nw_facts *f,
			     struct nw_decision *d);
	void (*pkts_acked)(void *ca, const void *p, const struct nw_facts *f,
			   struct nw_decision *d);
	void (*cong_avoid)(void *ca, const void *p, const struct nw_facts *f,
			   u32 acked, struct nw_decision *d);
	void (*cong_control)(void *ca, const void *p, const struct nw_facts *f,
			     struct nw_decision *d);
	u32 (*alpha)(const void *ca, const void *p);
	u32 (*max_tso_segs)(const void *ca, const void *p);
	u32 mode;		/* enum nw_mode */
	u32 state_size;		/* bytes */
	u32 params_size;	/* bytes */
	u32 unused;
};

extern const struct nw_ops nw_ops_cubic;
extern const struct nw_ops nw_ops_prague;
extern const struct nw_ops nw_ops_reno;

#endif /* NW_NATIVE_H */
