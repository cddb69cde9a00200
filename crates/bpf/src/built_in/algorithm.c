// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * One congestion control that is built into a kernel: where it keeps what hooks.h
 * asks for, and its hooks as the stack calls them. One file for each of the list
 * includes this, and says NW_ALGORITHM and NW_HEADER.
 */
#include "control.h"
#include "registry.h"

/* What is kept of a connection; an algorithm's state may be larger than
 * icsk_ca_priv is.
 */
struct nw_block {
	const struct tcp_sock *owner;
	struct nw_socket socket;
	/* Segments of a burst at most: what was set here, and what the device allows. */
	u16 burst;
	u16 device_burst;
	NW_STATE(NW_ALGORITHM) state __aligned(8);
};

#define NW_CONFIG(tp)	(*(const struct nw_config *)nw_registered(tp)->config)

NW_INLINE const NW_PARAMS(NW_ALGORITHM) *nw_params(struct tcp_sock *tp,
						 const NW_STATE(NW_ALGORITHM) *ca)
{
	const NW_PARAMS(NW_ALGORITHM) *own = nw_private(tp)->params;

	(void)ca;
	return own ? own : &NW_CONFIG(tp).params;
}

/* A connection begins as a copy of its listener's socket. */
NW_INLINE struct nw_block *nw_block(struct tcp_sock *tp)
{
	struct nw_block *block = nw_private(tp)->block;

	return block && block->owner == tp ? block : NULL;
}

NW_INLINE NW_STATE(NW_ALGORITHM) *nw_state(struct tcp_sock *tp)
{
	struct nw_block *block = nw_block(tp);

	return block ? &block->state : NULL;
}

NW_INLINE NW_STATE(NW_ALGORITHM) *nw_new_state(struct tcp_sock *tp)
{
	struct nw_block *block = nw_block(tp);

	if (block)
		memset(block, 0, sizeof(*block));
	else
		block = kzalloc(sizeof(*block), GFP_ATOMIC);
	nw_private(tp)->block = block;
	if (!block)
		return NULL;
	block->owner = tp;
	return &block->state;
}

/* What a hook reads here is at hand. */
NW_INLINE int nw_is_quiet(struct tcp_sock *tp)
{
	(void)tp;
	return 0;
}

NW_INLINE void nw_stay_quiet(struct tcp_sock *tp, u64 ns)
{
	(void)tp; (void)ns;
}

NW_INLINE struct nw_socket *nw_socket(struct tcp_sock *tp)
{
	struct nw_block *block = nw_block(tp);

	return block ? &block->socket : NULL;
}

NW_INLINE struct nw_socket *nw_new_socket(struct tcp_sock *tp)
{
	struct nw_socket *s = nw_socket(tp);

	if (s)
		s->id = ++nw_registered(tp)->sockets;
	return s;
}

NW_INLINE struct nw_report *nw_reserve(struct tcp_sock *tp)
{
	return nw_ring_reserve(nw_registered(tp));
}

NW_INLINE void nw_submit(struct tcp_sock *tp, struct nw_report *report)
{
	(void)tp; (void)report;
}

/* As tcp_dctcp.c does where ECN was not negotiated. */
NW_INLINE int nw_become_reno(struct tcp_sock *tp)
{
	WRITE_ONCE(tp->inet_conn.icsk_ca_ops, &tcp_reno);
	return 1;
}

NW_INLINE void nw_send_ack(struct tcp_sock *tp, u32 rcv_nxt)
{
	__tcp_send_ack((struct sock *)tp, rcv_nxt NW_TREE_ACK_FLAGS);
}

#include "hooks.h"

static void nw_hook_init(struct sock *sk)
{
	nw_on_init(tcp_sk(sk));
}

static void nw_hook_release(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nw_block *block = nw_block(tp);

	nw_on_release(tp);
	if (block && block->burst && sk->sk_gso_max_segs == block->burst)
		sk->sk_gso_max_segs = block->device_burst;
	kfree(block);
	nw_private(tp)->block = NULL;
}

static u32 nw_hook_ssthresh(struct sock *sk)
{
	return nw_on_ssthresh(tcp_sk(sk));
}

static u32 nw_hook_undo_cwnd(struct sock *sk)
{
	return nw_on_undo_cwnd(tcp_sk(sk));
}

/*
 * Asked for the least burst each time that one is formed (tcp_tso_segs), and the place to set the
 * most, for which L4STeam's tree has a hook and mainline takes the socket's limit alone.
 */
static u32 nw_hook_min_tso_segs(struct sock *sk)
{
	u32 least = READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
	struct tcp_sock *tp = tcp_sk(sk);
	struct nw_block *block = nw_block(tp);
	u32 most;

	if (!block)
		return least;
	/* The stack sets it at first, and with each new route. */
	if (sk->sk_gso_max_segs != block->burst)
		block->device_burst = sk->sk_gso_max_segs;
	most = NW_CALL(NW_ALGORITHM, max_tso_segs)(&block->state,
						   nw_params(tp, &block->state));
	block->burst = min_t(u32, most, block->device_burst);
	sk->sk_gso_max_segs = block->burst;
	return least;
}

static void nw_hook_set_state(struct sock *sk, u8 state)
{
	nw_on_set_state(tcp_sk(sk), state);
}

static void nw_hook_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	nw_on_event(tcp_sk(sk), event);
}

#if NW_TREE_TX_START
static void nw_hook_cwnd_event_tx_start(struct sock *sk)
{
	nw_on_event(tcp_sk(sk), NW_EV_TX_START);
}
#endif

static void nw_hook_in_ack_event(struct sock *sk, u32 flags)
{
	nw_on_in_ack(tcp_sk(sk), flags);
}

static void nw_hook_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	nw_on_pkts_acked(tcp_sk(sk), sample);
}

#ifdef NW_WINDOW_MODE
static void nw_hook_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	nw_on_cong_avoid(tcp_sk(sk), acked);
}
#else
static void nw_hook_cong_control(struct sock *sk, u32 ack, int flag,
				 const struct rate_sample *rs)
{
	nw_on_cong_control(tcp_sk(sk), flag, rs);
}
#endif

static const struct tcp_congestion_ops nw_hooks = {
	.init = nw_hook_init,
	.release = nw_hook_release,
	.ssthresh = nw_hook_ssthresh,
	.undo_cwnd = nw_hook_undo_cwnd,
	.min_tso_segs = nw_hook_min_tso_segs,
	.set_state = nw_hook_set_state,
	.cwnd_event = nw_hook_cwnd_event,
#if NW_TREE_TX_START
	.cwnd_event_tx_start = nw_hook_cwnd_event_tx_start,
#endif
	.in_ack_event = nw_hook_in_ack_event,
	.pkts_acked = nw_hook_pkts_acked,
#ifdef NW_WINDOW_MODE
	.cong_avoid = nw_hook_cong_avoid,
#else
	.cong_control = nw_hook_cong_control,
#endif
};

static const NW_PARAMS(NW_ALGORITHM) nw_defaults =
	NW_CALL(NW_ALGORITHM, DEFAULTS);

static u32 nw_needs(const void *params)
{
	return NW_CALL(NW_ALGORITHM, needs)(params);
}

#define NW_TABLE2(name)	nw_algorithm_##name
#define NW_TABLE(name)	NW_TABLE2(name)
#define NW_TEXT2(name)	#name
#define NW_TEXT(name)	NW_TEXT2(name)

const struct nw_algorithm NW_TABLE(NW_ALGORITHM) = {
	.name = NW_TEXT(NW_ALGORITHM),
	.ops = &nw_hooks,
	.defaults = &nw_defaults,
	.needs = nw_needs,
	.params_size = sizeof(NW_PARAMS(NW_ALGORITHM)),
	.report_size = sizeof(struct nw_report),
};
