/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The controls that are built into a kernel: what each hands to the registry, and
 * what the registry keeps of one that it has registered.
 */
#ifndef NW_REGISTRY_H
#define NW_REGISTRY_H

#include <net/tcp.h>
#include "nw_controls.h"

/* An algorithm. */
struct nw_algorithm {
	const char *name;
	const struct tcp_congestion_ops *ops;	/* its hooks */
	const void *defaults;			/* its parameters */
	u32 (*needs)(const void *params);	/* enum nw_need */
	u32 params_size;			/* bytes */
	u32 report_size;			/* bytes of a struct nw_report */
};

/* The words of a control's struct nw_config, of which the parameters follow. */
struct nw_settings {
	u32 trace;
	u32 ecn_bits;
	u32 dctcp_feedback;
	u32 ect1;
};

/* Records that wait to be read. The kernel has one processor (time travel knows no
 * more), and a hook is not interrupted by a task that reads.
 */
struct nw_ring {
	u8 *bytes;
	u32 slots;
	u32 slot_size;		/* bytes */
	u64 written;		/* slots, of which those before `read` are free */
	u64 read;
};

/* A registered control; a socket leads to it by its icsk_ca_ops. */
struct nw_registered {
	struct tcp_congestion_ops ops;
	const struct nw_algorithm *algorithm;
	struct nw_ring ring;
	u64 dropped;		/* records that found no room */
	u32 sockets;		/* numbered so far */
	/* struct nw_config of the algorithm */
	u8 config[] __aligned(8);
};

/* What a socket's icsk_ca_priv holds. The parameters are of the socket or of its
 * listener, of which it is a copy then; null: those of the registration.
 */
struct nw_private {
	void *block;
	const void *params;
};

static inline struct nw_private *nw_private(const struct tcp_sock *tp)
{
	BUILD_BUG_ON(sizeof(struct nw_private) > ICSK_CA_PRIV_SIZE);
	return (struct nw_private *)tp->inet_conn.icsk_ca_priv;
}

static inline struct nw_registered *nw_registered(const struct tcp_sock *tp)
{
	return (struct nw_registered *)
		container_of(tp->inet_conn.icsk_ca_ops, struct nw_registered, ops);
}

/* Room for a record; null, and counted, where there is none. */
void *nw_ring_reserve(struct nw_registered *registered);

#define NW_DECLARE(name)	extern const struct nw_algorithm nw_algorithm_##name;
NW_CONTROLS(NW_DECLARE)

#endif /* NW_REGISTRY_H */
