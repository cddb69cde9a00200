/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What Narrows needs to know of the kernel, declared by ourselves: the names
 * of fields, never their places. The loader finds the places in the BTF of the
 * running kernel (CO-RE), so one object serves them all and no kernel's
 * headers are needed to build it. Names and types as in Linux v6.18; a field
 * that a kernel may lack is asked for with nw_has().
 */
#ifndef NW_KERNEL_H
#define NW_KERNEL_H

#include "nw_cc.h"

#define NW_SECTION(name)	__attribute__((section(name), used))
#define NW_INLINE		static inline __attribute__((always_inline))

/* Makes the compiler forget what it knows of a number. The verifier does not know it, so
 * that a bound which a compiler finds needless, and leaves out, is missed there.
 */
#define nw_forget(number)	asm volatile("" : "+r"(number))

/* Map definitions as libbpf reads them from BTF. */
#define NW_UINT(name, value)	int (*name)[value]
#define NW_TYPE(name, type)	typeof(type) *name

enum nw_map_type {
	NW_MAP_HASH = 1,	/* BPF_MAP_TYPE_HASH */
	NW_MAP_ARRAY = 2,	/* BPF_MAP_TYPE_ARRAY */
	NW_MAP_PERCPU_ARRAY = 6,	/* BPF_MAP_TYPE_PERCPU_ARRAY */
	NW_MAP_LRU_HASH = 9,	/* BPF_MAP_TYPE_LRU_HASH */
	NW_MAP_QUEUE = 22,	/* BPF_MAP_TYPE_QUEUE */
	NW_MAP_SK_STORAGE = 24,	/* BPF_MAP_TYPE_SK_STORAGE */
	NW_MAP_RINGBUF = 27,	/* BPF_MAP_TYPE_RINGBUF */
};

#define NW_NO_PREALLOC		1	/* BPF_F_NO_PREALLOC */
#define NW_ANY			0	/* BPF_ANY */
#define NW_NOEXIST		1	/* BPF_NOEXIST */
#define NW_EXIST		2	/* BPF_EXIST */
#define NW_CLONE		512	/* BPF_F_CLONE: accept() copies a listener's */
#define NW_STORAGE_CREATE	1	/* BPF_SK_STORAGE_GET_F_CREATE */
#define NW_RING_NO_WAKEUP	1	/* BPF_RB_NO_WAKEUP: nobody sleeps on it */

/* Helpers by their numbers in include/uapi/linux/bpf.h. */
static void *(*nw_map_lookup)(void *map, const void *key) = (void *)1;
static long (*nw_map_update)(void *map, const void *key, const void *value,
			     u64 flags) = (void *)2;
static long (*nw_map_delete)(void *map, const void *key) = (void *)3;
static u64 (*nw_ktime_ns)(void) = (void *)5;
static u32 (*nw_random)(void) = (void *)7;
static long (*nw_store)(void *skb, u32 at, const void *from, u32 len,
			u64 flags) = (void *)9;
static long (*nw_ip_checksum)(void *skb, u32 at, u64 from, u64 to,
			      u64 size) = (void *)10;
static long (*nw_load)(const void *skb, u32 at, void *to, u32 len) = (void *)26;
static long (*nw_setsockopt)(void *sk, int level, int name, void *value,
			     int len) = (void *)49;
static long (*nw_load_relative)(const void *skb, u32 at, void *to, u32 len,
				u32 start) = (void *)68;
static void *(*nw_full_socket)(void *sk) = (void *)95;
static void *(*nw_storage)(void *map, void *sk, void *initial,
			   u64 flags) = (void *)107;
static long (*nw_send_ack)(void *tp, u32 rcv_nxt) = (void *)116;
static u64 (*nw_jiffies)(void) = (void *)118;
static void *(*nw_ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*nw_ring_submit)(void *record, u64 flags) = (void *)132;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	u16 skc_family;
	u16 skc_num;		/* local port, host order */
	u16 skc_dport;		/* remote port, network order */
};

struct sock {
	struct sock_common __sk_common;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	unsigned int sk_gso_max_size;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock_af_ops {
	u16 net_header_len;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct inet_connection_sock_af_ops *icsk_af_ops;
	u8 icsk_ca_state:5,
	   icsk_ca_initialized:1;
	u16 icsk_ext_hdr_len;
	u32 icsk_delack_max;	/* HZ / 5 */
	struct {
		u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[13];
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_options_received {
	u32 rcv_tsecr;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u16 tcp_header_len;
	u64 tcp_clock_cache;	/* ns, CLOCK_MONOTONIC */
	u64 tcp_mstamp;		/* us */
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 write_seq;
	u32 lsndtime;		/* jiffies */
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 prior_cwnd;
	u32 high_seq;
	u32 packets_out;
	u32 retrans_out;
	u32 sacked_out;
	u32 lost_out;
	u32 max_packets_out;
	u32 delivered;
	u32 delivered_ce;
	u32 app_limited;
	u32 received_ce;	/* v6.18 */
	u32 lost;
	u32 dsack_dups;		/* v4.18 */
	u32 total_retrans;
	u64 bytes_received;
	u64 bytes_acked;
	u32 srtt_us;
	struct minmax rtt_min;
	struct tcp_options_received rx_opt;
	u8 ecn_flags;
	u8 is_cwnd_limited:1;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct rate_sample {
	u32 prior_delivered;
	s32 delivered;
	long interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	_Bool is_app_limited;
};

#pragma clang attribute pop

/* enum bpf_field_info_kind of libbpf's CO-RE relocations */
#define nw_field_offset(field)	__builtin_preserve_field_info(field, 0)
#define nw_field_size(field)	__builtin_preserve_field_info(field, 1)
#define nw_has(field)		__builtin_preserve_field_info(field, 2)
#define nw_field_left(field)	__builtin_preserve_field_info(field, 4)
#define nw_field_right(field)	__builtin_preserve_field_info(field, 5)

/* An unsigned bit field of *s, wherever this kernel has it. */
#define nw_bits(s, field) ({						\
	const u8 *at = (const u8 *)(s) + nw_field_offset((s)->field);	\
	u64 word = 0;							\
									\
	asm volatile("" : "+r"(at));					\
	switch (nw_field_size((s)->field)) {				\
	case 1: word = *at; break;					\
	case 2: word = *(const u16 *)at; break;				\
	case 4: word = *(const u32 *)at; break;				\
	case 8: word = *(const u64 *)at; break;				\
	}								\
	word <<= nw_field_left((s)->field);				\
	word >> nw_field_right((s)->field);				\
})

#define nw_received_ce(tp)						\
	(nw_has((tp)->received_ce) ? (tp)->received_ce : 0)

/* Bits of tcp_sock.ecn_flags (include/net/tcp.h); ACCECN since v6.18. */
enum nw_ecn_bit {
	NW_ECN_RFC3168 = 1,
	NW_ECN_DEMAND_CWR = 4,
	NW_ECN_ACCECN = 16,
};

/* Bits of inet_csk_ack_state_t (include/net/inet_connection_sock.h). */
enum nw_ack_bit {
	NW_ACK_TIMER = 2,	/* ICSK_ACK_TIMER: a delayed ACK is due */
	NW_ACK_NOW = 16,	/* ICSK_ACK_NOW */
};

#define NW_CA_ACK_ECE	4	/* in_ack_event's flags: enum tcp_ca_ack_event_flags */
#define NW_FLAG_ECE	0x40	/* cong_control's flag: FLAG_ECE, net/ipv4/tcp_input.c */
#define NW_SOL_TCP	6
#define NW_TCP_CONGESTION	13

#endif /* NW_KERNEL_H */
