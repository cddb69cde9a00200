/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The maps of a box by rules. Those whose size is that of the rules get it from
 * user space before they are made.
 */
#ifndef NW_MMB_MAPS_H
#define NW_MMB_MAPS_H

#include "mmb.h"

const volatile struct nw_mmb_settings nw_mmb NW_SECTION(".rodata.nw");

/* By look and value: a bit for each table with a key that agrees. */
struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);	/* 256 for each look, and the row of all tables */
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_row);
} nw_mmb_rows NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_mask);
} nw_mmb_masks NW_SECTION(".maps");

/* The first rule of a key. */
struct {
	NW_UINT(type, NW_MAP_HASH);
	NW_UINT(max_entries, 1);
	NW_UINT(key_size, sizeof(struct nw_mmb_key));	/* user space makes it less */
	NW_UINT(value_size, sizeof(u32));
} nw_mmb_keys NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_rule);
} nw_mmb_rules NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_test);
} nw_mmb_tests NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_action);
} nw_mmb_actions NW_SECTION(".maps");

/* Rules with state have an identifier that stays theirs when others come and go: connections
 * know them by it. Of a rule, by its number; and back, NW_MMB_LAST of one that is gone.
 */
struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, u32);
} nw_mmb_idents NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, u32);
} nw_mmb_numbers NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_count);
} nw_mmb_counts NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_PERCPU_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_totals);
} nw_mmb_all NW_SECTION(".maps");

/* One for each direction: the programs of both may run within one another. */
struct {
	NW_UINT(type, NW_MAP_PERCPU_ARRAY);
	NW_UINT(max_entries, 2);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_packet);
} nw_mmb_packets NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_mapping);
} nw_mmb_mappings NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_change);
} nw_mmb_changes NW_SECTION(".maps");

/* By the forward key. Nothing of the three is allocated before it is needed. */
struct {
	NW_UINT(type, NW_MAP_HASH);
	NW_UINT(map_flags, NW_NO_PREALLOC);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, struct nw_mmb_flow);
	NW_TYPE(value, struct nw_mmb_connection);
} nw_mmb_connections NW_SECTION(".maps");

/* The forward key of each by its reverse one. */
struct {
	NW_UINT(type, NW_MAP_HASH);
	NW_UINT(map_flags, NW_NO_PREALLOC);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, struct nw_mmb_flow);
	NW_TYPE(value, struct nw_mmb_flow);
} nw_mmb_reverses NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_HASH);
	NW_UINT(map_flags, NW_NO_PREALLOC);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, struct nw_mmb_fragmented);
	NW_TYPE(value, struct nw_mmb_followed);
} nw_mmb_fragments NW_SECTION(".maps");

/* The forward keys of the connections that began last, the oldest first. */
struct {
	NW_UINT(type, NW_MAP_QUEUE);
	NW_UINT(max_entries, 1);
	NW_TYPE(value, struct nw_mmb_flow);
} nw_mmb_newest NW_SECTION(".maps");

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_mmb_draws);
} nw_mmb_generator NW_SECTION(".maps");

/* When the first connection may expire, ns: none does before. */
struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, 1);
	NW_TYPE(key, u32);
	NW_TYPE(value, u64);
} nw_mmb_earliest NW_SECTION(".maps");

/* Helpers by their numbers in include/uapi/linux/bpf.h. */
static long (*nw_push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*nw_pop)(void *map, void *value) = (void *)88;

/* Helper 181 of include/uapi/linux/bpf.h, from Linux 5.17. */
static long (*nw_loop)(u32 times, void *callback, void *context, u64 flags) = (void *)181;

#endif /* NW_MMB_MAPS_H */
