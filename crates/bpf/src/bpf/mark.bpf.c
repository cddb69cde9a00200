// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Explicit flow measurement at a device: outgoing segments get their signals in the
 * three reserved bits of TCP's byte 12, incoming ones update the flow's state. The
 * state machines are those of the simulator (flow.h); here is how they see skbs.
 *
 * A flow is known from its SYN on. Packets of earlier connections, fragments, other
 * protocols and TCP behind IPv6 extension headers pass unchanged.
 */
#define NW_EFM_ATOMIC

#include "flows.h"

char nw_license[] NW_SECTION("license") = "GPL";

/* By its number in include/uapi/linux/bpf.h. */
static struct tcp_sock *(*nw_tcp_socket)(void *sk) = (void *)137;

const volatile struct nw_mark_settings nw_settings NW_SECTION(".rodata.nw");

struct {
	NW_UINT(type, NW_MAP_PERCPU_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mark_counters);
} nw_counters NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_RINGBUF);
	NW_UINT(max_entries, 4096);
} nw_trace NW_SECTION(".maps");

/*
 * The parameters, where the verifier knows each and leaves out what is off. The
 * compiler, which sees zeros where the loader will write, must not.
 */
NW_INLINE const struct nw_efm_params *nw_settled_params(void)
{
	const struct nw_efm_params *params;

	params = (const struct nw_efm_params *)&nw_settings.params;
	asm volatile("" : "+r"(params));
	return params;
}

NW_INLINE int nw_wanted_port(u16 port)
{
	return nw_settings.ports[port >> 6 & 1023] >> (port & 63) & 1;
}

/* Whether the filter selects a connection. */
NW_INLINE int nw_wanted(const struct nw_mark_key *key)
{
	u32 filter = nw_settings.filter;

	if (filter & NW_MARK_PORT && !nw_wanted_port(key->local_port) &&
	    !nw_wanted_port(key->remote_port))
		return 0;
	if (filter & NW_MARK_HOST) {
		u64 local, remote;

		local = (key->local[0] ^ nw_settings.host[0]) |
			(key->local[1] ^ nw_settings.host[1]);
		remote = (key->remote[0] ^ nw_settings.host[0]) |
			 (key->remote[1] ^ nw_settings.host[1]);
		return !local || !remote;
	}
	return 1;
}

/* The flow of a packet; a SYN makes one. */
NW_INLINE struct nw_efm_flow *nw_flow_of(const struct nw_segment *segment,
					 struct nw_mark_counters *counters)
{
	struct nw_row *row = nw_find_row(&segment->key, &nw_settings.seeds);
	struct nw_efm_flow *flow;

	if (!row)
		return 0;
	flow = nw_find(row, &segment->key);
	if (flow || !(segment->packet.flags & NW_TCP_SYN) || !nw_wanted(&segment->key))
		return flow;
	return nw_add(row, &segment->key, counters);
}

/* What the socket counted, where a signal wants it. Lost is what was sent again:
 * a timeout takes more for lost, but what is acknowledged before it is sent again
 * was not. A loss is spurious when the peer reports by DSACK (RFC 2883) that it
 * had received the segment before.
 */
NW_INLINE void nw_read_socket(struct nw_skb *skb, struct nw_efm_packet *packet)
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

NW_INLINE void nw_emit(struct nw_segment *segment, u32 direction, u32 write,
		       struct nw_mark_counters *counters)
{
	struct nw_mark_record *record;

	/* no rule may have needed the time of this packet */
	nw_clock(&segment->packet);
	record = nw_ring_reserve(&nw_trace, sizeof(*record), 0);
	if (!record) {
		counters->untraced++;
		return;
	}
	record->packet = segment->packet;
	record->key = segment->key;
	record->direction = direction;
	record->write = write;
	nw_ring_submit(record, NW_RING_NO_WAKEUP);
}

/* Writes the signals; the other bits of the word, AE among them, stay. */
NW_INLINE int nw_put(struct nw_skb *skb, const struct nw_segment *segment, u32 write)
{
	/* byte 12 comes first, whichever half of the word that is */
	u16 mask = nw_be16((u16)(write & 0xff00));
	u16 bits = nw_be16((u16)(write << 8)) & mask;
	u16 new = (segment->word_12 & (u16)~mask) | bits;

	if (new == segment->word_12)
		return 0;
	return nw_change_word_12(skb, segment->tcp_at, segment->word_12, new);
}

NW_INLINE void nw_count(struct nw_mark_counters *counters,
			const struct nw_efm_flow *flow, u8 signals,
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
#pragma unroll
	for (i = 0; i < NW_EFM_PLACES; i++)
		if (signals >> i & 1)
			counters->set[i] += (flow->mask[i] & (u8)write) != 0;
}

/* clsact takes them as well, whatever the sections are called. */
NW_SECTION("tcx/egress") int nw_mark_out(struct nw_skb *skb)
{
	const struct nw_efm_params *params = nw_settled_params();
	struct nw_mark_counters *counters;
	struct nw_efm_flow *flow;
	struct nw_segment segment;
	u32 first = 0, write;
	int options;

	/* of all rules one asks for options: no delay sample beside SACK blocks */
	options = (params->signals & NW_EFM_D &&
		   params->rules & NW_EFM_DELAY_SKIP_SACK) || nw_settings.trace;
	counters = nw_map_lookup(&nw_counters, &first);
	if (!counters)
		return NW_TC_NEXT;
	if (!nw_read_segment(skb, &segment, nw_settings.net_at, 0, options)) {
		counters->other++;
		return NW_TC_NEXT;
	}
	if (nw_settings.needs_socket) {
		/* a forwarded connection has no socket here that would know */
		if (segment.packet.flags & NW_TCP_SYN && !skb->sk) {
			counters->without_socket++;
			return NW_TC_NEXT;
		}
		nw_read_socket(skb, &segment.packet);
	}
	flow = nw_flow_of(&segment, counters);
	if (!flow) {
		counters->passed_over++;
		return NW_TC_NEXT;
	}
	/* TCP says when a packet is to leave, by the clock that nw_ktime_ns() reads */
	if (skb->sk)
		segment.packet.now_ns = skb->tstamp;
	write = nw_efm_egress(flow, params, &segment.packet);
	if (nw_settings.trace)
		nw_emit(&segment, NW_MARK_OUT, write, counters);
	if (!write)
		return NW_TC_NEXT;
	nw_count(counters, flow, params->signals, &segment.packet, write);
	if (nw_put(skb, &segment, write))
		counters->refused++;
	return NW_TC_NEXT;
}

NW_SECTION("tcx/ingress") int nw_mark_in(struct nw_skb *skb)
{
	const struct nw_efm_params *params = nw_settled_params();
	struct nw_mark_counters *counters;
	struct nw_efm_flow *flow;
	struct nw_segment segment;
	u32 first = 0;
	int options;

	/* timestamps may show which of two packets is newer */
	options = params->signals & NW_EFM_S || nw_settings.trace;
	if (!nw_read_segment(skb, &segment, nw_settings.net_at, 1, options))
		return NW_TC_NEXT;
	counters = nw_map_lookup(&nw_counters, &first);
	if (!counters)
		return NW_TC_NEXT;
	flow = nw_flow_of(&segment, counters);
	if (!flow)
		return NW_TC_NEXT;
	nw_efm_ingress(flow, params, &segment.packet);
	if (nw_settings.trace)
		nw_emit(&segment, NW_MARK_IN, 0, counters);
	return NW_TC_NEXT;
}
