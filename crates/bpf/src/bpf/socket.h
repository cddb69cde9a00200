/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * Where a loaded program keeps what it knows of a socket. The algorithm's own state
 * is in icsk_ca_priv, if it fits: it is at hand without a lookup and zeroed by the
 * kernel before init. Here is what is not the algorithm's.
 */
#ifndef NW_SOCKET_H
#define NW_SOCKET_H

#include "per_socket.h"

/* Shared by all objects that one process loads. */
struct {
	NW_UINT(type, NW_MAP_SK_STORAGE);
	NW_UINT(map_flags, NW_NO_PREALLOC);
	NW_TYPE(key, int);
	NW_TYPE(value, struct nw_socket);
} nw_sockets NW_SECTION(".maps");

#endif /* NW_SOCKET_H */
