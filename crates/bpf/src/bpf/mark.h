/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What the marking programs and their loader exchange. Read by
 * src/signal_program.rs and tests/recorded/marks.rs, which list the same fields in the same order.
 */
#ifndef NW_MARK_H
#define NW_MARK_H

#include "flow.h"

/* A connection as the host names it: its own end first. Addresses of IPv4 as
 * ::ffff:a.b.c.d, all in network order, the ports as well.
 */
struct nw_mark_key {
	u64 local[2];
	u64 remote[2];
	union {
		struct {
			u16 local_port;
			u16 remote_port;
		};
		u32 ports;	/* both, to compare */
	};
	u32 unused;
};
_Static_assert(sizeof(struct nw_mark_key) == 40, "layout of nw_mark_key");

enum nw_mark_filter {
	NW_MARK_HOST = 1,	/* one end is at `host` */
	NW_MARK_PORT = 2,	/* one end has one of `ports` */
};

/* Set before loading, never written. */
struct nw_mark_settings {
	struct nw_efm_params params;
	u32 net_at;		/* bytes before the network header */
	u32 filter;		/* enum nw_mark_filter */
	u64 host[2];		/* as in nw_mark_key */
	u64 seeds[3];		/* odd, of the hash; others each time */
	u32 trace;		/* 1: a record of every packet of a marked flow */
	u32 needs_socket;	/* 1: L or E */
	u64 ports[1024];	/* a bit for each, as it stands in nw_mark_key */
};
_Static_assert(__builtin_offsetof(struct nw_mark_settings, ports) == 80, "ports");

/* One of each CPU. */
struct nw_mark_counters {
	u64 flows;		/* connections that began */
	u64 announced;		/* SYNs and SYN-ACKs with a code other than 000 */
	u64 marked;		/* packets that signals were written into */
	u64 set[NW_EFM_PLACES];	/* of these, with the signal's bit set */
	u64 segmented;		/* packets to be cut in several, without marks */
	u64 segments;		/* what becomes of them on the wire */
	u64 without_socket;	/* SYNs that no socket here sent, with L or E */
	u64 refused;		/* packets that the kernel would not let change */
	u64 untraced;		/* records that the ring buffer had no room for */
	u64 passed_over;	/* leaving segments of connections without marks */
	u64 other;		/* what leaves and is no whole TCP segment */
	u64 evicted;		/* connections that had to make room */
};
_Static_assert(sizeof(struct nw_mark_counters) == 152, "layout of counters");

enum nw_mark_direction {
	NW_MARK_OUT = 0,
	NW_MARK_IN = 1,
};

/* A packet and what was decided, for a replay. */
struct nw_mark_record {
	struct nw_efm_packet packet;
	struct nw_mark_key key;
	u32 direction;		/* enum nw_mark_direction */
	u32 write;		/* NW_EFM_WRITE */
};
_Static_assert(sizeof(struct nw_mark_record) == 96, "layout of nw_mark_record");

#endif /* NW_MARK_H */
