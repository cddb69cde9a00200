// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * What a run of the marking programs is made of, each part as a program of its own:
 * so that what they cost can be seen beside what cannot be less. For measurements
 * only; never attached.
 */
#include "flows.h"

char nw_license[] NW_SECTION("license") = "GPL";

/* Keeps the compiler from removing a result that is not used. */
#define nw_keep(pointer)	asm volatile("" : : "r"(pointer) : "memory")

const volatile u64 nw_seeds[3] NW_SECTION(".rodata.nw") = { 1, 3, 5 };

/* The kernel's own table, for comparison. */
struct {
	NW_UINT(type, NW_MAP_LRU_HASH);
	NW_UINT(max_entries, NW_ROWS);
	NW_TYPE(key, struct nw_mark_key);
	NW_TYPE(value, struct nw_efm_flow);
} nw_hashed NW_SECTION(".maps");

/* A program run and nothing else. */
NW_SECTION("tcx/egress") int nw_empty(struct nw_skb *skb)
{
	(void)skb;
	return NW_TC_NEXT;
}

/* Reading of an Ethernet frame's headers, options left out. */
NW_SECTION("tcx/egress") int nw_reading(struct nw_skb *skb)
{
	struct nw_segment segment;

	if (nw_read_segment(skb, &segment, 14, 0, 0))
		nw_keep(&segment);
	return NW_TC_NEXT;
}

/* The lookup of a connection: an empty key, which matches the first free way. */
NW_SECTION("tcx/egress") int nw_lookup(struct nw_skb *skb)
{
	struct nw_mark_key key = { 0 };
	struct nw_row *row = nw_find_row(&key, &nw_seeds);

	(void)skb;
	if (row)
		nw_keep(nw_find(row, &key));
	return NW_TC_NEXT;
}

/* The same in the kernel's own table, where the loader has put it. */
NW_SECTION("tcx/egress") int nw_lookup_hashed(struct nw_skb *skb)
{
	struct nw_mark_key key = { 0 };

	(void)skb;
	nw_keep(nw_map_lookup(&nw_hashed, &key));
	return NW_TC_NEXT;
}

/* The clock. */
NW_SECTION("tcx/egress") int nw_clock_read(struct nw_skb *skb)
{
	(void)skb;
	nw_keep(nw_ktime_ns());
	return NW_TC_NEXT;
}

/* Another value of a bit in each run, and the checksum mended. */
NW_SECTION("tcx/egress") int nw_change(struct nw_skb *skb)
{
	u8 *tcp = nw_in_place(skb, 14 + NW_IP_MIN, NW_TCP_HEADER_MIN);
	u16 old;

	if (!tcp)
		return NW_TC_NEXT;
	old = *(u16 *)(tcp + 12);
	nw_change_word_12(skb, 14 + NW_IP_MIN, old, old ^ nw_be16(0x0200));
	return NW_TC_NEXT;
}
