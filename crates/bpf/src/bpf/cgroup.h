/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What programs of control groups are called with (include/uapi/linux/bpf.h). The structs
 * are read field by field, which the compiler must not merge: take them as volatile.
 */
#ifndef NW_CGROUP_H
#define NW_CGROUP_H

#include "kernel.h"

/* The start of struct bpf_sock. */
struct nw_bpf_sock {
	u32 bound_dev_if;
	u32 family;
	u32 type;
	u32 protocol;
};

/* struct bpf_sock_addr */
struct nw_sock_addr {
	u32 user_family;
	u32 user_ip4;
	u32 user_ip6[4];
	u32 user_port;
	u32 family;
	u32 type;
	u32 protocol;
	u32 source[5];
	struct nw_bpf_sock *sk;
};
_Static_assert(__builtin_offsetof(struct nw_sock_addr, user_port) == 24, "user_port");
_Static_assert(__builtin_offsetof(struct nw_sock_addr, type) == 32, "type");
_Static_assert(__builtin_offsetof(struct nw_sock_addr, sk) == 64, "sk");

/* struct bpf_sock_ops, as far as it is used. */
struct nw_sock_ops {
	u32 op;
	u32 args[4];
	u32 family;
	u32 remote_ip4;
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port;	/* network order, in the upper half */
	u32 local_port;		/* host order */
	u32 between[3];
	u32 callbacks;
	u32 between2[20];
	u64 bytes_received;
	u64 bytes_acked;
	struct nw_bpf_sock *sk;
};
_Static_assert(__builtin_offsetof(struct nw_sock_ops, local_port) == 68, "local_port");
_Static_assert(__builtin_offsetof(struct nw_sock_ops, callbacks) == 84, "callbacks");
_Static_assert(__builtin_offsetof(struct nw_sock_ops, bytes_received) == 168, "received");
_Static_assert(__builtin_offsetof(struct nw_sock_ops, sk) == 184, "sk");

#define NW_STREAM	1	/* SOCK_STREAM */
#define NW_IPPROTO_TCP	6

#endif /* NW_CGROUP_H */
