/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * What is in storage beside a socket for the algorithm NW_ALGORITHM, whose state does
 * not fit icsk_ca_priv.
 */
#ifndef NW_STORED_H
#define NW_STORED_H

#include "kernel.h"

struct nw_stored {
	NW_STATE(NW_ALGORITHM) state;	/* first: a pointer to it is one to all */
	/* The parameters that hold, copied from where user space sets them: hooks
	 * of an ACK then look up one thing, not two.
	 */
	NW_PARAMS(NW_ALGORITHM) params;
};

/* Options that are set on a socket hold after this time at most. */
#define NW_LOOK_NS	10000000ULL

#endif /* NW_STORED_H */
