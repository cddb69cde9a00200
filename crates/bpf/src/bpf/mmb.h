/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A box by rules at a device: what user space writes into the maps, and what one
 * packet needs while it is looked at. Rules are data; the program is the same for
 * all of them. narrows-mmb makes these tables (src/program.rs has the same sizes).
 */
#ifndef NW_MMB_TABLES_H
#define NW_MMB_TABLES_H

#include "nw_mmb.h"
#include "skb.h"

#define NW_MMB_NET_AT	nw_mmb.net_at
#define NW_MMB_APART	static __attribute__((noinline))
#define NW_MMB_GLOBAL	__attribute__((noinline))

#define NW_MMB_TABLES	4096	/* distinct masks */
#define NW_MMB_WORDS	(NW_MMB_TABLES / 64)
#define NW_MMB_LANES	8	/* words of the window */
#define NW_MMB_PROBE_BYTES	8	/* bytes of a packet that say which tables can match */
#define NW_MMB_TESTS	8	/* of a rule, besides its mask */
#define NW_MMB_MATCHED	64	/* rules that one packet matches */
#define NW_MMB_SETS	24	/* words that a rule changes */
#define NW_MMB_CHUNKS	1024	/* of the longest packet, 512 KiB (GSO_MAX_SIZE) */
#define NW_MMB_JOINED	16	/* rules of a connection */
#define NW_MMB_LAST	0xffffffffu	/* ends a chain of rules */

/* What a packet does at the device: leaving, it comes from inside. */
enum nw_mmb_way {
	NW_MMB_LEAVES = 1,
	NW_MMB_COMES = 2,
};

struct nw_mmb_settings {
	u32 net_at;		/* bytes before the network header */
	u32 tables;
	u32 probe_bytes;
	u32 steps;		/* no packet needs more: words, tables and chains */
	u32 options;		/* whether rules match TCP options */
	u32 enabled;		/* a bit for each way */
	u32 stateful;		/* whether a rule is */
	u32 changes;		/* of options, of all rules */
	u32 translates;		/* whether a rule maps or shuffles */
	u32 sums;		/* whether a rule sets a checksum */
	u32 frames;		/* whether a rule is about frames that are not IP */
	u32 lanes;		/* words of the window in a key */
	u8 probe_at[NW_MMB_PROBE_BYTES];	/* the bytes of the window */
};

struct nw_mmb_row {
	u64 filled;		/* a bit for each word that has one */
	u64 word[NW_MMB_WORDS];
};

/* The words of the window in which a mask has bits: their first bytes, and the bits. */
struct nw_mmb_mask {
	u8 at[NW_MMB_LANES];
	u64 bits[NW_MMB_LANES];
};

/* As much of it is a key as the mask with the most words takes. */
struct nw_mmb_key {
	u64 table;
	u64 lane[NW_MMB_LANES];
};

struct nw_mmb_rule {
	u32 next;		/* of the same key */
	u32 action;
	u32 test;		/* the first */
	u16 tests;
	u8 stateful;
	u8 frames;		/* whether it is about frames that are not IP */
};

enum nw_mmb_what {
	NW_MMB_NUMBER = 0,	/* bits of the window */
	NW_MMB_PRESENT = 1,	/* the layer is there */
	NW_MMB_PAYLOAD = 2,	/* the layer has payload */
	NW_MMB_OPTION = 3,	/* there is such an option */
	NW_MMB_OPTION_NUMBER = 4,	/* and what it holds */
};

enum nw_mmb_condition {
	NW_MMB_EQUAL = 0,
	NW_MMB_NOT_EQUAL = 1,
	NW_MMB_LESS = 2,
	NW_MMB_GREATER = 3,
	NW_MMB_AT_MOST = 4,
	NW_MMB_AT_LEAST = 5,
};

struct nw_mmb_test {
	u8 what;
	u8 negated;
	u8 layer;		/* bits that have to be there */
	u8 condition;
	u16 at;			/* first bit of the window */
	u8 width;		/* bits */
	u8 any_kind;
	u8 kind;		/* of option */
	u8 unused[7];
	u64 mask[2];		/* the more significant half first */
	u64 value[2];
};

#define NW_MMB_ACCEPT	0xffff

struct nw_mmb_action {
	u16 verdict[4];		/* in their order: hundredths of a percent, or ACCEPT; 0 ends */
	u32 sets;
	u32 change;		/* of the options, the first */
	u32 changes;
	u32 mapping;		/* the first */
	u32 mappings;
	u32 sums;		/* behind the sets: checksums, written after all else */
	struct nw_mmb_set set[NW_MMB_SETS];
};

/* A connection, found by the key of its first packet as it came. */
struct nw_mmb_connection {
	struct nw_mmb_tracked tracked;
	u32 rules;
	u32 rule[NW_MMB_JOINED];	/* identifiers; NW_MMB_LAST of one that is gone */
	u64 begun;		/* ns */
	u64 packets;		/* of both directions */
};
_Static_assert(__builtin_offsetof(struct nw_mmb_tracked, flags) == 73, "as in box_connections.rs");
_Static_assert(__builtin_offsetof(struct nw_mmb_connection, rules) == 88, "the same");
_Static_assert(__builtin_offsetof(struct nw_mmb_connection, begun) == 160, "the same");

/* The key of a packet in fragments. */
struct nw_mmb_followed {
	struct nw_mmb_flow flow;
	u64 seen;		/* ns */
	u64 connected;		/* whether the first one belonged to a connection */
};

/* struct bpf_spin_lock, include/uapi/linux/bpf.h: found by this name. */
struct bpf_spin_lock {
	u32 val;
};

/* The state of the box's generator (PCG-XSL-RR 128/64 MCG). */
struct nw_mmb_draws {
	struct bpf_spin_lock lock;
	u32 unused;
	u64 low;
	u64 high;
};

struct nw_mmb_count {
	u64 packets;
	u64 bytes;
};

/* One for each CPU. */
struct nw_mmb_totals {
	u64 packets;
	u64 dropped;
	u64 malformed;
	u64 options_unchanged;
	u64 other;		/* neither version of IP */
	u64 overmatched;	/* dropped: they match more rules than there is room for */
	u64 unwritten;		/* dropped: the kernel did not let them be written */
	u64 bundles;		/* several segments at once */
	u64 ports_used_up;	/* dropped: no port is free, or they look like another connection's */
	u64 table_full;		/* dropped: no room for their connection */
	u64 begun;		/* connections */
	u64 forgotten;		/* of these */
	u64 related;		/* ICMP errors about one */
	u64 stray_fragments;	/* dropped: nobody knows of which connection they are */
	u64 fragments_full;	/* dropped: first ones whose packet there was no room to follow */
	u64 tiny_fragments;	/* dropped: they hide what is above IP */
	u64 evicted;		/* connections that made room for others */
	u64 frames_dropped;	/* of those that are neither version of IP */
};

/* What is kept with a packet: the key that is looked up, the rules that it matches and a bit
 * for each with state, whether it is a later fragment that is dropped unless its connection
 * is found, and what begins.
 */
#define NW_MMB_OF_PACKET						\
	u64 stateful;							\
	struct nw_mmb_key key;						\
	struct nw_mmb_flow other;					\
	struct nw_mmb_connection fresh;					\
	struct nw_mmb_followed followed;				\
	u32 stray;							\
	u32 matched;							\
	u32 rule[NW_MMB_MATCHED];					\
	u32 sorted[NW_MMB_MATCHED]
#include "packet.h"

#endif /* NW_MMB_TABLES_H */
