/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The hooks of a congestion control in the kernel: each reads the facts, calls the
 * algorithm's hook of the same name and does what it decided. Two builds include
 * this, one that is loaded into the running kernel (control.bpf.c) and one that is
 * compiled into a kernel. Each has, before it:
 *
 *	NW_CONFIG(tp)		the struct nw_config of the registered control
 *	nw_new_state(tp)	the algorithm's state, zeroed; null without memory
 *	nw_state(tp)		likewise, what there is of it
 *	nw_params(tp, ca)	the socket's own parameters, or the registered ones
 *	nw_is_quiet(tp)		whether an ACK's first hook has nothing to do
 *	nw_stay_quiet(tp, ns)	it has not before `ns`, on the clock of the facts
 *	nw_new_socket(tp)	a struct nw_socket with its number; null without memory
 *	nw_socket(tp)		likewise, what there is of it
 *	nw_reserve(tp)		a struct nw_report; null, and counted, without room
 *	nw_submit(tp, report)
 *	nw_become_reno(tp)	whether the kernel's Reno has taken over
 *	nw_send_ack(tp, rcv_nxt)
 */
#ifndef NW_HOOKS_H
#define NW_HOOKS_H

#include "control.h"

/* Hooks that the stack calls for a connection that does not exist yet. */
NW_INLINE int nw_is_early(struct tcp_sock *tp)
{
	return !nw_bits(&tp->inet_conn, icsk_ca_initialized);
}

#define NW_REPORT_FIELD(name, unit, scale, value, ...)	*out++ = (s64)(value);

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
	struct nw_report *report = nw_reserve(tp);
	struct nw_record *r = &report->record;

	if (!report)
		return;
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
	nw_submit(tp, report);
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

	if (NW_CONFIG(tp).trace == NW_TRACE_OFF)
		return;
	s = nw_socket(tp);
	if (!s)
		return;
	if (NW_CONFIG(tp).trace == NW_TRACE_FULL) {
		nw_emit(tp, s, 0, hook, argument, answer, ca, p, f, d);
	} else if (nw_is_event(hook, d)) {
		nw_emit(tp, s, 1, hook, argument, answer, ca, p, f, d);
	} else if (nw_is_due(hook, f, s)) {
		s->sampled_ns = f->now_ns;
		nw_emit(tp, s, 1, hook, argument, answer, ca, p, f, d);
	}
}

/* After each hook. */
NW_INLINE void nw_after(struct tcp_sock *tp, u32 hook, u32 argument, u32 answer,
			const NW_STATE(NW_ALGORITHM) *ca,
			const NW_PARAMS(NW_ALGORITHM) *p,
			const struct nw_facts *f, const struct nw_decision *d)
{
	u64 at = 0;

	if (!NW_CALL(NW_ALGORITHM, sees_acks)(p)) {
		at = NW_TIMED ? NW_CALL(NW_ALGORITHM, timer_at)(ca, p) : 0;
		at = at ? at : ~0ULL;
	}
	nw_stay_quiet(tp, at);
	nw_trace(tp, hook, argument, answer, ca, p, f, d);
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
	if (d->set & NW_SET_APP_LIMITED)
		tp->app_limited = nw_max(tp->delivered + tp->packets_out -
					 tp->sacked_out - tp->lost_out +
					 tp->retrans_out, 1);
	/* A socket that the fq discipline paces stays so. */
	if (d->set & NW_SET_PACING_STATUS)
		sk->sk_pacing_status = d->pacing_status;
}

/*
 * The algorithm's timer, if it is due: before the hook under way, which then sees
 * what it decided. A timer of BPF has no way to a socket, so that an event of the
 * connection has to come first. Of an ACK the first hook is in_ack_event, of
 * anything else cwnd_event; only these look for it, as a verifier follows the timer
 * in each hook that does.
 */
NW_INLINE void nw_run_timer(struct tcp_sock *tp, NW_STATE(NW_ALGORITHM) *ca,
			    const NW_PARAMS(NW_ALGORITHM) *p, struct nw_facts *f,
			    struct nw_decision *d)
{
	u64 at;

	if (!NW_TIMED)
		return;
	at = NW_CALL(NW_ALGORITHM, timer_at)(ca, p);
	if (!at || nw_clock_of(tp) < at)
		return;
	nw_read_facts(f, tp);
	NW_CALL(NW_ALGORITHM, timer)(ca, p, f, d);
	nw_apply(tp, d);
	nw_after(tp, NW_HOOK_TIMER, 0, 0, ca, p, f, d);
	*d = (struct nw_decision){};
	*f = (struct nw_facts){};
}

/*
 * Without the ECN that the algorithm needs it gives way to Reno, and what
 * classic ECN was negotiated goes unused: its packets would claim to be L4S
 * without the feedback for it.
 */
NW_INLINE int nw_gives_way(struct tcp_sock *tp)
{
	if (!NW_CONFIG(tp).ecn_bits || (tp->ecn_flags & NW_CONFIG(tp).ecn_bits))
		return 0;
	tp->ecn_flags &= ~NW_ECN_RFC3168;
	return nw_become_reno(tp);
}

#define NW_BEGIN(tp)							\
	NW_STATE(NW_ALGORITHM) *ca = nw_state(tp);			\
	const NW_PARAMS(NW_ALGORITHM) *p = nw_params(tp, ca);		\
	struct nw_decision d = {};					\
	struct nw_facts f = {};						\
									\
	(void)p

NW_INLINE void nw_on_init(struct tcp_sock *tp)
{
	const NW_PARAMS(NW_ALGORITHM) *p;
	NW_STATE(NW_ALGORITHM) *ca;
	struct nw_decision d = {};
	struct nw_facts f = {};
	struct nw_socket *s;

	if (nw_gives_way(tp))
		return;
	ca = nw_new_state(tp);
	if (!ca) {
		nw_become_reno(tp);
		return;
	}
	p = nw_params(tp, ca);
	if (NW_CONFIG(tp).trace || NW_CONFIG(tp).ect1 ||
	    NW_CONFIG(tp).dctcp_feedback) {
		s = nw_new_socket(tp);
		if (s) {
			s->ect1 = NW_CONFIG(tp).ect1;
			s->ce_state = 0;
			s->prior_rcv_nxt = tp->rcv_nxt;
			s->sampled_ns = 0;
		}
	}
	nw_read_facts(&f, tp);
	NW_CALL(NW_ALGORITHM, init)(ca, p, &f, &d);
	nw_apply(tp, &d);
	nw_after(tp, NW_HOOK_INIT, 0, 0, ca, p, &f, &d);
}

NW_INLINE void nw_on_release(struct tcp_sock *tp)
{
	NW_BEGIN(tp);
	struct nw_socket *s;

	if (ca) {
		nw_read_facts(&f, tp);
		nw_trace(tp, NW_HOOK_RELEASE, 0, 0, ca, p, &f, &d);
		NW_CALL(NW_ALGORITHM, release)(ca);
	}
	s = nw_socket(tp);
	if (s)
		s->ect1 = 0;
}

NW_INLINE u32 nw_on_ssthresh(struct tcp_sock *tp)
{
	NW_BEGIN(tp);
	u32 answer;

	if (!ca)
		return nw_max(tp->snd_cwnd >> 1, 2);
	nw_read_facts(&f, tp);
	answer = NW_CALL(NW_ALGORITHM, ssthresh)(ca, p, &f);
	nw_after(tp, NW_HOOK_SSTHRESH, 0, answer, ca, p, &f, &d);
	return answer;
}

NW_INLINE u32 nw_on_undo_cwnd(struct tcp_sock *tp)
{
	NW_BEGIN(tp);
	u32 answer;

	if (!ca)
		return nw_max(tp->snd_cwnd, tp->prior_cwnd);
	nw_read_facts(&f, tp);
	answer = NW_CALL(NW_ALGORITHM, undo_cwnd)(ca, p, &f);
	nw_after(tp, NW_HOOK_UNDO_CWND, 0, answer, ca, p, &f, &d);
	return nw_max(answer, 1);
}

NW_INLINE void nw_on_set_state(struct tcp_sock *tp, u8 state)
{
	NW_BEGIN(tp);

	if (nw_is_early(tp) || !ca)
		return;
	nw_read_facts(&f, tp);
	NW_CALL(NW_ALGORITHM, set_state)(ca, p, &f, state, &d);
	nw_apply(tp, &d);
	nw_after(tp, NW_HOOK_SET_STATE, state, 0, ca, p, &f, &d);
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
	NW_BEGIN(tp);

	if (nw_is_early(tp) || !ca)
		return;
	nw_run_timer(tp, ca, p, &f, &d);
	nw_read_facts(&f, tp);
	if (event == NW_EV_TX_START)
		nw_read_last_sent(&f, tp);
	NW_CALL(NW_ALGORITHM, cwnd_event)(ca, p, &f, event, &d);
	nw_apply(tp, &d);
	nw_after(tp, NW_HOOK_CWND_EVENT, event, 0, ca, p, &f, &d);
	if (NW_CONFIG(tp).dctcp_feedback &&
	    (event == NW_EV_ECN_IS_CE || event == NW_EV_ECN_NO_CE))
		nw_echo_ce(tp, event == NW_EV_ECN_IS_CE);
}

NW_INLINE void nw_see_ack(struct tcp_sock *tp, u32 flags)
{
	NW_BEGIN(tp);

	if (nw_is_early(tp) || !ca)
		return;
	nw_run_timer(tp, ca, p, &f, &d);
	nw_read_facts(&f, tp);
	f.ts_echo = tp->rx_opt.rcv_tsecr;
	if (flags & NW_CA_ACK_ECE)
		f.flags |= NW_F_ACK_ECE;
	NW_CALL(NW_ALGORITHM, in_ack_event)(ca, p, &f, &d);
	nw_apply(tp, &d);
	nw_after(tp, NW_HOOK_IN_ACK_EVENT, flags, 0, ca, p, &f, &d);
}

NW_INLINE void nw_on_in_ack(struct tcp_sock *tp, u32 flags)
{
	if (!nw_is_quiet(tp))
		nw_see_ack(tp, flags);
}

NW_INLINE void nw_on_pkts_acked(struct tcp_sock *tp, const struct ack_sample *sample)
{
	NW_BEGIN(tp);

	if (nw_is_early(tp) || !ca)
		return;
	nw_read_facts(&f, tp);
	f.ts_echo = tp->rx_opt.rcv_tsecr;
	f.acked_sacked = sample->pkts_acked;
	f.rtt_us = sample->rtt_us > 0 ? sample->rtt_us : 0;
	NW_CALL(NW_ALGORITHM, pkts_acked)(ca, p, &f, &d);
	nw_apply(tp, &d);
	nw_after(tp, NW_HOOK_PKTS_ACKED, 0, 0, ca, p, &f, &d);
}

#ifdef NW_WINDOW_MODE
NW_INLINE void nw_on_cong_avoid(struct tcp_sock *tp, u32 acked)
{
	NW_BEGIN(tp);

	if (!ca)
		return;
	nw_read_facts(&f, tp);
	f.ts_echo = tp->rx_opt.rcv_tsecr;
	f.acked_sacked = acked;
	NW_CALL(NW_ALGORITHM, cong_avoid)(ca, p, &f, acked, &d);
	nw_apply(tp, &d);
	nw_after(tp, NW_HOOK_CONG_AVOID, acked, 0, ca, p, &f, &d);
}
#else
NW_INLINE void nw_on_cong_control(struct tcp_sock *tp, u32 flag,
				  const struct rate_sample *rs)
{
	NW_BEGIN(tp);

	if (!ca)
		return;
	nw_read_facts(&f, tp);
	nw_read_rate_sample(&f, rs);
	f.ts_echo = tp->rx_opt.rcv_tsecr;
	if (flag & NW_FLAG_ECE)
		f.flags |= NW_F_ACK_ECE;
	NW_CALL(NW_ALGORITHM, cong_control)(ca, p, &f, &d);
	nw_apply(tp, &d);
	nw_after(tp, NW_HOOK_CONG_CONTROL, flag, 0, ca, p, &f, &d);
}
#endif

#endif /* NW_HOOKS_H */
