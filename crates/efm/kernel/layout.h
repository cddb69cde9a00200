/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Which bits of byte 12 a signal has, given all signals of the flow, and the
 * codes by which a SYN and a SYN-ACK announce them.
 *
 * D has 0x02 and Q 0x04, as in Guarna's patches (thesis, Politecnico di Torino
 * 2024). S has 0x02 there as well, and 0x08 beside D. S with the edge counter
 * has 0x08 and the counter 0x06 (draft-trammell-tsvwg-spin-00). L, R, T and E,
 * in this order, take what is left, the highest bit first.
 */
#ifndef NW_EFM_LAYOUT_H
#define NW_EFM_LAYOUT_H

#include "nw_efm.h"

/* The signals that code 0 to 7 announces; 1, 2 and 3 are those of the thesis. */
static inline u8 nw_efm_announced(u32 code)
{
	switch (code & 7) {
	case 1:
		return NW_EFM_D;
	case 2:
		return NW_EFM_S;
	case 3:
		return NW_EFM_D | NW_EFM_Q;
	case 4:
		return NW_EFM_S | NW_EFM_VEC;
	case 5:
		return NW_EFM_S | NW_EFM_D | NW_EFM_Q;
	case 6:
		return NW_EFM_D | NW_EFM_Q | NW_EFM_L;
	case 7:
		return NW_EFM_D | NW_EFM_Q | NW_EFM_R;
	}
	return 0;
}

/* The code of a set of signals, 0 where there is none. */
static inline u32 nw_efm_code(u8 signals)
{
	u32 code;

	for (code = 7; code > 0; code--)
		if (nw_efm_announced(code) == signals)
			return code;
	return 0;
}

/* Uses `signals` on the flow from now on. */
static inline void nw_efm_activate(struct nw_efm_flow *f, u8 signals)
{
	u8 spin = signals & (NW_EFM_D | NW_EFM_VEC) ? 0x08 : 0x02;
	u8 left = NW_EFM_BITS;
	u32 at;

	f->active = signals;
	f->mask[NW_EFM_AT_S] = signals & NW_EFM_S ? spin : 0;
	f->mask[NW_EFM_AT_VEC] = signals & NW_EFM_VEC ? 0x06 : 0;
	f->mask[NW_EFM_AT_D] = signals & NW_EFM_D ? 0x02 : 0;
	f->mask[NW_EFM_AT_Q] = signals & NW_EFM_Q ? 0x04 : 0;
	for (at = NW_EFM_AT_S; at <= NW_EFM_AT_Q; at++)
		left &= (u8)~f->mask[at];
	for (at = NW_EFM_AT_L; at <= NW_EFM_AT_E; at++) {
		u8 highest = left & 0x08 ? 0x08 : left & 0x04 ? 0x04 : left;

		f->mask[at] = signals >> at & 1 ? highest : 0;
		left &= (u8)~f->mask[at];
	}
	f->all = NW_EFM_BITS & (u8)~left;
}

#endif /* NW_EFM_LAYOUT_H */
