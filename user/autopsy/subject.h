/* SPDX-License-Identifier: Apache-2.0
 *
 * subject.h - the processes an autopsy looks at: their communicators once found, their threads, and the records of each
 * look. Trouble with one process is a flag of it, never a failure of the look.
 */
#ifndef RANKTRACE_SUBJECT_H
#define RANKTRACE_SUBJECT_H

#include "tracers/nccl/comm_places.h"

struct subject_thread;
struct target_stacks;

struct subject {
	const struct target_proc *proc; /* the set's: valid until its next scan */
	struct comm_places comms;
	struct nccl_places *found; /* while they are looked for */
	struct nccl_scan_at at;
	bool cut_short; /* time was up before the memory was through */
	struct subject_thread *threads;
	size_t n_threads;
	struct target_stacks *stacks; /* while they are read: subject_stacks.c */
	uint64_t stacks_ns;
	int stacks_err;
};

#define SUBJECT_READERS_MAX 8 /* processes looked at at once */

struct subjects {
	struct reader *reader;         /* of what is done one after the other */
	struct reader *const *readers; /* the same and more, for work side by side */
	size_t n_readers;
	struct layout_cache layouts;
	struct subject *all;
	size_t n, cap;
	int n_comms;
	bool scans_told;
	uint64_t find_until_ns, stacks_until_ns;
};

typedef int subject_emit(void *to, const struct wire_hdr *rec);

int subjects_add(struct subjects *s, const struct target_proc *p); /* 0 or -ENOMEM */
void subjects_free(struct subjects *s);
/* Who they are, and their threads' names. All emit() errors are returned. */
int subjects_tell(struct subjects *s, subject_emit *emit, void *to);
/* Learns the layouts and finds the communicators: once, before the first look. Where every rank shows one, what is left
 * of their memory, its large mappings, is looked through for so long at most. */
int subjects_comms_find(struct subjects *s, uint64_t find_ns);
/* All communicators, with one time for all: as of then. */
int subjects_comms_look(struct subjects *s, subject_emit *emit, void *to);
/* How far the network transfers of all are. */
int subjects_proxies_look(struct subjects *s, subject_emit *emit, void *to);
/* All threads; with its evidence each that stayed blocked since the last look, and where the main threads sit. */
int subjects_tasks_look(struct subjects *s, subject_emit *emit, void *to);

#endif
