/* SPDX-License-Identifier: Apache-2.0
 *
 * wait_call.c - what a system call waits for, by its number, and what the memory that its arguments point at says.
 * Pure.
 */
#include "inspect/wait/wait_private.h"

#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#define ROW(name, ask, act) [SYS_##name] = { ASK_##ask, WAITS_TO_##act, NULL }
#define EVENT(name, text) [SYS_##name] = { ASK_EVENT, WAITS_TO_OTHER, text }

static const struct wait_call rows[] = {
	ROW(read, FD, READ),
	ROW(readv, FD, READ),
	ROW(pread64, FD, READ),
	ROW(preadv, FD, READ),
	ROW(preadv2, FD, READ),
	ROW(recvfrom, FD, READ),
	ROW(recvmsg, FD, READ),
	ROW(recvmmsg, FD, READ),
	ROW(splice, FD, READ),
	ROW(write, FD, WRITE),
	ROW(writev, FD, WRITE),
	ROW(pwrite64, FD, WRITE),
	ROW(pwritev, FD, WRITE),
	ROW(pwritev2, FD, WRITE),
	ROW(sendto, FD, WRITE),
	ROW(sendmsg, FD, WRITE),
	ROW(sendmmsg, FD, WRITE),
	ROW(sendfile, FD, WRITE),
	ROW(connect, FD, CONNECT),
	ROW(accept, FD, ACCEPT),
	ROW(accept4, FD, ACCEPT),
	ROW(fsync, FD, FLUSH),
	ROW(fdatasync, FD, FLUSH),
	ROW(sync_file_range, FD, FLUSH),
	ROW(syncfs, FD, FLUSH),
	ROW(openat, FILE, OPEN),
	ROW(openat2, FILE, OPEN),
	ROW(flock, LOCK, OTHER),
	ROW(fcntl, FCNTL, OTHER),
	ROW(ppoll, POLL, READ),
	ROW(pselect6, SELECT, READ),
	ROW(epoll_pwait, EPOLL, READ),
	ROW(epoll_pwait2, EPOLL, READ),
	ROW(wait4, WAIT4, END),
	ROW(waitid, WAITID, END),
	ROW(futex, FUTEX, OTHER),
	ROW(nanosleep, SLEEP, OTHER),
	ROW(clock_nanosleep, SLEEP, OTHER),
	ROW(rt_sigsuspend, SIGNAL, OTHER),
	ROW(rt_sigtimedwait, SIGNAL, OTHER),
	EVENT(io_uring_enter, "io_uring"),
	EVENT(io_getevents, "asynchronous I/O"),
	EVENT(msgrcv, "message queue"),
	EVENT(mq_timedreceive, "message queue"),
	EVENT(semtimedop, "semaphore"),
#ifdef __x86_64__
	ROW(open, FILE, OPEN),
	ROW(creat, FILE, OPEN),
	ROW(poll, POLL, READ),
	ROW(select, SELECT, READ),
	ROW(epoll_wait, EPOLL, READ),
	ROW(pause, SIGNAL, OTHER),
	EVENT(semop, "semaphore"),
#endif
};

struct wait_call wait_call_of(int nr)
{
	struct wait_call none = { ASK_NOTHING, WAITS_TO_OTHER, NULL };

	if (nr < 0)
		return none;
	if ((size_t)nr < sizeof(rows) / sizeof(rows[0]) && rows[nr].ask)
		return rows[nr];
	none.ask = ASK_FILE; /* if the evidence has one */
	return none;
}

/* --- descriptors --- */

size_t wait_pollfds_take(const void *bytes, size_t len, struct wait_fd *fds, size_t max)
{
	size_t n = 0;

	for (size_t at = 0; at + sizeof(struct pollfd) <= len && n < max; at += sizeof(struct pollfd)) {
		struct pollfd p;

		memcpy(&p, (const char *)bytes + at, sizeof(p));
		if (p.fd >= 0)
			fds[n++] = (struct wait_fd){ p.fd, p.events & POLLOUT && !(p.events & POLLIN) ? WAITS_TO_WRITE
												      : WAITS_TO_READ };
	}
	return n;
}

size_t wait_fdset_take(const void *bytes, size_t len, enum waits_act act, struct wait_fd *fds, size_t max)
{
	const uint8_t *set = bytes;
	size_t n = 0;

	for (size_t i = 0; i < 8 * len && n < max; i++)
		if (set[i / 8] & 1u << i % 8)
			fds[n++] = (struct wait_fd){ i, act };
	return n;
}

size_t wait_epoll_take(const char *text, struct wait_fd *fds, size_t max)
{
	size_t n = 0;
	unsigned events;
	int fd;

	for (const char *at = strstr(text, "tfd:"); at && n < max; at = strstr(at + 4, "tfd:"))
		if (sscanf(at, "tfd: %d events: %x", &fd, &events) == 2 && fd >= 0)
			fds[n++] = (struct wait_fd){ fd, events & EPOLLOUT && !(events & EPOLLIN) ? WAITS_TO_WRITE
												  : WAITS_TO_READ };
	return n;
}

uint64_t wait_time_take(const void *bytes, size_t len, unsigned unit_ns)
{
	int64_t t[2];

	if (len < sizeof(t))
		return 0;
	memcpy(t, bytes, sizeof(t));
	if (t[0] < 0 || t[0] > 4000000000ll || t[1] < 0 || t[1] >= 1000000000 / unit_ns)
		return 0;
	return (uint64_t)t[0] * 1000000000ull + (uint64_t)t[1] * unit_ns;
}

/* --- locks --- */

#define MUTEX_CONTENDED 2     /* glibc: the word of a lock that others wait for */
#define MUTEX_KINDS 0x3       /* of pthread_mutex_t.__kind: normal, recursive, error checking, adaptive */
#define MUTEX_KINDS_ALL 0x3ff /* and its flags */

struct mutex { /* glibc's pthread_mutex_t, as far as it has been the same since 2.4 */
	uint32_t lock;
	uint32_t count, owner, users, kind; /* of 64-bit machines */
};

static bool is_mutex(const struct mutex *m, uint32_t val)
{
	return val == MUTEX_CONTENDED && m->lock == val && m->owner && m->users && !(m->kind & ~MUTEX_KINDS_ALL) &&
	       (m->count == 0 || (m->kind & MUTEX_KINDS) == 1);
}

struct wait_futex wait_futex_of(const void *bytes, size_t len, uint32_t op, uint32_t val)
{
	struct wait_futex f = { .kind = WAITS_CONDITION };
	uint32_t command = op & FUTEX_CMD_MASK;
	struct mutex m = { 0 };

	memcpy(&m, bytes, len < sizeof(m) ? len : sizeof(m));
	if (command == FUTEX_LOCK_PI || command == 13 /* FUTEX_LOCK_PI2 */) {
		f.kind = WAITS_LOCK;
		f.owner = m.lock & FUTEX_TID_MASK;
	} else if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) {
		return f;
	} else if (len >= sizeof(m) && is_mutex(&m, val)) {
		f.kind = WAITS_LOCK;
		f.owner = m.owner;
	} else if (val & FUTEX_WAITERS && m.lock == val && val & FUTEX_TID_MASK) { /* robust */
		f.kind = WAITS_LOCK;
		f.owner = val & FUTEX_TID_MASK;
	} else if (!(op & FUTEX_PRIVATE_FLAG) && val &&
		   m.lock == val) { /* the word that the kernel clears at its end */
		f.kind = WAITS_THREAD;
		f.owner = val;
	}
	return f;
}
