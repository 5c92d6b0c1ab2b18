/* SPDX-License-Identifier: Apache-2.0
 *
 * target_threads.c - see target_threads.h.
 */
#include "session/parts/target_threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/discover/discover.h"
#include "schemas/collector.h"
#include "uthash.h"

#define THREADS_AT_ONCE 1024 /* 40 ms; more than ranks have */

struct target_threads { /* a thread */
	uint32_t tid;
	char name[WIRE_COMM_LEN];
	UT_hash_handle hh;
};

void target_threads_free(struct target_threads **t)
{
	struct target_threads *n, *next;

	HASH_ITER (hh, *t, n, next) {
		HASH_DELETE(hh, *t, n);
		free(n);
	}
}

static int thread_emit(struct target_threads **t, uint32_t tgid, const struct target_thread *th, uint64_t now_ns,
		       int (*emit)(void *to, const struct wire_hdr *rec), void *to)
{
	struct record_thread f = { .hdr = { .size = sizeof(f),
					    .tracer = WIRE_COLLECTOR,
					    .kind = RECORD_THREAD,
					    .tgid = tgid,
					    .tid = th->tid,
					    .ts_ns = now_ns } };
	struct target_threads *n;

	HASH_FIND(hh, *t, &th->tid, sizeof(th->tid), n);
	if (n && !strncmp(n->name, th->name, sizeof(n->name)))
		return 0;
	if (!n) {
		n = calloc(1, sizeof(*n));
		if (!n)
			return -ENOMEM;
		n->tid = th->tid;
		HASH_ADD(hh, *t, tid, sizeof(n->tid), n);
	}
	memcpy(n->name, th->name, sizeof(n->name));
	memcpy(f.name, th->name, sizeof(f.name));
	return emit(to, &f.hdr);
}

int target_threads_emit(struct target_threads **t, size_t *from, uint32_t tgid, uint64_t now_ns,
			int (*emit)(void *to, const struct wire_hdr *rec), void *to)
{
	struct target_thread *threads = NULL;
	size_t n = 0;
	int err = 0;

	if (target_threads_read_some(tgid, *from, THREADS_AT_ONCE, &threads, &n))
		return 0; /* the process is gone: its exit is recorded */
	*from = n < THREADS_AT_ONCE ? 0 : *from + n;
	for (size_t i = 0; !err && i < n; i++)
		err = thread_emit(t, tgid, &threads[i], now_ns, emit, to);
	free(threads);
	return err;
}
