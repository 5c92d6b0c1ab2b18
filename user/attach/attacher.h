/* SPDX-License-Identifier: Apache-2.0
 *
 * attacher.h - the thread that puts links in place. The kernel lets no probe in while any process of the host, of
 * whatever user, is in the middle of a fork: a big one, or one among thousands, makes an attach sleep for seconds. The
 * loop must not: it hands one attach over, waits a moment, and comes back for what became of it.
 */
#ifndef RANKTRACE_ATTACHER_H
#define RANKTRACE_ATTACHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct attached;
struct batch;
struct bpf_link;
struct bpf_program;
struct detacher;

struct attacher;

/* Probes of one program and side, in one process. What it points to is borrowed for the call alone. */
struct attach_order {
	const struct bpf_program *program;
	uint32_t tgid, lib_id;
	uint64_t start_ns; /* of the process */
	int fd;            /* of the file */
	const struct batch *batch;
	bool at_return;
	bool by_wall_clock; /* what it costs: the time that passed, not the CPU's */
};

/* What became of it. */
struct attach_made {
	struct bpf_link *link; /* the caller's; NULL: err */
	int err;
	size_t n;         /* probes */
	uint64_t took_ns; /* in all */
	bool at_return;
};

struct attacher *attacher_new(void); /* NULL: out of memory; its thread begins with the first order */
/* For `of`: 0 it was taken, -EBUSY another one is being attached, or -errno. */
int attacher_order(struct attacher *t, struct attached *of, const struct attach_order *order);
/* True: something became of it, for *ret_of; waits for it for so long at most. */
bool attacher_take(struct attacher *t, uint64_t wait_ns, struct attached **ret_of, struct attach_made *ret);
bool attacher_works_on(const struct attacher *t, const struct attached *of); /* and was not taken yet */
bool attacher_is_busy(const struct attacher *t);
/* No attach waits for this one any more: its links go to the detacher once they are there. */
void attacher_forget(struct attacher *t, const struct attached *of);
/* It has links of this library under way. */
bool attacher_holds(const struct attacher *t, uint32_t lib_id);
/* Call it now and then: closes what no attach waits for. */
void attacher_poll(struct attacher *t, struct detacher *d);
/* Waits for what is under way; a link that comes too late is closed by the end of the process. */
void attacher_free(struct attacher *t, struct detacher *d);

#endif
