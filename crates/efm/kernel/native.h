/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
#ifndef NW_EFM_NATIVE_H
#define NW_EFM_NATIVE_H

#include "flow.h"

u32 nw_efm_native_egress(struct nw_efm_flow *f,
			 const struct nw_efm_params *params,
			 const struct nw_efm_packet *p);
void nw_efm_native_ingress(struct nw_efm_flow *f,
			   const struct nw_efm_params *params,
			   const struct nw_efm_packet *p);

/* `header` holds NW_TCP_HEADER_MAX bytes. */
u32 nw_efm_native_read(struct nw_efm_packet *p, const u8 *header, u32 len);

/* `header` holds at least NW_TCP_HEADER_MIN bytes. */
void nw_efm_native_write(u8 *header, u32 mask, u32 bits);

/* The bits that the signal at `place` (enum nw_efm_place) has among `signals`. */
u32 nw_efm_native_layout(u32 signals, u32 place);
u32 nw_efm_native_code(u32 signals);

#endif /* NW_EFM_NATIVE_H */
