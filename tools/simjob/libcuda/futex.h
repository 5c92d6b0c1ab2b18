/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futex wait and wake, and the clock that every part of the simulated job shares (CLOCK_MONOTONIC).
 * All words may lie in memory shared by processes, so no call uses the private flag. Deadlines are
 * absolute: a late wake-up shortens the next wait instead of adding to it.
 */
#ifndef SIMJOB_FUTEX_H
#define SIMJOB_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC 1000000000ULL
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_USEC 1000ULL

static inline struct timespec timespec_from_ns(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };
}

static inline uint64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* Waits until *word is no longer @expected, a wake-up, or @deadline_ns (0: none). True when the deadline passed. */
static inline bool futex_wait(const _Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns)
{
	struct timespec deadline = timespec_from_ns(deadline_ns);
	long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, deadline_ns ? &deadline : NULL, NULL,
			  FUTEX_BITSET_MATCH_ANY);

	return rc < 0 && errno == ETIMEDOUT;
}

static inline void futex_wake_all(const _Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
