/* SPDX-License-Identifier: Apache-2.0
 *
 * freeze.h - the flight recorders of the hosts that an incident concerns, frozen: their agents are asked for what they
 * hold, and so is that of one healthy peer in each communicator, to compare. Asked again for a minute, as a question is
 * not kept; an agent answers each once.
 */
#ifndef RANKTRACE_HUB_FREEZE_H
#define RANKTRACE_HUB_FREEZE_H

#include "cluster/ask.h"
#include "finding.h"
#include "model/model.h"

#define FREEZE_HOSTS_MAX 16
#define FREEZES_MAX 4 /* at the same time; incidents beyond them have none */

struct freeze {
	struct ask ask;
	char incident[FINDING_ID_MAX]; /* "": free */
	uint64_t due_ns;               /* this hub's clock */
	int n_asked;
	bool noted; /* the question is stored, for who fetches */
};

struct freezes {
	struct freeze all[FREEZES_MAX];
	uint64_t last_ns; /* when the newest began; 0 none did */
	char last_id[FINDING_ID_MAX];
};

/* An incident opened. `mono_ns`: this hub's clock. */
void freezes_note(struct freezes *all, const struct incident *i, const char *id, const struct model *m,
		  uint64_t mono_ns);
/* Asks what is due. */
void freezes_turn(struct freezes *all, struct bus *b, uint64_t mono_ns);
/* The hosts that an incident concerns and those of the peers, into to[FREEZE_HOSTS_MAX]; how many. Pure. */
size_t freeze_hosts(const struct finding *f, const struct model *m, const struct node **to);

#endif
