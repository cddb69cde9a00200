/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A packet at a device as a program of tc sees it: its fields, its bytes, and the
 * change of two of them.
 *
 * Bytes are read in place. A helper that copies them costs more than all that is
 * then done with them, and headers nearly always lie in the packet's linear part;
 * where they do not they are pulled there.
 */
#ifndef NW_SKB_H
#define NW_SKB_H

#include "kernel.h"

/*
 * The start of struct __sk_buff, include/uapi/linux/bpf.h. By that name the kernel knows
 * the context of functions that are not static, which it verifies once, not at each call.
 */
#define nw_skb __sk_buff
struct nw_skb {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 between[14];
	u32 data;		/* the verifier makes pointers of these two */
	u32 data_end;
	u32 between_too[17];
	u64 tstamp;		/* when it is to leave; 0: not known */
	u32 wire_len;
	u32 gso_segs;
	void *sk;
	u32 gso_size;
};
_Static_assert(__builtin_offsetof(struct nw_skb, data) == 76, "data");
_Static_assert(__builtin_offsetof(struct nw_skb, tstamp) == 152, "tstamp");
_Static_assert(__builtin_offsetof(struct nw_skb, gso_segs) == 164, "gso_segs");
_Static_assert(__builtin_offsetof(struct nw_skb, sk) == 168, "sk");
_Static_assert(__builtin_offsetof(struct nw_skb, gso_size) == 176, "gso_size");

/* Numbers in network order. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define nw_be16(value)		__builtin_bswap16(value)
#define nw_be32(value)		__builtin_bswap32(value)
#else
#define nw_be16(value)		((u16)(value))
#define nw_be32(value)		((u32)(value))
#endif

#define NW_TC_NEXT		-1	/* TCX_NEXT, TC_ACT_UNSPEC: on with the next program */

/* Helpers by their numbers in include/uapi/linux/bpf.h. */
static long (*nw_l4_checksum)(void *skb, u32 at, u64 from, u64 to,
			      u64 flags) = (void *)11;
static long (*nw_pull)(void *skb, u32 len) = (void *)39;

/* A pointer of the packet. Loaded anew each time, and by one instruction: a compiler
 * that keeps the 32 bits and widens them later makes a number of it.
 */
#define nw_edge(skb, field) ({						\
	u8 *edge_;							\
									\
	asm volatile("%0 = *(u32 *)(%1 + %2)"				\
		     : "=r"(edge_)					\
		     : "r"(skb),					\
		       "i"(__builtin_offsetof(struct nw_skb, field)));	\
	edge_;								\
})

/* Where `at` bytes of the packet end, if `len` bytes behind lie in its linear part;
 * a macro, as the verifier wants to see the comparison where the pointer is used.
 */
#define nw_in_place(skb, at, len) ({					\
	u8 *from_ = nw_edge(skb, data) + (at);				\
									\
	from_ + (len) <= nw_edge(skb, data_end) ? from_ : (u8 *)0;	\
})

/*
 * Puts `new` in the place of `old`, bytes 12 and 13 of the TCP header at `at`, and
 * mends the checksum. That is a helper's work: only the kernel knows whether the
 * device will do it.
 */
NW_INLINE int nw_change_word_12(struct nw_skb *skb, u32 at, u16 old, u16 new)
{
	u8 *tcp;

	/* 14 of Ethernet and 60 of IPv4 at most, of which the verifier may have lost
	 * sight meanwhile
	 */
	at &= 127;
	asm volatile("" : "+r"(at));
	if (nw_l4_checksum(skb, at + 16, old, new, sizeof(new)))
		return -1;
	/* the helper may have moved the packet */
	tcp = nw_in_place(skb, at, 20);
	if (!tcp)
		return -1;
	*(u16 *)(tcp + 12) = new;
	return 0;
}

#endif /* NW_SKB_H */
