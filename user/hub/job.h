/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - one job, or all of a name, in one pipeline that is fed by all its hosts, and whose incidents are written
 * while the job is this hub's. It is judged in any case: who takes over knows what there is to know.
 */
#ifndef RANKTRACE_HUB_JOB_H
#define RANKTRACE_HUB_JOB_H

#include "hub/across/past_calls.h"
#include "hub/freeze.h"
#include "hub/incident_log.h"
#include "hub/lease.h"
#include "hub/node_findings.h"
#include "hub/report_records.h"
#include "hub/slow_ranks.h"
#include "metrics/tally.h"

#define JOB_TICK_NS 500000000ull /* of the detectors, on the hub's axis */

struct job_incident;

struct hub_job {
	char *name; /* the launcher's; "" none */
	struct bus *bus;
	struct pipeline *pipeline;
	struct fed fed;
	struct node_findings node_findings;
	struct slow_ranks slow_ranks;
	struct past_calls past_calls;
	struct lease lease;
	struct incident_log log;
	struct tally_findings findings; /* while the job was ours */
	struct job_incident *incidents; /* that are open, and those that are to be written as closed */
	struct freezes freezes;
	uint64_t mono_ns;   /* this hub's clock, of the last turn */
	bool taken;         /* the lease is ours, and the log says so */
	uint64_t warned_ns; /* the last time that we said why it is not, on this hub's clock */
	uint64_t taken_ns;  /* on the hub's axis */
	uint64_t tick_ns, settle_ns, report_ns;
	struct hub_job *next;
};

/* NULL: no memory. `hub`: who we are. `limits`: the report that it begins with. */
struct hub_job *hub_job_new(const char *name, const char *hub, struct bus *b, const Cluster__NodeReport *limits,
			    uint64_t now_ns);
void hub_job_free(struct hub_job *j);

/* Each of these 0 or -ENOMEM. `now_ns`: on the hub's axis. */
int hub_job_report(struct hub_job *j, const struct host *h, const Cluster__NodeReport *r, uint64_t now_ns);
/* A report of a host that it knows, which says nothing of it any more. */
int hub_job_other_report(struct hub_job *j, const struct host *h, const Cluster__NodeReport *r);
int hub_job_ticks(struct hub_job *j, const struct hosts *hosts, uint64_t now_ns);
/* From now on the server's wall clock is the axis and so many ns. */
int hub_job_clock(struct hub_job *j, uint64_t now_ns, int64_t wall_ns);
/* Lease, and what is still to be written; `mono_ns`: this hub's clock. */
void hub_job_turn(struct hub_job *j, uint64_t mono_ns);
void hub_job_give_up(struct hub_job *j);

#endif
