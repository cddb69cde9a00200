/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A TCP connection by the split proxy (`narrows pep serve`), in the place of socket() and
 * connect(). The proxy is asked by RFC 8803, in the SYN where a Fast Open cookie is known
 * (RFC 7413) and after the plain handshake otherwise; where it is missing or refuses, the
 * connection is opened directly.
 *
 *	struct narrows_via via = { .proxy = &proxy, .proxy_len = sizeof(proxy) };
 *	struct narrows_how how;
 *	int fd = narrows_connect(to, to_len, &via, &how);
 *
 * Link with -lnarrows_pep_client (`cargo build --release -p narrows-pep-client`).
 */
#ifndef NARROWS_CONNECT_H
#define NARROWS_CONNECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* flags: by the proxy or not at all */
#define NARROWS_ONLY		1U

/* bytes of narrows_via.early at most */
#define NARROWS_MOST_EARLY	16384U

enum narrows_way {
	NARROWS_BY_PROXY	= 1,
	/* it did not answer in time, or is not there: narrows_how.error says why */
	NARROWS_PROXY_MISSING	= 2,
	/* it refused: narrows_how.fault says why */
	NARROWS_PROXY_REFUSED	= 3,
};

/* How to go. Fields that are 0 have the defaults. */
struct narrows_via {
	const struct sockaddr *proxy;	/* IPv4 or IPv6 */
	socklen_t proxy_len;
	uint32_t flags;			/* NARROWS_ONLY or 0 */
	uint32_t patience_ms;		/* for the proxy and, behind it, the destination to
					 * accept; then it is missing. 0: 3000
					 */
	uint32_t direct_ms;		/* for a direct connection to open. 0: the system's
					 * time, about two minutes
					 */
	/*
	 * What is sent first, with the request. Only what the destination may get twice: a
	 * SYN that is repeated brings it again, and so does the direct way when the proxy
	 * has passed it on and was too slow to say so. It is sent whole by the time that the
	 * call returns a connection; none of it needs to be sent again.
	 */
	const void *early;
	size_t early_len;		/* 0 to NARROWS_MOST_EARLY */
};

/* How it went. */
struct narrows_how {
	int way;	/* enum narrows_way; that of a call that returned -1 says what the
			 * proxy did, and is 0 where nothing was tried
			 */
	int error;	/* of NARROWS_PROXY_MISSING: a number of errno */
	int fault;	/* of NARROWS_PROXY_REFUSED: the code of RFC 8803, section 4.2.8 */
};

/*
 * Opens a connection to `to` (IPv4 or IPv6) and returns its descriptor once the destination
 * has accepted. It blocks, has close-on-exec set and no other option; what is read first is
 * the destination's. The call takes patience_ms and then direct_ms at most; a signal does not
 * end it. It may be called from several threads at once. `how` may be NULL.
 *
 * Returns -1 with errno set if there is no connection either way. Besides those of connect(2):
 * EFAULT of a pointer that is NULL, EAFNOSUPPORT of an address that is neither IPv4 nor IPv6
 * or shorter than one, EINVAL of an unknown flag or an early_len that is too large, and with
 * NARROWS_ONLY EACCES if the proxy does not let us, EHOSTUNREACH or ECONNREFUSED if it found
 * the destination so, and EPROTO if it answered anything else.
 */
int narrows_connect(const struct sockaddr *to, socklen_t to_len,
		    const struct narrows_via *via, struct narrows_how *how);

#ifdef __cplusplus
}
#endif

#endif /* NARROWS_CONNECT_H */
