// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
/*
 * Registers the controls that are built in. Each is there from the start as nw_NAME,
 * with its default parameters and without reports. /proc/narrows registers more, for
 * root of the machine:
 *
 *	open, write at 0	registers a control, struct nw_request with the
 *				parameters behind it; closing takes it back
 *	read at 0		records since the last read, whole ones; 0 bytes if none
 *	read at COUNTERS	struct nw_counters
 *	write, read at OPTIONS + fd	the parameters of a socket that runs it, by its
 *				descriptor; 0 bytes where they are the control's
 *
 * and says, to who reads without having written, the names of the algorithms.
 */
#include <linux/net.h>
#include <linux/proc_fs.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include "kernel.h"
#include "registry.h"

#define NW_AT_OPTIONS	(1LL << 40)
#define NW_AT_COUNTERS	(1LL << 41)

#define NW_RING_STATE	(4U << 20)	/* bytes, as the BPF build's rings */
#define NW_RING_FULL	(64U << 20)
#define NW_TRACE_FULL	2		/* enum nw_trace */

struct nw_request {
	char algorithm[TCP_CA_NAME_MAX];
	char name[TCP_CA_NAME_MAX];
	u32 flags;		/* of struct tcp_congestion_ops */
	u32 params_size;	/* bytes behind this */
	struct nw_settings settings;
};

struct nw_counters {
	u64 dropped;
	u32 sockets;
	u32 unused;
};

#define NW_ROW(name)	&nw_algorithm_##name,
static const struct nw_algorithm *const nw_algorithms[] = { NW_CONTROLS(NW_ROW) };

#ifdef TCP_CONG_NEEDS_ACCECN
#define NW_ACCECN_FLAG	TCP_CONG_NEEDS_ACCECN
#else
#define NW_ACCECN_FLAG	0
#endif
#define NW_FLAGS	(TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN | NW_ACCECN_FLAG)

void *nw_ring_reserve(struct nw_registered *registered)
{
	struct nw_ring *ring = &registered->ring;
	unsigned long flags;
	void *slot = NULL;
	u32 at;

	/* A hook of a task's call may be interrupted by one of a packet. */
	local_irq_save(flags);
	if (ring->written - ring->read < ring->slots) {
		div_u64_rem(ring->written++, ring->slots, &at);
		slot = ring->bytes + (size_t)at * ring->slot_size;
	} else {
		registered->dropped++;
	}
	local_irq_restore(flags);
	return slot;
}

static struct nw_registered *nw_register(const struct nw_algorithm *algorithm,
					 const char *name, u32 flags,
					 const struct nw_settings *settings,
					 const void *params)
{
	struct nw_registered *registered;
	struct nw_ring *ring;
	u32 size;
	int ret;

	registered = kzalloc(sizeof(*registered) + sizeof(*settings) +
			     algorithm->params_size, GFP_KERNEL);
	if (!registered)
		return ERR_PTR(-ENOMEM);
	registered->ops = *algorithm->ops;
	registered->algorithm = algorithm;
	memcpy(registered->config, settings, sizeof(*settings));
	memcpy(registered->config + sizeof(*settings), params, algorithm->params_size);
	strscpy(registered->ops.name, name, sizeof(registered->ops.name));
	registered->ops.flags = flags;
	if (settings->ect1)
		registered->ops.flags |= TCP_CONG_NW_ECT_1;
	ring = &registered->ring;
	if (settings->trace) {
		size = settings->trace == NW_TRACE_FULL ? NW_RING_FULL : NW_RING_STATE;
		ring->slot_size = algorithm->report_size;
		ring->slots = size / ring->slot_size;
		ring->bytes = vmalloc(size);
		if (!ring->bytes) {
			kfree(registered);
			return ERR_PTR(-ENOMEM);
		}
	}
	ret = tcp_register_congestion_control(&registered->ops);
	if (ret) {
		vfree(ring->bytes);
		kfree(registered);
		return ERR_PTR(ret);
	}
	return registered;
}

/* The rest stays: sockets and namespaces may refer to it as long as they are, and a
 * kernel in virtual time does not live long.
 */
static void nw_unregister(struct nw_registered *registered)
{
	tcp_unregister_congestion_control(&registered->ops);
	registered->ring.slots = 0;
	registered->ring.written = registered->ring.read;
	vfree(registered->ring.bytes);
	registered->ring.bytes = NULL;
}

static const struct nw_algorithm *nw_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(nw_algorithms); i++)
		if (!strcmp(nw_algorithms[i]->name, name))
			return nw_algorithms[i];
	return NULL;
}

static ssize_t nw_write_control(struct file *file, const char __user *from, size_t count)
{
	const struct nw_algorithm *algorithm;
	struct nw_registered *registered;
	struct nw_request request;
	void *params;

	if (file->private_data)
		return -EBUSY;
	if (count < sizeof(request) || copy_from_user(&request, from, sizeof(request)))
		return -EINVAL;
	request.algorithm[TCP_CA_NAME_MAX - 1] = 0;
	request.name[TCP_CA_NAME_MAX - 1] = 0;
	algorithm = nw_find(request.algorithm);
	if (!algorithm)
		return -ENOENT;
	if (request.flags & ~NW_FLAGS)
		return -EOPNOTSUPP;
	if (request.params_size != algorithm->params_size ||
	    count != sizeof(request) + request.params_size)
		return -EINVAL;
	params = memdup_user(from + sizeof(request), request.params_size);
	if (IS_ERR(params))
		return PTR_ERR(params);
	registered = nw_register(algorithm, request.name, request.flags,
				 &request.settings, params);
	kfree(params);
	if (IS_ERR(registered))
		return PTR_ERR(registered);
	file->private_data = registered;
	return count;
}

static ssize_t nw_read_records(struct nw_registered *registered, char __user *to,
			       size_t count)
{
	struct nw_ring *ring = &registered->ring;
	size_t done = 0;
	u32 at;

	while (ring->read < ring->written && count - done >= ring->slot_size) {
		div_u64_rem(ring->read, ring->slots, &at);
		if (copy_to_user(to + done, ring->bytes + (size_t)at * ring->slot_size,
				 ring->slot_size))
			return -EFAULT;
		ring->read++;
		done += ring->slot_size;
	}
	return done;
}

/* Sets or reads the parameters of the TCP socket `fd`, which runs this control. */
static ssize_t nw_with_socket(struct nw_registered *registered, int fd, const void **params,
			      bool set)
{
	struct socket *socket;
	struct sock *sk;
	int ret = 0;

	socket = sockfd_lookup(fd, &ret);
	if (!socket)
		return ret;
	sk = socket->sk;
	if (sk_is_tcp(sk)) {
		lock_sock(sk);
		if (inet_csk(sk)->icsk_ca_ops != &registered->ops)
			ret = -ENOENT;
		else if (set)
			nw_private(tcp_sk(sk))->params = *params;
		else
			*params = nw_private(tcp_sk(sk))->params;
		release_sock(sk);
	} else {
		ret = -ENOTSOCK;
	}
	sockfd_put(socket);
	return ret;
}

/* A socket's former parameters stay, as connections of a listener may have them. */
static ssize_t nw_write_options(struct nw_registered *registered, int fd,
				const char __user *from, size_t count)
{
	const void *params;
	ssize_t ret;

	if (count != registered->algorithm->params_size)
		return -EINVAL;
	params = memdup_user(from, count);
	if (IS_ERR(params))
		return PTR_ERR(params);
	ret = nw_with_socket(registered, fd, &params, true);
	if (ret) {
		kfree(params);
		return ret;
	}
	return count;
}

static ssize_t nw_read_options(struct nw_registered *registered, int fd, char __user *to,
			       size_t count)
{
	const void *params = NULL;
	ssize_t ret = nw_with_socket(registered, fd, &params, false);

	if (ret || !params)
		return ret;
	count = min_t(size_t, count, registered->algorithm->params_size);
	return copy_to_user(to, params, count) ? -EFAULT : (ssize_t)count;
}

static ssize_t nw_read_counters(struct nw_registered *registered, char __user *to,
				size_t count)
{
	struct nw_counters counters = {
		.dropped = registered->dropped,
		.sockets = registered->sockets,
	};

	count = min_t(size_t, count, sizeof(counters));
	return copy_to_user(to, &counters, count) ? -EFAULT : (ssize_t)count;
}

static ssize_t nw_read_names(char __user *to, size_t count, loff_t *at)
{
	char names[256];
	size_t i, end = 0;

	for (i = 0; i < ARRAY_SIZE(nw_algorithms); i++)
		end += scnprintf(names + end, sizeof(names) - end, "%s\n",
				 nw_algorithms[i]->name);
	return simple_read_from_buffer(to, count, at, names, end);
}

static ssize_t nw_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	struct nw_registered *registered = file->private_data;

	if (!registered)
		return nw_read_names(to, count, at);
	if (*at >= NW_AT_COUNTERS)
		return nw_read_counters(registered, to, count);
	if (*at >= NW_AT_OPTIONS)
		return nw_read_options(registered, *at - NW_AT_OPTIONS, to, count);
	return nw_read_records(registered, to, count);
}

static ssize_t nw_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	if (*at == 0)
		return nw_write_control(file, from, count);
	if (*at < NW_AT_OPTIONS || *at >= NW_AT_COUNTERS || !file->private_data)
		return -EINVAL;
	return nw_write_options(file->private_data, *at - NW_AT_OPTIONS, from, count);
}

static int nw_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL;
	return 0;
}

static int nw_release(struct inode *inode, struct file *file)
{
	if (file->private_data)
		nw_unregister(file->private_data);
	return 0;
}

static const struct proc_ops nw_proc_ops = {
	.proc_open = nw_open,
	.proc_read = nw_read,
	.proc_write = nw_write,
	.proc_lseek = noop_llseek,
	.proc_release = nw_release,
};

/* The feedback and the flags that the loader of the BPF build chooses for a control
 * of which nothing else is said.
 */
static int nw_register_default(const struct nw_algorithm *algorithm)
{
	u32 needs = algorithm->needs(algorithm->defaults);
	u32 flags = TCP_CONG_NON_RESTRICTED;
	struct nw_settings settings = { .ect1 = !!(needs & NW_NEEDS_ECT1) };
	struct nw_registered *registered;
	char name[TCP_CA_NAME_MAX];

	if (needs & (NW_NEEDS_ECN | NW_NEEDS_ACCECN)) {
		flags |= TCP_CONG_NEEDS_ECN;
		settings.ecn_bits = NW_ECN_RFC3168 | NW_ECN_ACCECN;
	}
	if (needs & NW_NEEDS_ACCECN) {
		flags |= NW_ACCECN_FLAG;
		if (NW_ACCECN_FLAG)
			settings.ecn_bits = NW_ECN_ACCECN;
		else
			settings.dctcp_feedback = 1;
	}
	snprintf(name, sizeof(name), "nw_%s", algorithm->name);
	registered = nw_register(algorithm, name, flags, &settings, algorithm->defaults);
	return PTR_ERR_OR_ZERO(registered);
}

static int __init nw_init(void)
{
	size_t i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(nw_algorithms); i++) {
		ret = nw_register_default(nw_algorithms[i]);
		if (ret)
			return ret;
	}
	return proc_create("narrows", 0600, NULL, &nw_proc_ops) ? 0 : -ENOMEM;
}
late_initcall(nw_init);
