/* SPDX-License-Identifier: Apache-2.0
 *
 * publish.c - see publish.h. These agents have no spool: what the bus does not take is lost, and counted.
 */
#include "tools/simcluster/publish.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "bus/bus.h"

#define CHUNK_S 0.1

struct publishing {
	struct bus *bus;
	uint64_t begin_ns; /* CLOCK_MONOTONIC at the simulation's 0 */
	uint64_t n, n_lost;
	char boot_id[32];
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static int message_publish(void *to, const struct delivery *d)
{
	struct publishing *p = to;
	char token[BUS_TOKEN_MAX], id[BUS_TOKEN_MAX + 48];

	bus_token(d->name, token);
	snprintf(id, sizeof(id), "%s-%s-%" PRIu64, token, p->boot_id, p->n);
	p->n++;
	p->n_lost += p->bus->class->publish(p->bus, token, d->data, d->len, id) != 0;
	return stop ? -EINTR : 0;
}

/* Where this machine is too slow for the job, its time is. */
static int paced_until(struct run *r, struct publishing *p, double to_s)
{
	int err = 0;

	while (!err && r->now_s < to_s) {
		uint64_t at_ns = p->begin_ns + (uint64_t)(r->now_s * 1e9), now_ns = clock_monotonic_ns();
		uint64_t wait_ns = at_ns > now_ns ? at_ns - now_ns : 0;

		nanosleep(&(struct timespec){ .tv_sec = (time_t)(wait_ns / 1000000000),
					      .tv_nsec = (long)(wait_ns % 1000000000) },
			  NULL);
		err = stop ? -EINTR : run_until(r, r->now_s + CHUNK_S);
	}
	return err;
}

static int fault_wait(struct run *r, struct publishing *p, double until_s)
{
	int err = 0;

	while (!err && !isfinite(r->fault.first_s) && r->now_s < until_s)
		err = paced_until(r, p, r->now_s + CHUNK_S);
	return err;
}

static void fault_say(const struct run *r, const struct publishing *p)
{
	printf("{\"fault\":\"%s\",\"rank\":%d,\"rank2\":%d,\"waits\":%s,\"published\":%" PRIu64 ",\"lost\":%" PRIu64
	       "}\n",
	       fault_name(r->fault.kind), r->fault.rank, r->fault.rank2, isfinite(r->fault.first_s) ? "true" : "false",
	       p->n, p->n_lost);
	fflush(stdout);
}

static int all_publish(struct run *r, const struct trials *t, struct publishing *p, double warm_s)
{
	int err;

	p->begin_ns = clock_monotonic_ns();
	snprintf(p->boot_id, sizeof(p->boot_id), "sim-%" PRIx64, p->begin_ns + clock_realtime_offset_ns());
	agents_boot(r->agents, p->boot_id);
	r->deliver = message_publish;
	r->to = p;
	err = paced_until(r, p, warm_s);
	fault_draw(&r->fault, t->kinds[0], t->severity, &r->cluster, &r->draw);
	r->armed = true;
	err = err ? err : fault_wait(r, p, r->now_s + 2 * r->cluster.shape.step_s + t->watch_s);
	fault_say(r, p);
	return err ? err : paced_until(r, p, r->now_s + t->watch_s);
}

int publish_run(struct run *r, const struct trials *t, const char *url, double warm_s)
{
	const struct bus_cfg cfg = { .url = url, .name = "ranktrace sim cluster" };
	struct sigaction on = { .sa_handler = on_signal };
	struct publishing p = { .bus = NULL };
	char error[512] = "";
	int err = bus_nats_open(&cfg, &p.bus, error, sizeof(error));

	if (err) {
		fprintf(stderr, "sim cluster: %s\n", error);
		return err;
	}
	sigaction(SIGINT, &on, NULL);
	sigaction(SIGTERM, &on, NULL);
	err = all_publish(r, t, &p, warm_s);
	if (p.n_lost)
		fprintf(stderr,
			"sim cluster: the bus did not take %" PRIu64 " of %" PRIu64 " messages: does a hub run?\n",
			p.n_lost, p.n);
	p.bus->class->close(p.bus);
	return err == -EINTR ? 0 : err;
}
