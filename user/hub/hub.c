/* SPDX-License-Identifier: Apache-2.0
 *
 * hub.c - see hub.h. Read turn() first. Time is that of the stream: what the server stamped on messages, so that every
 * hub judges the same jobs at the same times; where no message comes, it goes on by this hub's clock. A hub that is
 * behind reads what it has in hand up to the next tick, and judges the newest report of each host in place of all.
 */
#include "hub/hub.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/larger.h"
#include "base/log.h"
#include "cluster/report_queue.h"
#include "hub/hub_metrics.h"
#include "metrics/endpoint.h"

#define FETCH_MS 100
#define TURN_NS 200000000ull /* of leases and of what is to be written */
#define SAY_NS 60000000000ull
#define JOB_QUIET_NS 120000000000ull /* then it is forgotten */
#define JOBS_MAX 4096
#define RETRY_NS 1000000000ull

struct hub {
	struct bus *bus;
	const char *name;
	struct bus_cursor *cursor;
	struct hosts hosts;
	struct report_queue *queue;
	uint64_t queue_ns; /* of the stream: when its first report was stored */
	struct hub_job *jobs;
	size_t n_jobs;
	uint64_t now_ns, now_mono_ns; /* of the stream; this hub's clock then */
	uint64_t turn_ns, say_ns, follow_ns;
	uint64_t begun_ns; /* the turn before, by this hub's clock */
	bool caught_up;    /* the past that the stream holds was gone through */
	struct hub_health health;
	uint64_t said[HUB_REFUSED_KINDS];
	struct metrics_endpoint *metrics; /* NULL: none are served */
};

/* --- reports --- */

static void refused_say(struct hub *h)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (h->say_ns && now_ns - h->say_ns < SAY_NS)
		return;
	for (int i = 0; i < HUB_REFUSED_KINDS; i++) {
		if (h->health.refused[i] == h->said[i])
			continue;
		log_warn("%" PRIu64 " reports were refused: %s", h->health.refused[i] - h->said[i],
			 hub_refused_text(i));
		h->said[i] = h->health.refused[i];
		h->say_ns = now_ns;
	}
}

static struct hub_job *job_of(struct hub *h, const char *name, const Cluster__NodeReport *r, uint64_t now_ns)
{
	struct hub_job *j = h->jobs;

	while (j && strcmp(j->name, name))
		j = j->next;
	if (j || h->n_jobs == JOBS_MAX)
		return j;
	j = hub_job_new(name, h->name, h->bus, r, now_ns);
	if (!j)
		return NULL;
	j->next = h->jobs;
	h->jobs = j;
	h->n_jobs++;
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
static int jobs_feed(struct hub *h, const struct host *host, const Cluster__NodeReport *r, uint64_t now_ns)
{
	int err = 0;

	for (size_t i = 0; i < r->n_processes && !err; i++) {
		struct hub_job *j = is_first_of_job(r, i) ? job_of(h, job_name(r->processes[i]), r, now_ns) : NULL;

		if (j)
			err = hub_job_report(j, host, r, now_ns);
	}
	for (struct hub_job *j = h->jobs; j && !err; j = j->next)
		if (j->report_ns != now_ns && fed_knows(&j->fed, host))
			err = hub_job_other_report(j, host, r);
	return err;
}

/* Of its host a newer one may be known already: this one is of when it was made. */
static int queued_feed(struct hub *h, const struct queued_report *one)
{
	struct host *host = one->of;
	uint64_t newest_ns = host->at_ns;
	int err;

	host->paused = one->r->paused;
	host->at_ns = one->at_ns;
	err = jobs_feed(h, host, one->r, one->ns);
	host->at_ns = newest_ns;
	return err;
}

static int queue_feed(struct hub *h)
{
	int err = 0;

	for (size_t i = 0; i < h->queue->n && !err; i++)
		err = queued_feed(h, &h->queue->all[i]);
	report_queue_clear(h->queue);
	return err;
}

static int queue_put(struct hub *h, struct host *host, Cluster__NodeReport *r, size_t bytes)
{
	struct queued_report one = { .r = r, .of = host, .ns = h->now_ns, .at_ns = host->at_ns };
	int err = report_queue_put(h->queue, &one, bytes);

	if (err == -EAGAIN) {
		err = queue_feed(h);
		err = err ? err : report_queue_put(h->queue, &one, bytes);
	}
	if (err)
		report_free(r);
	else if (h->queue->n == 1)
		h->queue_ns = h->now_ns;
	return err;
}

static int report_take(struct hub *h, const struct bus_message *msg)
{
	Cluster__NodeReport *r;
	enum report_fault fault = report_unpack(msg->data, msg->len, &r);
	struct host *host = NULL;
	struct host_message_id id;
	enum host_message what;
	int err = 0;

	h->health.n_reports++;
	if (fault) {
		h->health.refused[fault]++;
		return 0;
	}
	id = (struct host_message_id){ .token = msg->token,
				       .name = r->host,
				       .boot_id = r->boot_id,
				       .agent = r->agent,
				       .sequence = r->sequence,
				       .made_ns = r->now_ns,
				       .stored_ns = h->now_ns };
	if (hosts_boots(&h->hosts, &id))
		err = queue_feed(h); /* its times are of the clock before */
	what = hosts_take(&h->hosts, &id, &host);
	h->health.refused[HUB_REFUSED_FORGED] += what == HOST_FORGED;
	h->health.n_repeated += what == HOST_REPEATED;
	if (what == HOST_NEW && !err)
		return queue_put(h, host, r, msg->len);
	report_free(r);
	return what == HOST_NO_MEMORY ? -ENOMEM : err;
}

/* --- time --- */

static void time_set(struct hub *h, uint64_t stored_ns)
{
	h->now_ns = stored_ns > h->now_ns ? stored_ns : h->now_ns + 1;
	h->now_mono_ns = clock_monotonic_ns();
}

/* No message came: it goes on all the same, or a silent host would never be one. */
static void time_pass(struct hub *h)
{
	uint64_t mono_ns = clock_monotonic_ns();

	if (!h->now_ns)
		return;
	h->now_ns += mono_ns - h->now_mono_ns;
	h->now_mono_ns = mono_ns;
}

static int ticks(struct hub *h)
{
	int err = 0;

	for (struct hub_job *j = h->jobs; j && !err; j = j->next)
		err = hub_job_ticks(j, &h->hosts, h->now_ns);
	return err;
}

/* --- jobs --- */

static void job_forget(struct hub *h, struct hub_job **at)
{
	struct hub_job *j = *at;

	*at = j->next;
	h->n_jobs--;
	tally_findings_add(&h->health.forgotten, &j->findings);
	hub_job_give_up(j);
	hub_job_free(j);
}

static void jobs_turn(struct hub *h)
{
	uint64_t mono_ns = clock_monotonic_ns();

	if (mono_ns - h->turn_ns < TURN_NS || !h->caught_up)
		return;
	h->turn_ns = mono_ns;
	for (struct hub_job **at = &h->jobs; *at;) {
		hub_job_turn(*at, mono_ns);
		if (h->now_ns > (*at)->report_ns + JOB_QUIET_NS && !(*at)->incidents)
			job_forget(h, at);
		else
			at = &(*at)->next;
	}
	refused_say(h);
}

/* --- the loop --- */

static int follow(struct hub *h)
{
	uint64_t mono_ns = clock_monotonic_ns();
	int err;

	if (h->follow_ns && mono_ns - h->follow_ns < RETRY_NS)
		return 0;
	h->follow_ns = mono_ns;
	err = h->bus->class->follow(h->bus, BUS_REPORTS, NULL, 0, BUS_KEPT_S, &h->cursor);
	return err == -ENOMEM ? err : 0;
}

/* Reports that were gone through before are known by their numbers. */
static void follow_again(struct hub *h, int err)
{
	log_warn("reading reports: %s; beginning anew", strerror(-err));
	h->bus->class->cursor_free(h->cursor);
	h->cursor = NULL;
}

/* Waits only where there is nothing to do. */
static int message_take(struct hub *h)
{
	int wait_ms = h->queue->n ? 0 : FETCH_MS, n, err;
	struct bus_message msg;

	n = h->cursor ? h->bus->class->fetch(h->cursor, wait_ms, &msg) : 0;
	if (n < 0)
		follow_again(h, n);
	if (n != 1) {
		h->caught_up |= h->cursor != NULL;
		time_pass(h);
		return queue_feed(h);
	}
	time_set(h, (uint64_t)msg.stored_ns);
	h->health.last_report_ns = (uint64_t)msg.stored_ns;
	h->health.n_unread = msg.n_behind;
	err = report_take(h, &msg);
	h->caught_up |= !msg.n_behind;
	if (!err && (!msg.n_behind || h->now_ns >= h->queue_ns + JOB_TICK_NS))
		err = queue_feed(h);
	return err;
}

static void metrics_turn(struct hub *h)
{
	uint64_t mono_ns = clock_monotonic_ns();

	h->health.turn_gap_ns = larger(h->health.turn_gap_ns, mono_ns - h->begun_ns);
	h->begun_ns = mono_ns;
	if (!h->metrics || !metrics_endpoint_due(h->metrics, mono_ns))
		return;
	h->health.n_carried = h->queue->n_carried;
	hub_metrics_write(metrics_endpoint_page(h->metrics, mono_ns), &h->health, &h->hosts, h->jobs, h->now_ns);
	metrics_endpoint_publish(h->metrics);
	h->health.turn_gap_ns = 0;
}

static int turn(struct hub *h)
{
	int err = h->cursor ? 0 : follow(h);

	err = err ? err : message_take(h);
	err = err || h->queue->n ? err : ticks(h);
	jobs_turn(h);
	metrics_turn(h);
	return err;
}

static void hub_end(struct hub *h)
{
	while (h->jobs)
		job_forget(h, &h->jobs);
	if (h->cursor)
		h->bus->class->cursor_free(h->cursor);
	h->say_ns = 0;
	refused_say(h);
	log_info("%" PRIu64 " reports of %zu hosts (%" PRIu64 " of them more than once; in place of %" PRIu64
		 " a newer one of their host was judged)",
		 h->health.n_reports, h->hosts.n, h->health.n_repeated, h->queue->n_carried);
	report_queue_free(h->queue);
	free(h->queue);
	hosts_free(&h->hosts);
}

int hub_run(struct bus *b, const char *name, struct metrics_endpoint *metrics, const volatile sig_atomic_t *stop)
{
	uint64_t mono_ns = clock_monotonic_ns();
	struct hub h = {
		.bus = b, .name = name, .metrics = metrics, .begun_ns = mono_ns, .queue = calloc(1, sizeof(*h.queue))
	};
	int err = 0;

	if (!h.queue)
		return -ENOMEM;
	h.health.start_realtime_ns = mono_ns + clock_realtime_offset_ns();

	while (!*stop && !err)
		err = turn(&h);
	hub_end(&h);
	return err;
}
