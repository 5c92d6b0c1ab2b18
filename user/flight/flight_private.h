/* SPDX-License-Identifier: Apache-2.0
 *
 * flight_private.h - shared by flight.c (the window) and flight_dump.c (writes the window to files).
 */
#ifndef RANKTRACE_FLIGHT_PRIVATE_H
#define RANKTRACE_FLIGHT_PRIVATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "recording/chunk.h"
#include "flight/flight.h"

#define TOKENS_MAX 16
#define LEFT_MAX 4 /* then no dump is begun: each holds a copy of the window */

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
	struct packed_list state; /* snapshot of the model at its first record */
	struct packed_list records;
	struct segment *next;
};

struct flight {
	struct flight_cfg cfg;
	char *dir;
	struct segment *oldest, *newest;
	struct chunk *chunk; /* the newest records */
	size_t bytes, peak;
	/* the next dump */
	uint64_t finding_due_ns; /* 0: none */
	uint64_t finding_dumped_ns;
	uint64_t seen_warned_ns; /* findings that were a warning by then are served */
	struct finding finding;  /* the finding that it is due for */
	int tokens[TOKENS_MAX], n_tokens;
	bool requested;
	/* the dump under way */
	pid_t child;
	int child_fd;
	uint64_t child_ns;    /* when it began */
	pid_t left[LEFT_MAX]; /* ended, and still in a call that does not return; 0 none */
	char said[1024];      /* from the child: one line of result, one line of warning */
	size_t said_len;
	int serving[TOKENS_MAX], n_serving;
	unsigned int n_written, n_failed;
};

/* Why a dump is written; `finding` NULL: on request. */
struct flight_dump_why {
	const char *reason;
	const struct finding *finding;
};

/* Runs in the child: writes the window's files and its messages to `fd`. Returns the child's exit status. */
int flight_dump(struct flight *f, const struct flight_dump_why *why, const struct incidents *i, const struct model *m,
		uint64_t now_ns, int fd);
/* Header, segments from `from` on; then the end of the session, which the chunk held goes before. 0 or -errno. */
int flight_segments_write(const struct segment *from, int fd);
int flight_tail_write(struct chunk *c, int fd, uint64_t now_ns);
/* Removes files of dumps that a crash cut short. */
void flight_dump_clean(const char *dir);

#endif
