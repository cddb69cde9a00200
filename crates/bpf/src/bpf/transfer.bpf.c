// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * A transfer of a known size by a deadline, over whichever connections the programs
 * of a control group open: each becomes a DA-LBE flow, and what remains is shared
 * among those that send.
 *
 *	connect, listen	the control is chosen before the handshake, which asks for
 *			what the control needs (ECN)
 *	established	its share, its deadline and its first weight
 *	pass		run by user space now and then: shares anew
 *	closed		its last bytes are counted
 *	set, get	options of one connection by the program itself
 *
 * A share is in proportion to what a connection sent of late, so that all have the
 * same relative error: equal shares would leave a slow connection behind and the
 * others done early. The control has no part in this. Its size and its
 * deadline are changed (dalbe.h), and stay in force if nobody shares any more.
 */
#include "transfer.h"
#include "cgroup.h"
#include "facts.h"
#include "dalbe.h"
#define NW_ALGORITHM dalbe
#include "stored.h"

char nw_license[] NW_SECTION("license") = "GPL";

/* Written by the loader. */
struct nw_transfer_settings {
	char name[16];		/* the control is registered by it */
	struct nw_dalbe_params params __attribute__((aligned(8)));
};
const volatile struct nw_transfer_settings nw_settings NW_SECTION(".rodata.nw") = {};

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_goal);
} nw_goal NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_tally);
} nw_tally NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_SK_STORAGE);
	NW_UINT(map_flags, NW_NO_PREALLOC);
	NW_TYPE(key, int);
	NW_TYPE(value, struct nw_member);
} nw_members NW_SECTION(".maps");

/* The control's own (control.bpf.c). */
struct {
	NW_UINT(type, NW_MAP_SK_STORAGE);
	NW_UINT(map_flags, NW_NO_PREALLOC | NW_CLONE);
	NW_TYPE(key, int);
	NW_TYPE(value, struct nw_dalbe_params);
} nw_options NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_SK_STORAGE);
	NW_UINT(map_flags, NW_NO_PREALLOC);
	NW_TYPE(key, int);
	NW_TYPE(value, struct nw_stored);
} nw_states NW_SECTION(".maps");

/* By their numbers in include/uapi/linux/bpf.h. */
static long (*nw_set_callbacks)(void *ops, int flags) = (void *)59;
static struct tcp_sock *(*nw_tcp_socket)(void *sk) = (void *)137;
static int (*nw_set_retval)(int retval) = (void *)187;

/* struct bpf_sockopt */
struct nw_sockopt {
	struct nw_bpf_sock *sk;
	void *value;
	void *end;
	s32 level;
	s32 name;
	s32 length;
	s32 retval;
};
_Static_assert(__builtin_offsetof(struct nw_sockopt, retval) == 36, "retval");

enum nw_sock_op {		/* BPF_SOCK_OPS_ */
	NW_ACTIVE_ESTABLISHED = 4,
	NW_PASSIVE_ESTABLISHED = 5,
	NW_STATE_CHANGES = 10,
	NW_LISTENS = 11,
};

#define NW_CALL_ON_STATE	4	/* BPF_SOCK_OPS_STATE_CB_FLAG */
#define NW_TCP_CLOSE		7	/* TCP_CLOSE */
#define NW_ALLOW		1
#define NW_REFUSE		0
#define NW_EINVAL		22
#define NW_PAGE			4096	/* no more of a socket option is handed over */

NW_INLINE const struct nw_transfer_settings *nw_own_settings(void)
{
	const struct nw_transfer_settings *s = (const void *)&nw_settings;

	/* The compiler must not take the zeroes above for the settings. */
	asm volatile("" : "+r"(s));
	return s;
}

NW_INLINE struct nw_goal *nw_the_goal(void)
{
	u32 zero = 0;

	return nw_map_lookup(&nw_goal, &zero);
}

NW_INLINE struct nw_tally *nw_the_tally(void)
{
	u32 zero = 0;

	return nw_map_lookup(&nw_tally, &zero);
}

NW_INLINE void nw_count(u64 *counter, u64 n)
{
	__sync_fetch_and_add(counter, n);
}

NW_INLINE long nw_choose_control(void *ctx)
{
	return nw_setsockopt(ctx, NW_SOL_TCP, NW_TCP_CONGESTION,
			     (void *)nw_own_settings()->name, 16);
}

/* Two may count one connection at a time: each adds what is new to it. */
NW_INLINE u64 nw_account(struct nw_tally *t, struct nw_member *m, u64 acked,
			 u64 received)
{
	u64 former = __sync_lock_test_and_set(&m->acked, acked);
	u64 former_received = __sync_lock_test_and_set(&m->received, received);

	nw_count(&t->received, received - former_received);
	/* what has a size of its own is not this transfer's */
	if (!m->own_size)
		nw_count(&t->acked, acked - former);
	return acked - former;
}

/* part of whole of bytes, without overflow below 2^50 bytes; whole is not 0 */
NW_INLINE u64 nw_part(u64 bytes, u64 part, u64 whole)
{
	u64 ratio;

	part = nw_min64(part, whole);
	/* counted over seconds: far below 2^47 */
	ratio = (nw_min64(part, 1ULL << 46) << 16) / nw_max64(whole, 1);
	return (bytes >> 16) * ratio + ((bytes & 0xffff) * ratio >> 16);
}

/* What a connection is to do: `share` bytes after the `acked` ones, of a connection
 * that began at `start_ns`.
 */
NW_INLINE void nw_aim(struct nw_dalbe_params *p, const struct nw_goal *goal,
		      const struct nw_member *m, u64 share, u64 acked, u64 start_ns,
		      u64 now_ns)
{
	u64 deadline_ns = m->own_deadline_ns ? m->own_deadline_ns : goal->deadline_ns;
	int sized = m->own_size || goal->size;
	u64 size = m->own_size ? m->own_size : acked + share;

	/* At the deadline, and beyond the size that was said, it is best effort: the
	 * control takes a deadline that has passed for that.
	 */
	if (now_ns >= deadline_ns || (sized && size <= acked)) {
		p->deadline_us = 1;
		p->size = NW_MOST_SIZE;
		return;
	}
	p->deadline_us = nw_min64((deadline_ns - nw_min64(start_ns, deadline_ns)) /
				  1000 + 1, NW_MOST_DEADLINE_US);
	/* without a size it yields until then */
	p->size = sized ? nw_min64(size, NW_MOST_SIZE) : 0;
}

NW_INLINE u64 nw_remaining(const struct nw_goal *goal, const struct nw_tally *t)
{
	return goal->size > t->acked ? goal->size - t->acked : 0;
}

/* ----- a connection begins ----- */

NW_SECTION("cgroup/connect4") int nw_transfer_connect4(volatile struct nw_sock_addr *ctx)
{
	if (ctx->type == NW_STREAM && ctx->protocol == NW_IPPROTO_TCP)
		nw_choose_control((void *)ctx);
	return NW_ALLOW;
}

NW_SECTION("cgroup/connect6") int nw_transfer_connect6(volatile struct nw_sock_addr *ctx)
{
	if (ctx->type == NW_STREAM && ctx->protocol == NW_IPPROTO_TCP)
		nw_choose_control((void *)ctx);
	return NW_ALLOW;
}

NW_INLINE int nw_join(struct nw_sock_ops *ops, struct nw_tally *t)
{
	struct nw_goal *goal = nw_the_goal();
	struct nw_bpf_sock *sk = ops->sk;
	struct nw_dalbe_params *p;
	struct nw_member *m;
	u64 now_ns, share;

	if (!sk || !goal)
		return 0;
	m = nw_storage(&nw_members, sk, 0, NW_STORAGE_CREATE);
	p = nw_storage(&nw_options, sk, 0, NW_STORAGE_CREATE);
	if (!m || !p)
		return 0;
	/* what a former connection of the socket left */
	m->acked = 0;
	m->received = 0;
	m->recent = 0;
	__builtin_memcpy(p, &nw_own_settings()->params, sizeof(*p));
	p->first_weight = goal->first_weight;
	now_ns = nw_ktime_ns();
	share = nw_remaining(goal, t) / (goal->senders + 1ULL);
	nw_aim(p, goal, m, share, 0, now_ns, now_ns);
	if (nw_choose_control(ops))
		return 0;
	nw_set_callbacks(ops, ops->callbacks | NW_CALL_ON_STATE);
	nw_count(&t->opened, 1);
	return 1;
}

NW_INLINE void nw_leave(struct nw_sock_ops *ops, struct nw_tally *t)
{
	struct nw_bpf_sock *sk = ops->sk;
	struct nw_member *m;

	if (!sk)
		return;
	m = nw_storage(&nw_members, sk, 0, 0);
	if (!m)
		return;
	nw_account(t, m, ops->bytes_acked, ops->bytes_received);
	nw_count(&t->closed, 1);
}

NW_SECTION("sockops") int nw_transfer_event(struct nw_sock_ops *ops)
{
	struct nw_tally *t = nw_the_tally();
	u32 op = ops->op;

	if (!t)
		return NW_ALLOW;
	if (op == NW_LISTENS) {
		nw_choose_control(ops);
	} else if (op == NW_ACTIVE_ESTABLISHED || op == NW_PASSIVE_ESTABLISHED) {
		if (!nw_join(ops, t))
			nw_count(&t->refused, 1);
	} else if (op == NW_STATE_CHANGES && ops->args[1] == NW_TCP_CLOSE) {
		nw_leave(ops, t);
	}
	return NW_ALLOW;
}

/* ----- shares ----- */

/* The share of a connection that sent `recent`: at least a quarter of the mean, as
 * what has just begun has sent nothing yet.
 */
NW_INLINE u64 nw_share(const struct nw_goal *goal, u64 remaining, u64 recent)
{
	if (goal->senders <= 1 || !goal->recent)
		return remaining / nw_max(goal->senders, 1);
	recent = nw_max64(recent, goal->recent / 4 / goal->senders);
	return nw_part(remaining, recent, goal->recent);
}

NW_SECTION("iter/bpf_sk_storage_map") int nw_transfer_pass(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[2];
	const struct nw_dalbe *ca;
	struct nw_dalbe_params *p;
	struct nw_member *m;
	struct tcp_sock *tp;
	struct nw_goal *goal;
	struct nw_tally *t;
	u64 sent, share = 0;

	if (!sk)
		return 0;
	tp = nw_tcp_socket(sk);
	if (!tp)
		return 0;
	m = nw_storage(&nw_members, tp, 0, 0);
	p = nw_storage(&nw_options, tp, 0, 0);
	ca = nw_storage(&nw_states, tp, 0, 0);
	goal = nw_the_goal();
	t = nw_the_tally();
	if (!m || !p || !goal || !t)
		return 0;
	nw_count(&t->connections, 1);
	if (!ca) {
		nw_count(&t->plain, 1);
		return 0;
	}
	sent = nw_account(t, m, tp->bytes_acked, tp->bytes_received);
	m->recent += sent - (m->recent >> NW_RECENT);
	if (sent || tp->write_seq != tp->snd_una) {
		share = nw_share(goal, nw_remaining(goal, t), m->recent);
		nw_count(&t->senders, 1);
		nw_count(&t->recent, m->recent);
		nw_count(&t->weighed, m->recent * (ca->seen.law.w >> 14));
		nw_count(&t->short_of, ca->short_of >= NW_DALBE_OUT_OF_REACH);
		nw_count(&t->limited, !nw_is_cwnd_limited(tp));
	}
	nw_aim(p, goal, m, share, ca->acked, ca->start_ns, nw_ktime_ns());
	return 0;
}

/* ----- options that the program sets itself ----- */

NW_INLINE int nw_invalid(void)
{
	nw_set_retval(-NW_EINVAL);
	return NW_REFUSE;
}

NW_SECTION("cgroup/setsockopt") int nw_transfer_set(volatile struct nw_sockopt *ctx)
{
	struct nw_bpf_sock *sk = ctx->sk;
	u64 *value = ctx->value, wanted;
	struct nw_dalbe_params *p;
	const struct nw_dalbe *ca;
	struct nw_goal *goal;
	struct nw_member *m;

	if (ctx->level != NW_SOL) {
		/* longer ones go to the kernel as they are */
		if (ctx->length > NW_PAGE)
			ctx->length = 0;
		return NW_ALLOW;
	}
	if (!sk || sk->protocol != NW_IPPROTO_TCP || (void *)(value + 1) > ctx->end)
		return nw_invalid();
	wanted = *value;
	m = nw_storage(&nw_members, sk, 0, NW_STORAGE_CREATE);
	goal = nw_the_goal();
	if (!m || !goal || !wanted)
		return nw_invalid();
	ca = nw_storage(&nw_states, sk, 0, 0);
	p = nw_storage(&nw_options, sk, 0, 0);
	if (ctx->name == NW_BY_SIZE) {
		if (wanted > NW_MOST_SIZE || (ca && p && wanted <= ca->acked))
			return nw_invalid();
		m->own_size = wanted;
	} else if (ctx->name == NW_BY_DEADLINE) {
		if (wanted > NW_MOST_DEADLINE_US)
			return nw_invalid();
		m->own_deadline_ns = nw_ktime_ns() + wanted * 1000;
	} else {
		return nw_invalid();
	}
	if (ca && p)
		nw_aim(p, goal, m, p->size > ca->acked ? p->size - ca->acked : 0,
		       ca->acked, ca->start_ns, nw_ktime_ns());
	/* -1: the kernel does not handle the option itself (BPF_CGROUP_SETSOCKOPT) */
	ctx->length = -1;
	return NW_ALLOW;
}

NW_SECTION("cgroup/getsockopt") int nw_transfer_get(volatile struct nw_sockopt *ctx)
{
	struct nw_by_status *status = ctx->value;
	struct nw_bpf_sock *sk = ctx->sk;
	const struct nw_dalbe_params *p;
	const struct nw_dalbe *ca;
	u64 now_ns, end_ns;

	if (ctx->level != NW_SOL) {
		if (ctx->length > NW_PAGE)
			ctx->length = 0;
		return NW_ALLOW;
	}
	if (ctx->name != NW_BY_STATUS || !sk || (void *)(status + 1) > ctx->end)
		return nw_invalid();
	ca = nw_storage(&nw_states, sk, 0, 0);
	p = nw_storage(&nw_options, sk, 0, 0);
	if (!ca || !p)
		return nw_invalid();
	now_ns = nw_ktime_ns();
	end_ns = ca->start_ns + p->deadline_us * 1000;
	status->left_us = end_ns > now_ns ? (end_ns - now_ns) / 1000 : 0;
	status->remaining = p->size > ca->acked ? p->size - ca->acked : 0;
	status->target = ca->seen.law.target;
	status->achieved = ca->seen.law.achieved;
	status->weight = (u32)(((u64)ca->seen.law.w * 1000) >> NW_Q30);
	status->short_of = ca->short_of;
	ctx->length = sizeof(*status);
	ctx->retval = 0;
	return NW_ALLOW;
}
