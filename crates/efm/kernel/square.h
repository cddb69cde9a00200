/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The square bit (RFC 9506 section 3.2): N packets with 0, N packets with 1, and
 * so on; and, for the reflection, the blocks of the other end as they arrive.
 */
#ifndef NW_EFM_SQUARE_H
#define NW_EFM_SQUARE_H

#include "nw_efm.h"

/* A packet leaves; returns its bit. The count may wrap: 2^32 is a whole number of
 * periods.
 */
static inline u8 nw_efm_square_out(struct nw_efm_flow *f,
				   const struct nw_efm_params *params)
{
	u32 block = f->q_sent++ >> (params->q_shift & 31);

	return block & 1 ? f->mask[NW_EFM_AT_Q] : 0;
}

/*
 * A packet arrives; returns the length of the block that it ends, 0 if it ends
 * none.
 *
 * A block has ended when `r_threshold` packets of the next have come (section
 * 3.2.3). Every packet counts in one block: one that is later still counts in the
 * block after the next, so that the average stays right.
 */
static inline u32 nw_efm_square_in(struct nw_efm_flow *f,
				   const struct nw_efm_params *params,
				   const struct nw_efm_packet *p)
{
	u8 value = (p->bits & f->mask[NW_EFM_AT_Q]) != 0;
	u32 length;

	if (value == f->r_in_value) {
		f->r_in_len++;
		return 0;
	}
	f->r_in_next++;
	if (f->r_in_next < params->r_threshold)
		return 0;
	length = f->r_in_len;
	f->r_in_len = f->r_in_next;
	f->r_in_next = 0;
	f->r_in_value = value;
	return length;
}

#endif /* NW_EFM_SQUARE_H */
