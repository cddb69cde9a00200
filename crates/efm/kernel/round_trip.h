/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The round-trip loss bit (RFC 9506 section 3.1): a train of marked packets goes
 * round twice, and what it loses on the way is what the path loses.
 *
 * The initiator makes a train in two spin periods, waits until a whole period
 * without marks has come back, sends back what came of the train, waits likewise,
 * and starts over. It marks only against a token, of which it has at most one and
 * gets one with each packet that arrives, so that the train fits the slower
 * direction. The responder sends back what comes. A pause takes two round trips,
 * as the period in which it begins still brings marks, so the whole takes eight.
 *
 * Periods of the initiator begin with the first packet of a new spin value that
 * the responder will find newer than all before, so a pause that ends with an
 * arriving edge is followed by a whole period: the edge that it makes leaves next.
 * A retransmission may carry the new value earlier. It begins nothing at the other
 * end, and its mark would be back before the period is: a generated one would not
 * be counted, and a reflected one would go round once more.
 *
 * For the same reason the spin value of an arriving packet, and not its place among
 * others, says whether its mark answers the period that is under way: a duplicate
 * ACK may be the first to carry an edge and yet not be newer.
 */
#ifndef NW_EFM_ROUND_TRIP_H
#define NW_EFM_ROUND_TRIP_H

#include "packet_number.h"

/* What the initiator does. A wait ends with the next edge that leaves, a pause
 * with an edge that arrives.
 */
enum nw_efm_t_phase {
	NW_EFM_T_WAIT = 0,		/* for a period to generate in */
	NW_EFM_T_GENERATE_1,		/* first period of generation */
	NW_EFM_T_GENERATE_2,		/* second one */
	NW_EFM_T_PAUSE,			/* after generation */
	NW_EFM_T_WAIT_TO_REFLECT,
	NW_EFM_T_REFLECT_1,		/* first period of reflection */
	NW_EFM_T_REFLECT_2,		/* until all is sent back */
	NW_EFM_T_PAUSE_2,		/* after reflection */
};

/* The arriving period within a pause. */
enum nw_efm_t_clean {
	NW_EFM_T_PARTIAL = 0,	/* the pause began within it */
	NW_EFM_T_CLEAN,		/* whole, no mark so far */
	NW_EFM_T_DIRTY,		/* whole, with a mark */
};

static inline void nw_efm_round_trip_start(struct nw_efm_flow *f)
{
	f->t_phase = NW_EFM_T_WAIT;
	f->t_value = f->spin_out;
	f->t_token = 0;
}

/* Whether the mark of an arriving packet is to be sent back: counting begins with
 * the answer to the first packet of the generation, and ends with the answer to
 * the first packet of the reflection (RFC 9506 section 3.1.2).
 */
static inline int nw_efm_round_trip_counts(const struct nw_efm_flow *f,
					   const struct nw_efm_packet *p)
{
	u8 value = (p->bits & f->mask[NW_EFM_AT_S]) != 0;

	switch (f->t_phase) {
	case NW_EFM_T_GENERATE_1:
		return value == f->t_value;
	case NW_EFM_T_REFLECT_1:
		return value != f->t_value;
	case NW_EFM_T_GENERATE_2:
	case NW_EFM_T_PAUSE:
	case NW_EFM_T_WAIT_TO_REFLECT:
		return 1;
	}
	return 0;
}

/* A packet arrives; `edge` says whether it begins a spin period. */
static inline void nw_efm_round_trip_in(struct nw_efm_flow *f,
					const struct nw_efm_packet *p, int edge)
{
	int marked = (p->bits & f->mask[NW_EFM_AT_T]) != 0;

	if (f->role != NW_EFM_INITIATOR) {
		f->t_arrived += (u32)marked;
		return;
	}
	f->t_token = 1;
	if (marked && nw_efm_round_trip_counts(f, p))
		f->t_arrived++;
	if (f->t_phase != NW_EFM_T_PAUSE && f->t_phase != NW_EFM_T_PAUSE_2)
		return;
	if (edge && f->t_clean == NW_EFM_T_CLEAN) {
		f->t_phase = f->t_phase == NW_EFM_T_PAUSE ?
			     NW_EFM_T_WAIT_TO_REFLECT : NW_EFM_T_WAIT;
		return;
	}
	if (edge)
		f->t_clean = NW_EFM_T_CLEAN;
	if (marked && f->t_clean == NW_EFM_T_CLEAN)
		f->t_clean = NW_EFM_T_DIRTY;
}

static inline void nw_efm_round_trip_pause(struct nw_efm_flow *f, u32 phase)
{
	f->t_clean = NW_EFM_T_PARTIAL;
	f->t_phase = phase;
}

/* A spin period begins with the packet that leaves. */
static inline void nw_efm_round_trip_period(struct nw_efm_flow *f)
{
	switch (f->t_phase) {
	case NW_EFM_T_WAIT:
		/* what came late of the train before is not reflected */
		f->t_returned = f->t_arrived;
		f->t_phase = NW_EFM_T_GENERATE_1;
		break;
	case NW_EFM_T_GENERATE_1:
		f->t_phase = NW_EFM_T_GENERATE_2;
		break;
	case NW_EFM_T_GENERATE_2:
		nw_efm_round_trip_pause(f, NW_EFM_T_PAUSE);
		break;
	case NW_EFM_T_WAIT_TO_REFLECT:
		f->t_phase = NW_EFM_T_REFLECT_1;
		break;
	case NW_EFM_T_REFLECT_1:
		f->t_phase = NW_EFM_T_REFLECT_2;
		break;
	}
}

/* A packet leaves whose spin value is `spin_out`. Returns its bit. */
static inline u8 nw_efm_round_trip_out(struct nw_efm_flow *f,
				       const struct nw_efm_packet *p)
{
	u32 waiting;
	int newer;

	if (f->role != NW_EFM_INITIATOR) {
		if (f->t_arrived == f->t_returned)
			return 0;
		f->t_returned++;
		return f->mask[NW_EFM_AT_T];
	}
	newer = nw_efm_newer(&f->left, p);
	if (newer && f->spin_out != f->t_value) {
		f->t_value = f->spin_out;
		nw_efm_round_trip_period(f);
	}
	waiting = f->t_arrived - f->t_returned;
	switch (f->t_phase) {
	case NW_EFM_T_GENERATE_1:
	case NW_EFM_T_GENERATE_2:
		break;
	case NW_EFM_T_REFLECT_1:
	case NW_EFM_T_REFLECT_2:
		if (waiting)
			break;
		nw_efm_round_trip_pause(f, NW_EFM_T_PAUSE_2);
		return 0;
	default:
		return 0;
	}
	/* section 3.1.2: at most one mark for each packet that arrived */
	if (!f->t_token)
		return 0;
	f->t_token = 0;
	if (f->t_phase >= NW_EFM_T_REFLECT_1)
		f->t_returned++;
	return f->mask[NW_EFM_AT_T];
}

#endif /* NW_EFM_ROUND_TRIP_H */
