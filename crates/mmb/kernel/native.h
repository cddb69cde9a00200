/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A packet as bytes in memory, for the machine at hand: what nw_mmb.h asks of its includer,
 * and the calls of narrows-mmb. BPF never sees this file.
 */
#ifndef NW_MMB_NATIVE_H
#define NW_MMB_NATIVE_H

#include "nw_mmb.h"

#define NW_INLINE	static inline __attribute__((always_inline))
#define NW_MMB_APART	static __attribute__((unused))
#define NW_MMB_GLOBAL	static __attribute__((unused))
#define NW_MMB_NET_AT	0
#define NW_MMB_EXTENSIONS	8192	/* of eight bytes each, in the longest packet */

#define nw_forget(number)

/* The callback is called in turn until it answers other than 0. */
#define nw_loop(times, callback, context, flags) do {			\
	u32 i_, times_ = (times);					\
									\
	for (i_ = 0; i_ < times_; i_++)					\
		if (callback(i_, context))				\
			break;						\
} while (0)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define nw_be16(value)	((u16)__builtin_bswap16((u16)(value)))
#define nw_be32(value)	__builtin_bswap32(value)
#else
#define nw_be16(value)	((u16)(value))
#define nw_be32(value)	((u32)(value))
#endif

/* A packet: bytes that are stored, and zeros after them that are only counted. */
struct nw_skb {
	u8 *bytes;
	u32 len;		/* of both */
	u32 stored;
	u32 room;		/* bytes that may be stored */
	u32 mtu;		/* bytes of IP beyond which options make none longer */
	u16 protocol;
	u16 unused;
	u32 unused_too;
};
_Static_assert(sizeof(void *) != 8 || sizeof(struct nw_skb) == 32, "as in ffi.rs");

#include "packet.h"
_Static_assert(sizeof(struct nw_mmb_packet) == 1176, "as in ffi.rs");

/* Bytes past the end are not there; those that are only counted are zeros. */
NW_INLINE long nw_load(const struct nw_skb *skb, u32 at, void *to, u32 len)
{
	u32 there = at < skb->stored ? skb->stored - at : 0;

	if (at > skb->len || len > skb->len - at)
		return -1;
	if (there >= len) {
		__builtin_memcpy(to, skb->bytes + at, len);
		return 0;
	}
	__builtin_memset(to, 0, len);
	if (there)
		__builtin_memcpy(to, skb->bytes + at, there);
	return 0;
}

/* Only what is stored is written: narrows-mmb stores what may be. */
NW_INLINE long nw_store(struct nw_skb *skb, u32 at, const void *from, u32 len, u64 flags)
{
	(void)flags;
	if (at > skb->stored || len > skb->stored - at)
		return -1;
	__builtin_memcpy(skb->bytes + at, from, len);
	return 0;
}

/* The checksum after words under it changed (RFC 1624 equation 3); both are as in memory. */
NW_INLINE u16 nw_mmb_updated(u16 checksum, u32 from, u32 to)
{
	u32 sum = (u16)~checksum;

	sum += (u16)~from + (u16)to;
	sum += (u16)~(from >> 16) + (u16)(to >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

NW_INLINE long nw_ip_checksum(struct nw_skb *skb, u32 at, u64 from, u64 to, u64 size)
{
	u16 sum;

	(void)size;
	if (nw_load(skb, at, &sum, 2))
		return -1;
	sum = nw_mmb_updated(sum, (u32)from, (u32)to);
	return nw_store(skb, at, &sum, 2, 0);
}

/* Of a UDP datagram 0 says that there is none, and is not written. */
NW_INLINE long nw_l4_checksum(struct nw_skb *skb, u32 at, u64 from, u64 to, u64 flags)
{
	u32 may_miss = (flags & 0x20) != 0;	/* BPF_F_MARK_MANGLED_0 */
	u16 sum;

	if (nw_load(skb, at, &sum, 2))
		return -1;
	if (may_miss && !sum)
		return 0;
	sum = nw_mmb_updated(sum, (u32)from, (u32)to);
	if (may_miss && !sum)
		sum = 0xffff;
	return nw_store(skb, at, &sum, 2, 0);
}

/* Reads the packet; `way` is NW_MMB_WAY's byte. 0 if it is IP that can be read. */
u32 nw_mmb_native_read(struct nw_skb *skb, struct nw_mmb_packet *p, u32 way, u32 options);
u32 nw_mmb_native_is_tiny(const struct nw_mmb_packet *p);
u32 nw_mmb_native_payload_at(const struct nw_mmb_packet *p, u32 layer);
/* By what the packet of a fragment is known, into p->fragmented. */
void nw_mmb_native_fragment(struct nw_mmb_packet *p);
/* The key of a packet that is no later fragment, into p->flow; whether it has one. */
u32 nw_mmb_native_key(struct nw_skb *skb, struct nw_mmb_packet *p);
/* The key of the packet as it is now, into p->left; p->flow where it has none. */
void nw_mmb_native_left(struct nw_skb *skb, struct nw_mmb_packet *p);

/* Changes of words. 0 if all were made; of the payload as much is written as there is. */
u32 nw_mmb_native_set(struct nw_skb *skb, struct nw_mmb_packet *p, const struct nw_mmb_set *sets,
		      u32 count);
u32 nw_mmb_native_set_payload(struct nw_skb *skb, struct nw_mmb_packet *p, u32 layer,
			      const u8 *bytes, u32 len);

/* Changes of TCP options: begin, changes, end; each 0 unless some cannot be made. */
u32 nw_mmb_native_list_options(struct nw_skb *skb, struct nw_mmb_packet *p);
u32 nw_mmb_native_change_options(struct nw_mmb_packet *p, const struct nw_mmb_change *changes,
				 u32 count);
u32 nw_mmb_native_put_options(struct nw_skb *skb, struct nw_mmb_packet *p);

/* Connections. */
u32 nw_mmb_native_is_over(const struct nw_mmb_packet *p, const struct nw_mmb_tracked *c,
			  u32 reverse);
void nw_mmb_native_came(struct nw_mmb_packet *p, struct nw_mmb_tracked *c, u32 reverse);
u64 nw_mmb_native_kept_for(const struct nw_mmb_tracked *c);
u32 nw_mmb_native_is_assured(const struct nw_mmb_tracked *c);
u32 nw_mmb_native_is_followed(u64 seen, u64 now);

/* A connection begins: whether the mapping is about its packets, and what it gives it; the
 * key of what answers. p->left is the key as they leave. 1 if another port may be tried.
 */
u32 nw_mmb_native_is_there(const struct nw_mmb_packet *p, const struct nw_mmb_mapping *m);
u32 nw_mmb_native_map(struct nw_mmb_packet *p, struct nw_mmb_tracked *c,
		      const struct nw_mmb_mapping *m, u32 draw);
u32 nw_mmb_native_begin(struct nw_skb *skb, struct nw_mmb_packet *p, struct nw_mmb_tracked *c);
void nw_mmb_native_next_port(struct nw_mmb_packet *p, struct nw_mmb_tracked *c);

/* The packet is changed as its connection says, in the direction of p->reverse. */
u32 nw_mmb_native_translate(struct nw_skb *skb, struct nw_mmb_packet *p,
			    const struct nw_mmb_tracked *c);
/* Whether an ICMP error quotes a packet; the key of those that would answer, into p->left. */
u32 nw_mmb_native_quotes(struct nw_skb *skb, struct nw_mmb_packet *p);
u32 nw_mmb_native_translate_error(struct nw_skb *skb, struct nw_mmb_packet *p,
				  const struct nw_mmb_tracked *c);

#endif /* NW_MMB_NATIVE_H */
