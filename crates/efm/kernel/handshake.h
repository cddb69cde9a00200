/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Roles, and which signals a flow carries.
 *
 * The sender of the first SYN is the initiator, whichever way the data goes. A SYN and
 * a SYN-ACK carry the code of a profile in place of signals. A repeated one carries
 * none, and its sender sends no signals on that connection: a middlebox may have
 * dropped the first for its reserved bits.
 *
 * Each side announces which signals it will send, whatever the other says
 * (NW_EFM_ALWAYS, as Guarna's patches do), or the responder answers with what it
 * supports of what was offered, and both send that (NW_EFM_NEGOTIATE): without an
 * answer, none. With NW_EFM_NEVER, and for signals that have no code, SYNs stay as
 * they are and both sides send signals.
 *
 * When both ends open at once, the one whose initial sequence number comes first
 * is the initiator.
 */
#ifndef NW_EFM_HANDSHAKE_H
#define NW_EFM_HANDSHAKE_H

#include "layout.h"
#include "packet_number.h"
#include "round_trip.h"
#include "spin.h"

/* A new connection. */
static inline void nw_efm_begin(struct nw_efm_flow *f)
{
	u64 *words = (u64 *)f;
	u32 i;

	for (i = 0; i < sizeof(*f) / sizeof(u64); i++)
		words[i] = 0;
}

/* Signals may be sent from here on. */
static inline void nw_efm_start(struct nw_efm_flow *f,
				const struct nw_efm_params *params, u8 signals)
{
	if (f->flags & NW_EFM_SILENT)
		signals = 0;
	nw_efm_activate(f, signals);
	nw_efm_spin_start(f, params);
	nw_efm_round_trip_start(f);
}

/* Whether SYNs are left alone. */
static inline int nw_efm_unannounced(const struct nw_efm_params *params)
{
	return params->announce == NW_EFM_NEVER ||
	       !nw_efm_code(params->signals);
}

/* The code with which a responder answers: the profile of what both sides have. */
static inline u32 nw_efm_answer(const struct nw_efm_flow *f,
				const struct nw_efm_params *params)
{
	return nw_efm_code(nw_efm_announced(f->offered) & params->signals);
}

/* A SYN leaves; returns its code. */
static inline u32 nw_efm_syn_out(struct nw_efm_flow *f,
				 const struct nw_efm_params *params,
				 const struct nw_efm_packet *p)
{
	if (f->flags & NW_EFM_SENT_SYN && f->isn == p->seq) {
		if (!nw_efm_unannounced(params)) {
			f->flags |= NW_EFM_SILENT;
			nw_efm_activate(f, 0);
		}
		return 0;
	}
	nw_efm_begin(f);
	f->isn = p->seq;
	f->flags = NW_EFM_SENT_SYN;
	f->role = NW_EFM_INITIATOR;
	return nw_efm_code(params->signals);
}

/* A SYN-ACK leaves; returns its code. */
static inline u32 nw_efm_synack_out(struct nw_efm_flow *f,
				    const struct nw_efm_params *params,
				    const struct nw_efm_packet *p)
{
	u32 code = nw_efm_code(params->signals);
	u8 signals = params->signals;
	int again = f->flags & NW_EFM_SENT_SYNACK && f->isn == p->seq;

	if (again) {
		if (!nw_efm_unannounced(params)) {
			f->flags |= NW_EFM_SILENT;
			nw_efm_activate(f, 0);
		}
		return 0;
	}
	if (params->announce == NW_EFM_NEGOTIATE) {
		code = nw_efm_answer(f, params);
		signals = nw_efm_announced(code);
	}
	f->isn = p->seq;
	f->flags |= NW_EFM_SENT_SYNACK;
	if (!(f->flags & NW_EFM_SENT_SYN))
		f->role = NW_EFM_RESPONDER;
	nw_efm_start(f, params, signals);
	return f->flags & NW_EFM_SILENT ? 0 : code;
}

/* A SYN arrives. */
static inline void nw_efm_syn_in(struct nw_efm_flow *f,
				 const struct nw_efm_packet *p)
{
	int both = f->flags & NW_EFM_SENT_SYN && !f->active &&
		   !(f->flags & (NW_EFM_SEEN_PEER | NW_EFM_SENT_SYNACK));
	int again = f->flags & NW_EFM_SEEN_PEER && f->peer_isn == p->seq;

	/* a stray one within a connection that this host opened */
	if (f->flags & NW_EFM_SENT_SYN && !both && !again)
		return;
	if (!both && !again)
		nw_efm_begin(f);
	if (both) {
		if (f->isn == p->seq)
			f->flags |= NW_EFM_SILENT;
		else if (nw_efm_before(p->seq, f->isn))
			f->role = NW_EFM_RESPONDER;
	}
	f->peer_isn = p->seq;
	f->offered = p->bits >> 1;
	f->flags |= NW_EFM_SEEN_PEER;
	nw_efm_newer(&f->arrived, p);
}

/* A SYN-ACK arrives. */
static inline void nw_efm_synack_in(struct nw_efm_flow *f,
				    const struct nw_efm_params *params,
				    const struct nw_efm_packet *p)
{
	u8 signals = params->signals;

	if (!(f->flags & NW_EFM_SENT_SYN))
		return;
	if (params->announce == NW_EFM_NEGOTIATE) {
		u8 answered = nw_efm_announced(p->bits >> 1);

		/* more than was offered is no answer */
		signals = answered & (u8)~params->signals ? 0 : answered;
	}
	nw_efm_newer(&f->arrived, p);
	/* the last answer counts, but does not start over what goes on */
	if (f->active != signals || !signals)
		nw_efm_start(f, params, signals);
}

#endif /* NW_EFM_HANDSHAKE_H */
