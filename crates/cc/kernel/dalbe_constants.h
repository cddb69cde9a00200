/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * DA-LBE's constants; its law is in dalbe_law.h, what its price models share in
 * dalbe_model.h, its hooks are in dalbe.h.
 *
 * Sources: D. A. Hayes, D. Ros, A. Petlund and I. Ahmed, "A Framework for Less than
 * Best Effort Congestion Control with Soft Deadlines", IFIP Networking 2017; H. P.
 * Tandberg, "TCP DA-LBE", University of Oslo, 2020, in what follows "the thesis".
 */
#ifndef NW_DALBE_CONSTANTS_H
#define NW_DALBE_CONSTANTS_H

#include "fixed.h"

enum nw_dalbe_policy {
	NW_DALBE_PID = 0,
	NW_DALBE_MBC = 1,		/* model-based control */
};

enum nw_dalbe_mode {
	NW_DALBE_IMPROVED = 0,
	NW_DALBE_REPRODUCTION = 1,	/* as the thesis has it */
};

enum nw_dalbe_map {
	NW_DALBE_POSITION = 0,		/* w = u */
	NW_DALBE_INCREMENTAL = 1,	/* w = former w + u */
};

/* The thesis: w between 0.05 and 1, phi 3 at first. */
#define NW_DALBE_LEAST_W	53687091U	/* 0.05, Q2.30 */
#define NW_DALBE_FIRST_PHI	(3U << NW_Q16)
#define NW_DALBE_FEW_LOSSES	10U	/* CALC_THRESH: phi needs more */
/* The thesis does not say what the rise is limited by; a tenth of the goal makes its
 * recovery from 0.05 last the hundred seconds that it shows.
 */
#define NW_DALBE_RISE		107374182U	/* 0.1, Q2.30 */

/* Ours: in so many intervals best effort is reckoned to be short of what is needed, and none
 * between says otherwise; 2^-4 of each interval, since CUBIC's window takes some ten from one
 * loss to the next; and a rate above the mean one by a fifth is still growing.
 */
#define NW_DALBE_OUT_OF_REACH	6U
#define NW_DALBE_REACH_GAIN	4U
#define NW_DALBE_GROWS		5U

/* Improved. */
#define NW_DALBE_LEAST_PHI	6554U		/* 0.1, Q16.16 */
#define NW_DALBE_MOST_PHI	(8U << NW_Q16)
#define NW_DALBE_MOST_IGNORED	1717986918U	/* 0.4, 2^-32: 1 - 0.3 / 0.5 */
#define NW_DALBE_PHI_GAIN	2U		/* 2^-2 of each new estimate */
#define NW_DALBE_DAMPING	1U		/* 2^-1 of an error goes into the bias */
#define NW_DALBE_EXCESS		2U	/* 2^-2 of an excess for each event in the interval */
#define NW_DALBE_CUT		3U	/* 2^3 times what a limit cut off is not learnt */
#define NW_DALBE_MOST_RATIO	(1ULL << 41)	/* of price and model, 8192, 2^-28 */
#define NW_DALBE_LEAST_BIAS	(NW_Q16_ONE / 8)
#define NW_DALBE_MOST_BIAS	(8U << NW_Q16)
#define NW_DALBE_INTERVALS	120U		/* to the deadline, at least */
#define NW_DALBE_LEFT		20U		/* an interval is 1/20 of what is left */
#define NW_DALBE_RESERVE	20U		/* 1/20 of what is left makes up for lacks */
#define NW_DALBE_FADED		19ULL		/* r from which a price counts no more */
#define NW_DALBE_NEAR_ONE	1020054733U	/* 0.95, Q2.30: losses begin to be ignored */
#define NW_DALBE_SMOOTHING	2U		/* 2^-2 of each delay goes into its price */
#define NW_DALBE_SHORTEST_US	100000U
#define NW_DALBE_ROUNDS		4U		/* round trips in an interval, at least */

/* Multiplicative decrease of the control that others use: CUBIC's 1 - 0.7. */
#define NW_DALBE_CUBIC_TENTHS	3U
#define NW_DALBE_RENO_TENTHS	5U

/* Prices are seconds of delay or probabilities, in 2^-40. */
#define NW_PRICE		40U
#define NW_PRICE_ONE		(1ULL << NW_PRICE)

#define NW_DALBE_TOO_MANY	(1U << 24)	/* samples in an interval */

#endif /* NW_DALBE_CONSTANTS_H */
