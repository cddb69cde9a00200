// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Explicit flow measurement at a device: what leaves is marked in the three
 * usable bits of TCP's byte 12, what arrives is learnt from. The state machines
 * are those of the simulator (flow.h); here is how they see the kernel's packets.
 *
 * A flow is known from its SYN on; packets of earlier connections, fragments,
 * what is no TCP and TCP behind extension headers of IPv6 go by as they are.
 */
#define NW_EFM_ATOMIC

#include "kernel.h"
#include "mark.h"

char nw_license[] NW_SECTION("license") = "GPL";

/* The start of struct __sk_buff, include/uapi/linux/bpf.h. */
struct nw_skb {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 between[36];
	u32 gso_segs;
	void *sk;
	u32 gso_size;
};
_Static_assert(__builtin_offsetof(struct nw_skb, gso_segs) == 164, "gso_segs");
_Static_assert(__builtin_offsetof(struct nw_skb, sk) == 168, "sk");
_Static_assert(__builtin_offsetof(struct nw_skb, gso_size) == 176, "gso_size");

#define NW_TC_NEXT		-1	/* TCX_NEXT, TC_ACT_UNSPEC: on with the next program */
#define NW_PROTO_IP		0x0800
#define NW_PROTO_IPV6		0x86dd
#define NW_IPPROTO_TCP		6
#define NW_IP_FRAGMENT		0x3fff	/* offset, or more to come */
#define NW_IP_MIN		20	/* bytes of a header without options */
#define NW_IPV6_HEADER		40
#define NW_NOEXIST		1	/* BPF_NOEXIST */
#define NW_FLOWS		65536	/* connections at a time */

/* Helpers by their numbers in include/uapi/linux/bpf.h. */
static long (*nw_map_update)(void *map, const void *key, const void *value,
			     u64 flags) = (void *)2;
static long (*nw_l4_checksum)(void *skb, u32 at, u64 from, u64 to,
			      u64 flags) = (void *)11;
static struct tcp_sock *(*nw_tcp_socket)(void *sk) = (void *)137;

const volatile struct nw_mark_settings nw_settings NW_SECTION(".rodata.nw");

struct {
	NW_UINT(type, NW_MAP_LRU_HASH);
	NW_UINT(max_entries, NW_FLOWS);
	NW_TYPE(key, struct nw_mark_key);
	NW_TYPE(value, struct nw_efm_flow);
} nw_flows NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_PERCPU_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mark_counters);
} nw_counters NW_SECTION(".maps");

/* A flow of which nothing was seen: too large for the stack. */
struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_efm_flow);
} nw_unseen NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_RINGBUF);
	NW_UINT(max_entries, 4096);
} nw_trace NW_SECTION(".maps");

/* What a program looks at. */
struct nw_look {
	struct nw_efm_packet packet;
	struct nw_mark_key key;
	u32 tcp_at;			/* bytes before the TCP header */
	u8 tcp[NW_TCP_HEADER_MAX];
};

/*
 * One for each direction on each CPU. In a map and not on the stack, of which the
 * verifier would follow every value on every way through the options.
 */
struct {
	NW_UINT(type, NW_MAP_PERCPU_ARRAY);
	NW_UINT(max_entries, 2);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_look);
} nw_looks NW_SECTION(".maps");

NW_INLINE u32 nw_settled_params(struct nw_efm_params *params)
{
	/* read word by word: the verifier knows each and leaves out what is off */
	params->t_max_us = nw_settings.params.t_max_us;
	params->hold_us = nw_settings.params.hold_us;
	params->vec_hold_us = nw_settings.params.vec_hold_us;
	params->q_shift = nw_settings.params.q_shift;
	params->r_threshold = nw_settings.params.r_threshold;
	params->signals = nw_settings.params.signals;
	params->announce = nw_settings.params.announce;
	params->rules = nw_settings.params.rules;
	params->unused = 0;
	return 0;
}

NW_INLINE void nw_mapped(u32 *to, u32 address)
{
	to[0] = 0;
	to[1] = 0;
	to[2] = __builtin_bswap32(0xffff);
	to[3] = address;
}

NW_INLINE void nw_copy_address(u32 *to, const u32 *from)
{
	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	to[3] = from[3];
}

/*
 * Reads a whole TCP segment; 0 where it is none. `in` says that the other end
 * sent it.
 */
NW_INLINE int nw_look_at(struct nw_skb *skb, struct nw_look *look, int in)
{
	u32 at = nw_settings.net_at, net[NW_IPV6_HEADER / 4];
	u32 *source = in ? look->key.remote : look->key.local;
	u32 *destination = in ? look->key.local : look->key.remote;
	u16 protocol = __builtin_bswap16((u16)skb->protocol);
	const u8 *byte = (const u8 *)net;
	u32 total, length, read, i;
	u16 ports[2];

	/* IPv4 and TCP without options are as long as IPv6 alone */
	if (nw_load(skb, at, net, sizeof(net)))
		return 0;
	if (protocol == NW_PROTO_IP) {
		u16 fragment = (u16)(byte[6] << 8 | byte[7]);

		length = (u32)(byte[0] & 15) * 4;
		if (byte[9] != NW_IPPROTO_TCP || fragment & NW_IP_FRAGMENT ||
		    length < NW_IP_MIN)
			return 0;
		total = (u32)byte[2] << 8 | byte[3];
		nw_mapped(source, net[3]);
		nw_mapped(destination, net[4]);
	} else if (protocol == NW_PROTO_IPV6) {
		if (byte[6] != NW_IPPROTO_TCP)
			return 0;
		length = NW_IPV6_HEADER;
		total = ((u32)byte[4] << 8 | byte[5]) + NW_IPV6_HEADER;
		nw_copy_address(source, net + 2);
		nw_copy_address(destination, net + 6);
	} else {
		return 0;
	}
	/* a length of 0 stands for more than 16 bits can say; and padding */
	if (total <= NW_IPV6_HEADER || skb->gso_size || total > skb->len - at)
		total = skb->len - at;
	look->tcp_at = at + length;
	if (total < length + NW_TCP_HEADER_MIN)
		return 0;
	read = total - length;
	if (read > NW_TCP_HEADER_MAX)
		read = NW_TCP_HEADER_MAX;
	/* what is not read is not to be taken for options */
	for (i = NW_TCP_HEADER_MIN; i < NW_TCP_HEADER_MAX; i += 4)
		*(u32 *)(look->tcp + i) = 0;
	asm volatile("" : "+r"(read));
	if (read < NW_TCP_HEADER_MIN || read > NW_TCP_HEADER_MAX)
		return 0;
	if (nw_load(skb, look->tcp_at, look->tcp, read))
		return 0;
	ports[0] = *(u16 *)look->tcp;
	ports[1] = *(u16 *)(look->tcp + 2);
	look->key.local_port = ports[in];
	look->key.remote_port = ports[!in];
	look->packet.has = 0;
	look->packet.now_ns = 0;
	look->packet.lost = 0;
	look->packet.spurious = 0;
	look->packet.delivered_ce = 0;
	look->packet.unused = 0;
	length = nw_efm_read(&look->packet, look->tcp, total - length);
	if (!length)
		return 0;
	/* a sender that may not be trusted leaves the count to be worked out */
	look->packet.segments = skb->gso_segs;
	if (skb->gso_size && look->packet.segments < 2) {
		u32 payload = look->packet.seq_end - look->packet.seq;

		look->packet.segments = (payload + skb->gso_size - 1) /
					skb->gso_size;
	}
	if (!look->packet.segments)
		look->packet.segments = 1;
	return 1;
}

/* Whether a connection is one that was asked for. */
NW_INLINE int nw_wanted(const struct nw_mark_key *key)
{
	u32 filter = nw_settings.filter;

	if (filter & NW_MARK_PORT && key->local_port != nw_settings.port &&
	    key->remote_port != nw_settings.port)
		return 0;
	if (filter & NW_MARK_HOST) {
		u32 i, local = 0, remote = 0;

		for (i = 0; i < 4; i++) {
			local |= key->local[i] ^ nw_settings.host[i];
			remote |= key->remote[i] ^ nw_settings.host[i];
		}
		return !local || !remote;
	}
	return 1;
}

/* The flow of a packet; a SYN makes one. */
NW_INLINE struct nw_efm_flow *nw_flow_of(struct nw_look *look,
					 struct nw_mark_counters *counters)
{
	struct nw_efm_flow *flow = nw_map_lookup(&nw_flows, &look->key);
	u32 first = 0;
	void *unseen;

	if (flow || !(look->packet.flags & NW_TCP_SYN))
		return flow;
	if (!nw_wanted(&look->key))
		return 0;
	unseen = nw_map_lookup(&nw_unseen, &first);
	if (!unseen)
		return 0;
	if (!nw_map_update(&nw_flows, &look->key, unseen, NW_NOEXIST))
		counters->flows++;
	return nw_map_lookup(&nw_flows, &look->key);
}

/* What the socket counted, where a signal wants it. Lost is what was sent again:
 * a timeout takes more for lost, but what is acknowledged before it is sent again
 * was not. A loss is spurious when the peer has said by DSACK (RFC 2883) that it
 * had got the segment before.
 */
NW_INLINE void nw_ask_socket(struct nw_skb *skb, struct nw_efm_packet *packet)
{
	void *sk = skb->sk;
	struct tcp_sock *tp;

	if (!sk)
		return;
	tp = nw_tcp_socket(sk);
	if (!tp)
		return;
	packet->lost = tp->total_retrans;
	packet->spurious = tp->dsack_dups;
	packet->delivered_ce = tp->delivered_ce;
	packet->has |= NW_EFM_HAS_SOCKET;
}

NW_INLINE void nw_tell(const struct nw_look *look, u32 direction, u32 write,
		       struct nw_mark_counters *counters)
{
	struct nw_mark_record *record;

	record = nw_ring_reserve(&nw_trace, sizeof(*record), 0);
	if (!record) {
		counters->untraced++;
		return;
	}
	record->packet = look->packet;
	record->key = look->key;
	record->direction = direction;
	record->write = write;
	record->unused = 0;
	nw_ring_submit(record, NW_RING_NO_WAKEUP);
}

/* Writes the bits; AE and whatever else stands in these 16 bits stays. */
NW_INLINE int nw_put(struct nw_skb *skb, struct nw_look *look, u32 write)
{
	u8 mask = (u8)(write >> 8), bits = (u8)write;
	u16 old = *(u16 *)(look->tcp + 12), new;

	look->tcp[12] = (u8)((look->tcp[12] & (u8)~mask) | (bits & mask));
	new = *(u16 *)(look->tcp + 12);
	if (old == new)
		return 0;
	if (nw_l4_checksum(skb, look->tcp_at + 16, old, new, sizeof(new)))
		return -1;
	return (int)nw_store(skb, look->tcp_at + 12, look->tcp + 12, 1, 0);
}

NW_INLINE void nw_count(struct nw_mark_counters *counters,
			const struct nw_efm_flow *flow,
			const struct nw_efm_packet *packet, u32 write)
{
	u32 i;

	if (packet->flags & NW_TCP_SYN) {
		counters->announced += (u8)write != 0;
		return;
	}
	if (packet->segments > 1 && flow->active & ~NW_EFM_S) {
		counters->segmented++;
		counters->segments += packet->segments;
		return;
	}
	counters->marked += write != 0;
	if (!(u8)write)
		return;
	for (i = 0; i < NW_EFM_PLACES; i++)
		counters->set[i] += (flow->mask[i] & (u8)write) != 0;
}

/* clsact takes them as well, whatever the sections are called. */
NW_SECTION("tcx/egress") int nw_mark_out(struct nw_skb *skb)
{
	struct nw_mark_counters *counters;
	struct nw_efm_params params;
	struct nw_efm_flow *flow;
	u32 first = 0, which = NW_MARK_OUT, write;
	struct nw_look *look = nw_map_lookup(&nw_looks, &which);

	if (!look || !nw_look_at(skb, look, 0))
		return NW_TC_NEXT;
	counters = nw_map_lookup(&nw_counters, &first);
	if (!counters)
		return NW_TC_NEXT;
	if (nw_settings.needs_socket) {
		/* a forwarded connection has no socket here that would know */
		if (look->packet.flags & NW_TCP_SYN && !skb->sk) {
			counters->without_socket++;
			return NW_TC_NEXT;
		}
		nw_ask_socket(skb, &look->packet);
	}
	flow = nw_flow_of(look, counters);
	if (!flow)
		return NW_TC_NEXT;
	nw_settled_params(&params);
	/* the spin bit alone asks for no time */
	if (params.signals & ~NW_EFM_S || nw_settings.trace)
		look->packet.now_ns = nw_ktime_ns();
	write = nw_efm_egress(flow, &params, &look->packet);
	if (nw_settings.trace)
		nw_tell(look, NW_MARK_OUT, write, counters);
	if (!write)
		return NW_TC_NEXT;
	nw_count(counters, flow, &look->packet, write);
	if (nw_put(skb, look, write))
		counters->refused++;
	return NW_TC_NEXT;
}

NW_SECTION("tcx/ingress") int nw_mark_in(struct nw_skb *skb)
{
	struct nw_mark_counters *counters;
	struct nw_efm_params params;
	struct nw_efm_flow *flow;
	u32 first = 0, which = NW_MARK_IN;
	struct nw_look *look = nw_map_lookup(&nw_looks, &which);

	if (!look || !nw_look_at(skb, look, 1))
		return NW_TC_NEXT;
	counters = nw_map_lookup(&nw_counters, &first);
	if (!counters)
		return NW_TC_NEXT;
	flow = nw_flow_of(look, counters);
	if (!flow)
		return NW_TC_NEXT;
	nw_settled_params(&params);
	if (params.signals & ~NW_EFM_S || nw_settings.trace)
		look->packet.now_ns = nw_ktime_ns();
	nw_efm_ingress(flow, &params, &look->packet);
	if (nw_settings.trace)
		nw_tell(look, NW_MARK_IN, 0, counters);
	return NW_TC_NEXT;
}
