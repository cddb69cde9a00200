/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What bpf/kernel.h declares for programs that are loaded, in a kernel that the
 * controls are compiled into: there its own headers have the types. In the tree this
 * file has that name, so facts.h, control.h and hooks.h are the same text.
 * What differs between trees is in nw_tree.h, made of the tree's own text.
 */
#ifndef NW_KERNEL_H
#define NW_KERNEL_H

#include <linux/random.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <net/tcp.h>
#include "nw_tree.h"

/* The kernel has u32 and its like by the same names. */
#define __VMLINUX_H__
#include "nw_cc.h"

#define NW_INLINE	static inline __attribute__((always_inline))

#define nw_has(field)		1
#define nw_bits(s, field)	((s)->field)
#define nw_random()		get_random_u32()
#define nw_jiffies()		tcp_jiffies32

#if NW_TREE_RECEIVED_CE
#define nw_received_ce(tp)	((tp)->received_ce)
#else
#define nw_received_ce(tp)	0
#endif

/* Without the cost that time travel puts on a read of the clock where interrupts
 * could come (arch/um/kernel/time.c): a report must not change what it reports of.
 */
NW_INLINE u64 nw_ktime_ns(void)
{
	unsigned long flags;
	u64 now;

	local_irq_save(flags);
	now = ktime_get_ns();
	local_irq_restore(flags);
	return now;
}

/* Bits of tcp_sock.ecn_flags; trees before v6.18 call the first TCP_ECN_OK and have
 * no Accurate ECN.
 */
enum nw_ecn_bit {
	NW_ECN_RFC3168 = 1,
	NW_ECN_DEMAND_CWR = TCP_ECN_DEMAND_CWR,
	NW_ECN_ACCECN = 16,
};

enum nw_ack_bit {
	NW_ACK_TIMER = ICSK_ACK_TIMER,
	NW_ACK_NOW = ICSK_ACK_NOW,
};

#define NW_CA_ACK_ECE	CA_ACK_ECE
#define NW_FLAG_ECE	0x40	/* FLAG_ECE of net/ipv4/tcp_input.c */

#endif /* NW_KERNEL_H */
