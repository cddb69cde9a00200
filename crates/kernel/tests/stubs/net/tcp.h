/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What the controls that are built in use of a kernel, so that a test compiles them
 * without a tree: names and types as in Linux v7.3, in no order, and nothing behind them.
 */
#ifndef NW_STUB_H
#define NW_STUB_H

#include "nw_tree.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef unsigned long size_t;
typedef long ssize_t;
typedef long long loff_t;
typedef _Bool bool;
#define true	1
#define false	0
#define NULL	((void *)0)

#define __aligned(n)		__attribute__((aligned(n)))
#define __init
#define __user
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define BUILD_BUG_ON(wrong)	_Static_assert(!(wrong), #wrong)
#define READ_ONCE(what)		(what)
#define WRITE_ONCE(to, what)	((to) = (what))
#define container_of(at, type, member)					\
	((type *)((u8 *)(at) - __builtin_offsetof(type, member)))
#define min_t(type, a, b)	((type)(a) < (type)(b) ? (type)(a) : (type)(b))
#define late_initcall(call)	int (*nw_stub_initcall)(void) = call

enum { EFAULT = 14, EBUSY = 16, EINVAL = 22, ENOENT = 2, ENOMEM = 12, ENOTSOCK = 88,
       EOPNOTSUPP = 95 };
#define IS_ERR(p)		((unsigned long)(p) >= -4095UL)
#define PTR_ERR(p)		((long)(p))
#define PTR_ERR_OR_ZERO(p)	(IS_ERR(p) ? (int)PTR_ERR(p) : 0)
#define ERR_PTR(e)		((void *)(long)(e))

enum { GFP_KERNEL, GFP_ATOMIC };
void *kzalloc(size_t size, int flags);
void kfree(const void *p);
void *vmalloc(size_t size);
void vfree(const void *p);
void *memset(void *to, int c, size_t n);
void *memcpy(void *to, const void *from, size_t n);
int strcmp(const char *a, const char *b);
ssize_t strscpy(char *to, const char *from, size_t n);
int snprintf(char *to, size_t n, const char *format, ...);
int scnprintf(char *to, size_t n, const char *format, ...);
u64 div_u64_rem(u64 a, u32 b, u32 *rest);
u32 get_random_u32(void);
u64 ktime_get_ns(void);
#define local_irq_save(flags)		((flags) = 0)
#define local_irq_restore(flags)	((void)(flags))

unsigned long copy_from_user(void *to, const void __user *from, size_t n);
unsigned long copy_to_user(void __user *to, const void *from, size_t n);
void *memdup_user(const void __user *from, size_t n);
ssize_t simple_read_from_buffer(void __user *to, size_t n, loff_t *at, const void *from,
				size_t there);
loff_t noop_llseek(void *file, loff_t at, int whence);

struct inode;
struct file {
	void *private_data;
};
struct proc_ops {
	int (*proc_open)(struct inode *inode, struct file *file);
	ssize_t (*proc_read)(struct file *file, char __user *to, size_t n, loff_t *at);
	ssize_t (*proc_write)(struct file *file, const char __user *from, size_t n,
			      loff_t *at);
	loff_t (*proc_lseek)(void *file, loff_t at, int whence);
	int (*proc_release)(struct inode *inode, struct file *file);
};
void *proc_create(const char *name, u16 mode, void *parent, const struct proc_ops *ops);

struct sock {
	struct {
		u16 skc_num;
		u16 skc_dport;
	} __sk_common;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	unsigned int sk_gso_max_size;
	u16 sk_gso_max_segs;
};
struct net {
	struct {
		u8 sysctl_tcp_min_tso_segs;
	} ipv4;
};
struct net *sock_net(const struct sock *sk);
struct socket {
	struct sock *sk;
};
struct socket *sockfd_lookup(int fd, int *error);
void sockfd_put(struct socket *socket);
bool sk_is_tcp(const struct sock *sk);
void lock_sock(struct sock *sk);
void release_sock(struct sock *sk);

enum tcp_ca_event { CA_EVENT_TX_START };
enum tcp_ca_ack_event_flags { CA_ACK_ECE = 4 };
enum inet_csk_ack_state_t { ICSK_ACK_TIMER = 2, ICSK_ACK_NOW = 16 };
#define TCP_ECN_DEMAND_CWR		4
#define TCP_CA_NAME_MAX			16
#define TCP_CONG_NON_RESTRICTED		1
#define TCP_CONG_NEEDS_ECN		2
#if NW_TREE_RECEIVED_CE
#define TCP_CONG_NEEDS_ACCECN		4
#endif
#define TCP_CONG_NW_ECT_1		(1 << 20)	/* of the change ECT(1) */

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
	bool is_app_limited;
};

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
#if NW_TREE_TX_START
	void (*cwnd_event_tx_start)(struct sock *sk);
#endif
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*cong_control)(struct sock *sk, u32 ack, int flag,
			     const struct rate_sample *rs);
	char name[TCP_CA_NAME_MAX];
	u32 flags;
};
extern struct tcp_congestion_ops tcp_reno;
int tcp_register_congestion_control(struct tcp_congestion_ops *ops);
void tcp_unregister_congestion_control(struct tcp_congestion_ops *ops);

struct inet_sock {
	struct sock sk;
};
struct inet_connection_sock_af_ops {
	u16 net_header_len;
};
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	const struct inet_connection_sock_af_ops *icsk_af_ops;
	u8 icsk_ca_state:5,
	   icsk_ca_initialized:1;
	u16 icsk_ext_hdr_len;
	u32 icsk_delack_max;
	struct {
		u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[104 / sizeof(u64)];
#define ICSK_CA_PRIV_SIZE	sizeof_field(struct inet_connection_sock, icsk_ca_priv)
};
#define sizeof_field(type, member)	sizeof(((type *)0)->member)

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u16 tcp_header_len;
	u64 tcp_clock_cache;
	u64 tcp_mstamp;
	u32 rcv_nxt, snd_nxt, snd_una, write_seq, lsndtime;
	u32 mss_cache, snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp, snd_ssthresh;
	u32 prior_cwnd, high_seq;
	u32 packets_out, retrans_out, sacked_out, lost_out, max_packets_out;
	u32 delivered, delivered_ce, lost, srtt_us;
	u32 app_limited;
#if NW_TREE_RECEIVED_CE
	u32 received_ce;
#endif
	struct {
		struct {
			u32 t, v;
		} s[3];
	} rtt_min;
	struct {
		u32 rcv_tsecr;
	} rx_opt;
	u8 ecn_flags;
	u8 is_cwnd_limited:1;
};
static inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}
static inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}
extern u32 tcp_jiffies32;
/* Trees differ in a third argument. */
void __tcp_send_ack(struct sock *sk, u32 rcv_nxt, ...);

#endif /* NW_STUB_H */
