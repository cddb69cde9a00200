/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0 */
/*
 * The marked connections: a set-associative table, NW_WAYS entries in a row; a hash
 * of the connection selects the row. In a full row the connection that has been idle
 * longest is replaced.
 *
 * The kernel's own hash tables would do, but a lookup there is two calls and a
 * comparison byte by byte, which costs as much as all other work on a packet; a row
 * of an array is found in a few instructions.
 *
 * A lookup takes no lock. A row is locked only by SYNs whose connection is not in it,
 * and the ports of a new entry, which are part of its key, are written last. If an
 * entry is replaced while a packet of its connection is processed, the new connection
 * may get that packet's state change, as in the kernel's own LRU tables.
 */
#ifndef NW_FLOWS_H
#define NW_FLOWS_H

#include "segment.h"

#define NW_ROWS		16384
#define NW_WAYS		8

/* The kernel's lock of a map's value; the name is the kernel's too. */
struct bpf_spin_lock {
	u32 val;
};

static long (*nw_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*nw_unlock)(struct bpf_spin_lock *lock) = (void *)94;

struct nw_way {
	struct nw_mark_key key;		/* ports of 0: free */
	u64 used;			/* jiffies of its latest packet */
	struct nw_efm_flow flow;
};

struct nw_row {
	struct bpf_spin_lock lock;
	u32 unused;
	struct nw_way way[NW_WAYS];
};

struct {
	NW_UINT(type, NW_MAP_ARRAY);
	NW_UINT(max_entries, NW_ROWS);
	NW_TYPE(key, u32);
	NW_TYPE(value, struct nw_row);
} nw_flows NW_SECTION(".maps");

/*
 * The row of a connection: its words times numbers that are drawn when the program
 * is loaded (multiply-shift hashing), so that a peer cannot choose connections that
 * collide in a row.
 */
NW_INLINE u32 nw_row_of(const struct nw_mark_key *key, const volatile u64 (*seeds)[3])
{
	u64 sum = (key->local[0] ^ key->remote[0]) * (*seeds)[0];

	sum += (key->local[1] + key->remote[1]) * (*seeds)[1];
	sum += key->ports * (*seeds)[2];
	return (u32)(sum >> 50);
}
_Static_assert(NW_ROWS == 1 << (64 - 50), "as many rows as the hash has values");

NW_INLINE int nw_same(const struct nw_mark_key *a, const struct nw_mark_key *b)
{
	return a->ports == b->ports && a->remote[1] == b->remote[1] &&
	       a->local[1] == b->local[1] && a->remote[0] == b->remote[0] &&
	       a->local[0] == b->local[0];
}

/* Where a connection is in a row, NW_WAYS if it is not there. */
NW_INLINE u32 nw_way_of(const struct nw_row *row, const struct nw_mark_key *key)
{
	u32 i;

#pragma unroll
	for (i = 0; i < NW_WAYS; i++)
		if (nw_same(&row->way[i].key, key))
			break;
	return i;
}

/* A connection's way, by a number that the verifier need not know. */
NW_INLINE struct nw_way *nw_way_at(struct nw_row *row, u32 i)
{
	asm volatile("" : "+r"(i));
	if (i >= NW_WAYS)
		return 0;
	return &row->way[i];
}

NW_INLINE struct nw_row *nw_find_row(const struct nw_mark_key *key,
				      const volatile u64 (*seeds)[3])
{
	u32 at = nw_row_of(key, seeds);

	return nw_map_lookup(&nw_flows, &at);
}

/* The flow of a connection, if it is known. */
NW_INLINE struct nw_efm_flow *nw_find(struct nw_row *row, const struct nw_mark_key *key)
{
	struct nw_way *way = nw_way_at(row, nw_way_of(row, key));
	u64 now;

	if (!way)
		return 0;
	now = nw_jiffies();
	/* a line that is written has to be fetched by the other CPU */
	if (way->used != now)
		way->used = now;
	return &way->flow;
}

/* Makes room for a connection that is not known. */
NW_INLINE struct nw_efm_flow *nw_add(struct nw_row *row, const struct nw_mark_key *key,
				     struct nw_mark_counters *counters)
{
	u64 oldest = ~0ULL, now = nw_jiffies(), *words;
	u32 at = 0, i, evicted;
	struct nw_way *way;

	nw_lock(&row->lock);
	/* a CPU that came first may have put it there */
	i = nw_way_of(row, key);
	if (i < NW_WAYS) {
		nw_unlock(&row->lock);
		return nw_find(row, key);
	}
	for (i = 0; i < NW_WAYS; i++) {
		u64 used = row->way[i].key.ports ? row->way[i].used : 0;

		if (used < oldest) {
			oldest = used;
			at = i;
		}
	}
	way = nw_way_at(row, at);
	if (!way) {
		nw_unlock(&row->lock);
		return 0;
	}
	evicted = way->key.ports != 0;
	*(volatile u32 *)&way->key.ports = 0;
	words = (u64 *)&way->flow;
	for (i = 0; i < sizeof(way->flow) / sizeof(u64); i++)
		words[i] = 0;
	way->used = now;
	way->key.local[0] = key->local[0];
	way->key.local[1] = key->local[1];
	way->key.remote[0] = key->remote[0];
	way->key.remote[1] = key->remote[1];
	*(volatile u32 *)&way->key.ports = key->ports;
	nw_unlock(&row->lock);
	counters->flows++;
	counters->evicted += evicted;
	return &way->flow;
}

#endif /* NW_FLOWS_H */
