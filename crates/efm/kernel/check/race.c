// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Two threads send for one flow at the same time: of each delay sample that
 * arrives, exactly one of their packets is marked, and a sample is made by one of
 * them only. Exits with 1 otherwise. Build with NW_EFM_ATOMIC.
 */
#include <pthread.h>
#include <stdio.h>

#include "../flow.h"

#define ROUNDS	20000
#define SENDERS	2

static struct nw_efm_flow flow;
static struct nw_efm_params params;
static struct nw_efm_packet packet;
static pthread_barrier_t start, end;
static u32 marks[SENDERS];

static void *sender(void *which)
{
	u32 *mine = which;
	u32 round, i;

	for (round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&start);
		for (i = 0; i < 4; i++)
			*mine += nw_efm_delay_out(&flow, &params, &packet) != 0;
		pthread_barrier_wait(&end);
	}
	return 0;
}

static int drive(u8 role, const char *name)
{
	pthread_t threads[SENDERS];
	u32 round, i, bad = 0;

	nw_efm_begin(&flow);
	flow.role = role;
	nw_efm_activate(&flow, NW_EFM_D);
	params.t_max_us = 1000;
	pthread_barrier_init(&start, 0, SENDERS + 1);
	pthread_barrier_init(&end, 0, SENDERS + 1);
	for (i = 0; i < SENDERS; i++)
		pthread_create(&threads[i], 0, sender, &marks[i]);
	for (round = 0; round < ROUNDS; round++) {
		u32 sum = 0;

		for (i = 0; i < SENDERS; i++)
			marks[i] = 0;
		/* beyond T_Max: the initiator makes one, the responder has one */
		packet.now_ns += 2000000;
		packet.bits = flow.mask[NW_EFM_AT_D];
		if (role == NW_EFM_RESPONDER)
			nw_efm_delay_in(&flow, &params, &packet);
		pthread_barrier_wait(&start);
		pthread_barrier_wait(&end);
		for (i = 0; i < SENDERS; i++)
			sum += marks[i];
		bad += sum != 1;
	}
	for (i = 0; i < SENDERS; i++)
		pthread_join(threads[i], 0);
	printf("%s: %u of %u rounds without exactly one mark\n", name, bad,
	       ROUNDS);
	return bad != 0;
}

int main(void)
{
	int bad = drive(NW_EFM_RESPONDER, "responder");

	return bad | drive(NW_EFM_INITIATOR, "initiator");
}
