/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * A flow at one host: which bits a leaving packet carries, and how an arriving one
 * changes the flow's state.
 *
 * Every packet after the SYN and the SYN-ACK carries signals: retransmissions, pure
 * ACKs, FIN and RST as well.
 */
#ifndef NW_EFM_FLOW_H
#define NW_EFM_FLOW_H

#include "delay.h"
#include "handshake.h"
#include "header.h"
#include "reflection.h"
#include "round_trip.h"
#include "spin.h"
#include "square.h"
#include "unreported.h"

/* What is to be written into byte 12: the bits, and above them which ones. */
#define NW_EFM_WRITE(mask, bits)	((u32)(mask) << 8 | (bits))

/* A SYN or SYN-ACK leaves. */
static inline u32 nw_efm_opening_out(struct nw_efm_flow *f,
				     const struct nw_efm_params *params,
				     const struct nw_efm_packet *p)
{
	u32 code = p->flags & NW_TCP_ACK ? nw_efm_synack_out(f, params, p)
					 : nw_efm_syn_out(f, params, p);

	return nw_efm_unannounced(params) ? 0 :
	       NW_EFM_WRITE(NW_EFM_BITS, (u8)(code << 1));
}

/* A packet leaves; returns NW_EFM_WRITE, 0 if the packet stays as it is. */
static inline u32 nw_efm_egress(struct nw_efm_flow *f,
				const struct nw_efm_params *params,
				const struct nw_efm_packet *p)
{
	/* never more than the parameters say; where they are constants, the
	 * verifier of BPF leaves out what is off
	 */
	u8 active = f->active & params->signals, bits = 0;

	if (p->flags & NW_TCP_SYN)
		return nw_efm_opening_out(f, params, p);
	if (!active)
		return 0;
	if (p->segments > 1) {
		/*
		 * Segmentation copies the bits into every packet. That is right for
		 * the spin value, and wrong for signals that count packets.
		 */
		f->unmarked += p->segments;
		if (active & NW_EFM_S && !(active & NW_EFM_VEC) &&
		    NW_EFM_READ(&f->spin_word) & NW_EFM_SPIN_VALUE)
			bits = f->mask[NW_EFM_AT_S];
		return NW_EFM_WRITE(f->all, bits);
	}
	if (active & NW_EFM_S) {
		bits |= nw_efm_spin_out(f, params, p);
		if (active & NW_EFM_T)
			bits |= nw_efm_round_trip_out(f, p);
	}
	if (active & NW_EFM_D)
		bits |= nw_efm_delay_out(f, params, p);
	if (active & NW_EFM_Q)
		bits |= nw_efm_square_out(f, params);
	if (active & NW_EFM_R)
		bits |= nw_efm_reflection_out(f);
	if (active & (NW_EFM_L | NW_EFM_E)) {
		nw_efm_unreported_start(f, p);
		bits |= nw_efm_unreported_out(f, p);
	}
	return NW_EFM_WRITE(f->all, bits);
}

/* A packet arrives. */
static inline void nw_efm_ingress(struct nw_efm_flow *f,
				  const struct nw_efm_params *params,
				  const struct nw_efm_packet *p)
{
	u8 active = f->active & params->signals;
	int edge = 0;

	if (p->flags & NW_TCP_SYN) {
		if (p->flags & NW_TCP_ACK)
			nw_efm_synack_in(f, params, p);
		else
			nw_efm_syn_in(f, p);
		return;
	}
	if (!active)
		return;
	if (active & NW_EFM_S)
		edge = nw_efm_spin_in(f, params, p, nw_efm_newer(&f->arrived, p));
	if (active & NW_EFM_T)
		nw_efm_round_trip_in(f, p, edge);
	if (active & NW_EFM_D)
		nw_efm_delay_in(f, params, p);
	if (active & NW_EFM_R)
		nw_efm_reflection_in(f, params, p);
}

#endif /* NW_EFM_FLOW_H */
