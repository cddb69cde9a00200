/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A deadline and a size of one TCP connection, set by the program itself.
 *
 * For programs that run under `narrows by TIME -- CMD` or that `narrows by --attach`
 * reaches: there, BPF programs of the control group answer these socket options
 * (BPF_CGROUP_SETSOCKOPT, BPF_CGROUP_GETSOCKOPT) and keep what is set beside the
 * socket (BPF_MAP_TYPE_SK_STORAGE), where the congestion control reads it. Elsewhere
 * they are unknown: setsockopt() and getsockopt() fail with ENOPROTOOPT, and nothing
 * needs to be done about that: the connection is an ordinary one.
 *
 * Options may be set before connect() or at any time later, also again. A connection
 * with a size of its own is no part of what `narrows by --size` counts; one with a
 * deadline of its own has that in the place of TIME.
 *
 *	int fd = socket(AF_INET, SOCK_STREAM, 0);
 *	narrows_by_set_size(fd, file_size);
 *	narrows_by_set_deadline(fd, 3600 * 1000000ULL);
 *	connect(fd, ...);
 */
#ifndef NARROWS_BY_H
#define NARROWS_BY_H

#include <stdint.h>
#include <sys/socket.h>

#define SOL_NARROWS		0x4e57	/* level of the options */

/* set: uint64_t, microseconds from now until all is to be delivered, at least 1 and at
 * most a year; EINVAL otherwise
 */
#define NARROWS_BY_DEADLINE	1
/* set: uint64_t, bytes that this connection is to deliver in all, those that it has
 * delivered included; EINVAL if that is 0, no more than it has delivered already, or
 * more than 2^50
 */
#define NARROWS_BY_SIZE		2
/* get: struct narrows_by_status; EINVAL of a connection that is not established */
#define NARROWS_BY_STATUS	3

struct narrows_by_status {
	uint64_t left_us;	/* to the deadline; 0 past it */
	uint64_t remaining;	/* bytes to deliver by then */
	uint64_t target;	/* bytes/s that this takes, in the last interval */
	uint64_t achieved;	/* bytes/s that were delivered in it */
	uint32_t weight;	/* of 1000: 50 yields to everything, 1000 is best effort */
	uint32_t short_of;	/* intervals in which best effort was reckoned to be slower
				 * than is needed, and none between in which it was not: from
				 * 6 on the deadline is out of reach */
};

static inline int narrows_by_set_deadline(int fd, uint64_t us_from_now)
{
	return setsockopt(fd, SOL_NARROWS, NARROWS_BY_DEADLINE, &us_from_now,
			  sizeof(us_from_now));
}

static inline int narrows_by_set_size(int fd, uint64_t bytes)
{
	return setsockopt(fd, SOL_NARROWS, NARROWS_BY_SIZE, &bytes, sizeof(bytes));
}

static inline int narrows_by_get_status(int fd, struct narrows_by_status *status)
{
	socklen_t length = sizeof(*status);

	return getsockopt(fd, SOL_NARROWS, NARROWS_BY_STATUS, status, &length);
}

#endif /* NARROWS_BY_H */
