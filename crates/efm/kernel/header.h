/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Reading a TCP header, and changing its reserved bits.
 */
#ifndef NW_EFM_HEADER_H
#define NW_EFM_HEADER_H

#include "nw_efm.h"

#define NW_TCP_HEADER_MIN	20	/* bytes (RFC 9293) */
#define NW_TCP_HEADER_MAX	60
#define NW_TCP_KIND_SACK	5	/* RFC 2018 */
#define NW_TCP_KIND_TIMESTAMP	8	/* RFC 7323 */
/* Two NOPs and a timestamp of 10 bytes, as nearly all packets begin their options
 * (RFC 7323 appendix A), and the length of a header that has these alone.
 */
#define NW_TCP_TIMESTAMP	0x0101080aU
#define NW_TCP_WITH_TIMESTAMP	32

static inline u32 nw_efm_be32(const u8 *at)
{
#ifdef NW_EFM_BE32
	/* the includer's own: a compiler for BPF makes seven instructions of it */
	return NW_EFM_BE32(at);
#else
	return (u32)at[0] << 24 | (u32)at[1] << 16 | (u32)at[2] << 8 | at[3];
#endif
}

/*
 * Reads the first NW_TCP_HEADER_MIN bytes of the header in `h`. `len` is the length
 * of header and payload on the wire. Returns the header's length, 0 where it cannot
 * be one.
 */
static inline u32 nw_efm_read_fixed(struct nw_efm_packet *p, const u8 *h, u32 len)
{
	u32 header = (u32)(h[12] >> 4) * 4;

	p->seq = nw_efm_be32(h + 4);
	p->ack = nw_efm_be32(h + 8);
	p->flags = h[13];
	p->bits = h[12] & NW_EFM_BITS;
	p->tsval = 0;
	p->has &= NW_EFM_HAS_SOCKET;
	p->option_at = 0;
	if (header < NW_TCP_HEADER_MIN || header > len)
		return 0;
	p->seq_end = p->seq + (len - header);
	if (p->flags & NW_TCP_SYN)
		p->seq_end++;
	if (p->flags & NW_TCP_FIN)
		p->seq_end++;
	return header;
}

/*
 * Reads the options of the header of `header` bytes in `h`, of which
 * NW_TCP_HEADER_MAX can be read, zeros behind its end. An option that cannot be is
 * the last that is read, as in Linux.
 *
 * The place in the options is kept in memory. The verifier of BPF follows a value
 * in a register through every order of options that there may be, and never ends;
 * of memory outside of the stack it follows none.
 */
static inline void nw_efm_read_options(struct nw_efm_packet *p, const u8 *h,
				       u32 header)
{
	volatile u32 *place = &p->option_at;
	u32 i;

	*place = NW_TCP_HEADER_MIN;
	if (header >= NW_TCP_WITH_TIMESTAMP &&
	    nw_efm_be32(h + NW_TCP_HEADER_MIN) == NW_TCP_TIMESTAMP) {
		p->tsval = nw_efm_be32(h + NW_TCP_HEADER_MIN + 4);
		p->has |= NW_EFM_HAS_TS;
		if (header == NW_TCP_WITH_TIMESTAMP) {
			*place = 0;
			return;
		}
		*place = NW_TCP_WITH_TIMESTAMP;
	}
	for (i = 0; i < NW_TCP_HEADER_MAX - NW_TCP_HEADER_MIN; i++) {
		u32 at = *place, kind, size;

		/* nor may the compiler test a sum where the verifier wants `at` */
		__asm__ volatile("" : "+r"(at));
		/* a kind in the last byte has no length and says nothing */
		if (at > NW_TCP_HEADER_MAX - 2 || at + 1 >= header)
			break;
		kind = h[at];
		if (kind == 0)
			break;
		if (kind == 1) {
			*place = at + 1;
			continue;
		}
		size = h[at + 1];
		if (size < 2 || at + size > header)
			break;
		if (kind == NW_TCP_KIND_TIMESTAMP && size == 10 &&
		    at <= NW_TCP_HEADER_MAX - 6) {
			p->tsval = nw_efm_be32(h + at + 2);
			p->has |= NW_EFM_HAS_TS;
		}
		if (kind == NW_TCP_KIND_SACK && size >= 10)
			p->has |= NW_EFM_HAS_SACK;
		*place = at + size;
	}
	*place = 0;
}

/* Reads both. */
static inline u32 nw_efm_read(struct nw_efm_packet *p, const u8 *h, u32 len)
{
	u32 header = nw_efm_read_fixed(p, h, len);

	if (header)
		nw_efm_read_options(p, h, header);
	return header;
}

/* The checksum after a 16-bit word changed (RFC 1624 equation 3). */
static inline u16 nw_efm_checksum(u16 checksum, u16 old, u16 new)
{
	u32 sum = (u32)(u16)~checksum + (u16)~old + new;

	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~((sum & 0xffff) + (sum >> 16));
}

/* Gives the bits of byte 12 in `mask` the values in `bits`, and mends the
 * checksum. AE, the data offset and all flags stay.
 */
static inline void nw_efm_write(u8 *h, u8 mask, u8 bits)
{
	u16 old = (u16)(h[12] << 8 | h[13]), sum;

	h[12] = (u8)((h[12] & (u8)~mask) | (bits & mask));
	sum = nw_efm_checksum((u16)(h[16] << 8 | h[17]), old,
			      (u16)(h[12] << 8 | h[13]));
	h[16] = (u8)(sum >> 8);
	h[17] = (u8)sum;
}

#endif /* NW_EFM_HEADER_H */
