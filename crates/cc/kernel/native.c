// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * One table of function pointers per algorithm, for a host that holds state as
 * bytes. Compiled for the machine at hand; no object for the kernel has it.
 */
#include "native.h"

NW_CONTROLS(NW_EXPORT)
NW_TEST_CONTROLS(NW_EXPORT)

#define NW_ROW(name)	&nw_ops_##name,

static const struct nw_ops *const controls[] = { NW_CONTROLS(NW_ROW) };
/* With an end, as the list may be empty. */
static const struct nw_ops *const test_controls[] = { NW_TEST_CONTROLS(NW_ROW) 0 };

/* The i-th of those that ship, and those of tests after them; 0 beyond. */
const struct nw_ops *nw_control(u32 i, u32 of_tests)
{
	if (of_tests)
		return i < sizeof(test_controls) / sizeof(*test_controls) ?
		       test_controls[i] : 0;
	return i < sizeof(controls) / sizeof(*controls) ? controls[i] : 0;
}
