// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Packets of a host's device in both directions, as its TCP has them: on egress
 * before segmentation, with the time with which TCP stamped them. That time is
 * what round trips and rate samples are reckoned from, and no capture below
 * has it. Nothing is changed.
 */
#include "socket.h"

char nw_license[] NW_SECTION("license") = "GPL";

/* The start of struct __sk_buff, include/uapi/linux/bpf.h. */
struct nw_skb {
	u32 len;
	u32 between[37];
	u64 tstamp;
	u32 wire_len;
	u32 gso_segs;
	void *sk;
	u32 gso_size;
};
_Static_assert(__builtin_offsetof(struct nw_skb, tstamp) == 152, "tstamp");
_Static_assert(__builtin_offsetof(struct nw_skb, gso_size) == 176, "gso_size");

#define NW_TC_NEXT	-1	/* TCX_NEXT */
#define NW_CAPTURED	100	/* IPv6 and TCP headers with all options */

/* Read by tests/recorded/packets.rs. */
struct nw_packet {
	u64 ktime_ns;		/* when it passed */
	u64 stamp_ns;		/* when TCP sent it; 0 on ingress */
	u32 len;		/* from the IP header on */
	u32 gso_size;		/* payload of each segment of a super-packet, or 0 */
	u32 egress;
	u32 captured;
	u8 bytes[NW_CAPTURED];
	u32 unused;
};
_Static_assert(sizeof(struct nw_packet) == 136, "layout of nw_packet");

struct {
	NW_UINT(type, NW_MAP_RINGBUF);
	NW_UINT(max_entries, 16 << 20);
} nw_packets NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, u64);
} nw_dropped NW_SECTION(".maps");

NW_INLINE int nw_tap(struct nw_skb *skb, u32 egress)
{
	struct nw_packet *p = nw_ring_reserve(&nw_packets, sizeof(*p), 0);
	u32 n = skb->len, zero = 0;

	if (!p) {
		u64 *dropped = nw_map_lookup(&nw_dropped, &zero);

		if (dropped)
			__sync_fetch_and_add(dropped, 1);
		return NW_TC_NEXT;
	}
	p->ktime_ns = nw_ktime_ns();
	p->stamp_ns = egress ? skb->tstamp : 0;
	p->len = n;
	p->gso_size = skb->gso_size;
	p->egress = egress;
	p->unused = 0;
	__builtin_memset(p->bytes, 0, sizeof(p->bytes));
	/* The verifier is to see the bounds that the compiler knows of. */
	asm volatile("" : "+r"(n));
	if (n > NW_CAPTURED)
		n = NW_CAPTURED;
	p->captured = n;
	if (n < 1 || nw_load(skb, 0, p->bytes, n))
		p->captured = 0;
	nw_ring_submit(p, 0);
	return NW_TC_NEXT;
}

NW_SECTION("tcx/egress") int nw_tap_egress(struct nw_skb *skb)
{
	return nw_tap(skb, 1);
}

NW_SECTION("tcx/ingress") int nw_tap_ingress(struct nw_skb *skb)
{
	return nw_tap(skb, 0);
}
