/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A box by rules at a device: what user space writes into the maps, and what one
 * packet needs while it is looked at. Rules are data; the program is the same for
 * all of them. narrows-mmb makes these tables (src/program.rs has the same sizes).
 */
#ifndef NW_MMB_H
#define NW_MMB_H

#include "skb.h"

#define NW_MMB_TABLES	4096	/* distinct masks */
#define NW_MMB_WORDS	(NW_MMB_TABLES / 64)
#define NW_MMB_LOOKS	8	/* bytes of a packet that say which tables can match */
#define NW_MMB_TESTS	8	/* of a rule, besides its mask */
#define NW_MMB_MATCHED	64	/* rules that one packet matches */
#define NW_MMB_SETS	24	/* words that a rule changes */
#define NW_MMB_BODIES	4	/* options that a rule gives other contents */
#define NW_MMB_OPTIONS	40	/* bytes of options in a TCP header */
#define NW_MMB_LAST	0xffffffffu	/* ends a chain of rules */

/* The window: headers side by side at fixed places, as in narrows-mmb's layout.rs. */
#define NW_MMB_ABOVE	40	/* where what is above IP starts */
#define NW_MMB_LAYERS	60
#define NW_MMB_WAY	61
#define NW_MMB_UPPER	62

enum nw_mmb_layer {
	NW_MMB_IP4 = 1,
	NW_MMB_IP6 = 2,
	NW_MMB_ICMP = 4,
	NW_MMB_ICMP6 = 8,
	NW_MMB_UDP = 16,
	NW_MMB_UDP_DATA = 32,
	NW_MMB_TCP = 64,
};

/* What a packet does at the device: leaving, it comes from inside. */
enum nw_mmb_way {
	NW_MMB_LEAVES = 1,
	NW_MMB_COMES = 2,
};

struct nw_mmb_settings {
	u32 net_at;		/* bytes before the network header */
	u32 tables;
	u32 words;		/* 64 tables each */
	u32 looks;
	u32 steps;		/* no packet needs more: words, tables and chains */
	u32 options;		/* whether rules match TCP options */
	u32 enabled;		/* a bit for each way */
	u8 look_at[NW_MMB_LOOKS];	/* the bytes of the window */
};

struct nw_mmb_row {
	u64 word[NW_MMB_WORDS];
};

struct nw_mmb_mask {
	u64 window[8];
};

struct nw_mmb_key {
	u64 window[8];
	u32 table;
	u32 unused;
};

struct nw_mmb_rule {
	u32 next;		/* of the same key */
	u32 action;
	u32 test;		/* the first */
	u32 tests;
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

struct nw_mmb_set {
	u8 layer;
	u8 ip;			/* counted from the IP header, not the one above */
	u16 at;			/* bytes, even */
	u16 keep;		/* as in the packet */
	u16 value;
};

struct nw_mmb_body {
	u8 kind;
	u8 len;			/* only an option that is as long is changed */
	u8 bytes[8];
	u8 unused[6];
};

#define NW_MMB_ACCEPT	0xffff

struct nw_mmb_action {
	u16 verdict[4];		/* in their order: hundredths of a percent, or ACCEPT; 0 ends */
	u32 sets;
	u32 bodies;
	struct nw_mmb_set set[NW_MMB_SETS];
	struct nw_mmb_body body[NW_MMB_BODIES];
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
};

struct nw_mmb_option {
	u8 kind;
	u8 at;			/* of what it holds, in the options */
	u8 len;
	u8 unused;
};

/* A packet while it is looked at. */
struct nw_mmb_packet {
	u8 window[72];		/* 64, and what a read of 8 bytes may touch behind */
	struct nw_mmb_key key;
	u32 len;		/* of IP */
	u32 header_len;
	u32 tcp_len;
	u32 layers;
	u32 more_fragments;
	u32 matched;
	u32 rule[NW_MMB_MATCHED];
	u32 sorted[NW_MMB_MATCHED];
	u8 options[72];		/* 40, and what a read of 8 bytes at six bits may touch */
	u32 options_len;
	u32 found;
	u32 broken;
	struct nw_mmb_option option[NW_MMB_OPTIONS];
};

#endif /* NW_MMB_H */
