/* SPDX-License-Identifier: Apache-2.0
 *
 * governor.h - which probes a process loses because it pays too much for them, and when it has them back. Pure: told
 * once a second what the kernel counted, it says what is to be changed. What verdicts stand on is never given up.
 */
#ifndef RANKTRACE_GOVERNOR_H
#define RANKTRACE_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#include "event.h"

#define GOVERNOR_BACK_NS \
	60000000000ull   /* calm for so long: a group comes back; the next time for four times as long \
			  */
#define GOVERNOR_BACKS 2 /* then it stays away */

struct governor_cfg {
	uint32_t price_ns;   /* unit of governor_look.paid */
	uint32_t budget_ppm; /* of a core, for each process; 0 no limit */
	uint32_t node_ppm;   /* for all together; 0 no limit */
	bool fixed;          /* nothing can be taken away: only told */
};

struct governor_look {
	uint32_t tgid;
	uint64_t start_ns;                               /* of the process: with tgid the key */
	bool probed;                                     /* now; else its state is kept as it is */
	uint32_t hits[PROBE_GROUPS], paid[PROBE_GROUPS]; /* so far; they wrap */
};

struct governor_order {
	uint32_t tgid;
	enum budget_what what; /* SHED, BACK or KEPT */
	enum probe_group group;
	uint32_t shed;                                             /* groups it is without then, a bit each */
	uint64_t hits_per_s, node_hits_per_s, hit_ns, node_hit_ns; /* hit_ns: what one cost */
	uint32_t budget_ppm;                                       /* the one that was exceeded, or is kept */
	bool of_node;
};

struct governor_sums { /* since the beginning */
	uint64_t hits, paid_ns;
	double peak_ns_per_s; /* of one process */
	uint32_t peak_tgid, n_shed, n_back;
};

struct governor;
struct governor *governor_new(const struct governor_cfg *cfg); /* NULL without memory */
void governor_free(struct governor *g);
/* A look begins, about every second; then each process that lives, and the end: those that were not noted are
 * forgotten. */
void governor_look_begin(struct governor *g, uint64_t now_ns);
int governor_look_note(struct governor *g, const struct governor_look *l); /* 0 or -ENOMEM */
void governor_look_end(struct governor *g);
/* The next change that is due: it counts as made. False: none. */
bool governor_next(struct governor *g, struct governor_order *ret);
const struct governor_sums *governor_sums(const struct governor *g);

#endif
