// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * The two calls of a flow and the reading and writing of headers, for the machine
 * at hand. BPF never sees this file.
 */
#include "native.h"

u32 nw_efm_native_egress(struct nw_efm_flow *f,
			 const struct nw_efm_params *params,
			 const struct nw_efm_packet *p)
{
	return nw_efm_egress(f, params, p);
}

void nw_efm_native_ingress(struct nw_efm_flow *f,
			   const struct nw_efm_params *params,
			   const struct nw_efm_packet *p)
{
	nw_efm_ingress(f, params, p);
}

u32 nw_efm_native_read(struct nw_efm_packet *p, const u8 *header, u32 len)
{
	return nw_efm_read(p, header, len);
}

void nw_efm_native_write(u8 *header, u32 mask, u32 bits)
{
	nw_efm_write(header, (u8)mask, (u8)bits);
}

u32 nw_efm_native_layout(u32 signals, u32 place)
{
	struct nw_efm_flow f;

	nw_efm_begin(&f);
	nw_efm_activate(&f, (u8)signals);
	return f.mask[place % NW_EFM_PLACES];
}

u32 nw_efm_native_code(u32 signals)
{
	return nw_efm_code((u8)signals);
}
