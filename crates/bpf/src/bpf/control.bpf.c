// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * One congestion control as a struct_ops object: NW_ALGORITHM names it, and
 * NW_HEADER the file that holds it. Each hook reads the facts, calls the hook
 * of the same name and does what it decided.
 */
#include "socket.h"
#include "facts.h"
#include NW_HEADER

#if NW_CALL(NW_ALGORITHM, MODE) == NW_MODE_WINDOW
#define NW_WINDOW_MODE
#endif
#define NW_TELEMETRY	NW_CALL(NW_ALGORITHM, TELEMETRY)
#define NW_TIMED	NW_CALL(NW_ALGORITHM, HAS_TIMER)
/* Whether the state does not fit icsk_ca_priv. */
#define NW_STORED	(sizeof(NW_STATE(NW_ALGORITHM)) > NW_PRIV_SIZE)

char nw_license[] NW_SECTION("license") = "GPL";

/* Written by the loader before the kernel sees it. */
struct nw_config {
	u32 trace;		/* enum nw_trace */
	u32 ecn_bits;		/* enum nw_ecn_bit: one of them is needed; 0 = none */
	u32 dctcp_feedback;	/* the receiver echoes every change of CE */
	u32 ect1;
	NW_PARAMS(NW_ALGORITHM) params __attribute__((aligned(8)));
};
const volatile struct nw_config nw_config NW_SECTION(".rodata.nw") = {};

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
	NW_TYPE(value, NW_STATE(NW_ALGORITHM));
} nw_states NW_SECTION(".maps");

/* A record with what the algorithm reports of itself behind it. */
struct nw_report {
	struct nw_record record;
	s64 telemetry[NW_FIELDS(NW_TELEMETRY)];
};

NW_INLINE struct nw_counters *nw_counter(void)
{
	u32 zero = 0;

	return nw_map_lookup(&nw_counters, &zero);
}

NW_INLINE const NW_PARAMS(NW_ALGORITHM) *nw_params(struct tcp_sock *tp)
{
	const struct nw_config *c = (const struct nw_config *)&nw_config;
	const NW_PARAMS(NW_ALGORITHM) *own = nw_storage(&nw_options, tp, 0, 0);

	if (own)
		return own;
	/* The compiler must not take the zeroes above for the parameters. */
	asm volatile("" : "+r"(c));
	return &c->params;
}

/* Null where there is no room for it, which init finds out. */
NW_INLINE NW_STATE(NW_ALGORITHM) *nw_state(struct tcp_sock *tp, u64 flags)
{
	if (NW_STORED)
		return nw_storage(&nw_states, tp, 0, flags);
	return (void *)&tp->inet_conn.icsk_ca_priv;
}

NW_INLINE struct nw_socket *nw_socket(struct tcp_sock *tp)
{
	return nw_storage(&nw_sockets, tp, 0, 0);
}

/* Hooks that the stack calls for a connection that does not exist yet. */
NW_INLINE int nw_is_early(struct tcp_sock *tp)
{
	return !nw_bits(&tp->inet_conn, icsk_ca_initialized);
}

#define NW_REPORT_FIELD(name, unit, scale, value, about)	*out++ = (s64)(value);

NW_INLINE void nw_report(s64 *out, const NW_STATE(NW_ALGORITHM) *ca,
			 const NW_PARAMS(NW_ALGORITHM) *p)
{
	(void)out; (void)ca; (void)p;
	NW_TELEMETRY(NW_REPORT_FIELD)
}

NW_INLINE void nw_emit(struct tcp_sock *tp, const struct nw_socket *s, u32 sample,
		       u32 hook, u32 argument, u32 answer,
		       const NW_STATE(NW_ALGORITHM) *ca,
		       const NW_PARAMS(NW_ALGORITHM) *p,
		       const struct nw_facts *f, const struct nw_decision *d)
{
	struct nw_report *report = nw_ring_reserve(&nw_records, sizeof(*report), 0);
	struct nw_record *r = &report->record;

	if (!report) {
		struct nw_counters *c = nw_counter();

		if (c)
			__sync_fetch_and_add(&c->dropped, 1);
		return;
	}
	r->sample = sample;
	r->hook = hook;
	r->socket = s->id;
	r->argument = argument;
	r->answer = answer;
	r->unused = 0;
	nw_read_raw(&r->raw, tp);
	r->facts = *f;
	r->decision = *d;
	nw_report(report->telemetry, ca, p);
	nw_ring_submit(report, NW_RING_NO_WAKEUP);
}

/*
 * What is reported in state mode: what happened, always, and how things are now and
 * then, by the hook that knows an ACK's round trip.
 */
NW_INLINE int nw_is_event(u32 hook, const struct nw_decision *d)
{
	return hook == NW_HOOK_SET_STATE || hook == NW_HOOK_INIT ||
	       hook == NW_HOOK_UNDO_CWND || d->events;
}

NW_INLINE int nw_is_due(u32 hook, const struct nw_facts *f, const struct nw_socket *s)
{
	return hook == NW_HOOK_PKTS_ACKED && f->rtt_us &&
	       f->now_ns - s->sampled_ns >= NW_SAMPLE_NS;
}

/* After a hook: its input and its answer. */
NW_INLINE void nw_trace(struct tcp_sock *tp, u32 hook, u32 argument, u32 answer,
			const NW_STATE(NW_ALGORITHM) *ca,
			const NW_PARAMS(NW_ALGORITHM) *p,
			const struct nw_facts *f, const struct nw_decision *d)
{
	struct nw_socket *s;

	if (nw_config.trace == NW_TRACE_OFF)
		return;
	s = nw_socket(tp);
	if (!s)
		return;
	if (nw_config.trace == NW_TRACE_FULL) {
		nw_emit(tp, s, 0, hook, argument, answer, ca, p, f, d);
	} else if (nw_is_event(hook, d)) {
		nw_emit(tp, s, 1, hook, argument, answer, ca, p, f, d);
	} else if (nw_is_due(hook, f, s)) {
		s->sampled_ns = f->now_ns;
		nw_emit(tp, s, 1, hook, argument, answer, ca, p, f, d);
	}
}

NW_INLINE void nw_apply(struct tcp_sock *tp, const struct nw_decision *d)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	if (d->set & NW_SET_CWND)
		tp->snd_cwnd = nw_max(d->cwnd, 1);
	if (d->set & NW_SET_CWND_CNT)
		tp->snd_cwnd_cnt = d->cwnd_cnt;
	if (d->set & NW_SET_SSTHRESH)
		tp->snd_ssthresh = d->ssthresh;
	if (d->set & NW_SET_PACING_RATE)
		sk->sk_pacing_rate = nw_min64(d->pacing_rate,
					      sk->sk_max_pacing_rate);
	/* A socket that the fq discipline paces stays so. */
	if (d->set & NW_SET_PACING_STATUS)
		sk->sk_pacing_status = d->pacing_status;
}

/*
 * The algorithm's timer, if it is due: before the hook under way, which then sees
 * what it decided. A timer of BPF has no way to a socket, so that an event of the
 * connection has to come first.
 */
NW_INLINE void nw_run_timer(struct tcp_sock *tp, NW_STATE(NW_ALGORITHM) *ca,
			    const NW_PARAMS(NW_ALGORITHM) *p)
{
	struct nw_decision d = {};
	struct nw_facts f = {};
	u64 at;

	if (!NW_TIMED)
		return;
	at = NW_CALL(NW_ALGORITHM, timer_at)(ca, p);
	if (!at)
		return;
	nw_read_facts(&f, tp);
	if (f.now_ns < at)
		return;
	NW_CALL(NW_ALGORITHM, timer)(ca, p, &f, &d);
	nw_apply(tp, &d);
	nw_trace(tp, NW_HOOK_TIMER, 0, 0, ca, p, &f, &d);
}

#define NW_HOOK(name)							\
NW_SECTION("struct_ops/" #name) u32 nw_hook_##name(u64 *ctx)

#define NW_BEGIN()							\
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];		\
	const NW_PARAMS(NW_ALGORITHM) *p = nw_params(tp);		\
	NW_STATE(NW_ALGORITHM) *ca = nw_state(tp, 0);			\
	struct nw_decision d = {};					\
	struct nw_facts f = {};						\
									\
	(void)p

NW_INLINE int nw_become_reno(struct tcp_sock *tp)
{
	char reno[] = "reno";

	return !nw_setsockopt(tp, NW_SOL_TCP, NW_TCP_CONGESTION, reno,
			      sizeof(reno));
}

/*
 * Without the ECN that the algorithm needs it gives way to Reno, and what
 * classic ECN was negotiated goes unused: its packets would claim to be L4S
 * without the feedback for it.
 */
NW_INLINE int nw_gives_way(struct tcp_sock *tp)
{
	if (!nw_config.ecn_bits || (tp->ecn_flags & nw_config.ecn_bits))
		return 0;
	tp->ecn_flags &= ~NW_ECN_RFC3168;
	return nw_become_reno(tp);
}

NW_HOOK(init)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	const NW_PARAMS(NW_ALGORITHM) *p = nw_params(tp);
	NW_STATE(NW_ALGORITHM) *ca;
	struct nw_decision d = {};
	struct nw_facts f = {};
	struct nw_counters *c;
	struct nw_socket *s;

	if (nw_gives_way(tp))
		return 0;
	ca = nw_state(tp, NW_STORAGE_CREATE);
	if (!ca) {
		nw_become_reno(tp);
		return 0;
	}
	/* A socket that had this control before has that one's state still. */
	if (NW_STORED)
		__builtin_memset(ca, 0, sizeof(*ca));
	if (nw_config.trace || nw_config.ect1 || nw_config.dctcp_feedback) {
		s = nw_storage(&nw_sockets, tp, 0, NW_STORAGE_CREATE);
		c = nw_counter();
		if (s && c) {
			s->id = __sync_fetch_and_add(&c->sockets, 1) + 1;
			s->ect1 = nw_config.ect1;
			s->ce_state = 0;
			s->prior_rcv_nxt = tp->rcv_nxt;
			s->sampled_ns = 0;
		}
	}
	nw_read_facts(&f, tp);
	NW_CALL(NW_ALGORITHM, init)(ca, p, &f, &d);
	nw_apply(tp, &d);
	nw_trace(tp, NW_HOOK_INIT, 0, 0, ca, p, &f, &d);
	return 0;
}

NW_HOOK(release)
{
	NW_BEGIN();
	struct nw_socket *s;

	if (ca) {
		nw_read_facts(&f, tp);
		nw_trace(tp, NW_HOOK_RELEASE, 0, 0, ca, p, &f, &d);
		NW_CALL(NW_ALGORITHM, release)(ca);
	}
	s = nw_socket(tp);
	if (s)
		s->ect1 = 0;
	return 0;
}

NW_HOOK(ssthresh)
{
	NW_BEGIN();
	u32 answer;

	if (!ca)
		return nw_max(tp->snd_cwnd >> 1, 2);
	nw_run_timer(tp, ca, p);
	nw_read_facts(&f, tp);
	answer = NW_CALL(NW_ALGORITHM, ssthresh)(ca, p, &f);
	nw_trace(tp, NW_HOOK_SSTHRESH, 0, answer, ca, p, &f, &d);
	return answer;
}

NW_HOOK(undo_cwnd)
{
	NW_BEGIN();
	u32 answer;

	if (!ca)
		return nw_max(tp->snd_cwnd, tp->prior_cwnd);
	nw_run_timer(tp, ca, p);
	nw_read_facts(&f, tp);
	answer = NW_CALL(NW_ALGORITHM, undo_cwnd)(ca, p, &f);
	nw_trace(tp, NW_HOOK_UNDO_CWND, 0, answer, ca, p, &f, &d);
	return nw_max(answer, 1);
}

NW_HOOK(set_state)
{
	NW_BEGIN();
	u8 state = (u8)ctx[1];

	if (nw_is_early(tp) || !ca)
		return 0;
	nw_run_timer(tp, ca, p);
	nw_read_facts(&f, tp);
	NW_CALL(NW_ALGORITHM, set_state)(ca, p, &f, state, &d);
	nw_apply(tp, &d);
	nw_trace(tp, NW_HOOK_SET_STATE, state, 0, ca, p, &f, &d);
	return 0;
}

/*
 * The receiver's half where there is no AccECN: as DCTCP (RFC 8257 section
 * 3.2), ECE follows the CE mark of every packet, and a change of it sends the
 * ACK that is being delayed with the former value first.
 */
NW_INLINE void nw_echo_ce(struct tcp_sock *tp, u32 ce)
{
	struct nw_socket *s = nw_socket(tp);

	if (!s)
		return;
	if (s->ce_state != ce) {
		if (tp->inet_conn.icsk_ack.pending & NW_ACK_TIMER) {
			if (s->ce_state)
				tp->ecn_flags |= NW_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~NW_ECN_DEMAND_CWR;
			nw_send_ack(tp, s->prior_rcv_nxt);
		}
		tp->inet_conn.icsk_ack.pending |= NW_ACK_NOW;
	}
	s->prior_rcv_nxt = tp->rcv_nxt;
	s->ce_state = ce;
	if (ce)
		tp->ecn_flags |= NW_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~NW_ECN_DEMAND_CWR;
}

NW_INLINE void nw_on_event(struct tcp_sock *tp, u32 event)
{
	const NW_PARAMS(NW_ALGORITHM) *p = nw_params(tp);
	NW_STATE(NW_ALGORITHM) *ca = nw_state(tp, 0);
	struct nw_decision d = {};
	struct nw_facts f = {};

	if (nw_is_early(tp) || !ca)
		return;
	nw_run_timer(tp, ca, p);
	nw_read_facts(&f, tp);
	if (event == NW_EV_TX_START)
		nw_read_last_sent(&f, tp);
	NW_CALL(NW_ALGORITHM, cwnd_event)(ca, p, &f, event, &d);
	nw_apply(tp, &d);
	nw_trace(tp, NW_HOOK_CWND_EVENT, event, 0, ca, p, &f, &d);
	if (nw_config.dctcp_feedback &&
	    (event == NW_EV_ECN_IS_CE || event == NW_EV_ECN_NO_CE))
		nw_echo_ce(tp, event == NW_EV_ECN_IS_CE);
}

NW_HOOK(cwnd_event)
{
	nw_on_event((struct tcp_sock *)ctx[0], (u32)ctx[1]);
	return 0;
}

/* Kernels that report this one event by a hook of its own. */
NW_HOOK(cwnd_event_tx_start)
{
	nw_on_event((struct tcp_sock *)ctx[0], NW_EV_TX_START);
	return 0;
}

NW_HOOK(in_ack_event)
{
	NW_BEGIN();

	if (nw_is_early(tp) || !ca)
		return 0;
	nw_run_timer(tp, ca, p);
	nw_read_facts(&f, tp);
	f.ts_echo = tp->rx_opt.rcv_tsecr;
	if ((u32)ctx[1] & NW_CA_ACK_ECE)
		f.flags |= NW_F_ACK_ECE;
	NW_CALL(NW_ALGORITHM, in_ack_event)(ca, p, &f, &d);
	nw_apply(tp, &d);
	nw_trace(tp, NW_HOOK_IN_ACK_EVENT, (u32)ctx[1], 0, ca, p, &f, &d);
	return 0;
}

NW_HOOK(pkts_acked)
{
	NW_BEGIN();
	const struct ack_sample *sample = (const struct ack_sample *)ctx[1];

	if (nw_is_early(tp) || !ca)
		return 0;
	nw_run_timer(tp, ca, p);
	nw_read_facts(&f, tp);
	f.ts_echo = tp->rx_opt.rcv_tsecr;
	f.acked_sacked = sample->pkts_acked;
	f.rtt_us = sample->rtt_us > 0 ? sample->rtt_us : 0;
	NW_CALL(NW_ALGORITHM, pkts_acked)(ca, p, &f, &d);
	nw_apply(tp, &d);
	nw_trace(tp, NW_HOOK_PKTS_ACKED, 0, 0, ca, p, &f, &d);
	return 0;
}

#ifdef NW_WINDOW_MODE
NW_HOOK(cong_avoid)
{
	NW_BEGIN();
	u32 acked = (u32)ctx[2];

	if (!ca)
		return 0;
	nw_run_timer(tp, ca, p);
	nw_read_facts(&f, tp);
	f.ts_echo = tp->rx_opt.rcv_tsecr;
	f.acked_sacked = acked;
	NW_CALL(NW_ALGORITHM, cong_avoid)(ca, p, &f, acked, &d);
	nw_apply(tp, &d);
	nw_trace(tp, NW_HOOK_CONG_AVOID, acked, 0, ca, p, &f, &d);
	return 0;
}
#else
NW_INLINE void nw_control(struct tcp_sock *tp, u32 flag,
			  const struct rate_sample *rs)
{
	const NW_PARAMS(NW_ALGORITHM) *p = nw_params(tp);
	NW_STATE(NW_ALGORITHM) *ca = nw_state(tp, 0);
	struct nw_decision d = {};
	struct nw_facts f = {};

	if (!ca)
		return;
	nw_run_timer(tp, ca, p);
	nw_read_facts(&f, tp);
	nw_read_rate_sample(&f, rs);
	f.ts_echo = tp->rx_opt.rcv_tsecr;
	if (flag & NW_FLAG_ECE)
		f.flags |= NW_F_ACK_ECE;
	NW_CALL(NW_ALGORITHM, cong_control)(ca, p, &f, &d);
	nw_apply(tp, &d);
	nw_trace(tp, NW_HOOK_CONG_CONTROL, flag, 0, ca, p, &f, &d);
}

/* cong_control(sk, ack, flag, rs): from v6.10 on */
NW_HOOK(cong_control)
{
	nw_control((struct tcp_sock *)ctx[0], (u32)ctx[2],
		   (const struct rate_sample *)ctx[3]);
	return 0;
}

/* cong_control(sk, rs): before */
NW_HOOK(cong_control_rs)
{
	nw_control((struct tcp_sock *)ctx[0], 0,
		   (const struct rate_sample *)ctx[1]);
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
