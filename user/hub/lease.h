/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.h - whose a job is. One hub has the job's key, and renews it; the others see its revision move. A lease saves
 * work and settles who begins; that no two write is the log's matter (incident_log.h).
 */
#ifndef RANKTRACE_HUB_LEASE_H
#define RANKTRACE_HUB_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/bus.h"

#define LEASE_RENEW_NS 2000000000ull
#define LEASE_POLL_NS 1000000000ull
#define LEASE_EXPIRES_NS 6000000000ull

struct lease {
	char token[BUS_TOKEN_MAX]; /* of the job */
	bool mine;
	uint64_t revision;   /* the newest that was seen or written */
	uint64_t changed_ns; /* on this hub's clock: when that revision was first seen, or was written; */
	uint64_t known_ns;   /* when it was seen last */
	uint64_t asked_ns;
	uint64_t refused_ns; /* since then it could be taken, and the bus does not let us, or does not answer; 0: not so
			      */
	int err;             /* by what */
};

enum lease_change { LEASE_SAME, LEASE_TAKEN, LEASE_LOST };

/* Its turn, as often as you like: asks the bus when it is time. `value`: what the key says while it is this hub's. */
enum lease_change lease_turn(struct lease *l, struct bus *b, const char *value, uint64_t now_ns);
/* For one that has it: others may take it at once. */
void lease_give_up(struct lease *l, struct bus *b);

#endif
