/* SPDX-License-Identifier: Apache-2.0
 *
 * detach.h - closes uprobe links beside the loop.
 *
 * A close waits for an RCU grace period (50 ms measured on 6.18, up to 250 ms reported on 6.8); one after the other,
 * the links of 8 ranks would block the collector for 8 s. Links on a file that must not be touched now (attach_guard.h)
 * wait. Those that still wait when the collector ends go to a process of their own.
 */
#ifndef RANKTRACE_DETACH_H
#define RANKTRACE_DETACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct bpf_link;
struct detacher;

/* `may_close` decides whether links on this library may be closed now. NULL: out of memory. */
struct detacher *detacher_new(bool (*may_close)(void *to, uint32_t lib_id), void *to);
struct detach_of { /* whose links, on what */
	uint32_t lib_id;
	uint32_t tgid; /* 0: of every process */
	uint64_t start_ns;
};

/* Takes ownership of the array and the `n` links on a library, and closes them in a thread as soon as that is allowed
 * (in this thread if memory is short). */
void detacher_close(struct detacher *d, struct bpf_link **links, int n, const struct detach_of *of);
/* Closes links that waited and may be closed by now. Call it a few times a second. */
void detacher_poll(struct detacher *d);
int detacher_waiting(const struct detacher *d); /* number of links that wait */
bool detacher_waits_on(const struct detacher *d, uint32_t lib_id);
bool detacher_holds(struct detacher *d, uint32_t lib_id); /* its links wait, or are being closed */
/* Are links of this process still in place, on a library that `is_same(to, that, of->lib_id)`? What is attached beside
 * them sees each call twice. */
bool detacher_closes(struct detacher *d, const struct detach_of *of,
		     bool (*is_same)(const void *to, uint32_t a, uint32_t b), const void *to);
/* Moves the waiting links to a process of their own, which holds nothing else and ends with the last of them; it runs
 * `settle(to)` first. Waits for all closes under way here. Returns the pid, or -errno: the waiting links stay here. */
pid_t detacher_leave(struct detacher *d, int (*settle)(void *to), void *to);
/* Waits for all closes; links that still wait are closed now. */
void detacher_free(struct detacher *d);

#endif
