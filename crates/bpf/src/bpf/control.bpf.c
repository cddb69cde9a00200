// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * One congestion control as a struct_ops object: where it keeps what hooks.h asks
 * for, and its hooks by the names that the kernel has for them.
 */
#include "socket.h"
#include "control.h"
#include "stored.h"

/* Whether the state does not fit icsk_ca_priv. */
#define NW_STORED	(sizeof(NW_STATE(NW_ALGORITHM)) > NW_PRIV_SIZE)

char nw_license[] NW_SECTION("license") = "GPL";

/* Written by the loader before the kernel sees it. */
const volatile struct nw_config nw_config NW_SECTION(".rodata.nw") = {};
#define NW_CONFIG(tp)	nw_config

struct nw_counters {
	u64 dropped;		/* records that found the ring buffer full */
	u32 sockets;
	u32 unused;
};

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_counters);
} nw_counters NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_RINGBUF);
	NW_UINT(max_entries, 1 << 20);	/* the loader sets it */
} nw_records NW_SECTION(".maps");

/* The parameters of sockets of which options were set, written by user space
 * alone. A connection has those of its listener.
 */
struct {
	NW_UINT(type, NW_MAP_SK_STORAGE);
	NW_UINT(map_flags, NW_NO_PREALLOC | NW_CLONE);
	NW_TYPE(key, int);
	NW_TYPE(value, NW_PARAMS(NW_ALGORITHM));
} nw_options NW_SECTION(".maps");

/* States that do not fit icsk_ca_priv; the loader leaves it out where it can. */
struct {
	NW_UINT(type, NW_MAP_SK_STORAGE);
	NW_UINT(map_flags, NW_NO_PREALLOC);
	NW_TYPE(key, int);
	NW_TYPE(value, struct nw_stored);
} nw_states NW_SECTION(".maps");

NW_INLINE struct nw_counters *nw_counter(void)
{
	u32 zero = 0;

	return nw_map_lookup(&nw_counters, &zero);
}

/* icsk_ca_priv where the state is in storage: what makes most lookups needless. */
struct nw_at_hand {
	u64 quiet_ns;		/* before this an ACK's first hook has nothing to do */
	u64 looked_ns;		/* for options of the socket */
};
_Static_assert(sizeof(struct nw_at_hand) <= NW_PRIV_SIZE, "it is in icsk_ca_priv");

NW_INLINE struct nw_at_hand *nw_at_hand(struct tcp_sock *tp)
{
	return (void *)&tp->inet_conn.icsk_ca_priv;
}

NW_INLINE const NW_PARAMS(NW_ALGORITHM) *nw_registered(void)
{
	const struct nw_config *c = (const struct nw_config *)&nw_config;

	/* The compiler must not take the zeroes above for the parameters. */
	asm volatile("" : "+r"(c));
	return &c->params;
}

NW_INLINE const NW_PARAMS(NW_ALGORITHM) *nw_found_params(struct tcp_sock *tp)
{
	const NW_PARAMS(NW_ALGORITHM) *own = nw_storage(&nw_options, tp, 0, 0);

	return own ? own : nw_registered();
}

NW_INLINE const NW_PARAMS(NW_ALGORITHM) *nw_params(struct tcp_sock *tp,
						 NW_STATE(NW_ALGORITHM) *ca)
{
	struct nw_stored *stored = (struct nw_stored *)ca;
	u64 now = nw_clock_of(tp);

	if (!NW_STORED)
		return nw_found_params(tp);
	if (!stored)
		return 0;
	if (now - nw_at_hand(tp)->looked_ns >= NW_LOOK_NS) {
		stored->params = *nw_found_params(tp);
		nw_at_hand(tp)->looked_ns = now;
	}
	return &stored->params;
}

NW_INLINE NW_STATE(NW_ALGORITHM) *nw_state(struct tcp_sock *tp)
{
	if (NW_STORED)
		return nw_storage(&nw_states, tp, 0, 0);
	return (void *)&tp->inet_conn.icsk_ca_priv;
}

/* A socket that had this control before has that one's state still. */
NW_INLINE NW_STATE(NW_ALGORITHM) *nw_new_state(struct tcp_sock *tp)
{
	NW_STATE(NW_ALGORITHM) *ca;

	if (!NW_STORED)
		return nw_state(tp);
	ca = nw_storage(&nw_states, tp, 0, NW_STORAGE_CREATE);
	if (ca)
		__builtin_memset(ca, 0, sizeof(*ca));
	*nw_at_hand(tp) = (struct nw_at_hand){};
	return ca;
}

NW_INLINE int nw_is_quiet(struct tcp_sock *tp)
{
	/* every call is to be reported */
	if (nw_config.trace == NW_TRACE_FULL)
		return 0;
	if (NW_STORED)
		return nw_clock_of(tp) < nw_at_hand(tp)->quiet_ns;
	return !NW_TIMED && !NW_CALL(NW_ALGORITHM, sees_acks)(nw_registered());
}

NW_INLINE void nw_stay_quiet(struct tcp_sock *tp, u64 ns)
{
	if (NW_STORED)
		nw_at_hand(tp)->quiet_ns = ns;
}

NW_INLINE struct nw_socket *nw_socket(struct tcp_sock *tp)
{
	return nw_storage(&nw_sockets, tp, 0, 0);
}

NW_INLINE struct nw_socket *nw_new_socket(struct tcp_sock *tp)
{
	struct nw_socket *s = nw_storage(&nw_sockets, tp, 0, NW_STORAGE_CREATE);
	struct nw_counters *c = nw_counter();

	if (!s || !c)
		return 0;
	s->id = __sync_fetch_and_add(&c->sockets, 1) + 1;
	return s;
}

NW_INLINE struct nw_report *nw_reserve(struct tcp_sock *tp)
{
	struct nw_report *report = nw_ring_reserve(&nw_records, sizeof(*report), 0);
	struct nw_counters *c;

	(void)tp;
	if (report)
		return report;
	c = nw_counter();
	if (c)
		__sync_fetch_and_add(&c->dropped, 1);
	return 0;
}

NW_INLINE void nw_submit(struct tcp_sock *tp, struct nw_report *report)
{
	(void)tp;
	nw_ring_submit(report, NW_RING_NO_WAKEUP);
}

NW_INLINE int nw_become_reno(struct tcp_sock *tp)
{
	char reno[] = "reno";

	return !nw_setsockopt(tp, NW_SOL_TCP, NW_TCP_CONGESTION, reno,
			      sizeof(reno));
}

#include "hooks.h"

#define NW_HOOK(name)							\
NW_SECTION("struct_ops/" #name) u32 nw_hook_##name(u64 *ctx)
#define NW_SOCKET(ctx)	((struct tcp_sock *)(ctx)[0])

NW_HOOK(init)
{
	nw_on_init(NW_SOCKET(ctx));
	return 0;
}

NW_HOOK(release)
{
	nw_on_release(NW_SOCKET(ctx));
	return 0;
}

NW_HOOK(ssthresh)
{
	return nw_on_ssthresh(NW_SOCKET(ctx));
}

NW_HOOK(undo_cwnd)
{
	return nw_on_undo_cwnd(NW_SOCKET(ctx));
}

NW_HOOK(set_state)
{
	nw_on_set_state(NW_SOCKET(ctx), (u8)ctx[1]);
	return 0;
}

NW_HOOK(cwnd_event)
{
	nw_on_event(NW_SOCKET(ctx), (u32)ctx[1]);
	return 0;
}

/* Kernels that report this one event by a hook of its own. */
NW_HOOK(cwnd_event_tx_start)
{
	nw_on_event(NW_SOCKET(ctx), NW_EV_TX_START);
	return 0;
}

NW_HOOK(in_ack_event)
{
	nw_on_in_ack(NW_SOCKET(ctx), (u32)ctx[1]);
	return 0;
}

NW_HOOK(pkts_acked)
{
	nw_on_pkts_acked(NW_SOCKET(ctx), (const struct ack_sample *)ctx[1]);
	return 0;
}

#ifdef NW_WINDOW_MODE
NW_HOOK(cong_avoid)
{
	nw_on_cong_avoid(NW_SOCKET(ctx), (u32)ctx[2]);
	return 0;
}
#else
/* cong_control(sk, ack, flag, rs): from v6.10 on */
NW_HOOK(cong_control)
{
	nw_on_cong_control(NW_SOCKET(ctx), (u32)ctx[2],
			   (const struct rate_sample *)ctx[3]);
	return 0;
}

/* cong_control(sk, rs): before */
NW_HOOK(cong_control_rs)
{
	nw_on_cong_control(NW_SOCKET(ctx), 0, (const struct rate_sample *)ctx[1]);
	return 0;
}
#endif

/*
 * The loader finds each member by its name and type of BTF, and fills in name
 * and flags, which therefore stand first. Pointers are of one plain type: how
 * many arguments a kernel passes is the programs' affair.
 */
struct tcp_congestion_ops {
	char name[16];
	u32 flags;
	u32 (*init)(u64 *ctx);
	u32 (*release)(u64 *ctx);
	u32 (*ssthresh)(u64 *ctx);
	u32 (*undo_cwnd)(u64 *ctx);
	u32 (*set_state)(u64 *ctx);
	u32 (*cwnd_event)(u64 *ctx);
	u32 (*in_ack_event)(u64 *ctx);
	u32 (*pkts_acked)(u64 *ctx);
	u32 (*cong_avoid)(u64 *ctx);
	u32 (*cong_control)(u64 *ctx);
	u32 (*cwnd_event_tx_start)(u64 *ctx);
};
_Static_assert(__builtin_offsetof(struct tcp_congestion_ops, flags) == 16, "flags");
_Static_assert(__builtin_offsetof(struct tcp_congestion_ops,
				  cwnd_event_tx_start) == 104, "tx_start");

#define NW_COMMON_OPS							\
	.name = "narrows",						\
	.init = nw_hook_init,						\
	.release = nw_hook_release,					\
	.ssthresh = nw_hook_ssthresh,					\
	.undo_cwnd = nw_hook_undo_cwnd,					\
	.set_state = nw_hook_set_state,					\
	.cwnd_event = nw_hook_cwnd_event,				\
	.in_ack_event = nw_hook_in_ack_event,				\
	.pkts_acked = nw_hook_pkts_acked,				\
	.cwnd_event_tx_start = nw_hook_cwnd_event_tx_start

/* The loader creates one of these maps. */
struct tcp_congestion_ops nw_ops NW_SECTION(".struct_ops.link") = {
	NW_COMMON_OPS,
#ifdef NW_WINDOW_MODE
	.cong_avoid = nw_hook_cong_avoid,
#else
	.cong_control = nw_hook_cong_control,
#endif
};

#ifndef NW_WINDOW_MODE
struct tcp_congestion_ops nw_ops_rs NW_SECTION(".struct_ops.link") = {
	NW_COMMON_OPS,
	.cong_control = nw_hook_cong_control_rs,
};
#endif
