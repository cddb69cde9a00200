// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Leads the TCP connections of a control group to a port of loopback, and keeps where they
 * were opened to:
 *
 *	connect		the address is exchanged, and noted beside the socket
 *	before the SYN	the socket has its own address now: by that, whoever accepts the
 *			connection finds the note
 *	getpeername	returns the address that the program had asked for
 *
 * Connections to loopback, to a link, and to the one address that is spared stay as they are.
 */
#include "cgroup.h"
#include "lead_end.h"

char nw_license[] NW_SECTION("license") = "GPL";

#define NW_ALLOW	1
#define NW_BEFORE_SYN	3	/* BPF_SOCK_OPS_TCP_CONNECT_CB */

/* Written by the loader. */
struct nw_lead_settings {
	struct nw_end spared;	/* connections to it go there: the proxy itself */
	u32 port;		/* of loopback, network order */
};
const volatile struct nw_lead_settings nw_lead_settings NW_SECTION(".rodata.nw") = {};

/* Where a socket's connection was opened to. */
struct {
	NW_UINT(type, NW_MAP_SK_STORAGE);
	NW_UINT(map_flags, NW_NO_PREALLOC);
	NW_TYPE(key, int);
	NW_TYPE(value, struct nw_end);
} nw_wanted NW_SECTION(".maps");

/* The same, by the address that the connection comes from. */
struct {
	NW_UINT(type, NW_MAP_LRU_HASH);
	NW_UINT(max_entries, 65536);
	NW_TYPE(key, struct nw_end);
	NW_TYPE(value, struct nw_end);
} nw_led NW_SECTION(".maps");

/* Whether it is to be led; then it is noted. */
NW_INLINE int nw_take(volatile struct nw_sock_addr *ctx, const struct nw_end *end)
{
	struct nw_bpf_sock *sk = ctx->sk;
	struct nw_end *wanted;

	if (!sk || nw_stays(end, &nw_lead_settings.spared))
		return 0;
	wanted = nw_storage(&nw_wanted, sk, 0, NW_STORAGE_CREATE);
	if (!wanted)
		return 0;
	*wanted = *end;
	return 1;
}

NW_SECTION("cgroup/connect4") int nw_lead_connect4(volatile struct nw_sock_addr *ctx)
{
	struct nw_end end;

	if (ctx->type != NW_STREAM || ctx->protocol != NW_IPPROTO_TCP)
		return NW_ALLOW;
	nw_ipv4(&end, ctx->user_ip4);
	end.port = ctx->user_port;
	if (nw_take(ctx, &end)) {
		ctx->user_ip4 = NW_LOOPBACK;
		ctx->user_port = nw_lead_settings.port;
	}
	return NW_ALLOW;
}

NW_SECTION("cgroup/connect6") int nw_lead_connect6(volatile struct nw_sock_addr *ctx)
{
	struct nw_end end;

	if (ctx->type != NW_STREAM || ctx->protocol != NW_IPPROTO_TCP)
		return NW_ALLOW;
	end.address[0] = ctx->user_ip6[0];
	end.address[1] = ctx->user_ip6[1];
	end.address[2] = ctx->user_ip6[2];
	end.address[3] = ctx->user_ip6[3];
	end.port = ctx->user_port;
	if (nw_take(ctx, &end)) {
		int ipv4 = nw_is_ipv4(&end);

		ctx->user_ip6[0] = 0;
		ctx->user_ip6[1] = 0;
		ctx->user_ip6[2] = ipv4 ? NW_MAPPED : 0;
		ctx->user_ip6[3] = ipv4 ? NW_LOOPBACK : NW_NETWORK32(1);
		ctx->user_port = nw_lead_settings.port;
	}
	return NW_ALLOW;
}

NW_SECTION("sockops") int nw_lead_event(volatile struct nw_sock_ops *ops)
{
	struct nw_end from, *wanted;
	struct nw_bpf_sock *sk;

	if (ops->op != NW_BEFORE_SYN ||
	    (u16)(ops->remote_port >> 16) != (u16)nw_lead_settings.port)
		return NW_ALLOW;
	sk = ops->sk;
	if (!sk)
		return NW_ALLOW;
	wanted = nw_storage(&nw_wanted, sk, 0, 0);
	if (!wanted)
		return NW_ALLOW;
	from.port = __builtin_bswap16((u16)ops->local_port);
	if (nw_is_ipv4(wanted)) {
		nw_ipv4(&from, ops->local_ip4);
	} else {
		from.address[0] = ops->local_ip6[0];
		from.address[1] = ops->local_ip6[1];
		from.address[2] = ops->local_ip6[2];
		from.address[3] = ops->local_ip6[3];
	}
	nw_map_update(&nw_led, &from, wanted, NW_ANY);
	return NW_ALLOW;
}

/* ----- what getpeername returns ----- */

NW_SECTION("cgroup/getpeername4") int nw_lead_peer4(volatile struct nw_sock_addr *ctx)
{
	struct nw_bpf_sock *sk = ctx->sk;
	struct nw_end *wanted;

	if (!sk || ctx->user_port != nw_lead_settings.port)
		return NW_ALLOW;
	wanted = nw_storage(&nw_wanted, sk, 0, 0);
	if (wanted) {
		ctx->user_ip4 = wanted->address[3];
		ctx->user_port = wanted->port;
	}
	return NW_ALLOW;
}

NW_SECTION("cgroup/getpeername6") int nw_lead_peer6(volatile struct nw_sock_addr *ctx)
{
	struct nw_bpf_sock *sk = ctx->sk;
	struct nw_end *wanted;

	if (!sk || ctx->user_port != nw_lead_settings.port)
		return NW_ALLOW;
	wanted = nw_storage(&nw_wanted, sk, 0, 0);
	if (wanted) {
		ctx->user_ip6[0] = wanted->address[0];
		ctx->user_ip6[1] = wanted->address[1];
		ctx->user_ip6[2] = wanted->address[2];
		ctx->user_ip6[3] = wanted->address[3];
		ctx->user_port = wanted->port;
	}
	return NW_ALLOW;
}
