/* SPDX-License-Identifier: Apache-2.0
 *
 * job_incidents.h - the incidents of one job on their way from its pipeline to the log.
 */
#ifndef RANKTRACE_HUB_JOB_INCIDENTS_H
#define RANKTRACE_HUB_JOB_INCIDENTS_H

#include "hub/job.h"
#include "sink/sink.h"

struct sink *job_incidents_sink(struct hub_job *j); /* a listener; NULL: no memory */
void job_incidents_free(struct hub_job *j);
/* The log is ours: what it has as open goes on with its id; what holds here and not there is to be written. */
void job_incidents_taken(struct hub_job *j);
void job_incidents_lost(struct hub_job *j);
/* What it is known by in the log; 0: this job has none of that id, which is its pipeline's. */
uint64_t job_incident_key(const struct hub_job *j, const char *id);
/* All that is to be written, causes first. 0; -ESTALE: the job is another hub's; or it is tried again. */
int job_incidents_write(struct hub_job *j);

#endif
