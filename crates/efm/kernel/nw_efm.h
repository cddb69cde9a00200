/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Explicit flow measurement in the reserved bits of a TCP header: what a sender
 * read of a packet, of its parameters and of a flow.
 *
 * Each signal is a state machine in a header of its own; flow.h joins them into
 * two calls, one for each packet that leaves the host and one for each that
 * reaches it. The same text runs natively in the simulator and, compiled for
 * BPF, as a program at a device. Hence: no libc, no floating point, no unbounded
 * loop, no signed and no 128-bit division, no struct return, no divisor that may
 * be zero.
 *
 * A flow's calls for leaving packets come one after the other (under the socket
 * lock), and so do those for arriving ones (one receive queue per flow), but the
 * two kinds run at the same time on two CPUs, and a reset or a stray timer may
 * send beside the socket. A word of the state is therefore written by one side
 * only, but for the delay sample, of which there must never be two: it is taken
 * by NW_EFM_CAS.
 */
#ifndef NW_EFM_H
#define NW_EFM_H

#ifndef __VMLINUX_H__
/* The kernel's own spellings, so that a unit with vmlinux.h needs no change. */
typedef signed int s32;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#endif

/*
 * Compare and swap of one u64; true when the word was `old` and is now `new`.
 * In the simulator, which calls a flow from one thread, a plain comparison; with
 * NW_EFM_ATOMIC the compiler's, for which BPF needs -mcpu=v3 (Linux 5.12).
 */
#ifdef NW_EFM_CAS
/* the includer's own */
#define NW_EFM_READ(word)	(*(word))
#elif defined(NW_EFM_ATOMIC)
#define NW_EFM_CAS(word, old, new)					\
	(__sync_val_compare_and_swap(word, old, new) == (old))
#define NW_EFM_READ(word)	(*(volatile u64 *)(word))
#else
static inline int nw_efm_cas(u64 *word, u64 old, u64 new)
{
	if (*word != old)
		return 0;
	*word = new;
	return 1;
}
#define NW_EFM_CAS(word, old, new)	nw_efm_cas(word, old, new)
#define NW_EFM_READ(word)	(*(word))
#endif

/*
 * The clock of the host. An includer may read it when it is first asked for, as most
 * packets need no time; in the simulator it comes with the packet.
 */
#ifndef NW_EFM_CLOCK
#define NW_EFM_CLOCK(p)	((p)->now_ns)
#endif

/* Attempts at a word that others change as well. When all fail the packet goes
 * unmarked, which is always allowed.
 */
#define NW_EFM_TRIES	4

/* Signals as a set; layout.h says which bit of the header each has. */
enum nw_efm_signal {
	NW_EFM_S = 0x01,	/* spin bit */
	NW_EFM_VEC = 0x02,	/* valid edge counter, two bits */
	NW_EFM_D = 0x04,	/* delay bit */
	NW_EFM_Q = 0x08,	/* square bit */
	NW_EFM_L = 0x10,	/* loss event bit */
	NW_EFM_R = 0x20,	/* reflection square bit */
	NW_EFM_T = 0x40,	/* round-trip loss bit */
	NW_EFM_E = 0x80,	/* ECN-echo event bit */
};

/* The same signals as places in nw_efm_flow.mask. */
enum nw_efm_place {
	NW_EFM_AT_S,
	NW_EFM_AT_VEC,
	NW_EFM_AT_D,
	NW_EFM_AT_Q,
	NW_EFM_AT_L,
	NW_EFM_AT_R,
	NW_EFM_AT_T,
	NW_EFM_AT_E,
	NW_EFM_PLACES,
};

/* Byte 12 of a TCP header: data offset, three usable bits, AE (RFC 9768). */
#define NW_EFM_BITS	0x0e

/* Flags of a TCP header, byte 13. */
#define NW_TCP_FIN	0x01
#define NW_TCP_SYN	0x02
#define NW_TCP_RST	0x04
#define NW_TCP_ACK	0x10

enum nw_efm_has {
	NW_EFM_HAS_TS = 1,	/* timestamp option */
	NW_EFM_HAS_SACK = 2,	/* SACK blocks */
	NW_EFM_HAS_SOCKET = 4,	/* lost, spurious, delivered_ce are known */
};

/* One packet, and with it what the host's socket knows. */
struct nw_efm_packet {
	u64 now_ns;		/* clock of the host, see NW_EFM_CLOCK */
	u32 seq;
	u32 seq_end;		/* behind its last octet, SYN and FIN included */
	u32 ack;
	u32 tsval;
	u32 segments;		/* packets that it becomes on the wire */
	u32 lost;		/* socket: segments ever declared lost */
	u32 spurious;		/* socket: of these, found to be spurious */
	u32 delivered_ce;	/* socket: CE-marked segments echoed by the peer */
	u8 flags;		/* byte 13 */
	u8 bits;		/* byte 12 & NW_EFM_BITS */
	u8 has;			/* enum nw_efm_has */
	u8 unused;
	u32 option_at;		/* while options are read, see header.h; then 0 */
};
_Static_assert(sizeof(struct nw_efm_packet) == 48, "layout of nw_efm_packet");
_Static_assert(__builtin_offsetof(struct nw_efm_packet, flags) == 40, "flags");

enum nw_efm_announce {
	NW_EFM_ALWAYS = 0,	/* each side announces and marks by itself */
	NW_EFM_NEGOTIATE = 1,	/* the responder answers what it supports */
	NW_EFM_NEVER = 2,	/* SYNs stay as they are */
};

enum nw_efm_rule {
	NW_EFM_SPIN_NAIVE = 0x01,	/* every packet, no ordering test */
	NW_EFM_DELAY_DYNAMIC = 0x02,	/* T_Max from the measured RTT */
	NW_EFM_DELAY_HOLD = 0x04,	/* samples held too long are dropped */
	NW_EFM_DELAY_SKIP_SACK = 0x08,	/* no mark beside SACK blocks */
	NW_EFM_VEC_HOLD = 0x10,		/* delayed edges start over at 1 */
};

/* Set up once for all flows, never written. Times in microseconds. */
struct nw_efm_params {
	u32 t_max_us;		/* delay bit: T_Max, or T_Max_p where dynamic */
	u32 hold_us;		/* delay bit: longest wait for a reflection */
	u32 vec_hold_us;	/* VEC: longest wait of a valid edge */
	u32 q_shift;		/* log2 of the Q block length N; at most 14 */
	u32 r_threshold;	/* reversed packets that end an arriving Q block */
	u8 signals;		/* enum nw_efm_signal */
	u8 announce;		/* enum nw_efm_announce */
	u8 rules;		/* enum nw_efm_rule */
	u8 unused;
};
_Static_assert(sizeof(struct nw_efm_params) == 24, "layout of nw_efm_params");
_Static_assert(__builtin_offsetof(struct nw_efm_params, signals) == 20, "signals");

enum nw_efm_role {
	NW_EFM_NO_ROLE = 0,
	NW_EFM_INITIATOR = 1,
	NW_EFM_RESPONDER = 2,
};

enum nw_efm_flow_flag {
	NW_EFM_SENT_SYN = 0x01,		/* isn is known from a SYN */
	NW_EFM_SENT_SYNACK = 0x02,	/* isn is known from a SYN-ACK */
	NW_EFM_SEEN_PEER = 0x04,	/* peer_isn is known */
	NW_EFM_SILENT = 0x10,		/* a SYN or SYN-ACK was repeated: none */
	NW_EFM_COUNTED = 0x20,		/* socket counters have a base line */
};

enum nw_efm_seen {
	NW_EFM_SEEN_ANY = 1,	/* end and tsval are known */
	NW_EFM_SEEN_ACK = 2,	/* ack is known */
};

/* The newest segment of one direction, see packet_number.h. */
struct nw_efm_newest {
	u32 end;		/* highest end of a sequence */
	u32 ack;		/* highest acknowledgement with it */
	u32 tsval;		/* latest timestamp with them */
	u32 seen;		/* enum nw_efm_seen */
};

/*
 * A flow at one host. Zeroed by a SYN of a new connection. In brackets who
 * writes: (out) the calls for leaving packets, (in) those for arriving ones.
 */
struct nw_efm_flow {
	u64 delay_word;		/* the delay sample, see delay.h (both, by CAS) */
	u64 spin_word;		/* what to send next, see spin.h (in) */
	u64 r_blocks;		/* Q blocks that arrived, see reflection.h (in) */
	u64 r_base;		/* ... when the R block under way began (out) */
	u64 r_seen;		/* ... when its length was last worked out (out) */
	u32 isn;		/* own initial sequence number (out) */
	u32 peer_isn;		/* (in) */
	struct nw_efm_newest arrived;	/* (in) */
	struct nw_efm_newest left;	/* with T only (out) */
	u32 t_max_us;		/* dynamic T_Max; 0 until two samples came (in) */
	u32 delay_rtt_us;	/* RTT of the last sample; 0 if none (in) */
	u32 q_sent;		/* packets that carried Q (out) */
	u32 r_in_len;		/* length so far of the arriving Q block (in) */
	u32 r_in_next;		/* packets beyond its end (in) */
	u32 r_last;		/* length of the last whole one (in) */
	u32 r_length;		/* M: length of the R block under way; 0: none (out) */
	u32 r_sent;		/* packets that it has (out) */
	u32 r_carry;		/* rounding of the block before, 1/65536 (out) */
	u32 r_rounded;		/* rounding of this one so far, 1/65536 (out) */
	u32 l_lost;		/* losses already accounted for (out) */
	u32 l_spurious;		/* and those rescinded (out) */
	u32 l_unreported;	/* losses to be reported (out) */
	u32 e_echoed;		/* CE echoes already accounted for (out) */
	u32 e_unreported;	/* CE echoes to be reported (out) */
	u32 t_arrived;		/* marked packets that count (in) */
	u32 t_returned;		/* of these, sent back (out) */
	u32 t_phase;		/* enum nw_efm_t_phase (in or out, by phase) */
	u32 unmarked;		/* packets left unmarked: too many segments (out) */
	u8 role;		/* enum nw_efm_role */
	u8 flags;		/* enum nw_efm_flow_flag */
	u8 offered;		/* code of the last SYN that arrived */
	u8 active;		/* signals in use; none before the handshake */
	u8 spin_in;		/* spin value of the newest packet (in) */
	u8 spin_out;		/* spin value sent last (out) */
	u8 r_in_value;		/* Q value of the arriving block (in) */
	u8 r_value;		/* R value being sent (out) */
	u8 t_token;		/* generation token, at most one */
	u8 t_value;		/* spin value of the period that leaves (out) */
	u8 t_clean;		/* enum nw_efm_t_clean (in; out when a pause begins) */
	u8 delay_misses;	/* samples generated since one came back (out) */
	u8 mask[NW_EFM_PLACES];	/* bits of byte 12 of each active signal */
	u8 all;			/* and of all of them */
	u8 unused[7];
};
_Static_assert(sizeof(struct nw_efm_flow) == 184, "layout of nw_efm_flow");
_Static_assert(__builtin_offsetof(struct nw_efm_flow, isn) == 40, "isn");
_Static_assert(__builtin_offsetof(struct nw_efm_flow, q_sent) == 88, "q_sent");
_Static_assert(__builtin_offsetof(struct nw_efm_flow, l_lost) == 120, "l_lost");
_Static_assert(__builtin_offsetof(struct nw_efm_flow, role) == 156, "role");
_Static_assert(__builtin_offsetof(struct nw_efm_flow, mask) == 168, "mask");

/* a is before b, modulo 2^32 (Linux's before()) */
static inline int nw_efm_before(u32 a, u32 b)
{
	return (a - b) >> 31;
}

static inline u64 nw_efm_now_us(const struct nw_efm_packet *p)
{
	return NW_EFM_CLOCK(p) / 1000;
}

#endif /* NW_EFM_H */
