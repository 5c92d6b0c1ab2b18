/* SPDX-License-Identifier: Apache-2.0
 *
 * pauses.h - what ended by itself teaches: pauses of ranks by job and call site, of this session and of those before
 * (struct model.known_phases). A pure table: detectors fill it, the session keeps it in a file.
 */
#ifndef RANKTRACE_PAUSES_H
#define RANKTRACE_PAUSES_H

#include "known_phase.h"
#include "model/ahead.h"

#define PAUSES_MAX 1024 /* of more the one that did not recur for longest is forgotten */

struct pauses { /* zeroed at first; owns the texts of its phases */
	struct known_phase *all;
	size_t n, cap;
	uint64_t n_learnt; /* so far */
};

struct pause {                         /* one that ended by itself */
	const char *job, *site, *wait; /* wait: "" not known */
	uint64_t begin_ns, end_ns, steps;
};

void pauses_learn(struct pauses *s, const struct model *m, const struct pause *p); /* without memory: nothing */
/* What ended there before; NULL nothing. Valid until the next pauses_learn(). */
const struct known_phase *pauses_at(const struct pauses *s, const struct model *m, const char *job, const char *site);
/* Of this job the longest known phase in which a rank waits in the kernel for `wait` ("": for anything), one that
 * recurs before one that happened once: what a pause may be while its call site is not known. NULL none. */
const struct known_phase *pauses_like(const struct pauses *s, const struct model *m, const char *job, const char *wait);
void pauses_free(struct pauses *s);

#endif
