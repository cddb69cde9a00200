// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Two threads send for one flow without pause: of each delay sample that arrives,
 * exactly one of their packets is marked, and when one is due, exactly one of them
 * makes it. Exits with 1 otherwise. Build with NW_EFM_ATOMIC.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "../flow.h"

#define ROUNDS	2000
#define SENDERS	2
#define WAITS	1000000

static struct nw_efm_flow flow;
static struct nw_efm_params params = { .t_max_us = 1000 };
static volatile u64 now_ns;
static volatile u32 marks[SENDERS];
static volatile int stop;

static void *sender(void *which)
{
	volatile u32 *mine = which;
	struct nw_efm_packet packet = {0};

	while (!stop) {
		u32 i;

		for (i = 0; i < 1024; i++) {
			packet.now_ns = now_ns;
			if (nw_efm_delay_out(&flow, &params, &packet))
				(*mine)++;
		}
		sched_yield();
	}
	return 0;
}

static u32 sum_of_marks(void)
{
	return marks[0] + marks[1];
}

static int drive(u8 role, const char *name)
{
	struct nw_efm_packet packet = {0};
	pthread_t threads[SENDERS];
	u32 round, i;

	nw_efm_begin(&flow);
	flow.role = role;
	nw_efm_activate(&flow, NW_EFM_D);
	/* what the initiator sent last is now */
	flow.delay_word = NW_EFM_DELAY_SENT;
	packet.bits = flow.mask[NW_EFM_AT_D];
	now_ns = 0;
	marks[0] = 0;
	marks[1] = 0;
	stop = 0;
	for (i = 0; i < SENDERS; i++)
		pthread_create(&threads[i], 0, sender, (void *)&marks[i]);
	for (round = 0; round < ROUNDS; round++) {
		u32 before = sum_of_marks(), waits = 0;

		/* beyond T_Max: the initiator makes one, the responder gets one */
		packet.now_ns = (round + 1) * 2000000ULL;
		if (role == NW_EFM_RESPONDER)
			nw_efm_delay_in(&flow, &params, &packet);
		else
			now_ns = packet.now_ns;
		/* a mark that never comes is a sample that was lost */
		while (sum_of_marks() == before && waits++ < WAITS)
			sched_yield();
	}
	stop = 1;
	for (i = 0; i < SENDERS; i++)
		pthread_join(threads[i], 0);
	printf("%s: %u marks for %u samples\n", name, sum_of_marks(), ROUNDS);
	return sum_of_marks() != ROUNDS;
}

int main(void)
{
	int bad = drive(NW_EFM_RESPONDER, "responder");

	return bad | drive(NW_EFM_INITIATOR, "initiator");
}
