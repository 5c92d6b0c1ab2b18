/* SPDX-License-Identifier: Apache-2.0
 *
 * follower.c - see follower.h. Where it is behind, it reads what it has in hand up to the next tick, and judges the
 * newest report of each host in place of all.
 */
#include "hub/follower.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/report_queue.h"

#define JOB_QUIET_NS 120000000000ull /* then it is forgotten */
#define JOBS_MAX 4096

int follower_init(struct follower *f, const char *name, struct bus *bus, const char *job)
{
	*f = (struct follower){ .name = name, .bus = bus, .job = job, .queue = calloc(1, sizeof(*f->queue)) };
	f->health.start_realtime_ns = clock_monotonic_ns() + clock_realtime_offset_ns();
	return f->queue ? 0 : -ENOMEM;
}

/* --- reports --- */

static int job_clock(const struct follower *f, struct hub_job *j)
{
	return hub_job_clock(j, f->time.now_ns, -f->time.moved_ns);
}

static struct hub_job *job_of(struct follower *f, const char *name, const Cluster__NodeReport *r, uint64_t now_ns)
{
	struct hub_job *j = f->jobs;

	while (j && strcmp(j->name, name))
		j = j->next;
	if (j || f->n_jobs == JOBS_MAX)
		return j;
	j = hub_job_new(name, f->name, f->bus, r, now_ns);
	if (j && f->time.moved_ns && job_clock(f, j)) {
		hub_job_free(j);
		j = NULL;
	}
	if (!j)
		return NULL;
	j->next = f->jobs;
	f->jobs = j;
	f->n_jobs++;
	return j;
}

static const char *job_name(const Cluster__Process *p)
{
	return p->job ? p->job : "";
}

static bool is_first_of_job(const Cluster__NodeReport *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(job_name(r->processes[k]), job_name(r->processes[i])))
			return false;
	return true;
}

/* Jobs of which this report says something; and those of which it says nothing any more, to see that. */
static int jobs_feed(struct follower *f, const struct host *host, const Cluster__NodeReport *r, uint64_t now_ns)
{
	int err = 0;

	for (size_t i = 0; i < r->n_processes && !err; i++) {
		const char *name = job_name(r->processes[i]);
		bool is_judged = is_first_of_job(r, i) && (!f->job || !strcmp(name, f->job));
		struct hub_job *j = is_judged ? job_of(f, name, r, now_ns) : NULL;

		if (j)
			err = hub_job_report(j, host, r, now_ns);
	}
	for (struct hub_job *j = f->jobs; j && !err; j = j->next)
		if (j->report_ns != now_ns && fed_knows(&j->fed, host))
			err = hub_job_other_report(j, host, r);
	return err;
}

/* Of its host a newer one may be known already: this one is of when it was made. */
static int queued_feed(struct follower *f, const struct queued_report *one)
{
	struct host *host = one->of;
	uint64_t newest_ns = host->at_ns;
	int err;

	host->paused = one->r->paused;
	host->at_ns = one->at_ns;
	err = jobs_feed(f, host, one->r, one->ns);
	host->at_ns = newest_ns;
	return err;
}

static int queue_feed(struct follower *f)
{
	int err = 0;

	for (size_t i = 0; i < f->queue->n && !err; i++)
		err = queued_feed(f, &f->queue->all[i]);
	report_queue_clear(f->queue);
	return err;
}

static int queue_put(struct follower *f, struct host *host, Cluster__NodeReport *r, size_t bytes)
{
	struct queued_report one = { .r = r, .of = host, .ns = f->time.now_ns, .at_ns = host->at_ns };
	int err = report_queue_put(f->queue, &one, bytes);

	if (err == -EAGAIN) {
		err = queue_feed(f);
		err = err ? err : report_queue_put(f->queue, &one, bytes);
	}
	if (err)
		report_free(r);
	else if (f->queue->n == 1)
		f->queue_ns = f->time.now_ns;
	return err;
}

/* --- time --- */

static void step_say(int64_t step_ns)
{
	log_warn("the clock of the server that stores reports was stepped %s by %.1f s, or another server stores them: "
		 "verdicts go on by this hub's own clock; look at NTP on the servers",
		 step_ns < 0 ? "back" : "forward", (double)llabs(step_ns) * 1e-9);
}

/* Of a message that was taken before nothing is known of now: a cursor that begins anew reads two minutes again. */
static int time_take(struct follower *f, const struct bus_message *msg)
{
	int64_t step_ns = stream_time_take(&f->time, (uint64_t)msg->stored_ns, !msg->n_behind, clock_monotonic_ns());
	int err = 0;

	if (step_ns && f->bus)
		step_say(step_ns);
	if (step_ns && f->time.misplaced)
		hosts_clocks_forget(&f->hosts);
	for (struct hub_job *j = step_ns ? f->jobs : NULL; j && !err; j = j->next)
		err = job_clock(f, j);
	return err;
}

/* --- messages --- */

static int new_take(struct follower *f, const struct bus_message *msg, struct host_message_id *id,
		    Cluster__NodeReport *r)
{
	int err = hosts_boots(&f->hosts, id) ? queue_feed(f) : 0; /* its times are of the clock before */
	struct host *host = NULL;
	enum host_message what;

	err = err ? err : time_take(f, msg);
	id->stored_ns = f->time.stored_ns;
	what = hosts_take(&f->hosts, id, &host);
	if (what == HOST_NEW && !err)
		return queue_put(f, host, r, msg->len);
	report_free(r);
	return what == HOST_NO_MEMORY ? -ENOMEM : err;
}

static int report_take(struct follower *f, const struct bus_message *msg)
{
	Cluster__NodeReport *r;
	enum report_fault fault = report_unpack(msg->data, msg->len, &r);
	struct host_message_id id;
	enum host_message what;

	f->health.n_reports++;
	if (fault) {
		f->health.refused[fault]++;
		return 0;
	}
	id = (struct host_message_id){ .token = msg->token,
				       .name = r->host,
				       .boot_id = r->boot_id,
				       .agent = r->agent,
				       .sequence = r->sequence,
				       .made_ns = r->now_ns };
	what = hosts_look(&f->hosts, &id);
	f->health.refused[HUB_REFUSED_FORGED] += what == HOST_FORGED;
	f->health.n_repeated += what == HOST_REPEATED;
	if (what == HOST_NEW)
		return new_take(f, msg, &id, r);
	report_free(r);
	return 0;
}

int follower_take(struct follower *f, const struct bus_message *msg)
{
	int err;

	f->health.last_report_ns = (uint64_t)msg->stored_ns;
	f->health.n_unread = msg->n_behind;
	err = report_take(f, msg);
	f->time.empty = false;
	f->caught_up |= !msg->n_behind;
	if (!err && (!msg->n_behind || f->time.now_ns >= f->queue_ns + JOB_TICK_NS))
		err = queue_feed(f);
	return err;
}

int follower_pass(struct follower *f)
{
	stream_time_pass(&f->time, clock_monotonic_ns());
	return queue_feed(f);
}

int follower_ticks(struct follower *f)
{
	int err = 0;

	for (struct hub_job *j = f->queue->n ? NULL : f->jobs; j && !err; j = j->next)
		err = hub_job_ticks(j, &f->hosts, f->time.now_ns);
	return err;
}

/* --- jobs --- */

static void job_forget(struct follower *f, struct hub_job **at)
{
	struct hub_job *j = *at;

	*at = j->next;
	f->n_jobs--;
	tally_findings_add(&f->health.forgotten, &j->findings);
	hub_job_give_up(j);
	hub_job_free(j);
}

void follower_forget(struct follower *f)
{
	for (struct hub_job **at = &f->jobs; *at;)
		if (f->time.now_ns > (*at)->report_ns + JOB_QUIET_NS && !(*at)->incidents)
			job_forget(f, at);
		else
			at = &(*at)->next;
}

void follower_free(struct follower *f)
{
	while (f->jobs)
		job_forget(f, &f->jobs);
	if (f->queue)
		report_queue_free(f->queue);
	free(f->queue);
	hosts_free(&f->hosts);
	*f = (struct follower){ 0 };
}
