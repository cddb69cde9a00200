/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What Narrows keeps beside a socket that is not its algorithm's, and what it
 * reports of one to the loader.
 */
#ifndef NW_PER_SOCKET_H
#define NW_PER_SOCKET_H

#include "kernel.h"

struct nw_socket {
	u64 sampled_ns;		/* last state sample */
	u32 id;			/* counts the sockets of one registered control */
	u32 ect1;		/* its packets are to carry ECT(1) */
	u32 ce_state;		/* DCTCP-style feedback: the last packet had CE */
	u32 prior_rcv_nxt;	/* ... and rcv_nxt before it */
};

#endif /* NW_PER_SOCKET_H */
