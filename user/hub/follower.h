/* SPDX-License-Identifier: Apache-2.0
 *
 * follower.h - the reports of all hosts, as jobs that are judged: what every hub does with each job, its own or
 * another hub's, and what `ranktrace top` looks at. It reads no bus and writes nothing: messages are handed to it.
 *
 * Time is the hub's axis: stream_time.h.
 */
#ifndef RANKTRACE_HUB_FOLLOWER_H
#define RANKTRACE_HUB_FOLLOWER_H

#include "hub/hub_metrics.h"
#include "hub/time/stream_time.h"

struct report_queue;

struct follower {
	const char *name; /* who we are: of the jobs' logs */
	struct bus *bus;  /* of jobs that are taken; NULL: none ever is */
	const char *job;  /* of this one alone; NULL: all */
	struct hosts hosts;
	struct report_queue *queue; /* fetched, and not judged yet */
	uint64_t queue_ns;          /* on the axis: when its first report was stored */
	struct hub_job *jobs;
	size_t n_jobs;
	struct stream_time time;
	bool caught_up; /* the past that the stream holds was gone through */
	struct hub_health health;
};

/* Borrows what it is given. 0 or -ENOMEM; free it either way. */
int follower_init(struct follower *f, const char *name, struct bus *bus, const char *job);
/* What is still to be written of jobs that are taken is written. */
void follower_free(struct follower *f);
/* Each of these 0 or -ENOMEM. A message of the stream of reports, in its order: */
int follower_take(struct follower *f, const struct bus_message *msg);
/* there is none in hand now (ask before waiting for one): what was fetched is judged, and time goes on; */
int follower_pass(struct follower *f);
/* then, after either, the detectors of each job when it is time. */
int follower_ticks(struct follower *f);
/* Drops jobs of which nothing was heard for two minutes, and of which no incident is open. */
void follower_forget(struct follower *f);

#endif
