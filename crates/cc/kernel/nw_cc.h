/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What a congestion control may know and what it may decide.
 *
 * An algorithm NAME is one header, named in controls.list, that defines
 *
 *	struct nw_NAME			its state, of any size, zeroed before init
 *	struct nw_NAME_params		its parameters: only options write them
 *	nw_NAME_DEFAULTS		their initializer
 *	nw_NAME_OPTIONS(P)		those that have names, see below
 *	nw_NAME_TELEMETRY(FIELD)	what it reports of itself, see below
 *	nw_NAME_MODE			NW_MODE_WINDOW or NW_MODE_RATE
 *	nw_NAME_HOOK()			every hook, static inline
 *
 * Beyond NW_PRIV_SIZE bytes the kernel build keeps the state in socket storage
 * instead of icsk_ca_priv. A declaration is all that it takes.
 *
 * The hooks are those of Linux's struct tcp_congestion_ops and are called when
 * Linux calls them (include/net/tcp.h, v6.17). A hook reads facts in Linux's
 * units and writes what it decides through a pointer; it touches nothing else,
 * so the same text runs inside a simulator and, compiled for BPF, inside the
 * kernel. Hence: no libc, no floating point, no unbounded loop, no signed and
 * no 128-bit division, no struct return, and no divisor that may be zero (BPF
 * answers x / 0 with 0 where a CPU traps).
 *
 * A control that wraps another one nests at compile time (nest.h): it holds the
 * inner one's state in its own, edits a copy of the facts and calls the inner
 * hooks on it, without an indirect call.
 */
#ifndef NW_CC_H
#define NW_CC_H

#ifndef __VMLINUX_H__
/* The kernel's own spellings, so that a unit with vmlinux.h needs no change. */
typedef signed int s32;
typedef signed long long s64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

#define NW_FACTS_MAX	160	/* bytes */
#define NW_PRIV_SIZE	104	/* bytes: ICSK_CA_PRIV_SIZE, Linux v6.17 */

#define NW_MODE_WINDOW	0	/* cong_avoid: the stack owns recovery, PRR, pacing */
#define NW_MODE_RATE	1	/* cong_control: the algorithm owns all of it */

/* What an algorithm wants negotiated, and of its host. */
enum nw_need {
	NW_NEEDS_ECN = 1,
	NW_NEEDS_ACCECN = 2,	/* RFC 9768 */
	NW_NEEDS_ECT1 = 4,	/* its packets carry ECT(1), RFC 9331 */
	NW_WANTS_FQ = 8,	/* packets leave TCP at once, the fq qdisc paces */
};

/* Linux's enum tcp_ca_state, same values. */
enum nw_ca_state {
	NW_CA_OPEN = 0,
	NW_CA_DISORDER = 1,
	NW_CA_CWR = 2,
	NW_CA_RECOVERY = 3,
	NW_CA_LOSS = 4,
};

/* Linux's enum tcp_ca_event, same values. */
enum nw_event {
	NW_EV_TX_START = 0,	/* first transmission with nothing in flight */
	NW_EV_CWND_RESTART = 1,	/* window restart after idle */
	NW_EV_COMPLETE_CWR = 2,	/* end of a congestion window reduction */
	NW_EV_LOSS = 3,		/* the retransmission timer fired */
	NW_EV_ECN_NO_CE = 4,	/* received an ECT packet without CE */
	NW_EV_ECN_IS_CE = 5,	/* received a CE-marked packet */
};

/* Linux's enum sk_pacing, same values. */
enum nw_pacing {
	NW_PACING_NONE = 0,
	NW_PACING_NEEDED = 1,
	NW_PACING_FQ = 2,
};

enum nw_fact_flag {
	NW_F_CWND_LIMITED = 1,	/* tcp_is_cwnd_limited() */
	NW_F_ACK_ECE = 2,	/* this ACK reports CE */
	NW_F_APP_LIMITED = 4,	/* the rate sample is application-limited; of
				 * NW_EV_TX_START, the connection is (tp->app_limited) */
	NW_F_IN_SLOW_START = 8,	/* cwnd < ssthresh, for readers of traces */
	NW_F_UNSENT = 16,	/* data waits that was never sent */
	NW_F_TAKES_MSS = 32,	/* the stack takes over an MSS that was decided */
};

/*
 * Counts of packets are in segments, sequence numbers and counters wrap as
 * Linux's do, times are microseconds unless the name says otherwise.
 */
struct nw_facts {
	u64 now_ns;		/* clock of the host */
	u64 pacing_rate;	/* sk_pacing_rate, bytes/s */
	u32 mss;		/* mss_cache, bytes */
	u32 cwnd;		/* snd_cwnd */
	u32 cwnd_cnt;		/* snd_cwnd_cnt: linear increase counter */
	u32 ssthresh;		/* snd_ssthresh */
	u32 prior_cwnd;		/* cwnd before the last reduction */
	u32 in_flight;		/* tcp_packets_in_flight() */
	u32 snd_una;
	u32 snd_nxt;
	u32 high_seq;		/* snd_nxt at the last entry into recovery or CWR */
	u32 delivered;		/* segments delivered in total */
	u32 delivered_ce;	/* of these, reported as CE-marked */
	u32 acked_sacked;	/* segments newly acked or sacked by this ACK */
	u32 lost;		/* segments ever marked lost */
	u32 srtt_us;		/* smoothed RTT << 3; 0 before the first sample */
	u32 min_rtt_us;		/* windowed minimum; ~0 or 0 before the first sample */
	u32 rtt_us;		/* this ACK's RTT sample; 0 if none */
	s32 rs_delivered;	/* rate sample: segments delivered; negative if invalid */
	u32 rs_interval_us;	/* over this time */
	u32 rs_prior_delivered;	/* delivered when the sampled packet left */
	u32 rs_prior_in_flight;	/* in flight before this ACK */
	u32 rs_losses;		/* segments marked lost by this ACK */
	u32 gso_max_size;	/* sk_gso_max_size, bytes */
	u32 ts_echo;		/* TSecr of this ACK */
	u32 random;		/* a fresh random word */
	u32 packets_out;
	u8 ca_state;		/* enum nw_ca_state, before the change under way */
	u8 pacing_status;	/* enum nw_pacing */
	u16 flags;		/* enum nw_fact_flag */
	u32 cwnd_clamp;		/* snd_cwnd_clamp; 0 = no clamp */
	u32 header;		/* bytes of IP and TCP header per full segment */
	u64 last_sent_ns;	/* last data sent before now (lsndtime); 0 if unknown */
};
_Static_assert(sizeof(struct nw_facts) == 136, "layout of nw_facts");
_Static_assert(sizeof(struct nw_facts) <= NW_FACTS_MAX, "size of nw_facts");
_Static_assert(__builtin_offsetof(struct nw_facts, mss) == 16, "mss");
_Static_assert(__builtin_offsetof(struct nw_facts, delivered) == 52, "delivered");
_Static_assert(__builtin_offsetof(struct nw_facts, rs_delivered) == 80, "rs_delivered");
_Static_assert(__builtin_offsetof(struct nw_facts, ca_state) == 116, "ca_state");
_Static_assert(__builtin_offsetof(struct nw_facts, flags) == 118, "flags");
_Static_assert(__builtin_offsetof(struct nw_facts, header) == 124, "header");
_Static_assert(__builtin_offsetof(struct nw_facts, last_sent_ns) == 128, "last_sent_ns");

enum nw_set {
	NW_SET_CWND = 1,
	NW_SET_CWND_CNT = 2,
	NW_SET_SSTHRESH = 4,
	NW_SET_PACING_RATE = 8,
	NW_SET_PACING_STATUS = 16,
	NW_SET_MSS = 32,	/* only where NW_F_TAKES_MSS */
	NW_SET_APP_LIMITED = 64,	/* no value: until what is in flight is delivered
					 * (tp->app_limited) */
};

enum nw_decided {
	NW_DID_SLOW_START_EXIT = 1,	/* slow start left by the algorithm's choice */
	NW_DID_CSS_ENTER = 2,		/* HyStart++ conservative slow start begins */
	NW_DID_CSS_RESUME = 4,		/* ... was spurious, slow start goes on */
};

/* Zeroed by the caller; only what `set` names is to be taken over. */
struct nw_decision {
	u32 set;		/* enum nw_set */
	u32 cwnd;
	u32 cwnd_cnt;
	u32 ssthresh;
	u64 pacing_rate;	/* bytes/s */
	u16 pacing_status;	/* enum nw_pacing */
	u16 mss;		/* bytes of payload, as mss_cache */
	u32 events;		/* enum nw_decided */
};
_Static_assert(sizeof(struct nw_decision) == 32, "layout of nw_decision");
_Static_assert(__builtin_offsetof(struct nw_decision, pacing_rate) == 16, "pacing_rate");
_Static_assert(__builtin_offsetof(struct nw_decision, mss) == 26, "mss");
_Static_assert(__builtin_offsetof(struct nw_decision, events) == 28, "events");

/* Microseconds as Linux's tcp_mstamp, wrapping at 32 bits. */
static inline u32 nw_now_us(const struct nw_facts *f)
{
	return (u32)(f->now_ns / 1000);
}

/* A hook, the state and the parameters of an algorithm whose name may itself be
 * a macro.
 */
#define NW_PASTE2(name)		nw_##name
#define NW_PASTE3(name, what)	nw_##name##_##what
#define NW_CALL(name, hook)	NW_PASTE3(name, hook)
#define NW_STATE(name)		struct NW_PASTE2(name)
#define NW_PARAMS(name)		struct NW_PASTE3(name, params)

/*
 * The hooks, all of them in every algorithm, with ca its state, p its
 * parameters, f the facts and d the decision:
 *
 *	void init(ca, p, f, d)		release(ca)
 *	u32 ssthresh(ca, p, f)		undo_cwnd(ca, p, f)
 *	void set_state(ca, p, f, u8 new_state, d)
 *	void cwnd_event(ca, p, f, u32 event, d)
 *	void in_ack_event(ca, p, f, d)	pkts_acked(ca, p, f, d)
 *	u32 sees_acks(p)		whether in_ack_event() does anything: where not,
 *					the stack is spared the call
 *	void cong_avoid(ca, p, f, u32 acked, d)	in NW_MODE_WINDOW
 *	void cong_control(ca, p, f, d)		in NW_MODE_RATE
 *	u32 max_tso_segs(ca, p)		NW_NONE if bursts have no limit
 *	u64 timer_at(ca, p)		with NW_HAS_TIMER: when timer() is due, on
 *					the clock of f->now_ns; 0 = never
 *	void timer(ca, p, f, d)		it is due
 *	u32 needs(p)			enum nw_need
 *	const char *settle(p)		options were set: derives the parameters
 *					that follow from them; returns 0, or what
 *					is allowed where they do not go together
 *
 * A simulated host calls timer() when it is due. In the kernel, where a timer of
 * BPF cannot reach a socket, it is called at the first ACK or event (cwnd_event)
 * after that time, before its hooks: as exact as ACKs come, and while data is in
 * flight no later than the retransmission timeout. A time that has passed is now.
 *
 * Options, set and read by name; one macro each, which says the field of the
 * parameters that it writes (4 or 8 bytes):
 *
 *	NW_NUMBER(P, "name", field, least, most, "what it is")
 *	NW_CHOICE(P, "name", field, "word word word", "what it is")
 *	NW_FLAG(P, "name", field, value, "what it is")	a word without a value
 *	NW_TIME(P, "name", field, least, most, "what it is")	in microseconds
 *	NW_BYTES(P, "name", field, least, most, "what it is")
 *
 *	NW_VARIANT(P, "name", field, "word word word", "what it is")	a choice that
 *		cannot change once the connection is established, and that the
 *		words of a control always name
 *
 * Telemetry, one entry each; the value is a whole number (s64) of 1 / scale units,
 * or NW_UNKNOWN, and may use ca and p:
 *
 *	FIELD("name", "unit", scale, value, "what it is")
 *	FIELD("name", "unit", scale, value, "what it is", "title of a chart")
 *
 * The series is called name_unit, or name where the unit is "". Fields with the same
 * chart and unit are drawn together, one without a chart alone.
 */
#define NW_UNKNOWN	((s64)(1ULL << 63))	/* telemetry without a value yet */
#define NW_COUNT_FIELD(...)	+ 1
#define NW_FIELDS(telemetry)	(0 telemetry(NW_COUNT_FIELD))

/* Hooks that an algorithm leaves out: Linux then does nothing. */
#define NW_NO_HOOK(name, hook)						\
static inline void nw_##name##_##hook(struct nw_##name *ca,		\
				      const struct nw_##name##_params *p, \
				      const struct nw_facts *f,		\
				      struct nw_decision *d)		\
{									\
	(void)ca; (void)p; (void)f; (void)d;				\
}

#define NW_NO_HOOK_WITH(name, hook, type)				\
static inline void nw_##name##_##hook(struct nw_##name *ca,		\
				      const struct nw_##name##_params *p, \
				      const struct nw_facts *f,		\
				      type what, struct nw_decision *d)	\
{									\
	(void)ca; (void)p; (void)f; (void)what; (void)d;		\
}

#define NW_NO_ACK_HOOK(name)						\
NW_NO_HOOK(name, in_ack_event)						\
static inline u32 nw_##name##_sees_acks(const struct nw_##name##_params *p) \
{									\
	(void)p;							\
	return 0;							\
}

/*
 * A function that BPF's verifier follows once, by itself, whoever calls it: for what
 * has so many ways through that a verifier could not follow them from every hook. Its
 * pointers are to state, or to the stack, and it checks that they are not null;
 * parameters are no such memory, and are copied. It returns a number. The kernel has
 * macros by the short names of these attributes.
 */
#define NW_APART	__attribute__((__weak__, __noinline__))

#define NW_NONE		(~0U)
#define NW_INFINITE_SSTHRESH	0x7fffffffU	/* TCP_INFINITE_SSTHRESH */

#define NW_NO_TSO_LIMIT(name)						\
static inline u32 nw_##name##_max_tso_segs(const struct nw_##name *ca,	\
				const struct nw_##name##_params *p)	\
{									\
	(void)ca; (void)p;						\
	return NW_NONE;							\
}

#define NW_HAS_TIMER(name)	enum { nw_##name##_HAS_TIMER = 1 };

#define NW_NO_TIMER(name)						\
enum { nw_##name##_HAS_TIMER = 0 };					\
static inline u64 nw_##name##_timer_at(const struct nw_##name *ca,	\
				       const struct nw_##name##_params *p) \
{									\
	(void)ca; (void)p;						\
	return 0;							\
}									\
NW_NO_HOOK(name, timer)

#define NW_NO_NEEDS(name)						\
static inline u32 nw_##name##_needs(const struct nw_##name##_params *p)	\
{									\
	(void)p;							\
	return 0;							\
}

#define NW_NO_SETTLE(name)						\
static inline const char *nw_##name##_settle(struct nw_##name##_params *p) \
{									\
	(void)p;							\
	return 0;							\
}

static inline u32 nw_min(u32 a, u32 b)
{
	return a < b ? a : b;
}

static inline u32 nw_max(u32 a, u32 b)
{
	return a > b ? a : b;
}

static inline u64 nw_min64(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 nw_max64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* Sum that stays at the top instead of wrapping to a tiny window. */
static inline u32 nw_add_sat(u32 a, u32 b)
{
	return a + b < a ? ~0U : a + b;
}

/* Product that stays at the top. */
static inline u64 nw_mul_sat(u64 a, u32 b)
{
	u64 high = (a >> 32) * b;
	u64 low = (a & 0xffffffffULL) * b;

	if (high >> 32)
		return ~0ULL;
	high <<= 32;
	return high + low < high ? ~0ULL : high + low;
}

/* a b 2^-shift, rounded down, that stays at the top; shift is at most 31. */
static inline u64 nw_mul_shift(u64 a, u32 b, u32 shift)
{
	u64 high = (a >> 32) * b;
	u64 low = (a & 0xffffffffULL) * b;

	if (high >> (32 + shift))
		return ~0ULL;
	high <<= 32 - shift;
	low >>= shift;
	return high + low < high ? ~0ULL : high + low;
}

/* Quotient by a divisor that is not 0, in 32 bits where they suffice: half of the
 * time of a 64-bit division on many CPUs.
 */
static inline u64 nw_div(u64 a, u32 b)
{
	return a >> 32 ? a / b : (u32)a / b;
}

/* 1 if a < b, else 0: the borrow of a - b, without a branch. */
static inline u64 nw_is_less(u64 a, u64 b)
{
	return ((~a & b) | ((~a | b) & (a - b))) >> 63;
}

/* Position of the highest set bit, 0 for 0 and 1. BPF has no such instruction
 * and clang 14 no expansion of the builtin.
 */
static inline u32 nw_ilog2(u64 x)
{
	u32 log = 0;

	if (x >> 32) {
		x >>= 32;
		log += 32;
	}
	if (x >> 16) {
		x >>= 16;
		log += 16;
	}
	if (x >> 8) {
		x >>= 8;
		log += 8;
	}
	if (x >> 4) {
		x >>= 4;
		log += 4;
	}
	if (x >> 2) {
		x >>= 2;
		log += 2;
	}
	return log + (u32)(x >> 1);
}

/* Sequence number a is before b, modulo 2^32 (Linux's before()). */
static inline int nw_before(u32 a, u32 b)
{
	/* a - b with the top bit set, without a conversion to signed */
	return (a - b) >> 31;
}

/* cwnd within [1, clamp] */
static inline u32 nw_clamp_cwnd(const struct nw_facts *f, u32 cwnd)
{
	if (f->cwnd_clamp && cwnd > f->cwnd_clamp)
		cwnd = f->cwnd_clamp;
	return nw_max(cwnd, 1);
}

static inline void nw_set_cwnd(struct nw_decision *d, u32 cwnd)
{
	d->cwnd = nw_max(cwnd, 1);
	d->set |= NW_SET_CWND;
}

static inline void nw_set_cwnd_cnt(struct nw_decision *d, u32 cnt)
{
	d->cwnd_cnt = cnt;
	d->set |= NW_SET_CWND_CNT;
}

static inline void nw_set_ssthresh(struct nw_decision *d, u32 ssthresh)
{
	d->ssthresh = ssthresh;
	d->set |= NW_SET_SSTHRESH;
}

static inline void nw_set_pacing_rate(struct nw_decision *d, u64 rate)
{
	d->pacing_rate = rate;
	d->set |= NW_SET_PACING_RATE;
}

static inline void nw_set_pacing_status(struct nw_decision *d, u32 status)
{
	d->pacing_status = (u16)status;
	d->set |= NW_SET_PACING_STATUS;
}

static inline void nw_set_mss(struct nw_decision *d, u32 mss)
{
	d->mss = (u16)mss;
	d->set |= NW_SET_MSS;
}

/*
 * Slow start (RFC 5681 section 3.1 with RFC 3465's L without limit, as Linux's
 * tcp_slow_start): the window grows by one per segment acked, up to ssthresh.
 * Returns what was acked beyond that, which congestion avoidance then uses.
 */
static inline u32 nw_slow_start(const struct nw_facts *f, u32 *cwnd, u32 acked)
{
	u32 room = f->ssthresh > *cwnd ? f->ssthresh - *cwnd : 0;
	u32 step = nw_min(acked, room);

	*cwnd = nw_clamp_cwnd(f, *cwnd + step);
	return acked - step;
}

/*
 * Additive increase by one segment per w acked (Linux's tcp_cong_avoid_ai).
 * Credit gathered while w was larger is worth one segment, not several; what
 * this ACK brings may be worth several, one for each whole w.
 */
static inline void nw_cong_avoid_ai(const struct nw_facts *f, u32 *cwnd,
				    u32 *cnt, u32 w, u32 acked)
{
	w = nw_max(w, 1);
	if (*cnt >= w) {
		*cnt = 0;
		*cwnd = nw_add_sat(*cwnd, 1);
	}
	*cnt = nw_add_sat(*cnt, acked);
	if (*cnt >= w) {
		u32 steps = *cnt / w;

		*cnt -= steps * w;
		*cwnd = nw_add_sat(*cwnd, steps);
	}
	*cwnd = nw_clamp_cwnd(f, *cwnd);
}

#endif /* NW_CC_H */
