/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Whether others use the path, found without knowing its queue, and what a transfer with a
 * deadline leaves them if they do: it is no faster than the deadline needs.
 *
 * A queue that gives each flow a share of its own (FQ-CoDel) shows a transfer below its share
 * neither losses nor a standing queue, however long others wait: no congestion price makes it
 * yield there. What it shows is that the link is busy. A packet that leaves alone waits for
 * what the link sends at that time, which is somebody else's; so the share of packets that
 * wait is the share of the time in which others use the link, whatever the queue (ProbeGap:
 * K. Lakshminarayanan, V. Padmanabhan and J. Padhye, "Bandwidth Estimation in Broadband Access
 * Networks", IMC 2004, section 4).
 *
 *	- Held, the window is at most 25/24 of what the target has in flight, and the stack
 *	  paces it: packets leave one by one, and none of its own are ahead of them. One that
 *	  is behind its target has twice as much and is not paced, as beside flows that
 *	  are not it would lose more than they do; what waits is then its own as well.
 *	- A packet has waited if its round trip is longer than the least one by a sixteenth of
 *	  the time that a packet takes at the greatest rate ever achieved. One packet of others
 *	  is half of that in the mean, if the rate was a share of a half.
 *	- Where one of eight packets or fewer waited, the link is free: the control below is
 *	  not held for four intervals, the next time for eight, up to 32; found busy, for four
 *	  again. A reduction ends that before, as it may be others'.
 *	- Then, and before a first interval, it is held. Its own queue goes in one interval. From
 *	  then on each interval is judged that has 16 round trips or more, and within one as many
 *	  as 16 for each segment that it is held to, so that a gap between others is found.
 *
 * What is not known counts as others: a path whose round trips vary by themselves, or become
 * longer, holds a transfer to its deadline, and what is free is left.
 */
#ifndef NW_DALBE_OTHERS_H
#define NW_DALBE_OTHERS_H

#include "dalbe_constants.h"

#define NW_OTHERS_ROOM		24U	/* 1 + 1/24 of the target, ... */
#define NW_OTHERS_BEHIND	1U	/* ... and 1 + 1 to come back to it */
#define NW_OTHERS_EDGE		16U	/* of a packet's time */
#define NW_OTHERS_BUSY		8U	/* one of so many packets waited */
#define NW_OTHERS_JUDGED	16U	/* round trips, and of each segment held to */
#define NW_OTHERS_FREE		4U	/* intervals, at first */
#define NW_OTHERS_MOST_FREE	32U
#define NW_OTHERS_LEAST_CAP	2U	/* segments, TCP's least window */

struct nw_dalbe_others {
	u32 least_us;		/* round trip of full segments */
	u32 most;		/* rate of an interval, bytes/s */
	u32 cap;		/* of the window, segments; 0 = none */
	u16 edge_us;		/* beyond the least one a packet waited */
	u16 looked;		/* round trips since they were last judged, ... */
	u16 waited;		/* ... of which so many packets waited */
	u16 share;		/* that waited when they were, 2^-16 */
	u8 free;		/* intervals that it is not held any more */
	u8 free_for;		/* how many there were */
	u8 settled;		/* its own queue has gone */
	u8 reduced;		/* in this interval */
};

/* What is not known counts as others: the first packets are held. */
static inline void nw_others_begin(struct nw_dalbe_others *o)
{
	*o = (struct nw_dalbe_others){ .least_us = NW_NONE, .share = 0xffff };
}

static inline void nw_others_judge(struct nw_dalbe_others *o)
{
	u32 share = nw_q16_ratio(o->waited, o->looked);

	o->share = (u16)nw_min(share, 0xffff);
	if (share > NW_Q16_ONE / NW_OTHERS_BUSY) {
		o->free_for = 0;
	} else {
		o->free_for = o->free_for ? (u8)nw_min(2 * o->free_for,
						       NW_OTHERS_MOST_FREE) :
			      NW_OTHERS_FREE;
		o->free = o->free_for;
		o->settled = 0;
	}
	o->looked = 0;
	o->waited = 0;
	if (o->free)
		o->cap = 0;
}

/* A round trip of full segments, outside of recovery: one of a retransmission may come from
 * a timestamp of whole milliseconds.
 */
static inline void nw_others_see(struct nw_dalbe_others *o, u32 rtt_us)
{
	o->least_us = nw_min(o->least_us, rtt_us);
	if (o->free || !o->settled || o->looked == 0xffff)
		return;
	o->looked++;
	if (rtt_us - o->least_us > o->edge_us)
		o->waited++;
	if (o->cap && o->looked / o->cap >= NW_OTHERS_JUDGED)
		nw_others_judge(o);
}

/* What holds the target's `packets` in flight, 2^-16. */
static inline u32 nw_others_cap(u64 packets, u32 room)
{
	packets += packets / room;
	packets = (packets + 0xffff) >> 16;
	return (u32)nw_min64(nw_max64(packets, NW_OTHERS_LEAST_CAP), NW_NONE);
}

/* The end of an interval of `achieved` bytes/s in segments of `mss`, less than the target if
 * `behind`; that has `packets` in flight, 2^-16, or there is none.
 */
static inline void nw_others_end(struct nw_dalbe_others *o, u64 achieved, u32 mss,
				 u64 packets, u32 behind)
{
	u32 room = behind ? NW_OTHERS_BEHIND : NW_OTHERS_ROOM;
	u32 packet_us;

	o->most = (u32)nw_max64(o->most, nw_min64(achieved, NW_NONE));
	packet_us = o->most ? (u32)((u64)mss * 1000000 / o->most) : 0;
	if (o->free) {
		o->free--;
		if (o->reduced)
			o->free = 0;
	} else if (!o->settled) {
		o->settled = 1;
	} else if (o->looked >= NW_OTHERS_JUDGED) {
		nw_others_judge(o);
	}
	o->reduced = 0;
	o->edge_us = (u16)nw_min(packet_us / NW_OTHERS_EDGE, 0xffff);
	o->cap = packets && !o->free ? nw_others_cap(packets, room) : 0;
}

#endif /* NW_DALBE_OTHERS_H */
