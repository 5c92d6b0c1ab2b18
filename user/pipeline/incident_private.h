/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_private.h - of incident.c and incident_cost.c: what is kept of each incident, while it is open and when it
 * is over.
 */
#ifndef RANKTRACE_INCIDENT_PRIVATE_H
#define RANKTRACE_INCIDENT_PRIVATE_H

#include "pipeline/incident.h"

#define PAST_MAX 64 /* closed ones kept for the summary; of more the cheapest are forgotten */

struct entry {
	struct incident now;                      /* first: incidents_next_open() finds the entry by it */
	uint64_t reported_ns, costed_ns, held_ns; /* held_ns: the last tick at which it held */
	uint64_t parent;                          /* number of the one whose id it carries; 0: it is a root */
	uint64_t unseen_ns;                       /* the last tick at which it did not and its ranks were unobserved */
	enum severity least;                      /* of a root: as grave as what explains it */
	int missed;
	bool open, changed, fresh; /* fresh: opened at this tick */
	struct entry *next;
};

struct incidents {
	struct entry *entries, *cursor;
	uint64_t opened;
	enum severity worst;
	struct incident past[PAST_MAX];
	int n_past;
};

/* Whom its cost counts for: the one that it follows from, and that one follows from none. */
struct entry *incident_top(struct incidents *s, struct entry *e);

/* incident_cost.c */
void incident_costs_add(struct incidents *s, uint64_t now_ns);
void incident_past_keep(struct incidents *s, const struct incident *i); /* it is over */

#endif
