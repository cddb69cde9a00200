// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * The two calls of a flow, the reading and the writing of headers as functions of
 * their own, for a compiler with the BPF target: what it refuses here, it would
 * refuse in a program at a device.
 */
#include "../flow.h"

u32 flow_egress(struct nw_efm_flow *f, const struct nw_efm_params *params,
		const struct nw_efm_packet *p)
{
	return nw_efm_egress(f, params, p);
}

void flow_ingress(struct nw_efm_flow *f, const struct nw_efm_params *params,
		  const struct nw_efm_packet *p)
{
	nw_efm_ingress(f, params, p);
}

u32 header_read(struct nw_efm_packet *p, const u8 *header, u32 len)
{
	return nw_efm_read(p, header, len);
}

void header_write(u8 *header, u32 mask, u32 bits)
{
	nw_efm_write(header, (u8)mask, (u8)bits);
}
