/* SPDX-License-Identifier: Apache-2.0
 *
 * waits_for.h - what a thread that sleeps waits for, as it was read from outside (inspect/wait), and the words for it.
 * One struct from the reader to the sink: a record carries it (schemas/outside.h), the model keeps it with the thread.
 * The texts are pure functions of it.
 */
#ifndef RANKTRACE_WAITS_FOR_H
#define RANKTRACE_WAITS_FOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers are those of records: schemas/outside.h. Name in JSON. */
/* clang-format off */
#define WAITS_KINDS(X) \
	X(UNKNOWN, "")            /* it runs, or it cannot be read */ \
	X(SOCKET, "socket")       /* the other side of a connection */ \
	X(CHILD, "child")         /* the end of a child, or data that it writes */ \
	X(THREAD, "thread")       /* the end of another thread */ \
	X(LOCK, "lock")           /* a mutex, held by another thread */ \
	X(CONDITION, "condition") /* what another thread is to say; which cannot be read */ \
	X(TIMER, "timer")         /* nothing but time */ \
	X(FILE, "file") \
	X(PIPE, "pipe")           /* the other end of a pipe or FIFO */ \
	X(EVENT, "event")         /* an eventfd, inotify, a device */ \
	X(SIGNAL, "signal")
#define WAITS_ACTS(X) \
	X(READ) X(WRITE) X(OPEN) X(CONNECT) X(ACCEPT) X(FLUSH) X(END) X(OTHER)
/* clang-format on */

enum waits_kind {
#define X(id, name) WAITS_##id,
	WAITS_KINDS(X)
#undef X
		WAITS_KIND_MAX
};

enum waits_act {
#define X(id) WAITS_TO_##id,
	WAITS_ACTS(X)
#undef X
		WAITS_ACT_MAX
};

enum waits_flag {
	WAITS_MOVES = 1,     /* between two samples bytes came or went, or whom it waits for worked */
	WAITS_STANDS = 2,    /* nothing did. Neither: there was one sample */
	WAITS_AGAIN = 4,     /* the same wait, begun anew between two samples */
	WAITS_OWN = 8,       /* the other end is its own process' */
	WAITS_UNOPENED = 16, /* the other end is open nowhere on this host */
	WAITS_UNIX = 32,     /* a socket of this host: `what` is its path, "" none */
	WAITS_UDP = 64,
};

struct waits_for {
	uint64_t ns; /* when it was read, CLOCK_MONOTONIC; 0 never */
	enum waits_kind kind;
	enum waits_act act;   /* what it wants of a socket, file or pipe; of a child END or READ */
	uint32_t flags;       /* of enum waits_flag */
	uint32_t pid, thread; /* process at the other end, child; thread that holds the lock. 0 none or not known */
	uint32_t n;           /* it may be one of so many; this is the likeliest. 0 or 1: there is one */
	uint64_t since_ns;    /* a socket's last byte came then; a child began then; 0 not known */
	uint64_t length_ns;   /* of a timer; 0 not known */
	uint64_t until_ns;    /* a timer's end; 0 not known */
	const char *what;     /* path, "10.0.0.7:443", "eventfd"; "" none or not known */
	const char *who;      /* name of that process or thread; "" not known */
	const char *activity; /* what that one does itself; of WAITS_TO_OTHER the system call; "" not known */
};

const char *waits_kind_name(enum waits_kind kind); /* as JSON has it; "" nothing known */
/* One short sentence without its subject: "waits for an answer of 10.0.0.7:443 (no byte for 8.2 s)"; "" nothing known.
 * Times are as of `ns`. */
void wait_text(const struct waits_for *w, char *to, size_t size);
/* What to do about it, a sentence for people; "" there is nothing to say. */
void wait_remedy(const struct waits_for *w, char *to, size_t size);

#endif
