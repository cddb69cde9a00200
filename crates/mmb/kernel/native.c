// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * The calls of narrows-mmb, and a TCP header that becomes longer or shorter in memory. BPF
 * never sees this file.
 */
#include "native.h"
#include "begin.h"

/* Of options.h. */
NW_MMB_GLOBAL int nw_mmb_resize(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	u32 len = 20 + p->options_len, behind = p->header_len + p->tcp_len;
	u32 total = p->len + len - p->tcp_len, longest;

	longest = skb->mtu < NW_MMB_LONGEST ? skb->mtu : NW_MMB_LONGEST;
	if (len > p->tcp_len && total > longest)
		return NW_MMB_NO_ROOM;
	if (behind > skb->stored || skb->stored + len - p->tcp_len > skb->room)
		return -1;
	if (nw_mmb_new_header(skb, p, len))
		return -1;
	__builtin_memmove(skb->bytes + p->header_len + len, skb->bytes + behind,
			  skb->stored - behind);
	skb->stored += len - p->tcp_len;
	skb->len += len - p->tcp_len;
	__builtin_memcpy(skb->bytes + p->header_len, p->chunk, len);
	return nw_mmb_resized(skb, p, total);
}

u32 nw_mmb_native_read(struct nw_skb *skb, struct nw_mmb_packet *p, u32 way, u32 options)
{
	u8 version = 0;

	nw_load(skb, 0, &version, 1);
	skb->protocol = nw_be16(version >> 4 == 6 ? NW_PROTO_IPV6 : NW_PROTO_IP);
	return (u32)nw_mmb_read(skb, p, way, options);
}

u32 nw_mmb_native_is_tiny(const struct nw_mmb_packet *p)
{
	return (u32)nw_mmb_is_tiny(p);
}

u32 nw_mmb_native_payload_at(const struct nw_mmb_packet *p, u32 layer)
{
	return nw_mmb_payload_at(p, layer);
}

u32 nw_mmb_native_key(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	if (!p->more_fragments)
		return (u32)nw_mmb_key(skb, p);
	return (u32)nw_mmb_key_of(skb, p, &p->flow);
}

void nw_mmb_native_left(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	if (!nw_mmb_key_of(skb, p, &p->left))
		p->left = p->flow;
}

void nw_mmb_native_fragment(struct nw_mmb_packet *p)
{
	nw_mmb_fragment_of(p);
}

u32 nw_mmb_native_set(struct nw_skb *skb, struct nw_mmb_packet *p, const struct nw_mmb_set *sets,
		      u32 count)
{
	u32 i, failed = 0;

	for (i = 0; i < count && !failed; i++)
		failed = nw_mmb_set_word(skb, p, &sets[i]) != 0;
	return failed;
}

u32 nw_mmb_native_set_payload(struct nw_skb *skb, struct nw_mmb_packet *p, u32 layer,
			      const u8 *bytes, u32 len)
{
	u32 at = nw_mmb_payload_at(p, layer), sum_at = p->sum_at, i, failed = 0;

	if ((p->layers & layer) != layer || at >= p->len)
		return 0;
	if (len > p->len - at)
		len = p->len - at;
	/* a checksum that is written follows no change */
	if (at < sum_at + 2 && at + len > sum_at)
		p->sum_at = 0;
	for (i = 0; i < len && !failed; i += 2) {
		u8 two[2] __attribute__((aligned(2))) = { bytes[i], i + 1 < len ? bytes[i + 1] : 0 };
		u16 keep = i + 1 < len ? 0 : nw_be16(0x00ff);

		failed = nw_mmb_write(skb, p, at + i, keep, *(nw_u16 *)two) != 0;
	}
	p->sum_at = sum_at;
	return failed;
}

u32 nw_mmb_native_list_options(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	/* SACK blocks may have been shifted since they were read */
	return p->broken || p->more_fragments || nw_mmb_load_options(skb, p);
}

u32 nw_mmb_native_change_options(struct nw_mmb_packet *p, const struct nw_mmb_change *changes,
				 u32 count)
{
	u32 i, unchanged = 0;

	for (i = 0; i < count; i++) {
		p->change = changes[i];
		unchanged |= nw_mmb_change_list(p) != 0;
	}
	return unchanged;
}

u32 nw_mmb_native_put_options(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	return nw_mmb_put_options(skb, p) != 0;
}

u32 nw_mmb_native_is_over(const struct nw_mmb_packet *p, const struct nw_mmb_tracked *c,
			  u32 reverse)
{
	return (u32)nw_mmb_is_over(p, c, reverse);
}

void nw_mmb_native_came(struct nw_mmb_packet *p, struct nw_mmb_tracked *c, u32 reverse)
{
	nw_mmb_came(p, c, reverse);
}

u64 nw_mmb_native_kept_for(const struct nw_mmb_tracked *c)
{
	return nw_mmb_kept_for(c);
}

u32 nw_mmb_native_is_assured(const struct nw_mmb_tracked *c)
{
	return (u32)nw_mmb_is_assured(c);
}

u32 nw_mmb_native_is_followed(u64 seen, u64 now)
{
	return !nw_mmb_is_past(seen, NW_MMB_FOLLOWED, now);
}

u32 nw_mmb_native_is_there(const struct nw_mmb_packet *p, const struct nw_mmb_mapping *m)
{
	return (u32)nw_mmb_is_there(m->what, &p->left);
}

u32 nw_mmb_native_map(struct nw_mmb_packet *p, struct nw_mmb_tracked *c,
		      const struct nw_mmb_mapping *m, u32 draw)
{
	nw_mmb_map_one(p, c, m, draw);
	return nw_mmb_draws_port(m);
}

u32 nw_mmb_native_begin(struct nw_skb *skb, struct nw_mmb_packet *p, struct nw_mmb_tracked *c)
{
	if (nw_mmb_first(skb, p, c))
		return 1;
	nw_mmb_answered_at(&c->reverse, p->left.source_port);
	return 0;
}

void nw_mmb_native_next_port(struct nw_mmb_packet *p, struct nw_mmb_tracked *c)
{
	p->left.source_port = nw_mmb_next_port(p->left.source_port);
	nw_mmb_answered_at(&c->reverse, p->left.source_port);
}

u32 nw_mmb_native_translate(struct nw_skb *skb, struct nw_mmb_packet *p,
			    const struct nw_mmb_tracked *c)
{
	return nw_mmb_translate(skb, p, c) != 0;
}

u32 nw_mmb_native_quotes(struct nw_skb *skb, struct nw_mmb_packet *p)
{
	return (u32)nw_mmb_quotes(skb, p);
}

u32 nw_mmb_native_translate_error(struct nw_skb *skb, struct nw_mmb_packet *p,
				  const struct nw_mmb_tracked *c)
{
	return nw_mmb_translate_error(skb, p, c) != 0;
}
