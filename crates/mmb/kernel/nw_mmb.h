/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A box by rules: what becomes of a packet of which it is known which rules match it, and
 * of its connection. The same text runs natively in the simulator and, compiled for BPF, as
 * a program at a device. Hence: no libc, no global, no clock, no unbounded loop, and loops
 * over what a packet says as calls of nw_loop, by which a verifier looks at one turn only.
 *
 * Tables are the includer's: those of rules, connections and fragments. So are packets: it
 * has defined, with the meaning that Linux's helpers of these names have,
 *
 *	struct nw_skb			with `len`, and `protocol` as an EtherType in network order
 *	NW_MMB_NET_AT			bytes before the network header
 *	nw_load, nw_store		0 if the bytes were there
 *	nw_ip_checksum, nw_l4_checksum	what changes in a checksum
 *	nw_loop, nw_forget
 *	NW_INLINE			before what is part of its caller
 *	NW_MMB_APART			before what is not, for a stack of its own
 *	NW_MMB_GLOBAL			before what is verified once, not at each call
 *	nw_be16, nw_be32
 *
 * and nw_mmb_resize() of options.h. narrows-mmb has the structs as well (src/ffi.rs).
 */
#ifndef NW_MMB_H
#define NW_MMB_H

#ifndef __VMLINUX_H__
/* The kernel's own spellings, so that a unit with vmlinux.h needs no change. */
typedef signed int s32;
typedef signed long long s64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

/* Words at places that are bytes, or other words, in a struct. */
typedef u16 __attribute__((may_alias)) nw_u16;
typedef u32 __attribute__((may_alias)) nw_u32;
typedef u64 __attribute__((may_alias)) nw_u64;

#define NW_MMB_OPTIONS	40	/* bytes of options in a TCP header, RFC 9293 section 3.1 */
#define NW_MMB_CHUNK	512	/* bytes that are handled at once */

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
} __attribute__((aligned(8)));

/* What packets of a connection get from its other key. */
enum nw_mmb_ends {
	NW_MMB_SOURCE = 1,
	NW_MMB_SOURCE_PORT = 2,
	NW_MMB_DESTINATION = 4,
	NW_MMB_DESTINATION_PORT = 8,
};

/* What is known of a connection besides the key of its first packet as it came. */
struct nw_mmb_tracked {
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
	u32 acked[2];		/* by the forward and the reverse end, in the other's numbers */
	u32 unused;
};

/* A packet in fragments. */
struct nw_mmb_fragmented {
	u8 source[16];
	u8 destination[16];
	u32 ident;
	u8 protocol;
	u8 v6;
	u16 unused;
} __attribute__((aligned(8)));

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

_Static_assert(sizeof(struct nw_mmb_set) == 8, "as in ffi.rs");
_Static_assert(sizeof(struct nw_mmb_change) == 44, "as in ffi.rs");
_Static_assert(sizeof(struct nw_mmb_mapping) == 24, "as in ffi.rs");
_Static_assert(sizeof(struct nw_mmb_flow) == 40, "as in ffi.rs");
_Static_assert(sizeof(struct nw_mmb_tracked) == 88, "as in ffi.rs");
_Static_assert(__builtin_offsetof(struct nw_mmb_tracked, ident) == 64, "as in ffi.rs");
_Static_assert(__builtin_offsetof(struct nw_mmb_tracked, acked) == 76, "as in ffi.rs");
_Static_assert(sizeof(struct nw_mmb_fragmented) == 40, "as in ffi.rs");

#endif /* NW_MMB_H */
