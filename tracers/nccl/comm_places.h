/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_places.h - the communicators of one process, as they lie in its memory: where (found whole or in pieces), whose
 * generation, and one sample of all of them as records. Trouble with the process is a flag, never a failure.
 */
#ifndef RANKTRACE_COMM_PLACES_H
#define RANKTRACE_COMM_PLACES_H

#include "schemas/wire.h"
#include "inspect/discover/discover.h"
#include "tracers/nccl/nccl_state.h"

/* What was known, and is not there any more: destroyed, aborted, or its memory is freed. */
struct comm_gone {
	uint64_t addr, hash;
};

struct comm_places { /* zeroed is empty */
	struct nccl_layout layouts[NCCL_LAYOUTS_MAX];
	size_t n_layouts;
	struct nccl_place *places;
	struct nccl_state *states; /* of places, as first read: their generation */
	size_t n_places;
	struct comm_gone *gone; /* not handed out yet */
	size_t n_gone, cap_gone;
	bool has_nccl, denied, no_layout, held, uncounted, cut;
	bool standing; /* its counters do not count: nccl_counters_stand() */
};

/* Many ranks map one file, and its DWARF is large: asked once for each file. Zeroed is empty. */
struct layout_cache {
	struct layout_known *rows;
};
void layout_cache_free(struct layout_cache *c);

void comm_places_free(struct comm_places *c);
/* The layouts of the NCCLs that the process maps: once, and again when its libraries changed. */
void comm_layouts_learn(struct layout_cache *cache, struct reader *r, const struct target_proc *p,
			struct comm_places *c);
/* Adds what a scan found to what was known; communicators known before keep the generation they had. 0, -ENOMEM. */
int comm_places_take(struct comm_places *c, const struct nccl_places *found);
/* Reads the generation of those that have none; those that are none go. 0; or an error of reader_memory(), -ENOMEM, and
 * nothing is changed. */
int comm_states_begin(struct comm_places *c, struct reader *r, uint32_t tgid);
/* A forked child has a copy of its parent's communicators, as they were then: no rank's. */
void comm_copies_drop(struct comm_places *c, const struct comm_places *parent);
/* All of the process, into n_places rows of `ret`. What is another generation is not valid; nothing is, with an error
 * of reader_memory(). Gone is at once what is no communicator of that generation any more, and what could not be read
 * several times in a row: a page may be absent for a moment. */
int comm_states_sample(struct comm_places *c, struct reader *r, uint32_t tgid, struct nccl_state *ret);
/* Gives one that is gone, once each; false: no more, and the rows of those are dropped. */
bool comm_gone_next(struct comm_places *c, struct comm_gone *ret);
/* A record each: one communicator, as of now_ns; one that is gone. */
int comm_gone_emit(uint32_t tgid, const struct comm_gone *gone, uint64_t now_ns,
		   int (*emit)(void *to, const struct wire_hdr *rec), void *to);
int comm_sample_emit(uint32_t tgid, uint64_t addr, const struct nccl_state *now, uint64_t now_ns,
		     int (*emit)(void *to, const struct wire_hdr *rec), void *to);

#endif
