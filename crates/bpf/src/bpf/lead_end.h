/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Ends of connections that are led to a proxy, and which are not: for the program in the kernel
 * (lead.bpf.c) and the library in the program (preload.c). Whoever includes this has u16, u32 and
 * NW_INLINE.
 */
#ifndef NW_LEAD_END_H
#define NW_LEAD_END_H

/* An end of a connection; IPv4 addresses as IPv4-mapped ones. All in network order, ports in
 * the lower 16 bits.
 */
struct nw_end {
	u32 address[4];
	u32 port;
};
_Static_assert(sizeof(struct nw_end) == 20, "layout of nw_end");

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NW_NETWORK32(x)	__builtin_bswap32(x)
#else
#define NW_NETWORK32(x)	(x)
#endif

#define NW_MAPPED	NW_NETWORK32(0xffff)	/* the third word of ::ffff:0:0/96 */
#define NW_LOOPBACK	NW_NETWORK32(0x7f000001)

NW_INLINE void nw_ipv4(struct nw_end *end, u32 address)
{
	end->address[0] = 0;
	end->address[1] = 0;
	end->address[2] = NW_MAPPED;
	end->address[3] = address;
}

NW_INLINE int nw_is_ipv4(const struct nw_end *end)
{
	return !end->address[0] && !end->address[1] && end->address[2] == NW_MAPPED;
}

/* Whether a connection to `end` is not to be led; `spared` is the proxy itself. */
NW_INLINE int nw_stays(const struct nw_end *end, const volatile struct nw_end *spared)
{
	u32 first = NW_NETWORK32(end->address[0]);

	if (nw_is_ipv4(end)) {
		u32 ip = NW_NETWORK32(end->address[3]);

		/* loopback, "this network", link-local (RFC 6890) */
		if (ip >> 24 == 127 || ip >> 24 == 0 || ip >> 16 == 0xa9fe)
			return 1;
	} else if (first >> 22 == 0xfe80 >> 6) {
		return 1;
	} else if (!end->address[0] && !end->address[1] && !end->address[2]) {
		/* "::", "::1" */
		return 1;
	}
	return end->port == spared->port && end->address[0] == spared->address[0] &&
	       end->address[1] == spared->address[1] &&
	       end->address[2] == spared->address[2] &&
	       end->address[3] == spared->address[3];
}

#endif
