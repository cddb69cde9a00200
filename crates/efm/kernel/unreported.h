/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The loss event bit and the ECN-echo event bit (RFC 9506 sections 3.3 and 3.5):
 * each marks as many packets as the socket has declared lost, or the peer has reported to
 * have been CE-marked.
 *
 * A loss that turns out to be spurious is taken back while it is unreported.
 * Sockets count whole segments, so there are no fractions.
 */
#ifndef NW_EFM_UNREPORTED_H
#define NW_EFM_UNREPORTED_H

#include "nw_efm.h"

/* What the socket counted before the first marked packet is not reported: it
 * happened to packets that carry no bits.
 */
static inline void nw_efm_unreported_start(struct nw_efm_flow *f,
					   const struct nw_efm_packet *p)
{
	if (f->flags & NW_EFM_COUNTED || !(p->has & NW_EFM_HAS_SOCKET))
		return;
	f->flags |= NW_EFM_COUNTED;
	f->l_lost = p->lost;
	f->l_spurious = p->spurious;
	f->e_echoed = p->delivered_ce;
}

/* A packet leaves; returns its bits. */
static inline u8 nw_efm_unreported_out(struct nw_efm_flow *f,
				       const struct nw_efm_packet *p)
{
	u8 bits = 0;

	if (p->has & NW_EFM_HAS_SOCKET) {
		u32 rescinded = p->spurious - f->l_spurious;

		f->l_unreported += p->lost - f->l_lost;
		f->l_unreported -= rescinded < f->l_unreported ?
				   rescinded : f->l_unreported;
		f->e_unreported += p->delivered_ce - f->e_echoed;
		f->l_lost = p->lost;
		f->l_spurious = p->spurious;
		f->e_echoed = p->delivered_ce;
	}
	/* sections 3.3 and 3.5: one packet for each event that is not yet reported */
	if (f->mask[NW_EFM_AT_L] && f->l_unreported) {
		f->l_unreported--;
		bits |= f->mask[NW_EFM_AT_L];
	}
	if (f->mask[NW_EFM_AT_E] && f->e_unreported) {
		f->e_unreported--;
		bits |= f->mask[NW_EFM_AT_E];
	}
	return bits;
}

#endif /* NW_EFM_UNREPORTED_H */
