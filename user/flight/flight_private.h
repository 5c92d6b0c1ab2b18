/* SPDX-License-Identifier: Apache-2.0
 *
 * flight_private.h - the window (flight.c) and what writes it to files (flight_dump.c).
 */
#ifndef RANKTRACE_FLIGHT_PRIVATE_H
#define RANKTRACE_FLIGHT_PRIVATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "recording/chunk.h"
#include "flight/flight.h"

#define TOKENS_MAX 16

struct packed {
	struct packed *next;
	size_t size;
	char bytes[];
};
struct packed_list {
	struct packed *head, *tail;
	size_t bytes;
};

struct segment {
	uint64_t begin_ns;
	struct packed_list state; /* the model as of its first record */
	struct packed_list records;
	struct segment *next;
};

struct kept_fact {
	struct kept_fact *next;
	struct wire_hdr rec; /* and the rest of it */
};

struct flight {
	struct flight_cfg cfg;
	char *dir;
	struct segment *oldest, *newest;
	struct chunk *chunk;     /* the newest records */
	struct kept_fact *facts; /* the last of each kind that tells a state of its own; flight_fact.c */
	size_t n_facts, facts_bytes;
	size_t bytes, peak;
	/* what is due */
	uint64_t finding_due_ns; /* 0 none */
	uint64_t finding_dumped_ns, seen_number;
	struct finding finding; /* that it is due for */
	int tokens[TOKENS_MAX], n_tokens;
	bool requested;
	/* being written */
	pid_t child;
	int child_fd;
	char said[1024]; /* by the child: a line of result, a line of remark */
	size_t said_len;
	int serving[TOKENS_MAX], n_serving;
	unsigned int n_written, n_failed;
};

/* Why a dump is written; `finding` NULL: asked for. */
struct flight_dump_why {
	const char *reason;
	const struct finding *finding;
};

/* In the child: writes the window's files. Its words go to `fd`. Returns the child's exit status. */
int flight_dump(struct flight *f, const struct flight_dump_why *why, const struct incidents *i, const struct model *m,
		uint64_t now_ns, int fd);
/* Files of dumps that were cut short by a crash. */
void flight_dump_clean(const char *dir);

/* flight_fact.c: facts that are not the model's state, or that change rarely: the last one of each is told again. */
void flight_fact_note(struct flight *f, const struct wire_hdr *rec);
void flight_facts_free(struct flight *f);

#endif
