/* SPDX-License-Identifier: Apache-2.0
 *
 * terminal.c - findings for people, as they open, change and close: one sentence (who, what, where, since when),
 * then the evidence, indented. An update is shown only when it changes the verdict, not when a number moves.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sink/incident_text.h"
#include "sink/sink.h"
#include "sink/sink_io.h"
#include "sink/text.h"

struct shown { /* verdict last printed for one open incident */
	uint64_t number;
	enum severity severity;
	enum hang_class class;
	const char *cause;
	int n_ranks, ranks[FINDING_RANKS_MAX];
};

struct terminal_sink {
	struct sink base;
	int fd;
	bool colour;
	struct shown *shown;
	size_t n_shown, cap_shown;
};

static int terminal_open(const char *path, struct sink **ret_sink)
{
	const char *no_colour = getenv("NO_COLOR");
	struct terminal_sink *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->base.class = &sink_terminal;
	s->fd = open_output(path);
	if (s->fd < 0) {
		int err = s->fd;

		free(s);
		return err;
	}
	s->colour = (!no_colour || !*no_colour) && isatty(s->fd);
	*ret_sink = &s->base;
	return 0;
}

static void text_time(struct text *t, uint64_t ns, const struct model *m)
{
	time_t sec = (time_t)((ns + m->realtime_offset_ns) / 1000000000u);
	struct tm tm;
	char clock[16];

	if (localtime_r(&sec, &tm) && strftime(clock, sizeof(clock), "%H:%M:%S", &tm))
		text_add(t, "%s ", clock);
}

static struct shown *shown_of(struct terminal_sink *s, uint64_t number)
{
	for (size_t i = 0; i < s->n_shown; i++)
		if (s->shown[i].number == number)
			return &s->shown[i];
	return NULL;
}

static bool same_verdict(const struct shown *s, const struct finding *f)
{
	return s->severity == f->severity && s->class == f->class && !strcmp(s->cause, finding_cause_shown(f)) &&
	       s->n_ranks == f->n_ranks_all && !memcmp(s->ranks, f->ranks, sizeof(f->ranks[0]) * (size_t)f->n_ranks);
}

/* Remember what stands on the screen. Without memory nothing is remembered and the next update is shown. */
static void shown_keep(struct terminal_sink *s, const struct incident *i)
{
	struct shown *slot = shown_of(s, i->number);

	if (!slot && s->n_shown == s->cap_shown) {
		size_t cap = s->cap_shown ? 2 * s->cap_shown : 16;
		struct shown *grown = realloc(s->shown, cap * sizeof(*grown));

		if (!grown)
			return;
		s->shown = grown;
		s->cap_shown = cap;
	}
	slot = slot ? slot : &s->shown[s->n_shown++];
	*slot = (struct shown){ .number = i->number,
				.severity = i->f.severity,
				.class = i->f.class,
				.cause = finding_cause_shown(&i->f),
				.n_ranks = i->f.n_ranks_all };
	memcpy(slot->ranks, i->f.ranks, sizeof(slot->ranks));
}

static void shown_drop(struct terminal_sink *s, uint64_t number)
{
	struct shown *slot = shown_of(s, number);

	if (slot)
		*slot = s->shown[--s->n_shown];
}

static int terminal_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	struct terminal_sink *s = (struct terminal_sink *)base;
	const struct shown *old = shown_of(s, i->number);
	struct text t = { .colour = s->colour };
	int err = -ENOMEM;

	if (i->phase == PHASE_UPDATE && old && same_verdict(old, &i->f))
		return 0;
	if (i->phase == PHASE_CLOSE)
		shown_drop(s, i->number);
	else
		shown_keep(s, i);
	text_time(&t, i->t_ns, m);
	incident_text_head(&t, i);
	incident_text_sentence(&t, i);
	if (*i->caused_by)
		text_add(&t, " (consequence of %s)", i->caused_by);
	text_add(&t, "\n");
	if (i->phase != PHASE_CLOSE)
		incident_text_evidence(&t, &i->f);
	if (t.data)
		err = write_whole(s->fd, t.data, t.len, NULL);
	free(t.data);
	return err;
}

static void who_add(struct text *t, const struct event *e, const struct model *m)
{
	const struct proc *p = model_proc(m, event_proc(e));

	if (p && p->rank >= 0)
		text_add(t, "rank %d ", p->rank);
	text_add(t, "(pid %u)", e->tgid);
}

/* 61,000 */
static void count_add(struct text *t, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);

	for (int i = 0; i < len; i++)
		text_add(t, "%s%c", i && (len - i) % 3 == 0 ? "," : "", digits[i]);
}

static void percent_add(struct text *t, uint64_t hits_per_s, uint32_t cost_ns)
{
	double percent = hits_per_s * 1e-7 * cost_ns;

	text_add(t, "%.*f %%", percent < 10 ? 1 + (percent < 1) : 0, percent);
}

static void budget_add(struct text *t, const struct event *e, const struct model *m)
{
	const struct proc *p = model_proc(m, event_proc(e));

	text_add(t, "process %u", e->tgid);
	if (p && p->rank >= 0)
		text_add(t, " (rank %d)", p->rank);
	text_add(t, ": ");
	count_add(t, e->budget.hits_per_s);
	text_add(t, " probe hits a second x %.1f us = ", e->budget.cost_ns / 1e3);
	percent_add(t, e->budget.hits_per_s, e->budget.cost_ns);
	text_add(t, " of a core, ");
	if (e->budget.what != BUDGET_BACK && e->budget.of_node) {
		text_add(t, "all processes ");
		percent_add(t, e->budget.node_hits_per_s, e->budget.node_cost_ns);
	}
	text_add(t, "%s budget of %g %%: ",
		 e->budget.what == BUDGET_BACK ? "under half of its"
		 : e->budget.of_node           ? ", over their"
					       : "over its",
		 e->budget.budget_ppm * 1e-4);
	if (e->budget.what == BUDGET_KEPT)
		text_add(t, "no probes are left that may go\n");
	else if (e->budget.what == BUDGET_WATCH)
		text_add(t, "all its probes are removed, it is watched from outside\n");
	else
		text_add(t, "%s are %s\n", probe_group_what(e->budget.group),
			 e->budget.what == BUDGET_BACK ? "probed again" : "no longer probed");
}

/* What is done by itself is said, too: who is probed since when. */
static int terminal_event(struct sink *base, const struct event *e, const struct model *m)
{
	static const char *const what[] = { "probed no more", "probed: calls and waits", "probed: every call" };
	struct terminal_sink *s = (struct terminal_sink *)base;
	struct text t = { .colour = s->colour };
	int err = -ENOMEM;

	if (e->kind != EV_TIER && (e->kind != EV_BUDGET || e->budget.what == BUDGET_COST))
		return 0;
	text_time(&t, e->ts_ns, m);
	if (e->kind == EV_BUDGET) {
		budget_add(&t, e, m);
	} else {
		who_add(&t, e, m);
		text_add(&t, " is %s\n", what[e->tier.tier]);
	}
	if (t.data)
		err = write_whole(s->fd, t.data, t.len, NULL);
	free(t.data);
	return err;
}

static int terminal_close(struct sink *base, const struct model *m)
{
	struct terminal_sink *s = (struct terminal_sink *)base;
	int err = close_output(s->fd);

	(void)m;
	free(s->shown);
	free(s);
	return err;
}

const struct sink_class sink_terminal = {
	.name = "terminal",
	.help = "findings as they open and close, for people",
	.open = terminal_open,
	.event = terminal_event,
	.incident = terminal_incident,
	.close = terminal_close,
};
