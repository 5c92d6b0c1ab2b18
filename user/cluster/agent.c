/* SPDX-License-Identifier: Apache-2.0
 *
 * agent.c - see agent.h. A report that the publisher has no room for is gone, and its number with it, which the hub
 * sees: the next one is whole in itself.
 */
#include "cluster/agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/utf8.h"
#include "cluster/publisher.h"
#include "cluster/report_make.h"
#include "command.h"

#define REPORT_EVERY_NS 1000000000ull
#define TICK_NS 250000000ull /* of the detectors: what is due within half of one is due now */

struct agent {
	struct sink base;
	struct report_maker *maker;
	int fd;
	uint64_t started_ns, sequence, due_ns, lost;
	bool ended; /* the publisher; it was said */
	struct agent_settings settings;
	struct agent_ask asked;
	bool settings_new, is_asked, paused, traces;
	char settings_error[256];
	struct {
		struct publisher_frame frame;
		char bytes[REPORT_BYTES_MAX];
	} out;
};

static void out_send(struct agent *a, size_t len)
{
	if (send(a->fd, &a->out, sizeof(a->out.frame) + len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return;
	a->lost++;
	if (a->ended || (errno != EPIPE && errno != ECONNRESET))
		return;
	a->ended = true;
	log_error("the process that publishes reports (ranktrace-bus) has ended: the hub sees nothing of this host "
		  "until this command is started again");
}

static void report_send(struct agent *a, const struct model *m)
{
	Cluster__NodeReport *r = report_make(a->maker, m);

	a->out.frame = (struct publisher_frame){ a->started_ns, ++a->sequence };
	r->has_agent = r->has_sequence = 1;
	r->agent = a->started_ns;
	r->sequence = a->sequence;
	r->has_lost_reports = a->lost != 0;
	r->lost_reports = a->lost;
	r->program = (char *)RANKTRACE_VERSION;
	r->has_settings = a->settings.revision != 0;
	r->settings = a->settings.revision;
	r->settings_error = *a->settings_error ? a->settings_error : NULL;
	r->has_paused = r->paused = a->paused;
	r->has_traces = r->traces = a->traces;
	out_send(a, report_pack(r, a->out.bytes));
}

/* What comes while the last question is not taken yet waits in the socket. */
static void words_hear(struct agent *a)
{
	struct publisher_word w;

	while (!a->is_asked && publisher_hear(a->fd, &w)) {
		a->is_asked = w.kind == WORD_ASK;
		a->settings_new |= w.kind == WORD_SETTINGS;
		if (w.kind == WORD_ASK)
			a->asked = w.ask;
		else
			a->settings = w.settings;
	}
}

static int agent_event(struct sink *base, const struct event *e, const struct model *m)
{
	struct agent *a = (struct agent *)base;

	if (e->kind == EV_TICK && e->ts_ns + TICK_NS / 2 >= a->due_ns) {
		a->due_ns = (e->ts_ns > a->due_ns + REPORT_EVERY_NS ? e->ts_ns : a->due_ns) + REPORT_EVERY_NS;
		report_send(a, m);
	}
	return report_maker_event(a->maker, e);
}

static int agent_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	(void)m;
	report_maker_incident(((struct agent *)base)->maker, i);
	return 0;
}

static int agent_close(struct sink *base, const struct model *m)
{
	struct agent *a = (struct agent *)base;

	(void)m;
	close(a->fd);
	report_maker_free(a->maker);
	free(a);
	return 0;
}

static const struct sink_class agent_class = {
	.name = "cluster",
	.help = "reports to the hub of a cluster",
	.event = agent_event,
	.incident = agent_incident,
	.close = agent_close,
};

const struct agent_settings *agent_settings(struct sink *base)
{
	struct agent *a = (struct agent *)base;
	bool is_new;

	words_hear(a);
	is_new = a->settings_new;
	a->settings_new = false;
	return is_new ? &a->settings : NULL;
}

bool agent_asked(struct sink *base, struct agent_ask *ret)
{
	struct agent *a = (struct agent *)base;
	bool is_asked;

	words_hear(a);
	is_asked = a->is_asked;
	if (is_asked)
		*ret = a->asked;
	a->is_asked = false;
	return is_asked;
}

void agent_answer(struct sink *base, uint64_t number, const char *host, int file, const char *error)
{
	publisher_answer(((struct agent *)base)->fd, number, host, file, error);
}

void agent_settled(struct sink *base, const struct agent_mode *state)
{
	struct agent *a = (struct agent *)base;

	a->paused = state->paused;
	a->traces = state->traces;
	snprintf(a->settings_error, sizeof(a->settings_error), "%s", state->error);
	utf8_tame(a->settings_error, "");
}

struct sink *agent_new(int fd, uint64_t started_ns)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->base.class = &agent_class;
	a->fd = fd;
	a->started_ns = started_ns;
	a->maker = report_maker_new();
	if (a->maker)
		return &a->base; /* lint: returned by the address of its first member */
	free(a);
	return NULL;
}
