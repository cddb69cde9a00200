// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Lets another CPU act between the read of the delay sample and the swap that takes
 * it. Exits with 1 where the two together do not mark exactly as many packets as
 * they should.
 */
#include <stdio.h>

typedef unsigned long long word_t;

static int interrupted_swap(word_t *word, word_t old, word_t new);
#define NW_EFM_CAS(word, old, new)	interrupted_swap(word, old, new)
#include "../flow.h"

static struct nw_efm_flow flow;
static struct nw_efm_params params = { .t_max_us = 1000 };
/* What the other CPU does, how often, and when by its clock. */
static void (*other)(u64 now_us);
static u32 times;
static u64 other_us;
static u32 marks;

static int interrupted_swap(word_t *word, word_t old, word_t new)
{
	if (other && times) {
		times--;
		other(other_us);
	}
	if (*word != old)
		return 0;
	*word = new;
	return 1;
}

static void send_at(u64 now_us)
{
	struct nw_efm_packet packet = { .now_ns = now_us * 1000 };

	marks += nw_efm_delay_out(&flow, &params, &packet) != 0;
}

static void receive_at(u64 now_us)
{
	struct nw_efm_packet packet = {
		.now_ns = now_us * 1000,
		.bits = flow.mask[NW_EFM_AT_D],
	};

	nw_efm_delay_in(&flow, &params, &packet);
}

/* A flow that sent a sample at 1 s. */
static void begin(u8 role)
{
	nw_efm_begin(&flow);
	flow.role = role;
	nw_efm_activate(&flow, NW_EFM_D);
	flow.delay_word = NW_EFM_DELAY_SENT | 1000000;
	other = 0;
	marks = 0;
}

static int check(const char *what, u32 wanted)
{
	if (marks != wanted)
		printf("%s: %u marks, not %u\n", what, marks, wanted);
	return marks != wanted;
}

int main(void)
{
	int bad = 0;
	u32 role, n;

	for (role = NW_EFM_INITIATOR; role <= NW_EFM_RESPONDER; role++) {
		for (n = 1; n <= NW_EFM_TRIES; n++) {
			begin((u8)role);
			receive_at(1000100);
			other = send_at;
			times = n;
			other_us = 1000110;
			send_at(1000120);
			bad |= check("two send while a sample waits", 1);
		}
	}
	/* the other one's clock was read earlier or later */
	for (n = 0; n < 2; n++) {
		begin(NW_EFM_INITIATOR);
		other = send_at;
		times = 1;
		other_us = n ? 1002000 : 1001999;
		send_at(n ? 1001999 : 1002000);
		bad |= check("two send when one is due", 1);
	}
	begin(NW_EFM_RESPONDER);
	receive_at(1000100);
	other = receive_at;
	times = 1;
	other_us = 1000105;
	send_at(1000110);
	send_at(1000120);
	bad |= check("a second one arrives while one is taken", 1);
	begin(NW_EFM_RESPONDER);
	other = send_at;
	times = 1;
	other_us = 1000110;
	receive_at(1000100);
	send_at(1000120);
	bad |= check("one arrives while a packet leaves", 1);
	/* never the same word twice: no mark rather than a wrong one */
	begin(NW_EFM_RESPONDER);
	receive_at(1000100);
	other = receive_at;
	times = 100;
	other_us = 1000105;
	send_at(1000110);
	bad |= marks > 1;
	return bad;
}
