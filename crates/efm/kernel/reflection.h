/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The reflection square bit (RFC 9506 section 3.4): blocks as long as the other
 * end's Q blocks were when they arrived.
 *
 * The signal is 0 until the first Q block has arrived, and then changes. A block
 * begins with the length M of the last Q block; when more arrive before it ends,
 * M is their average. What rounding M took away or added is made good in the next
 * block (section 3.4.1). So is what was already sent of a block beyond an M that
 * became shorter meanwhile: it would hide 3 % of losses in bursts of five.
 */
#ifndef NW_EFM_REFLECTION_H
#define NW_EFM_REFLECTION_H

#include "square.h"

#define NW_EFM_R_ONE	65536U	/* lengths are in 1/65536 of a packet */

/* r_blocks and its copies: packets in whole blocks, and how many blocks. Both
 * wrap; only differences count.
 */
#define NW_EFM_R_PACKETS	32	/* shift */

/*
 * A packet arrives. A block longer than N by more than reordering can make it
 * contains another block, of the other value, that a burst loss removed whole: it
 * counts as three (sections 3.2.3.1 and 3.4.2.1).
 */
static inline void nw_efm_reflection_in(struct nw_efm_flow *f,
					const struct nw_efm_params *params,
					const struct nw_efm_packet *p)
{
	u32 n = 1U << (params->q_shift & 31);
	u32 length = nw_efm_square_in(f, params, p);
	u32 blocks = length > n + params->r_threshold ? 3 : 1;

	if (!length)
		return;
	/* bursts beyond two blocks cannot be distinguished (section 3.2.3.1) */
	if (length > 2 * n)
		length = 2 * n;
	f->r_last = length / blocks;
	f->r_blocks += ((u64)length << NW_EFM_R_PACKETS) + blocks;
}

/* M for an average length, with the rounding of the block before. */
static inline void nw_efm_reflection_length(struct nw_efm_flow *f, u32 average)
{
	u32 exact = average + f->r_carry;
	u32 length = 0;

	/* lengths are below 2^15 packets: a larger one is a debt */
	if (!(exact >> 31))
		length = (exact + NW_EFM_R_ONE / 2) / NW_EFM_R_ONE;
	f->r_length = length ? length : 1;
	f->r_rounded = exact - f->r_length * NW_EFM_R_ONE;
}

static inline void nw_efm_reflection_begin(struct nw_efm_flow *f, u64 blocks)
{
	u32 beyond = f->r_sent > f->r_length ? f->r_sent - f->r_length : 0;

	f->r_value = !f->r_value;
	f->r_sent = 0;
	f->r_base = blocks;
	f->r_seen = blocks;
	f->r_carry = f->r_rounded - beyond * NW_EFM_R_ONE;
	nw_efm_reflection_length(f, f->r_last * NW_EFM_R_ONE);
}

/* A packet leaves; returns its bit. */
static inline u8 nw_efm_reflection_out(struct nw_efm_flow *f)
{
	u64 blocks = f->r_blocks;
	u8 bit;

	if (!f->r_length) {
		if (!(u32)blocks)
			return 0;
		nw_efm_reflection_begin(f, blocks);
	} else if (blocks != f->r_seen) {
		u32 packets = (u32)((blocks - f->r_base) >> NW_EFM_R_PACKETS);
		u32 count = (u32)(blocks - f->r_base);

		f->r_seen = blocks;
		if (count)
			nw_efm_reflection_length(f,
				(u32)((u64)packets * NW_EFM_R_ONE / count));
	}
	/* section 3.4.1: M may have become shorter than what was already sent */
	if (f->r_sent >= f->r_length)
		nw_efm_reflection_begin(f, blocks);
	bit = f->r_value ? f->mask[NW_EFM_AT_R] : 0;
	f->r_sent++;
	if (f->r_sent >= f->r_length)
		nw_efm_reflection_begin(f, blocks);
	return bit;
}

#endif /* NW_EFM_REFLECTION_H */
