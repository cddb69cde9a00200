/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What Narrows keeps beside a socket, and what it reports of one to the loader.
 * The algorithm's own state is in icsk_ca_priv, if it fits: it is at hand without a
 * lookup and zeroed by the kernel before init. Here is what is not the algorithm's.
 */
#ifndef NW_SOCKET_H
#define NW_SOCKET_H

#include "kernel.h"

struct nw_socket {
	u64 sampled_ns;		/* last state sample */
	u32 id;			/* counts the sockets of one loaded control */
	u32 ect1;		/* its packets are to carry ECT(1) */
	u32 ce_state;		/* DCTCP-style feedback: the last packet had CE */
	u32 prior_rcv_nxt;	/* ... and rcv_nxt before it */
};

/* Shared by all objects that one process loads. */
struct {
	NW_UINT(type, NW_MAP_SK_STORAGE);
	NW_UINT(map_flags, NW_NO_PREALLOC);
	NW_TYPE(key, int);
	NW_TYPE(value, struct nw_socket);
} nw_sockets NW_SECTION(".maps");

#endif /* NW_SOCKET_H */
