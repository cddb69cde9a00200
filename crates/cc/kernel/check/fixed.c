// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * The operations of fixed.h for a test that compares them with exact numbers: reads
 * lines of a name and two operands, and writes the result of each. Operands have 64
 * bits; operations on 32 take the low half. Needs a hosted compiler.
 */
#include <stdio.h>
#include <string.h>

#include "../fixed.h"

struct operation {
	const char *name;
	s64 (*run)(u64 a, u64 b);
};

#define UNSIGNED(name)							\
static s64 name(u64 a, u64 b)						\
{									\
	return nw_##name((u32)a, (u32)b);				\
}
#define SIGNED(name)							\
static s64 name(u64 a, u64 b)						\
{									\
	return nw_##name((s32)a, (s32)b);				\
}
#define WIDE(name)							\
static s64 name(u64 a, u64 b)						\
{									\
	return nw_##name(a, b);						\
}
#define ONE(name, type)							\
static s64 name(u64 a, u64 b)						\
{									\
	(void)b;							\
	return nw_##name((type)a);					\
}

UNSIGNED(q16_mul)
UNSIGNED(q30_mul)
UNSIGNED(q16_mul_q30)
UNSIGNED(q16_div)
UNSIGNED(q30_div)
UNSIGNED(q16_div_q30)
WIDE(q16_ratio)
WIDE(q30_ratio)
ONE(q16_of_q30, u32)
ONE(q30_of_q16, u32)
SIGNED(sq_add)
SIGNED(sq_sub)
SIGNED(sq16_mul)
SIGNED(sq30_mul)
SIGNED(sq16_div)
SIGNED(sq30_div)
ONE(cube_root, u64)
ONE(q16_cube_root, u32)

#define ROW(name)	{ #name, name },
static const struct operation operations[] = {
	ROW(q16_mul) ROW(q30_mul) ROW(q16_mul_q30)
	ROW(q16_div) ROW(q30_div) ROW(q16_div_q30)
	ROW(q16_ratio) ROW(q30_ratio) ROW(q16_of_q30) ROW(q30_of_q16)
	ROW(sq_add) ROW(sq_sub) ROW(sq16_mul) ROW(sq30_mul)
	ROW(sq16_div) ROW(sq30_div) ROW(cube_root) ROW(q16_cube_root)
};

int main(void)
{
	char name[32];
	u64 a, b;

	while (scanf("%31s %llu %llu", name, &a, &b) == 3) {
		const struct operation *o = operations;
		const struct operation *end =
			operations + sizeof(operations) / sizeof(*operations);

		while (o < end && strcmp(o->name, name))
			o++;
		if (o == end) {
			fprintf(stderr, "no operation `%s`\n", name);
			return 1;
		}
		printf("%lld\n", o->run(a, b));
	}
	return 0;
}
