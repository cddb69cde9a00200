// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * ECT(1) for the packets of sockets that ask for it: Linux sends ECT(0)
 * whatever the congestion control. On egress, before segmentation, so that one
 * rewritten header serves a whole super-packet. What is not ECT(0) stays as it
 * is: handshakes, for which there is no full socket with a mark yet, and
 * packets of other sockets.
 */
#include "socket.h"

char nw_license[] NW_SECTION("license") = "GPL";

/* The start of struct __sk_buff, include/uapi/linux/bpf.h. */
struct nw_skb {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 between[37];
	void *sk;
};
_Static_assert(__builtin_offsetof(struct nw_skb, sk) == 168, "sk");

#define NW_TC_NEXT	-1	/* TCX_NEXT, TC_ACT_UNSPEC: on with the next program */
#define NW_START_NET	1	/* BPF_HDR_START_NET */
#define NW_ETHERNET	14	/* bytes of an Ethernet header */
#define NW_PROTO_IP	0x0800
#define NW_PROTO_IPV6	0x86dd

/* clsact takes it as well, whatever the section is called. */
NW_SECTION("tcx/egress") int nw_ect1(struct nw_skb *skb)
{
	u16 protocol = __builtin_bswap16((u16)skb->protocol);
	u32 net[3], front[3];
	struct nw_socket *s;
	u8 *byte = (u8 *)net;
	void *sk = skb->sk;
	u32 at;

	if (!sk)
		return NW_TC_NEXT;
	sk = nw_full_socket(sk);
	if (!sk)
		return NW_TC_NEXT;
	s = nw_storage(&nw_sockets, sk, 0, 0);
	if (!s || !s->ect1)
		return NW_TC_NEXT;

	/* A device of layer 3 has no header before the network's. */
	if (nw_load_relative(skb, 0, net, sizeof(net), NW_START_NET) ||
	    nw_load(skb, 0, front, sizeof(front)))
		return NW_TC_NEXT;
	at = NW_ETHERNET;
	if (net[0] == front[0] && net[1] == front[1] && net[2] == front[2])
		at = 0;

	if (protocol == NW_PROTO_IP) {
		u16 old = *(u16 *)byte, new;

		if ((byte[1] & 3) != 2)
			return NW_TC_NEXT;
		byte[1] ^= 3;
		new = *(u16 *)byte;
		if (nw_ip_checksum(skb, at + 10, old, new, sizeof(new)))
			return NW_TC_NEXT;
		nw_store(skb, at + 1, byte + 1, 1, 0);
	} else if (protocol == NW_PROTO_IPV6) {
		/* the traffic class lies across the first two bytes */
		if ((byte[1] & 0x30) != 0x20)
			return NW_TC_NEXT;
		byte[1] ^= 0x30;
		nw_store(skb, at + 1, byte + 1, 1, 0);
	}
	return NW_TC_NEXT;
}
