// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * How many segments TCP hands to a device at once: the longest burst of each
 * local port of a host. On egress, before segmentation, where a burst is still
 * one buffer; a device below sees single packets. Nothing is changed.
 */
#include "kernel.h"

char nw_license[] NW_SECTION("license") = "GPL";

/* The start of struct __sk_buff, include/uapi/linux/bpf.h. */
struct nw_skb {
	u32 len;
	u32 between[40];
	u32 gso_segs;
};
_Static_assert(__builtin_offsetof(struct nw_skb, gso_segs) == 164, "gso_segs");

#define NW_TC_NEXT	-1	/* TCX_NEXT */
#define NW_PROTO_TCP	6
#define NW_IPV6_HEADER	40	/* bytes, without extension headers */
#define NW_PORTS	65536
#define NW_FROM_IP	1	/* BPF_HDR_START_NET */

/* By local port. Flows have ports of their own, so none is written by two. */
struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, NW_PORTS);
	NW_TYPE(key, u32);
	NW_TYPE(value, u32);
} nw_bursts NW_SECTION(".maps");

NW_SECTION("tcx/egress") int nw_burst(struct nw_skb *skb)
{
	u32 segments = skb->gso_segs, port, at;
	u8 front[20], source[2];
	u32 *longest;

	if (nw_load_relative(skb, 0, front, sizeof(front), NW_FROM_IP))
		return NW_TC_NEXT;
	if (front[0] >> 4 == 4 && front[9] == NW_PROTO_TCP)
		at = (front[0] & 15) * 4;
	else if (front[0] >> 4 == 6 && front[6] == NW_PROTO_TCP)
		at = NW_IPV6_HEADER;
	else
		return NW_TC_NEXT;
	if (nw_load_relative(skb, at, source, sizeof(source), NW_FROM_IP))
		return NW_TC_NEXT;
	port = (u32)source[0] << 8 | source[1];
	longest = nw_map_lookup(&nw_bursts, &port);
	if (longest && *longest < segments)
		*longest = segments;
	return NW_TC_NEXT;
}
