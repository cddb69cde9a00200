/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sends a file over TCP by a deadline of its own. Under `narrows by`:
 *
 *	cc -I../include -o by by.c
 *	narrows by +1h -- ./by HOST PORT FILE SECONDS
 *
 * Without `narrows by` it says so and sends as ever.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "narrows_by.h"

static int dial(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all, *a;
	int fd = -1;

	if (getaddrinfo(host, port, &hints, &all))
		return -1;
	for (a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(all);
	return fd;
}

int main(int argc, char **argv)
{
	struct narrows_by_status status;
	struct stat facts;
	off_t at = 0;
	int fd, file;

	if (argc != 5) {
		fprintf(stderr, "usage: %s HOST PORT FILE SECONDS\n", argv[0]);
		return 2;
	}
	file = open(argv[3], O_RDONLY);
	if (file < 0 || fstat(file, &facts)) {
		perror(argv[3]);
		return 1;
	}
	fd = dial(argv[1], argv[2]);
	if (fd < 0) {
		fprintf(stderr, "%s: no connection\n", argv[1]);
		return 1;
	}
	if (narrows_by_set_size(fd, (uint64_t)facts.st_size) ||
	    narrows_by_set_deadline(fd, strtoull(argv[4], NULL, 10) * 1000000))
		fprintf(stderr, "not under `narrows by`: %s\n", strerror(errno));
	while (at < facts.st_size) {
		if (sendfile(fd, file, &at, 1 << 20) <= 0) {
			perror("sendfile");
			return 1;
		}
	}
	if (!narrows_by_get_status(fd, &status))
		printf("%llu bytes to go, %.1f s left, weight %.2f\n",
		       (unsigned long long)status.remaining,
		       (double)status.left_us / 1e6, status.weight / 1000.0);
	shutdown(fd, SHUT_WR);
	/* the other end closes once it has all */
	while (read(fd, &status, sizeof(status)) > 0)
		;
	return 0;
}
