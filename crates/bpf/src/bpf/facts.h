/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/* The facts of nw_cc.h, read from a socket of the kernel. */
#ifndef NW_FACTS_H
#define NW_FACTS_H

#include "record.h"

/* tcp_is_cwnd_limited() of include/net/tcp.h */
NW_INLINE int nw_is_cwnd_limited(const struct tcp_sock *tp)
{
	if (nw_bits(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh &&
	       tp->snd_cwnd < 2 * tp->max_packets_out;
}

/*
 * Ticks per second. A program cannot ask for CONFIG_HZ everywhere, but every
 * socket's longest delay of an ACK is TCP_DELACK_MAX, a fifth of it. A socket
 * with another one (TCP_DELACK_MAX_US) is taken to tick in milliseconds.
 */
NW_INLINE u32 nw_hz(const struct inet_connection_sock *icsk)
{
	u32 hz = nw_has(icsk->icsk_delack_max) ? icsk->icsk_delack_max * 5 : 0;

	if (hz == 100 || hz == 250 || hz == 300)
		return hz;
	return 1000;
}

/* The clock of the facts. */
NW_INLINE u64 nw_clock_of(const struct tcp_sock *tp)
{
	return nw_has(tp->tcp_clock_cache) ? tp->tcp_clock_cache :
					     tp->tcp_mstamp * 1000;
}

/* What holds outside an ACK too: the rate sample, the RTT and the echo stay 0. */
NW_INLINE void nw_read_facts(struct nw_facts *f, const struct tcp_sock *tp)
{
	const struct inet_connection_sock *icsk = &tp->inet_conn;
	const struct sock *sk = &icsk->icsk_inet.sk;
	u32 left = tp->sacked_out + tp->lost_out;

	f->now_ns = nw_clock_of(tp);
	f->pacing_rate = sk->sk_pacing_rate;
	f->mss = tp->mss_cache;
	f->cwnd = tp->snd_cwnd;
	f->cwnd_cnt = tp->snd_cwnd_cnt;
	f->ssthresh = tp->snd_ssthresh;
	f->prior_cwnd = tp->prior_cwnd;
	f->packets_out = tp->packets_out;
	f->in_flight = tp->packets_out - left + tp->retrans_out;
	f->snd_una = tp->snd_una;
	f->snd_nxt = tp->snd_nxt;
	f->high_seq = tp->high_seq;
	f->delivered = tp->delivered;
	f->delivered_ce = tp->delivered_ce;
	f->lost = tp->lost;
	f->srtt_us = tp->srtt_us;
	f->min_rtt_us = tp->rtt_min.s[0].v;
	f->gso_max_size = sk->sk_gso_max_size;
	f->random = nw_random();
	f->ca_state = nw_bits(icsk, icsk_ca_state);
	f->pacing_status = sk->sk_pacing_status;
	f->cwnd_clamp = tp->snd_cwnd_clamp;
	f->header = tp->tcp_header_len + icsk->icsk_ext_hdr_len +
		    icsk->icsk_af_ops->net_header_len;
	if (nw_is_cwnd_limited(tp))
		f->flags |= NW_F_CWND_LIMITED;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		f->flags |= NW_F_IN_SLOW_START;
	if (tp->write_seq != tp->snd_nxt)
		f->flags |= NW_F_UNSENT;
}

/* When data was last sent and whether the application was what limited it, for the
 * event that ends an idle time.
 */
NW_INLINE void nw_read_last_sent(struct nw_facts *f, const struct tcp_sock *tp)
{
	u32 idle = (u32)nw_jiffies() - tp->lsndtime;
	u64 idle_ns = (u64)idle * (1000000000U / nw_hz(&tp->inet_conn));

	/* A socket that never sent has lsndtime from its creation. */
	f->last_sent_ns = idle_ns < f->now_ns ? f->now_ns - idle_ns : 0;
	if (tp->app_limited)
		f->flags |= NW_F_APP_LIMITED;
}

NW_INLINE void nw_read_rate_sample(struct nw_facts *f,
				   const struct rate_sample *rs)
{
	f->acked_sacked = rs->acked_sacked;
	f->rtt_us = rs->rtt_us > 0 ? rs->rtt_us : 0;
	f->rs_delivered = rs->delivered;
	f->rs_interval_us = rs->interval_us > 0 ? rs->interval_us : 0;
	f->rs_prior_delivered = rs->prior_delivered;
	f->rs_prior_in_flight = rs->prior_in_flight;
	f->rs_losses = rs->losses;
	if (rs->is_app_limited)
		f->flags |= NW_F_APP_LIMITED;
}

/* The fields behind the facts, for a trace. */
NW_INLINE void nw_read_raw(struct nw_raw *raw, const struct tcp_sock *tp)
{
	const struct inet_connection_sock *icsk = &tp->inet_conn;
	const struct sock *sk = &icsk->icsk_inet.sk;

	raw->mstamp_us = tp->tcp_mstamp;
	raw->ktime_ns = nw_ktime_ns();
	raw->write_seq = tp->write_seq;
	raw->sacked_out = tp->sacked_out;
	raw->lost_out = tp->lost_out;
	raw->retrans_out = tp->retrans_out;
	raw->max_packets_out = tp->max_packets_out;
	raw->received_ce = nw_received_ce(tp);
	raw->idle_jiffies = (u32)nw_jiffies() - tp->lsndtime;
	raw->hz = nw_hz(icsk);
	raw->local_port = sk->__sk_common.skc_num;
	raw->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	raw->tcp_header_len = tp->tcp_header_len;
	raw->net_header_len = icsk->icsk_ext_hdr_len +
			      icsk->icsk_af_ops->net_header_len;
	raw->is_cwnd_limited = nw_bits(tp, is_cwnd_limited);
	raw->ecn_flags = tp->ecn_flags;
	raw->unused = 0;
	raw->unused2 = 0;
}

#endif /* NW_FACTS_H */
