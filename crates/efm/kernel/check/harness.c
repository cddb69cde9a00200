// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Drives flows with pseudo-random packets, parameters and states, for a build with
 * sanitizers. Exits with 1 when a bit outside of the mask is written, the mask
 * leaves the three usable bits, or a header is read beyond its end. Needs a hosted
 * compiler.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../native.h"

#define ROUNDS	400000

static u64 seed = 0x9e3779b97f4a7c15ULL;

/* xorshift64* */
static u64 draw(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return seed * 0x2545f4914f6cdd1dULL;
}

static void scatter(void *at, size_t size)
{
	u8 *byte = at;
	size_t i;

	for (i = 0; i < size; i++)
		byte[i] = (u8)draw();
}

/* Masks from nowhere, but the one of all of them belongs to them. */
static void scatter_flow(struct nw_efm_flow *f)
{
	u32 at;

	scatter(f, sizeof(*f));
	f->all = 0;
	for (at = 0; at < NW_EFM_PLACES; at++)
		f->all |= f->mask[at];
}

/* A packet that moves on, with now and then one from nowhere. */
static void next_packet(struct nw_efm_packet *p)
{
	u64 now = p->now_ns + draw() % 3000000;

	if (draw() % 64 == 0)
		scatter(p, sizeof(*p));
	p->now_ns = draw() % 512 ? now : draw();
	p->seq += (u32)(draw() % 3) * 1448;
	p->seq_end = p->seq + (u32)(draw() % 2) * 1448;
	p->ack += (u32)(draw() % 2) * 1448;
	p->tsval = (u32)(p->now_ns / 1000000);
	p->lost += draw() % 8 == 0;
	p->spurious += draw() % 32 == 0;
	p->delivered_ce += draw() % 8 == 0;
	p->segments = draw() % 16 ? 1 : (u32)draw() % 40;
	p->bits = (u8)draw() & NW_EFM_BITS;
	p->flags = NW_TCP_ACK;
	if (draw() % 512 == 0)
		p->flags = (u8)draw();
	p->has = (u8)draw() & 7;
}

static void next_params(struct nw_efm_params *params)
{
	memset(params, 0, sizeof(*params));
	params->t_max_us = 1000 + (u32)draw() % 1000000;
	params->hold_us = 1 + (u32)draw() % 2000;
	params->vec_hold_us = 1 + (u32)draw() % 2000;
	params->q_shift = 6 + (u32)draw() % 9;
	params->r_threshold = 1 + (u32)draw() % 31;
	params->signals = (u8)draw();
	params->announce = (u8)(draw() % 3);
	params->rules = (u8)draw() & 0x1f;
}

static int drive_flow(void)
{
	struct nw_efm_params params;
	struct nw_efm_packet p = {0};
	struct nw_efm_flow f;
	u64 sum = 0;
	u32 i;

	memset(&f, 0, sizeof(f));
	next_params(&params);
	for (i = 0; i < ROUNDS; i++) {
		u32 write, mask, bits;

		if (draw() % 4096 == 0)
			next_params(&params);
		/* memory that was never a flow */
		if (draw() % 4096 == 0)
			scatter_flow(&f);
		if (draw() % 1024 == 0) {
			p.flags = NW_TCP_SYN;
			nw_efm_native_ingress(&f, &params, &p);
			p.flags |= NW_TCP_ACK;
			p.seq = (u32)draw();
			nw_efm_native_egress(&f, &params, &p);
		}
		next_packet(&p);
		if (draw() % 2) {
			nw_efm_native_ingress(&f, &params, &p);
			continue;
		}
		write = nw_efm_native_egress(&f, &params, &p);
		mask = write >> 8;
		bits = write & 0xff;
		sum = sum * 31 + write;
		/* the masks of a state from nowhere are from nowhere */
		if (bits & ~mask && f.mask[NW_EFM_AT_S] <= NW_EFM_BITS) {
			printf("bits %x of mask %x in round %u\n", bits, mask, i);
			return 1;
		}
	}
	printf("flow: %016llx\n", sum);
	return 0;
}

static int drive_header(void)
{
	/* on the heap, so that a byte too far is seen */
	u8 *header = malloc(NW_TCP_HEADER_MAX);
	struct nw_efm_packet p = {0};
	u64 sum = 0;
	u32 i;

	if (!header)
		return 1;
	for (i = 0; i < ROUNDS; i++) {
		u32 len = (u32)draw() % 1500, size;

		scatter(header, NW_TCP_HEADER_MAX);
		/* options as a sender writes them, sometimes */
		if (draw() % 2)
			memset(header + 20, (int)(draw() % 9), (size_t)(draw() % 40));
		size = nw_efm_native_read(&p, header, len);
		if (size > NW_TCP_HEADER_MAX || size > len || (size && size < 20)) {
			printf("a header of %u in %u bytes\n", size, len);
			return 1;
		}
		nw_efm_native_write(header, (u32)draw(), (u32)draw());
		sum = sum * 31 + p.seq_end + p.tsval + p.has;
	}
	free(header);
	printf("header: %016llx\n", sum);
	return 0;
}

int main(void)
{
	int bad = drive_header();
	u32 i;

	for (i = 0; i < 8; i++)
		bad |= drive_flow();
	return bad;
}
