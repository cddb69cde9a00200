/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The spin bit (RFC 9506 section 2.1, RFC 9000 section 17.4) and the valid edge
 * counter beside it (draft-trammell-quic-spin-03, draft-trammell-tsvwg-spin-00).
 *
 * Both ends start with 0. A newer packet sets the value to be sent: the responder
 * takes the packet's, the initiator its opposite. The naive rule of Guarna's
 * kernel patch lets every packet count, in whatever order they come, and the
 * initiator start with 1: its sockets store 0 and send the inverse of what they
 * store.
 *
 * A packet with an edge carries, as its counter, the counter of the edge that
 * arrived plus one, at most 3; 1 where the edge was held too long or answers
 * none. Every other packet carries 0.
 */
#ifndef NW_EFM_SPIN_H
#define NW_EFM_SPIN_H

#include "packet_number.h"

/* spin_word: value to be sent, counter of the next edge, when the value last
 * changed in microseconds. One word, so that a sender sees all three together.
 */
#define NW_EFM_SPIN_VALUE	1ULL
#define NW_EFM_SPIN_VEC		1	/* shift, two bits */
#define NW_EFM_SPIN_TIME	3	/* shift */

static inline void nw_efm_spin_start(struct nw_efm_flow *f,
				     const struct nw_efm_params *params)
{
	u8 first = params->rules & NW_EFM_SPIN_NAIVE &&
		   f->role == NW_EFM_INITIATOR;

	f->spin_word = first;
	f->spin_in = 0;
	f->spin_out = first;
}

/* A packet arrives. Returns whether the spin value of the newest packet changed,
 * that is whether a spin period of the other end begins.
 */
static inline int nw_efm_spin_in(struct nw_efm_flow *f,
				 const struct nw_efm_params *params,
				 const struct nw_efm_packet *p, int newer)
{
	u8 value = (p->bits & f->mask[NW_EFM_AT_S]) != 0;
	u32 vec = (u32)(p->bits & f->mask[NW_EFM_AT_VEC]) >> 1;
	u64 next = value ^ (f->role == NW_EFM_INITIATOR);
	int edge = value != f->spin_in;

	/* RFC 9000 section 17.4: only the highest packet number sets the value */
	if (!newer && !(params->rules & NW_EFM_SPIN_NAIVE))
		return 0;
	f->spin_in = value;
	if (next != (f->spin_word & NW_EFM_SPIN_VALUE)) {
		/* the time is used for the counter alone */
		u64 now = params->signals & NW_EFM_VEC ? nw_efm_now_us(p) : 0;

		vec = edge ? vec + 1 : 1;
		f->spin_word = now << NW_EFM_SPIN_TIME |
			       (u64)(vec > 3 ? 3 : vec) << NW_EFM_SPIN_VEC |
			       next;
	}
	return edge;
}

/* A packet leaves; returns its bits. */
static inline u8 nw_efm_spin_out(struct nw_efm_flow *f,
				 const struct nw_efm_params *params,
				 const struct nw_efm_packet *p)
{
	u64 word = NW_EFM_READ(&f->spin_word);
	u8 value = word & NW_EFM_SPIN_VALUE;
	u8 bits = value ? f->mask[NW_EFM_AT_S] : 0;

	if (value != f->spin_out && f->mask[NW_EFM_AT_VEC]) {
		u8 vec = word >> NW_EFM_SPIN_VEC & 3;
		u64 held = nw_efm_now_us(p) - (word >> NW_EFM_SPIN_TIME);

		/* draft-trammell-tsvwg-spin-00: an edge that was held is not valid */
		if (params->rules & NW_EFM_VEC_HOLD &&
		    held > params->vec_hold_us)
			vec = 1;
		bits |= (u8)(vec << 1);
	}
	f->spin_out = value;
	return bits;
}

#endif /* NW_EFM_SPIN_H */
