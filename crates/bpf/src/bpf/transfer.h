/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A transfer by a deadline over the connections of a control group: what user space
 * sets, what the programs count. Read and written by src/transfer.rs.
 */
#ifndef NW_TRANSFER_H
#define NW_TRANSFER_H

#include "kernel.h"

/* Written by user space, before the programs are attached and then before each pass. */
struct nw_goal {
	u64 deadline_ns;	/* CLOCK_MONOTONIC */
	u64 size;		/* bytes of all connections; 0 = unknown */
	u64 recent;		/* sum of what the last pass found sent */
	u32 senders;		/* in the last pass */
	u32 first_weight;	/* of 1000: of connections that begin */
};
_Static_assert(sizeof(struct nw_goal) == 32, "layout of nw_goal");

/* Counted by the programs; sums of a pass are what it adds. */
struct nw_tally {
	u64 acked;		/* bytes that peers acknowledged, of this transfer */
	u64 received;		/* bytes that peers sent */
	u64 opened;		/* connections that became part of it */
	u64 closed;
	u64 refused;		/* connections that could not */
	u64 connections;	/* pass: all of them */
	u64 senders;		/* pass: those with something to send */
	u64 recent;		/* pass: what they sent, decaying */
	u64 weighed;		/* pass: recent times the weight, 2^-16 */
	u64 short_of;		/* pass: senders for which the deadline is out of reach */
	u64 limited;		/* pass: senders that the window does not hold up */
	u64 plain;		/* pass: connections that gave way to Reno */
};

/* Of a connection. */
struct nw_member {
	u64 acked;		/* of which the tally knows */
	u64 received;
	u64 recent;
	u64 own_size;		/* set by the program itself; 0 = not set */
	u64 own_deadline_ns;
};

/* Passes are 250 ms apart: about two seconds are remembered. */
#define NW_RECENT	3	/* 2^-3 of what was sent is forgotten in each pass */

/*
 * What programs set and read on their own sockets: include/narrows_by.h of
 * crates/narrows, which says what each is.
 */
#define NW_SOL		0x4e57
#define NW_BY_DEADLINE	1	/* us from now */
#define NW_BY_SIZE	2	/* bytes of this connection */
#define NW_BY_STATUS	3

struct nw_by_status {
	u64 left_us;
	u64 remaining;
	u64 target;		/* bytes/s */
	u64 achieved;
	u32 weight;		/* of 1000 */
	u32 short_of;
};
_Static_assert(sizeof(struct nw_by_status) == 40, "layout of nw_by_status");

/* As options of the control have them (dalbe.h). */
#define NW_MOST_SIZE		(1ULL << 50)
#define NW_MOST_DEADLINE_US	31622400000000ULL

#endif /* NW_TRANSFER_H */
