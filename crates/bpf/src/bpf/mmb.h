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
#define NW_MMB_LANES	8	/* words of the window */
#define NW_MMB_LOOKS	8	/* bytes of a packet that say which tables can match */
#define NW_MMB_TESTS	8	/* of a rule, besides its mask */
#define NW_MMB_MATCHED	64	/* rules that one packet matches */
#define NW_MMB_SETS	24	/* words that a rule changes */
#define NW_MMB_OPTIONS	40	/* bytes of options in a TCP header */
#define NW_MMB_CHUNK	512	/* bytes that are summed up at once */
#define NW_MMB_CHUNKS	1024	/* of the longest packet, 512 KiB (GSO_MAX_SIZE) */
#define NW_MMB_JOINED	16	/* rules of a connection */
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
	NW_MMB_FRAME = 128,	/* it is not IP */
};

/* What a packet does at the device: leaving, it comes from inside. */
enum nw_mmb_way {
	NW_MMB_LEAVES = 1,
	NW_MMB_COMES = 2,
};

struct nw_mmb_settings {
	u32 net_at;		/* bytes before the network header */
	u32 tables;
	u32 looks;
	u32 steps;		/* no packet needs more: words, tables and chains */
	u32 options;		/* whether rules match TCP options */
	u32 enabled;		/* a bit for each way */
	u32 stateful;		/* whether a rule is */
	u32 changes;		/* of options, of all rules */
	u32 translates;		/* whether a rule maps or shuffles */
	u32 sums;		/* whether a rule sets a checksum */
	u32 frames;		/* whether a rule is about frames that are not IP */
	u32 lanes;		/* words of the window in a key */
	u8 look_at[NW_MMB_LOOKS];	/* the bytes of the window */
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

struct nw_mmb_set {
	u8 layer;
	u8 ip;			/* counted from the IP header, not the one above */
	u16 at;			/* bytes, even */
	u16 keep;		/* as in the packet */
	u16 value;
};

enum nw_mmb_change_what {
	NW_MMB_WRITE = 0,	/* options that are as long get other contents */
	NW_MMB_SET = 1,		/* all of the kind do */
	NW_MMB_ADD = 2,		/* one more behind them */
	NW_MMB_KEEP = 3,	/* a bit for each kind that stays */
};

struct nw_mmb_change {
	u8 what;
	u8 kind;
	u8 len;
	u8 unused;
	u8 bytes[NW_MMB_OPTIONS];
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

/* A field of a connection's packets that gets another value. */
enum nw_mmb_mapped {
	NW_MMB_SOURCE_4 = 0,
	NW_MMB_DESTINATION_4 = 1,
	NW_MMB_SOURCE_6 = 2,
	NW_MMB_DESTINATION_6 = 3,
	NW_MMB_TCP_SOURCE = 4,
	NW_MMB_TCP_DESTINATION = 5,
	NW_MMB_UDP_SOURCE = 6,
	NW_MMB_UDP_DESTINATION = 7,
	NW_MMB_IDENT = 8,
	NW_MMB_LABEL = 9,
	NW_MMB_SEQ = 10,
	NW_MMB_ACK = 11,
	NW_MMB_ICMP_IDENT = 12,
	NW_MMB_ICMP6_IDENT = 13,
};

struct nw_mmb_mapping {
	u8 what;
	u8 drawn;		/* its value is */
	u8 unused[2];
	u32 number;		/* what is no address */
	u8 address[16];
};

/* A connection's key in packets. Ports in network order; of ICMP echo the identifier
 * stands for both.
 */
struct nw_mmb_flow {
	u8 source[16];
	u8 destination[16];
	u16 source_port;
	u16 destination_port;
	u8 protocol;
	u8 v6;
	u16 unused;
};

/* What packets of a connection get from its other key. */
enum nw_mmb_ends {
	NW_MMB_SOURCE = 1,
	NW_MMB_SOURCE_PORT = 2,
	NW_MMB_DESTINATION = 4,
	NW_MMB_DESTINATION_PORT = 8,
};

/* A connection, found by the key of its first packet as it came. */
struct nw_mmb_connection {
	struct nw_mmb_flow reverse;	/* of packets of the other direction as they come */
	u64 last_active;	/* ns */
	u32 seq;		/* added to forward sequence numbers */
	u32 ack;		/* and to acknowledgement numbers */
	u32 label;		/* what forward packets get, and what it replaced */
	u32 label_before;
	u16 ident;		/* added to forward identifications */
	u16 ident_set;		/* as with the label */
	u16 ident_before;
	u8 mapped;
	u8 sets_ident;
	u8 sets_label;
	u8 flags[2];		/* of TCP, seen forward and in reverse */
	u8 replied;		/* 1 once a packet came in reverse; 2 and 4: `acked` are known */
	u32 rules;
	u32 rule[NW_MMB_JOINED];	/* identifiers; NW_MMB_LAST of one that is gone */
	u64 begun;		/* ns */
	u64 packets;		/* of both directions */
	u32 acked[2];		/* by the forward and the reverse end, in the other's numbers */
};

/* A packet in fragments, and its key. */
struct nw_mmb_fragmented {
	u8 source[16];
	u8 destination[16];
	u32 ident;
	u8 protocol;
	u8 v6;
	u16 unused;
};

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

struct nw_mmb_option {
	u8 kind;
	u8 at;			/* of what it holds, in the options */
	u8 len;
	u8 unused;
};

/* What one change makes of the options. */
struct nw_mmb_pack {
	u32 room;		/* bytes that the new list needs */
	u32 differs;		/* whether an option goes or changes its length */
	u32 filled;		/* bytes of the new list */
	u32 kept;		/* options in it */
	u32 from;		/* where the bytes of one come from, */
	u32 own;		/* in the change and not in the list */
};

/* What an ICMP error quotes. */
struct nw_mmb_quote {
	u32 at;			/* bytes from the network header */
	u32 header_len;
	u32 protocol;
	u32 later;		/* a fragment without the header above IP */
	u32 sum_at;		/* as of a packet */
	u32 covers;
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
	u32 later;		/* a fragment without the header above IP: its offset */
	u32 stray;		/* a later one that is dropped unless its connection is found */
	u32 fragment_ident;
	u32 sum_at;		/* of the checksum above IP; 0 if there is none */
	u32 covers;		/* whether it covers the addresses */
	u32 reverse;		/* its direction in its connection */
	u64 now;
	u64 stateful;		/* a bit for each of the rules that it matches */
	struct nw_mmb_flow flow;	/* its key as it came */
	struct nw_mmb_flow forward;	/* that of its connection */
	struct nw_mmb_flow left;	/* its key as it leaves */
	struct nw_mmb_flow other;
	struct nw_mmb_connection fresh;
	struct nw_mmb_fragmented fragmented;
	struct nw_mmb_followed followed;
	struct nw_mmb_quote quote;
	u32 matched;
	u32 rule[NW_MMB_MATCHED];
	u32 sorted[NW_MMB_MATCHED];
	u8 options[72];		/* 40, and what a read of 8 bytes at six bits may touch */
	u32 options_len;
	u32 found;
	u32 broken;
	u32 repacked;		/* the options lost their fillers */
	u8 packed[NW_MMB_OPTIONS];	/* options under change */
	struct nw_mmb_change change;
	struct nw_mmb_pack pack;
	u8 chunk[NW_MMB_CHUNK];
	struct nw_mmb_option option[NW_MMB_OPTIONS];
};

#endif /* NW_MMB_H */
