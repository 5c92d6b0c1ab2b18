/* SPDX-License-Identifier: Apache-2.0
 *
 * known_phase.h - what a job is used to: pauses of one rank that ended by themselves, at one call site. One struct from
 * the detector to the file that keeps it over restarts, and back as a record.
 */
#ifndef RANKTRACE_KNOWN_PHASE_H
#define RANKTRACE_KNOWN_PHASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PHASE_SERIES_KEPT 8
#define PHASE_TWICE_NS 30000000000ull /* one pause that long may have been ended by somebody: two are a habit */
#define PHASE_TIMES 3                 /* it may last so many times the longest */

struct phase_series { /* the newest values; number i at i % PHASE_SERIES_KEPT */
	uint64_t values[PHASE_SERIES_KEPT];
	uint64_t n; /* so far */
};

struct known_phase {
	const char *job;
	const char *site; /* "/job/real.py:31 ckpt": Python line, else native frame, else kernel wait */
	const char *wait; /* what the rank waited for in the kernel there; "" not known */
	uint32_t n;       /* pauses that ended by themselves */
	uint64_t longest_ns;
	uint64_t begin_ns, begin_steps; /* of the newest one; 0: in an earlier session, or iterations are not known */
	struct phase_series lengths_ns, intervals_ns, intervals_steps; /* intervals: from begin to begin */
};

struct known_phase_event { /* as an earlier session left it */
	const char *job, *site, *wait;
	uint32_t n;
	uint64_t longest_ns, usual_ns;        /* usual: the median */
	uint64_t interval_ns, interval_steps; /* medians; 0 not known */
};

void phase_series_add(struct phase_series *s, uint64_t value);
uint64_t phase_series_median(const struct phase_series *s); /* of those kept; 0 none */

/* One more. begin_ns, end_ns: model time; steps: iterations of the rank by its begin, 0 not known. */
void known_phase_add(struct known_phase *p, uint64_t begin_ns, uint64_t end_ns, uint64_t steps);
/* It ended by itself before, for certain. */
bool known_phase_recurs(const struct known_phase *p);
uint64_t known_phase_limit_ns(const struct known_phase *p); /* a pause there may last that long */
/* A pause there is how the job is, and no warning, until it lasted that long: a call site warns once. Of one long pause
 * the next is trusted for PHASE_TWICE_NS. */
uint64_t known_phase_quiet_ns(const struct known_phase *p);
/* "real.py:31 ckpt: 8.6 s every 100 steps, 3 times before" */
void known_phase_text(const struct known_phase *p, char *to, size_t size);

/* --- what a session was given at its start --- */

#define KNOWN_PHASES_MAX 1024

struct known_phases { /* zeroed at first */
	struct known_phase *all;
	size_t n;
};

/* The last word on a call site counts; beyond KNOWN_PHASES_MAX nothing is kept. Texts are the caller's. 0 or -ENOMEM.
 */
int known_phases_put(struct known_phases *s, const struct known_phase_event *given);
const struct known_phase *known_phases_at(const struct known_phases *s, const char *job, const char *site);
void known_phases_free(struct known_phases *s);

#endif
