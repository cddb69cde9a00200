// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Leads the TCP connections of a program to a port of loopback from within, where the kernel
 * takes no program that does so (lead.bpf.c). Loaded by LD_PRELOAD, in place of two functions of
 * the C library:
 *
 *	connect		the socket gets a port, a note is written of where it was to go, and it
 *			is connected to loopback
 *	getpeername	returns the address that the program had asked for
 *
 * The notes are a file with room for each port, of IPv4 and of IPv6; whoever accepts reads there
 * by the port that a connection comes from. What fails leaves the connection as it was.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef uint16_t u16;
typedef uint32_t u32;
#define NW_INLINE	static inline
#include "lead_end.h"

#define NW_EXPORT	__attribute__((visibility("default")))

/* Where a connection comes from, and where to it was opened. */
struct nw_note {
	struct nw_end from;
	struct nw_end to;
};
_Static_assert(sizeof(struct nw_note) == 40, "layout of nw_note");

/* Of the environment: the port of loopback, the proxy, and the file. */
static struct {
	const char *notes;
	struct nw_end spared;
	u16 port;		/* network order; 0: nothing is led */
} settings;

static int (*real_connect)(int, const struct sockaddr *, socklen_t);
static int (*real_getpeername)(int, struct sockaddr *, socklen_t *);

__attribute__((constructor)) static void nw_begin(void)
{
	const char *said = getenv("NARROWS_LEAD");
	unsigned int port, spared;
	char address[64];
	int at = 0;

	*(void **)&real_connect = dlsym(RTLD_NEXT, "connect");
	*(void **)&real_getpeername = dlsym(RTLD_NEXT, "getpeername");
	if (!said || sscanf(said, "%5u %63s %5u %n", &port, address, &spared, &at) != 3)
		return;
	/* An IPv4 address is written as the IPv6 one that maps it. */
	if (inet_pton(AF_INET6, address, settings.spared.address) != 1)
		return;
	settings.spared.port = htons(spared);
	/* Some programs write over their environment. */
	settings.notes = strdup(said + at);
	if (settings.notes)
		settings.port = htons(port);
}

/* Whether anything is led. The constructor of another library may connect before ours has run. */
static int nw_leads(void)
{
	if (!real_connect || !real_getpeername)
		nw_begin();
	return settings.port != 0;
}

/* The end that a socket address is; whether it is one. */
static int nw_end_of(struct nw_end *end, const struct sockaddr *address, socklen_t len)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	if (len >= sizeof(in) && address->sa_family == AF_INET) {
		memcpy(&in, address, sizeof(in));
		nw_ipv4(end, in.sin_addr.s_addr);
		end->port = in.sin_port;
	} else if (len >= sizeof(in6) && address->sa_family == AF_INET6) {
		memcpy(&in6, address, sizeof(in6));
		memcpy(end->address, &in6.sin6_addr, sizeof(end->address));
		end->port = in6.sin6_port;
	} else {
		return 0;
	}
	return 1;
}

/* The socket address of `end` for sockets of `family`; its length. */
static socklen_t nw_address(struct sockaddr_storage *address, sa_family_t family,
			    const struct nw_end *end)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = end->port };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = end->port };

	if (family == AF_INET) {
		in.sin_addr.s_addr = end->address[3];
		memcpy(address, &in, sizeof(in));
		return sizeof(in);
	}
	memcpy(&in6.sin6_addr, end->address, sizeof(end->address));
	memcpy(address, &in6, sizeof(in6));
	return sizeof(in6);
}

static void nw_loopback(struct nw_end *end, int ipv4, u16 port)
{
	memset(end, 0, sizeof(*end));
	if (ipv4)
		nw_ipv4(end, NW_LOOPBACK);
	else
		end->address[3] = NW_NETWORK32(1);
	end->port = port;
}

static int nw_is_any(const struct nw_end *end)
{
	return !end->address[0] && !end->address[1] && !end->address[3] &&
	       (!end->address[2] || end->address[2] == NW_MAPPED);
}

static int nw_option(int fd, int option)
{
	socklen_t len = sizeof(int);
	int value = -1;

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) ? -1 : value;
}

/* The socket's own end, and its family. */
static int nw_own(int fd, struct nw_end *own, sa_family_t *family)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &len))
		return 0;
	*family = address.ss_family;
	return nw_end_of(own, (struct sockaddr *)&address, len);
}

/* Gives the socket a port before it is connected, as the note is found by that. */
static int nw_bind(int fd, sa_family_t family, struct nw_end *own, int ipv4)
{
	struct sockaddr_storage address;
	struct nw_end at = *own;
	socklen_t len;
	int off = 0;

	if (own->port)
		return 1;
	if (nw_is_any(&at))
		nw_loopback(&at, ipv4, 0);
	/* Asked for by programs with very many connections: the port would come with connect. */
	if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &off, sizeof(off)))
		return 0;
	len = nw_address(&address, family, &at);
	return !bind(fd, (struct sockaddr *)&address, len) && nw_own(fd, own, &family);
}

static off_t nw_place(const struct nw_end *from)
{
	off_t half = nw_is_ipv4(from) ? 0 : 65536;

	return (half + ntohs(from->port)) * (off_t)sizeof(struct nw_note);
}

static int nw_write_note(const struct nw_note *note)
{
	int notes = open(settings.notes, O_WRONLY | O_CLOEXEC);
	ssize_t written;

	if (notes < 0)
		return 0;
	written = pwrite(notes, note, sizeof(*note), nw_place(&note->from));
	close(notes);
	return written == sizeof(*note);
}

static int nw_read_note(struct nw_note *note, const struct nw_end *from)
{
	int notes = open(settings.notes, O_RDONLY | O_CLOEXEC);
	ssize_t read;

	if (notes < 0)
		return 0;
	read = pread(notes, note, sizeof(*note), nw_place(from));
	close(notes);
	return read == sizeof(*note) && !memcmp(&note->from, from, sizeof(*from));
}

/* Whether the connection is to be led; then it is noted, and `led` is where to. */
static socklen_t nw_take(int fd, const struct nw_end *to, struct sockaddr_storage *led)
{
	struct nw_note note = { .to = *to };
	int ipv4 = nw_is_ipv4(to);
	sa_family_t family;
	struct nw_end end;

	if (nw_stays(to, &settings.spared) ||
	    nw_option(fd, SO_TYPE) != SOCK_STREAM || nw_option(fd, SO_PROTOCOL) != IPPROTO_TCP ||
	    !nw_own(fd, &note.from, &family) || !nw_bind(fd, family, &note.from, ipv4))
		return 0;
	/* Who is bound to no address comes from loopback. */
	if (nw_is_any(&note.from))
		nw_loopback(&note.from, ipv4, note.from.port);
	if (!nw_write_note(&note))
		return 0;
	nw_loopback(&end, ipv4, settings.port);
	return nw_address(led, family, &end);
}

NW_EXPORT int connect(int fd, const struct sockaddr *address, socklen_t len)
{
	struct sockaddr_storage led;
	struct nw_end to;
	socklen_t led_len = 0;
	int error = errno;

	if (nw_leads() && nw_end_of(&to, address, len))
		led_len = nw_take(fd, &to, &led);
	errno = error;
	return led_len ? real_connect(fd, (struct sockaddr *)&led, led_len) :
			 real_connect(fd, address, len);
}

NW_EXPORT int getpeername(int fd, struct sockaddr *address, socklen_t *len)
{
	struct sockaddr_storage peer;
	socklen_t peer_len = sizeof(peer);
	struct nw_end end, own;
	struct nw_note note;
	sa_family_t family;
	int error = errno;

	if (nw_leads() && !real_getpeername(fd, (struct sockaddr *)&peer, &peer_len) &&
	    nw_end_of(&end, (struct sockaddr *)&peer, peer_len) && end.port == settings.port &&
	    nw_own(fd, &own, &family) && nw_read_note(&note, &own)) {
		peer_len = nw_address(&peer, family, &note.to);
		memcpy(address, &peer, *len < peer_len ? *len : peer_len);
		*len = peer_len;
		errno = error;
		return 0;
	}
	errno = error;
	return real_getpeername(fd, address, len);
}
