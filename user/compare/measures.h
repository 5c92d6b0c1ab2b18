/* SPDX-License-Identifier: Apache-2.0
 *
 * measures.h - what one recording says of how long things take: a series of durations for each thing that has a name in
 * another recording of the same job, too. Pure.
 */
#ifndef RANKTRACE_COMPARE_MEASURES_H
#define RANKTRACE_COMPARE_MEASURES_H

#include <stddef.h>
#include <stdint.h>

#define DURATIONS_KEPT 4096 /* values; of more every 2nd, 4th and so on */

enum measure_kind {
	MEASURE_STEP,
	MEASURE_PHASE,     /* the host's time in it, without waits for the GPU; and those waits */
	MEASURE_LATE,      /* behind the first rank at a collective, the most of a step */
	MEASURE_OPERATION, /* of a communicator, from when its last rank was ready */
	MEASURE_KINDS
};

struct durations { /* in the order of time; zeroed at first */
	double *v; /* seconds */
	size_t n, cap;
	uint64_t seen, every; /* values offered; of these every n-th is kept */
};

struct measure {
	enum measure_kind kind;
	int rank;        /* -1: of a communicator */
	char what[48];   /* "backward", "AllReduce 16 MiB" */
	char where[160]; /* "ranks 0-3"; "" of a rank */
	double per_step; /* how often in a step of a rank; 0 not known */
	struct durations s;
};

struct measures { /* zeroed at first */
	struct measure *v;
	size_t n, cap;
};

/* 0 or -ENOMEM. */
int durations_put(struct durations *s, double seconds);
double durations_median(const struct durations *s); /* 0 without a value */
void durations_free(struct durations *s);

/* A new one, in order of the calls; texts are cut to fit. NULL: out of memory. Good until the next call. */
struct measure *measures_add(struct measures *m, enum measure_kind kind, int rank, const char *what, const char *where);
void measures_free(struct measures *m);

/* "rank 3", "ranks 0-3,8" of numbers that ascend; ",..." behind what does not fit. */
void ranks_text(const int *ranks, size_t n, char *to, size_t size);

/* As JSON says it: "step", "phase", "late", "operation". */
const char *measure_kind_name(enum measure_kind kind);

#endif
