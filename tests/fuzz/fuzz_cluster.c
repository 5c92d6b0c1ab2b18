/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_cluster.c - a hub as hostile hosts see it: any messages in any order, from hosts of their own and under others'
 * names, again and again, late, of any version; then what others may write: entries of logs, settings. A message that
 * was taken once is never taken again, and of a version that is not known none is.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/report.h"
#include "cluster/settings.h"
#include "hub/job.h"
#include "tests/fuzz/fuzz.h"

#define STEPS_MAX 64
#define SEC 1000000000ull

enum step { STEP_REPORT, STEP_AGAIN, STEP_FORGED, STEP_TIME, STEP_LOG, STEP_SETTINGS, STEPS };

struct cluster {
	struct hosts hosts;
	struct hub_job *job;
	uint64_t now_ns;
	uint8_t last[REPORT_BYTES_MAX]; /* the newest message */
	size_t last_len;
};

static struct host_message_id id_of(const struct cluster *c, const Cluster__NodeReport *r, const char *token)
{
	return (struct host_message_id){ token, r->host, r->boot_id, r->agent, r->sequence, r->now_ns, c->now_ns };
}

static void report_feed_to(struct cluster *c, const struct host *h, const Cluster__NodeReport *r)
{
	const char *name = r->n_processes && r->processes[0]->job ? r->processes[0]->job : "";

	if (!c->job)
		c->job = hub_job_new(name, "fuzz", NULL, r, c->now_ns);
	if (!c->job)
		abort();
	hub_job_report(c->job, h, r, c->now_ns);
}

/* `forged`: published under another host's subject. */
static void message_take(struct cluster *c, const uint8_t *data, size_t len, bool forged)
{
	Cluster__NodeReport *r;
	struct host *host = NULL;
	char token[BUS_TOKEN_MAX];
	struct host_message_id id;
	enum host_message what;

	if (report_unpack(data, len, &r))
		return;
	if (r->version > REPORT_VERSION)
		abort();
	bus_token(forged ? "another" : r->host, token);
	id = id_of(c, r, token);
	what = hosts_take(&c->hosts, &id, &host);
	if (forged && what == HOST_NEW && strcmp(r->host, "another"))
		abort();
	if (what == HOST_NEW) {
		host->paused = r->paused;
		report_feed_to(c, host, r);
		if (hosts_take(&c->hosts, &id, &host) == HOST_NEW)
			abort();
	}
	report_free(r);
}

static void time_pass(struct cluster *c, uint64_t tenths)
{
	for (uint64_t i = 0; i < tenths; i += 5) {
		c->now_ns += SEC / 2;
		if (c->job)
			hub_job_ticks(c->job, &c->hosts, c->now_ns);
	}
}

static int setting_note(void *of, const char *name, const char *value)
{
	*(size_t *)of += strlen(name) + strlen(value);
	return 0;
}

static void text_take(const uint8_t *data, size_t len, enum step what)
{
	char *text = fuzz_text(data, len), mine[SETTINGS_BYTES] = "";
	size_t sum = 0;
	struct log_entry e;

	if (what == STEP_LOG) {
		log_entry_parse(text, len, &e);
		log_entry_free(&e);
	} else {
		settings_each(text, setting_note, &sum);
		setting_put(mine, "raise", text);
	}
	free(text);
}

static void step(struct cluster *c, struct feed *f)
{
	enum step what = (enum step)(feed_number(f, 1) % STEPS);
	size_t len = feed_number(f, 2);

	len = len < f->left ? len : f->left;
	switch (what) {
	case STEP_REPORT:
	case STEP_FORGED:
		len = len < sizeof(c->last) ? len : sizeof(c->last);
		memcpy(c->last, f->at, len);
		c->last_len = len;
		message_take(c, c->last, len, what == STEP_FORGED);
		break;
	case STEP_AGAIN: message_take(c, c->last, c->last_len, false); return;
	case STEP_TIME: time_pass(c, len & 0xff); return;
	default: text_take(f->at, len, what);
	}
	f->at += len;
	f->left -= len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct cluster c;
	struct feed f = { data, size };

	memset(&c, 0, sizeof(c));
	c.now_ns = 1790000000ull * SEC;
	for (int i = 0; i < STEPS_MAX && f.left; i++)
		step(&c, &f);
	time_pass(&c, 20);
	hub_job_free(c.job);
	hosts_free(&c.hosts);
	return 0;
}
