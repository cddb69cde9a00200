// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * One table of function pointers per algorithm, for a host that holds state as
 * bytes. Compiled for the machine at hand; BPF never sees this file.
 */
#include "native.h"

NW_EXPORT(cubic)
NW_EXPORT(prague)
NW_EXPORT(reno)
