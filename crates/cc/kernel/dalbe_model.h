/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What DA-LBE's price models share. A model is how the congestion price of one
 * control is measured and inflated: dalbe_over_NAME.h, where NAME is that control, of
 * which the build makes nw_models.h, so that adding one touches no other file. It
 * defines, with inner the control's state, q its parameters and s what was seen:
 *
 *	nw_model_NAME_OPTIONS(P)	options of the control that DA-LBE has too,
 *					as fields of q (`NAME.field`)
 *	u64 measure(inner, s)		the price of this interval, 2^-40
 *	u64 invert(q, s, u64 target)	the price at which it sends target bytes/s
 *	u32 weigh(inner, s)		phi, Q16.16: how much more its price takes off a
 *					window than CUBIC's does; 0 if not known
 *	void acked(inner, q, s, f, d)	its pkts_acked, and
 *	void avoid(inner, q, s, f, d)	its cong_avoid, of s->acked segments, and
 *	u32 reduce(inner, q, s, f)	its ssthresh, at s->law.inflation times the price
 *	nw_model_NAME_IGNORES		1 if losses are to be ignored for a price below 1
 *	nw_model_NAME_FADES		1 if the price is to count ever less as w nears 1
 *	nw_model_NAME_DEFAULTS		its parameters under DA-LBE
 *
 * DA-LBE itself counts, computes the weight, ignores losses near w = 1, and holds the window
 * while others are there (dalbe_others.h).
 */
#ifndef NW_DALBE_MODEL_H
#define NW_DALBE_MODEL_H

#include "dalbe_law.h"
#include "dalbe_others.h"

#define NW_DALBE_EVENTS		8U	/* of a price: older ones then count half */
#define NW_DALBE_MOST_INFLATION	(64U << NW_Q16)

struct nw_dalbe_seen {
	struct nw_dalbe_law law;
	struct nw_dalbe_others others;
	u64 phantom;		/* events to add per packet, 2^-40 */
	u64 credit;		/* what has come together of one, 2^-40 */
	u64 rtt_sum_us;		/* of this interval */
	u32 rtts;
	u32 mean_us;		/* of the last interval; 0 before */
	u32 srtt_us;		/* smoothed, at its end */
	u32 base_us;		/* least RTT of the connection */
	u32 packets;		/* acknowledged, and ... */
	u32 reduced;		/* sum of relative reductions by delay, Q16.16, and ... */
	u16 losses;		/* ... by loss, since phi was computed */
	u16 events;		/* ... reductions, that a price is made of */
	u32 delivered;		/* before this interval; at its end in it, and ... */
	u32 marked;		/* ... of these, marked */
	u32 round_end;		/* no other event before this is acknowledged */
	u16 mss;
	u8 mode;		/* enum nw_dalbe_mode */
	u8 ignoring;		/* the reduction under way */
	u32 acked;		/* segments, of the cong_avoid under way */
};

/* Mean round trip beyond the least one, seconds. */
static inline u64 nw_dalbe_delay_price(const struct nw_dalbe_seen *s)
{
	u64 least = (u64)s->base_us * s->rtts;

	if (!s->rtts || s->rtt_sum_us < least)
		return 0;
	return nw_dalbe_ratio(s->rtt_sum_us - least, s->rtts * 1000000ULL);
}

/* Reductions per packet. */
static inline u64 nw_dalbe_event_price(const struct nw_dalbe_seen *s)
{
	return nw_dalbe_ratio(s->events, s->packets);
}

/* (0.5 losses + reductions by delay) / 0.3 losses: the probability that a packet
 * brings each, times what it takes off the window, against CUBIC's (2.5; the
 * text's "P_loss 0.5" is Reno's weight, and CUBIC's is 1 - 0.7).
 */
static inline u32 nw_dalbe_delay_weight(const struct nw_dalbe_seen *s)
{
	u64 taken = 10ULL * s->reduced +
		    ((u64)NW_DALBE_RENO_TENTHS * s->losses << NW_Q16);

	return nw_q16_ratio(taken, (u64)NW_DALBE_CUBIC_TENTHS * s->losses << NW_Q16);
}

/* An RTT of which what is beyond the least counts so often. */
static inline u32 nw_dalbe_inflated_rtt(const struct nw_dalbe_seen *s, u32 rtt_us)
{
	u32 base = nw_min(s->base_us, rtt_us);
	u64 late = ((u64)(rtt_us - base) * s->law.inflation) >> NW_Q16;

	return (u32)nw_min64(base + late, 0x7ffffffe);
}

/* Packets/s and packets in flight at `target` bytes/s, 2^-16. */
static inline u64 nw_dalbe_packet_rate(const struct nw_dalbe_seen *s, u64 target)
{
	return (nw_min64(target, 1ULL << 40) << 16) / nw_max(s->mss, 1);
}

static inline u64 nw_dalbe_in_flight(u64 target, u32 rtt_us, u32 mss)
{
	u64 bytes = nw_min64(target, 1ULL << 30) * rtt_us;

	/* below 2^62 / 10^6 * 2^16 */
	return (bytes / 1000000 << 16) / nw_max(mss, 1);
}

static inline u64 nw_dalbe_packets(const struct nw_dalbe_seen *s, u64 target)
{
	return nw_dalbe_in_flight(target, s->mean_us, s->mss);
}

/* RFC 8312 section 5.2 has Reno's window at 1.22 / sqrt(p): p = 1.5 / W^2. */
static inline u64 nw_dalbe_reno_price(u64 window)
{
	u64 square = (nw_min64(window, NW_Q_MOST) >> 4) *
		     (nw_min64(window, NW_Q_MOST) >> 4);	/* 2^-24 */

	return nw_dalbe_ratio(3ULL << 24, nw_max64(2 * square, 1));
}

/* Phantom events bring the total to what the inflated price is. Spread evenly: drawn
 * ones would have the same mean, and a rate that varies more.
 */
static inline void nw_dalbe_set_phantom(struct nw_dalbe_seen *s)
{
	u64 price = nw_min64(nw_dalbe_event_price(s), NW_PRICE_ONE);
	u32 inflation = nw_min(s->law.inflation, NW_DALBE_MOST_INFLATION);

	s->phantom = 0;
	if (inflation > NW_Q16_ONE)
		s->phantom = nw_min64((price * (inflation - NW_Q16_ONE)) >> NW_Q16,
				      NW_PRICE_ONE);
}

/*
 * Of an excess, what the bias learns, Q16.16. Over a control that goes by events a window
 * follows w through them alone, phantom ones among them: a fourth of as many as are due in
 * the interval, at most all. A delay shows at once.
 */
static inline u32 nw_dalbe_learns(const struct nw_dalbe_seen *s,
				  const struct nw_dalbe_rules *rules)
{
	u64 events = nw_min64(nw_dalbe_event_price(s) + s->phantom, NW_PRICE_ONE);

	if (rules->fades)
		return NW_Q16_ONE;
	events = (events >> 8) * s->delivered >> (NW_PRICE - 8 - NW_Q16);
	return (u32)nw_min64(events >> NW_DALBE_EXCESS, NW_Q16_ONE);
}

/* Whether this ACK brings a phantom event: at most one per round trip. */
static inline int nw_dalbe_is_phantom(struct nw_dalbe_seen *s,
				      const struct nw_facts *f)
{
	s->credit = nw_min64(s->credit + s->phantom * nw_min(s->acked, 1U << 16),
			     4 * NW_PRICE_ONE);
	if (s->credit < NW_PRICE_ONE || f->ca_state >= NW_CA_CWR ||
	    nw_before(f->snd_una, s->round_end))
		return 0;
	s->credit -= NW_PRICE_ONE;
	s->round_end = f->snd_nxt;
	return 1;
}

/* A window that is reduced at once, without anything to retransmit. */
static inline void nw_dalbe_reduce_to(struct nw_decision *d, u32 ssthresh)
{
	nw_set_ssthresh(d, ssthresh);
	nw_set_cwnd(d, ssthresh);
	nw_set_cwnd_cnt(d, 0);
}

/* A model that actuates by events alone. */
#define NW_MODEL_OF_EVENTS(name)					\
static inline u64 nw_model_##name##_measure(const struct nw_##name *inner, \
					    const struct nw_dalbe_seen *s) \
{									\
	(void)inner;							\
	return nw_dalbe_event_price(s);					\
}									\
enum { nw_model_##name##_IGNORES = 1, nw_model_##name##_FADES = 0 };	\
NW_MODEL_PLAIN_ACKED(name)						\
NW_MODEL_PLAIN_REDUCE(name)						\
static inline void nw_model_##name##_avoid(struct nw_##name *inner,	\
					   const struct nw_##name##_params *q, \
					   struct nw_dalbe_seen *s,	\
					   const struct nw_facts *f,	\
					   struct nw_decision *d)	\
{									\
	if (nw_dalbe_is_phantom(s, f))					\
		nw_dalbe_reduce_to(d, nw_##name##_ssthresh(inner, q, f)); \
	else								\
		nw_##name##_cong_avoid(inner, q, f, s->acked, d);	\
}

#define NW_MODEL_PLAIN_ACKED(name)					\
static inline void nw_model_##name##_acked(struct nw_##name *inner,	\
					   const struct nw_##name##_params *q, \
					   struct nw_dalbe_seen *s,	\
					   const struct nw_facts *f,	\
					   struct nw_decision *d)	\
{									\
	(void)s;							\
	nw_##name##_pkts_acked(inner, q, f, d);				\
}

#define NW_MODEL_PLAIN_REDUCE(name)					\
static inline u32 nw_model_##name##_reduce(struct nw_##name *inner,	\
					   const struct nw_##name##_params *q, \
					   struct nw_dalbe_seen *s,	\
					   const struct nw_facts *f)	\
{									\
	(void)s;							\
	return nw_##name##_ssthresh(inner, q, f);			\
}

/* phi of a control whose reductions are as frequent as CUBIC's, in tenths. */
#define NW_MODEL_TENTHS(name, tenths)					\
static inline u32 nw_model_##name##_weigh(const struct nw_##name *inner, \
					  const struct nw_dalbe_seen *s) \
{									\
	(void)inner; (void)s;						\
	return nw_q16_ratio(tenths, NW_DALBE_CUBIC_TENTHS);		\
}

#endif /* NW_DALBE_MODEL_H */
