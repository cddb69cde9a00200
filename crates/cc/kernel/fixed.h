/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Fixed point: Q16.16 for what may be large, Q2.30 for what is below 4, and cube
 * roots. Results are rounded to the nearest and stay at the end of the range that
 * they would pass; a divisor of 0 gives the end as well. Signed values are s32 of
 * two's complement, and divided as magnitudes.
 */
#ifndef NW_FIXED_H
#define NW_FIXED_H

#include "nw_cc.h"

#define NW_Q16		16U
#define NW_Q16_ONE	(1U << NW_Q16)
#define NW_Q30		30U
#define NW_Q30_ONE	(1U << NW_Q30)
#define NW_Q_MOST	(~0U)		/* 65535.99998 or 3.999999999 */
#define NW_SQ_MOST	0x7fffffff	/* 32767.99998 or 1.999999999 */
#define NW_SQ_LEAST	(-NW_SQ_MOST - 1)

static inline u32 nw_q_of(u64 x)
{
	return (u32)nw_min64(x, NW_Q_MOST);
}

/* Any two formats: the result has the fraction bits of both less `shift`. */
static inline u32 nw_q_mul(u32 a, u32 b, u32 shift)
{
	/* at most (2^32 - 1)^2 + 2^29, which 64 bits hold */
	return nw_q_of(((u64)a * b + (1ULL << (shift - 1))) >> shift);
}

/* Likewise, those of a plus `shift` less those of b; shift is at most 31. */
static inline u32 nw_q_div(u32 a, u32 b, u32 shift)
{
	if (!b)
		return NW_Q_MOST;
	return nw_q_of((((u64)a << shift) + (b >> 1)) / b);
}

static inline u32 nw_q16_mul(u32 a, u32 b)
{
	return nw_q_mul(a, b, NW_Q16);
}

static inline u32 nw_q30_mul(u32 a, u32 b)
{
	return nw_q_mul(a, b, NW_Q30);
}

/* Q16.16 and Q2.30: the result is Q16.16. */
static inline u32 nw_q16_mul_q30(u32 a, u32 b)
{
	return nw_q_mul(a, b, NW_Q30);
}

static inline u32 nw_q16_div(u32 a, u32 b)
{
	return nw_q_div(a, b, NW_Q16);
}

static inline u32 nw_q30_div(u32 a, u32 b)
{
	return nw_q_div(a, b, NW_Q30);
}

/* Q16.16 by Q2.30: Q16.16. */
static inline u32 nw_q16_div_q30(u32 a, u32 b)
{
	return nw_q_div(a, b, NW_Q30);
}

static inline u32 nw_q16_of_q30(u32 a)
{
	return (u32)(((u64)a + (1U << 13)) >> 14);
}

static inline u32 nw_q30_of_q16(u32 a)
{
	return nw_q_of((u64)a << 14);
}

/*
 * a / b of whole numbers, with `bits` fraction bits. Where a << bits would not fit,
 * both lose low bits, of the result less than 2^-29: a b that is left with fewer than
 * 30 has a result beyond the range.
 */
static inline u32 nw_q_ratio(u64 a, u64 b, u32 bits)
{
	u32 log = nw_ilog2(a), most = 62 - bits;

	if (log > most) {
		a >>= log - most;
		b >>= log - most;
	}
	if (!b)
		return a ? NW_Q_MOST : 0;
	return nw_q_of(((a << bits) + (b >> 1)) / b);
}

static inline u32 nw_q16_ratio(u64 a, u64 b)
{
	return nw_q_ratio(a, b, NW_Q16);
}

static inline u32 nw_q30_ratio(u64 a, u64 b)
{
	return nw_q_ratio(a, b, NW_Q30);
}

static inline u32 nw_q_size(s32 a)
{
	return a < 0 ? 0U - (u32)a : (u32)a;
}

/* A magnitude with a sign. */
static inline s32 nw_sq_of(u64 size, int negative)
{
	if (negative)
		return size > NW_SQ_MOST ? NW_SQ_LEAST : -(s32)size;
	return size > NW_SQ_MOST ? NW_SQ_MOST : (s32)size;
}

static inline s32 nw_sq_add(s32 a, s32 b)
{
	s64 sum = (s64)a + b;

	return nw_sq_of(sum < 0 ? (u64)-sum : (u64)sum, sum < 0);
}

static inline s32 nw_sq_sub(s32 a, s32 b)
{
	s64 sum = (s64)a - b;

	return nw_sq_of(sum < 0 ? (u64)-sum : (u64)sum, sum < 0);
}

static inline s32 nw_sq16_mul(s32 a, s32 b)
{
	return nw_sq_of(nw_q16_mul(nw_q_size(a), nw_q_size(b)), (a < 0) != (b < 0));
}

static inline s32 nw_sq30_mul(s32 a, s32 b)
{
	return nw_sq_of(nw_q30_mul(nw_q_size(a), nw_q_size(b)), (a < 0) != (b < 0));
}

static inline s32 nw_sq16_div(s32 a, s32 b)
{
	return nw_sq_of(nw_q16_div(nw_q_size(a), nw_q_size(b)), (a < 0) != (b < 0));
}

static inline s32 nw_sq30_div(s32 a, s32 b)
{
	return nw_sq_of(nw_q30_div(nw_q_size(a), nw_q_size(b)), (a < 0) != (b < 0));
}

/*
 * floor of the cube root, bit by bit from the top: x^3 <= a holds throughout.
 * 22 rounds of two products. Without branches, as a BPF verifier would follow all
 * 2^22 ways through them.
 */
static inline u32 nw_cube_root(u64 a)
{
	u64 x = 0;
	int bit;

	/* 2642245^3 is the greatest cube below 2^64 */
	for (bit = 21; bit >= 0; bit--) {
		u64 y = x | 1ULL << bit;
		u64 too_much = nw_is_less(2642245, y) | nw_is_less(a, y * y * y);

		x |= (too_much ^ 1) << bit;
	}
	return (u32)x;
}

/* Of Q16.16, rounded down: the root of a 2^32 has the fraction bits of a. */
static inline u32 nw_q16_cube_root(u32 a)
{
	return nw_cube_root((u64)a << 32);
}

#endif /* NW_FIXED_H */
