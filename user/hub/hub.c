/* SPDX-License-Identifier: Apache-2.0
 *
 * hub.c - see hub.h. Read turn() first: a message, the detectors, then leases and what is to be written.
 */
#include "hub/hub.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/larger.h"
#include "base/log.h"
#include "cluster/report_queue.h"
#include "hub/follower.h"
#include "metrics/endpoint.h"

#define FETCH_MS 100
#define TURN_NS 200000000ull /* of leases and of what is to be written */
#define SAY_NS 60000000000ull
#define RETRY_NS 1000000000ull

struct hub {
	struct bus *bus;
	struct follower f;
	struct bus_cursor *cursor;
	uint64_t turn_ns, say_ns, follow_ns;
	uint64_t begun_ns; /* the turn before, by this hub's clock */
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
		if (h->f.health.refused[i] == h->said[i])
			continue;
		log_warn("%" PRIu64 " reports were refused: %s", h->f.health.refused[i] - h->said[i],
			 hub_refused_text(i));
		h->said[i] = h->f.health.refused[i];
		h->say_ns = now_ns;
	}
}

/* --- jobs --- */

static void jobs_turn(struct hub *h)
{
	uint64_t mono_ns = clock_monotonic_ns();

	if (mono_ns - h->turn_ns < TURN_NS || !h->f.caught_up)
		return;
	h->turn_ns = mono_ns;
	for (struct hub_job *j = h->f.jobs; j; j = j->next)
		hub_job_turn(j, mono_ns);
	follower_forget(&h->f);
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

/* Waits only where there is nothing to do, and none is in hand: so it is known of the next one that it did not wait. */
static int message_take(struct hub *h)
{
	int wait_ms = h->f.queue->n || !h->f.time.empty ? 0 : FETCH_MS, n = 0;
	struct bus_message msg;

	if (h->cursor)
		n = h->bus->class->fetch(h->cursor, wait_ms, &msg);
	else /* the bus is away */
		usleep(FETCH_MS * 1000);
	if (n < 0)
		follow_again(h, n);
	if (n == 1)
		return follower_take(&h->f, &msg);
	h->f.caught_up |= h->cursor != NULL;
	return follower_pass(&h->f);
}

static void metrics_turn(struct hub *h)
{
	uint64_t mono_ns = clock_monotonic_ns();

	h->f.health.turn_gap_ns = larger(h->f.health.turn_gap_ns, mono_ns - h->begun_ns);
	h->begun_ns = mono_ns;
	if (!h->metrics || !metrics_endpoint_due(h->metrics, mono_ns))
		return;
	h->f.health.n_carried = h->f.queue->n_carried;
	hub_metrics_write(metrics_endpoint_page(h->metrics, mono_ns), &h->f.health, &h->f.hosts, h->f.jobs,
			  h->f.time.now_ns);
	metrics_endpoint_publish(h->metrics);
	h->f.health.turn_gap_ns = 0;
}

static int turn(struct hub *h)
{
	int err = h->cursor ? 0 : follow(h);

	err = err ? err : message_take(h);
	err = err ? err : follower_ticks(&h->f);
	jobs_turn(h);
	metrics_turn(h);
	return err;
}

static void hub_end(struct hub *h)
{
	if (h->cursor)
		h->bus->class->cursor_free(h->cursor);
	h->say_ns = 0;
	refused_say(h);
	log_info("%" PRIu64 " reports of %zu hosts (%" PRIu64 " of them more than once; in place of %" PRIu64
		 " a newer one of their host was judged)",
		 h->f.health.n_reports, h->f.hosts.n, h->f.health.n_repeated, h->f.queue->n_carried);
}

int hub_run(struct bus *b, const char *name, struct metrics_endpoint *metrics, const volatile sig_atomic_t *stop)
{
	struct hub h = { .bus = b, .metrics = metrics, .begun_ns = clock_monotonic_ns() };
	int err = follower_init(&h.f, name, b, NULL);
	bool began = !err;

	while (!*stop && !err)
		err = turn(&h);
	if (began)
		hub_end(&h);
	follower_free(&h.f);
	return err;
}
