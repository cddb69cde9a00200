/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
#ifndef NW_MMB_PACKET_H
#define NW_MMB_PACKET_H

#include "nw_mmb.h"

/* A packet while it is looked at. */
struct nw_mmb_packet {
	u8 window[72];		/* 64, and what a read of 8 bytes may touch behind */
	u64 now;		/* ns */
	u32 len;		/* of IP */
	u32 header_len;
	u32 tcp_len;
	u32 layers;
	u32 more_fragments;
	u32 later;		/* a fragment without the header above IP: its offset / 8 */
	u32 fragment_ident;
	u32 sum_at;		/* of the checksum above IP; 0 if there is none */
	u32 covers;		/* whether it covers the addresses */
	u32 reverse;		/* its direction in its connection */
	struct nw_mmb_flow flow;	/* its key as it came */
	struct nw_mmb_flow forward;	/* that of its connection */
	struct nw_mmb_flow left;	/* its key as it leaves */
	struct nw_mmb_fragmented fragmented;
	struct nw_mmb_quote quote;
	u8 options[72];		/* 40, and what a read of 8 bytes at six bits may touch */
	u32 options_len;
	u32 found;
	u32 broken;
	u32 repacked;		/* the options lost their fillers */
	struct nw_mmb_option option[NW_MMB_OPTIONS];
	u8 packed[NW_MMB_OPTIONS];	/* options under change */
	struct nw_mmb_change change;
	struct nw_mmb_pack pack;
	u8 chunk[NW_MMB_CHUNK];
#ifdef NW_MMB_OF_PACKET
	NW_MMB_OF_PACKET;	/* what the includer keeps with it */
#endif
};

_Static_assert(__builtin_offsetof(struct nw_mmb_packet, now) == 72, "as in ffi.rs");
_Static_assert(__builtin_offsetof(struct nw_mmb_packet, flow) == 120, "as in ffi.rs");
_Static_assert(__builtin_offsetof(struct nw_mmb_packet, fragmented) == 240, "as in ffi.rs");
_Static_assert(__builtin_offsetof(struct nw_mmb_packet, options) == 304, "as in ffi.rs");
_Static_assert(__builtin_offsetof(struct nw_mmb_packet, option) == 392, "as in ffi.rs");
_Static_assert(__builtin_offsetof(struct nw_mmb_packet, packed) == 552, "as in ffi.rs");
_Static_assert(__builtin_offsetof(struct nw_mmb_packet, chunk) == 660, "as in ffi.rs");

#endif /* NW_MMB_PACKET_H */
