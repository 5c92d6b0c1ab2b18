/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.c - see wire.h.
 */
#include "tools/stress/nccl/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define MAGIC 0x73736c63u
#define WHOLE_NS 20000000000ull
#define SLICE_MS 60000 /* of a wait without end */

struct head {
	uint32_t magic, type, bytes;
};

static int whole_send(int fd, const void *from, size_t bytes)
{
	while (bytes) {
		ssize_t n = send(fd, from, bytes, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -ECONNRESET;
		from = (const char *)from + n;
		bytes -= n;
	}
	return 0;
}

int wire_send(int fd, enum wire_type type, const void *body, uint32_t bytes)
{
	struct head head = { MAGIC, type, bytes };
	int err = whole_send(fd, &head, sizeof(head));

	return err ? err : whole_send(fd, body, bytes);
}

static int readable_wait(int fd, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t left_ms = now_ns < deadline_ns ? (deadline_ns - now_ns) / 1000000 + 1 : 0;
	int n = poll(&p, 1, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS);

	return n > 0 ? 0 : n < 0 ? -errno : left_ms > SLICE_MS ? -EINTR : -ETIMEDOUT;
}

static int whole_receive(int fd, void *to, size_t bytes, uint64_t deadline_ns)
{
	while (bytes) {
		int err = readable_wait(fd, deadline_ns);
		ssize_t n = err ? 0 : recv(fd, to, bytes, 0);

		if (err == -EINTR || (!err && n < 0 && errno == EINTR))
			continue;
		if (err)
			return err;
		if (n <= 0)
			return -ECONNRESET;
		to = (char *)to + n;
		bytes -= n;
	}
	return 0;
}

/* What has begun before the deadline is received whole: who asks again would find its middle. */
int wire_receive(int fd, enum wire_type *type, void *body, uint64_t deadline_ns)
{
	struct head head;
	uint64_t whole_ns;
	int err;

	while ((err = readable_wait(fd, deadline_ns)) == -EINTR)
		;
	*type = 0;
	if (err)
		return err;
	whole_ns = clock_monotonic_ns() + WHOLE_NS;
	err = whole_receive(fd, &head, sizeof(head), whole_ns);
	if (!err && (head.magic != MAGIC || head.bytes > WIRE_BODY_MAX))
		err = -EPROTO;
	if (!err)
		err = whole_receive(fd, body, head.bytes, whole_ns);
	*type = err ? 0 : head.type;
	return err == -ETIMEDOUT ? -ECONNRESET : err; /* the rest of it never came */
}

bool wire_waits(int fd)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) > 0;
}

const char *wire_host_name(char *name, size_t size)
{
	const char *given = getenv("NCCL_HOSTID");

	if (given && *given)
		snprintf(name, size, "%s", given);
	else if (gethostname(name, size))
		snprintf(name, size, "?");
	name[size - 1] = 0;
	return name;
}
