/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sends a line by the split proxy, and prints what comes back:
 *
 *	cargo build --release -p narrows-pep-client
 *	cc -I../include -o ask ask.c -L../../../target/release -lnarrows_pep_client
 *	LD_LIBRARY_PATH=../../../target/release ./ask PROXY PORT HOST PORT LINE [early|only]
 *
 * The line goes with the SYN if it is said to be `early`: the destination may get it twice.
 * With `only` there is no direct connection without the proxy.
 */
#define _GNU_SOURCE
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "narrows_pep_client.h"

/* The first address of a host. */
static socklen_t find(struct sockaddr_storage *address, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all;
	socklen_t len;

	if (getaddrinfo(host, port, &hints, &all))
		return 0;
	len = all->ai_addrlen;
	memcpy(address, all->ai_addr, len);
	freeaddrinfo(all);
	return len;
}

/* Whether the SYN carried data that was acknowledged with it. */
static int with_syn(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
	       (info.tcpi_options & TCPI_OPT_SYN_DATA);
}

static void say(const struct narrows_how *how, int fd)
{
	switch (how->way) {
	case NARROWS_BY_PROXY:
		fprintf(stderr, "by the proxy, %s\n",
			with_syn(fd) ? "with the SYN" : "by the plain handshake");
		break;
	case NARROWS_PROXY_MISSING:
		fprintf(stderr, "without the proxy: %s\n", strerror(how->error));
		break;
	case NARROWS_PROXY_REFUSED:
		fprintf(stderr, "without the proxy: it refuses, code %d\n", how->fault);
		break;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_storage proxy, to;
	struct narrows_via via = { .proxy = (struct sockaddr *)&proxy };
	struct narrows_how how;
	socklen_t to_len;
	char buffer[4096];
	ssize_t len;
	int fd;

	if (argc < 6 || argc > 7) {
		fprintf(stderr, "usage: %s PROXY PORT HOST PORT LINE [early|only]\n", argv[0]);
		return 2;
	}
	via.proxy_len = find(&proxy, argv[1], argv[2]);
	to_len = find(&to, argv[3], argv[4]);
	if (!via.proxy_len || !to_len) {
		fprintf(stderr, "no such host\n");
		return 1;
	}
	if (argc > 6 && !strcmp(argv[6], "only"))
		via.flags = NARROWS_ONLY;
	if (argc > 6 && !strcmp(argv[6], "early")) {
		via.early = argv[5];
		via.early_len = strlen(argv[5]);
	}
	fd = narrows_connect((struct sockaddr *)&to, to_len, &via, &how);
	if (fd < 0)
		perror("narrows_connect");
	say(&how, fd);
	if (fd < 0)
		return 1;
	if (!via.early && write(fd, argv[5], strlen(argv[5])) < 0)
		perror("write");
	shutdown(fd, SHUT_WR);
	while ((len = read(fd, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, (size_t)len, stdout);
	close(fd);
	return len < 0;
}
