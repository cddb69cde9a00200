/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What a congestion control reports to user space through its ring buffer. Read by
 * src/record.rs, which lists the same fields in the same order.
 */
#ifndef NW_RECORD_H
#define NW_RECORD_H

#include "kernel.h"

enum nw_hook {
	NW_HOOK_INIT = 0,
	NW_HOOK_RELEASE = 1,
	NW_HOOK_SSTHRESH = 2,
	NW_HOOK_UNDO_CWND = 3,
	NW_HOOK_SET_STATE = 4,
	NW_HOOK_CWND_EVENT = 5,
	NW_HOOK_IN_ACK_EVENT = 6,
	NW_HOOK_PKTS_ACKED = 7,
	NW_HOOK_CONG_AVOID = 8,
	NW_HOOK_CONG_CONTROL = 9,
	NW_HOOK_TIMER = 10,	/* the algorithm's own */
};

enum nw_trace {
	NW_TRACE_OFF = 0,
	NW_TRACE_STATE = 1,
	NW_TRACE_FULL = 2,
};

#define NW_SAMPLE_NS	1000000ULL	/* at most one record per ms of a socket's ACKs */

/* Fields of the socket as they are, from which some facts were computed. */
struct nw_raw {
	u64 mstamp_us;		/* tcp_mstamp */
	u64 ktime_ns;		/* CLOCK_MONOTONIC when the hook ran */
	u32 write_seq;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 max_packets_out;
	u32 received_ce;
	u32 idle_jiffies;	/* since lsndtime */
	u32 hz;
	u16 local_port;
	u16 remote_port;
	u16 tcp_header_len;
	u16 net_header_len;	/* extension headers included */
	u8 is_cwnd_limited;
	u8 ecn_flags;
	u16 unused;
	u32 unused2;
};
_Static_assert(sizeof(struct nw_raw) == 64, "layout of nw_raw");

/* Behind it stands what the algorithm reports after the hook: an s64 for each of its
 * fields, in their order.
 */
struct nw_record {
	u32 sample;		/* 1: a sample of the state, 0: a hook's call */
	u32 hook;		/* enum nw_hook */
	u32 socket;
	u32 argument;		/* new state, event, segments acked */
	u32 answer;		/* of ssthresh and undo_cwnd */
	u32 unused;
	struct nw_raw raw;
	struct nw_facts facts;
	struct nw_decision decision;
};
_Static_assert(sizeof(struct nw_record) == 256, "layout of nw_record");
_Static_assert(__builtin_offsetof(struct nw_record, facts) == 88, "facts");

#endif /* NW_RECORD_H */
