/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What a congestion control in the kernel is set to, and what it reports.
 * NW_ALGORITHM names it, and NW_HEADER the file that holds it.
 */
#ifndef NW_CONTROL_H
#define NW_CONTROL_H

#include "per_socket.h"
#include "facts.h"
#include NW_HEADER

#if NW_CALL(NW_ALGORITHM, MODE) == NW_MODE_WINDOW
#define NW_WINDOW_MODE
#endif
#define NW_TELEMETRY	NW_CALL(NW_ALGORITHM, TELEMETRY)
#define NW_TIMED	NW_CALL(NW_ALGORITHM, HAS_TIMER)

/* Written by whoever registers it, with the parameters behind it. */
struct nw_config {
	u32 trace;		/* enum nw_trace */
	u32 ecn_bits;		/* enum nw_ecn_bit: one of them is needed; 0 = none */
	u32 dctcp_feedback;	/* the receiver echoes every change of CE */
	u32 ect1;
	NW_PARAMS(NW_ALGORITHM) params __attribute__((aligned(8)));
};

/* A record with what the algorithm reports of itself behind it. */
struct nw_report {
	struct nw_record record;
	s64 telemetry[NW_FIELDS(NW_TELEMETRY)];
};

#endif /* NW_CONTROL_H */
