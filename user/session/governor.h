/* SPDX-License-Identifier: Apache-2.0
 *
 * governor.h - decides which probe groups a process loses because they cost too much, and when it gets them back.
 *
 * Pure: once a second the kernel's counters go in, changes come out. Probes that findings depend on (PROBES_NEEDED)
 * always stay.
 */
#ifndef RANKTRACE_GOVERNOR_H
#define RANKTRACE_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#include "event.h"

/* A group comes back after so long below the budget; the next time after four times as long. */
#define GOVERNOR_BACK_NS 60000000000ull
#define GOVERNOR_BACKS 2 /* after so many returns the group stays away */

struct governor_cfg {
	uint32_t price_ns;   /* unit of governor_sample.paid */
	uint32_t budget_ppm; /* millionths of a core, per process; 0: no limit */
	uint32_t node_ppm;   /* the same for all processes together; 0: no limit */
	bool fixed;          /* no probe can be removed: only report */
};

struct governor_sample {
	uint32_t tgid;
	uint64_t start_ns;                               /* of the process: key together with tgid */
	bool probed;                                     /* has probes now; otherwise its state is kept */
	uint32_t hits[PROBE_GROUPS], paid[PROBE_GROUPS]; /* counters, total so far; they wrap */
};

struct governor_order {
	uint32_t tgid;
	enum budget_what what; /* SHED, BACK or KEPT */
	enum probe_group group;
	uint32_t shed;                                             /* groups that are missing then, one bit each */
	uint64_t hits_per_s, node_hits_per_s, hit_ns, node_hit_ns; /* hit_ns: cost of one hit */
	uint32_t budget_ppm;                                       /* the budget that was exceeded, or is kept */
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
/* One sample, about every second: begin, note each living process, end. A process that was not noted is forgotten. */
void governor_sample_begin(struct governor *g, uint64_t now_ns);
int governor_sample_note(struct governor *g, const struct governor_sample *l); /* 0 or -ENOMEM */
void governor_sample_end(struct governor *g);
/* Returns the next due change, which counts as made. False: none is due. */
bool governor_next(struct governor *g, struct governor_order *ret);
const struct governor_sums *governor_sums(const struct governor *g);

#endif
