/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Whether a segment was sent after all that were seen before it.
 *
 * RFC 9506 section 2.1 asks for a packet number larger than any seen so far. TCP
 * has none, and pure ACKs do not advance its sequence. In its place: the segment
 * ends behind all others; or it ends with them and acknowledges more, or has a
 * newer timestamp, which distinguishes duplicate ACKs. What ends before is a
 * retransmission or came late, and never counts.
 *
 * Who sends asks the same of the segments that leave, to know for which of them
 * the other end will find it.
 */
#ifndef NW_EFM_PACKET_NUMBER_H
#define NW_EFM_PACKET_NUMBER_H

#include "nw_efm.h"

/* A SYN acknowledges nothing, so the first acknowledgement is newer. */
static inline int nw_efm_newer_ack(const struct nw_efm_newest *n,
				   const struct nw_efm_packet *p)
{
	if (!(p->flags & NW_TCP_ACK))
		return 0;
	return !(n->seen & NW_EFM_SEEN_ACK) || nw_efm_before(n->ack, p->ack);
}

static inline int nw_efm_newer(struct nw_efm_newest *n,
			       const struct nw_efm_packet *p)
{
	int newer = 1;

	if (n->seen & NW_EFM_SEEN_ANY) {
		if (p->seq_end == n->end)
			newer = nw_efm_newer_ack(n, p) ||
				(p->has & NW_EFM_HAS_TS &&
				 nw_efm_before(n->tsval, p->tsval));
		else
			newer = nw_efm_before(n->end, p->seq_end);
	}
	if (!newer)
		return 0;
	n->end = p->seq_end;
	n->tsval = p->tsval;
	n->seen |= NW_EFM_SEEN_ANY;
	if (p->flags & NW_TCP_ACK) {
		n->ack = p->ack;
		n->seen |= NW_EFM_SEEN_ACK;
	}
	return 1;
}

#endif /* NW_EFM_PACKET_NUMBER_H */
