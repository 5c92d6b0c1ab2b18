/* SPDX-License-Identifier: Apache-2.0
 *
 * terminal.c - findings for people, as they open, change and close: a sentence, then where, why, what to do; with
 * --verbose all of the evidence. An update is shown only when it changes the verdict, not when a number moves. The
 * culprit's call site is read once it is suspected: a finding waits for it up to a second. What follows from another
 * finding, and a wait that is usual here, is one line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "sink/incident_text.h"
#include "sink/lines_out.h"
#include "sink/sink.h"
#include "sink/sink_io.h"
#include "sink/text.h"

#define CALL_SITE_NS 1100000000ull /* a second, and the tick that brings what was read in it */

struct verdict {
	enum severity severity;
	enum hang_class class;
	uint64_t cause; /* hash of what is shown of it */
	bool needs_call_site;
};

struct shown { /* verdict last printed for one open incident */
	uint64_t number;
	struct verdict v;
	int n_ranks, ranks[FINDING_RANKS_MAX];
};

struct held { /* opened, and not printed yet */
	struct incident i;
	struct held *next;
};

struct terminal_sink {
	struct sink base;
	struct lines_out out;
	bool colour;
	int columns; /* of the screen; 0: it is none, and a line stays one */
	struct shown *shown;
	size_t n_shown, cap_shown;
	struct held *held; /* oldest first */
};

static int screen_columns(int fd)
{
	struct winsize size;

	return isatty(fd) && !ioctl(fd, TIOCGWINSZ, &size) ? size.ws_col : 0;
}

static int terminal_open(const char *path, struct sink **ret_sink)
{
	const char *no_colour = getenv("NO_COLOR");
	struct terminal_sink *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->base.class = &sink_terminal;
	err = lines_out_open(&s->out, path);
	if (err) {
		free(s);
		return err;
	}
	s->columns = screen_columns(s->out.fd);
	s->colour = (!no_colour || !*no_colour) && isatty(s->out.fd);
	*ret_sink = &s->base;
	return 0;
}

/* "2026-11-23 15:02:07 UTC " */
static void text_time(struct text *t, uint64_t ns, const struct model *m)
{
	time_t sec = (time_t)((ns + m->realtime_offset_ns) / 1000000000u);
	struct tm tm;
	char clock[40];

	if (localtime_r(&sec, &tm) && strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S %Z", &tm))
		text_add(t, "%s  ", clock);
}

static struct shown *shown_of(struct terminal_sink *s, uint64_t number)
{
	for (size_t i = 0; i < s->n_shown; i++)
		if (s->shown[i].number == number)
			return &s->shown[i];
	return NULL;
}

/* A line without a block: a consequence, the end, and a wait that deserves no warning. A cause that was seen late has
 * the remedy. */
static bool is_brief(const struct incident *i)
{
	return (*i->caused_by && !i->explains) || i->phase == PHASE_CLOSE ||
	       (i->f.kind == FINDING_HANG && i->f.severity == SEVERITY_INFO);
}

/* The call site is what is missing: of a rank that others wait for. */
static bool needs_call_site(const struct incident *i)
{
	const struct finding *f = &i->f;

	return !*i->caused_by && (f->kind == FINDING_HANG || f->kind == FINDING_OBSERVATION) && f->n_ranks &&
	       f->class != HANG_PROCESS_DEAD && f->class != HANG_NONE && !incident_has_call_site(f);
}

/* What a rank does that does not come changes back and forth, between work and sleep, and so does how sure that is: no
 * verdicts of their own. */
static struct verdict verdict_of(const struct incident *i)
{
	const struct finding *f = &i->f;
	struct verdict v = { f->severity, f->class, hash_text(0, finding_cause_shown(f)),
			     needs_call_site(i) && !is_brief(i) };

	if (f->class != HANG_MISSING_ENTER && f->class != HANG_INIT && f->class != HANG_UNKNOWN)
		return v;
	if (f->cause == CAUSE_ASLEEP || f->cause == CAUSE_BUSY || f->cause == CAUSE_GPU || f->cause == CAUSE_UNKNOWN) {
		v.class = f->class == HANG_UNKNOWN ? HANG_MISSING_ENTER : f->class;
		v.cause = 0;
	}
	return v;
}

static bool same_verdict(const struct shown *s, const struct incident *i)
{
	const struct finding *f = &i->f;
	struct verdict v = verdict_of(i);

	return s->v.severity == v.severity && s->v.class == v.class && s->v.cause == v.cause &&
	       !(s->v.needs_call_site && !v.needs_call_site) && s->n_ranks == f->n_ranks_all &&
	       !memcmp(s->ranks, f->ranks, sizeof(f->ranks[0]) * (size_t)f->n_ranks);
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
	*slot = (struct shown){ .number = i->number, .v = verdict_of(i), .n_ranks = i->f.n_ranks_all };
	memcpy(slot->ranks, i->f.ranks, sizeof(slot->ranks));
}

static void shown_drop(struct terminal_sink *s, uint64_t number)
{
	struct shown *slot = shown_of(s, number);

	if (slot)
		*slot = s->shown[--s->n_shown];
}

static int incident_print(struct terminal_sink *s, const struct incident *i, const struct model *m)
{
	struct text t = { .colour = s->colour };
	int err = -ENOMEM;

	if (i->phase == PHASE_CLOSE)
		shown_drop(s, i->number);
	else
		shown_keep(s, i);
	text_time(&t, i->t_ns, m);
	incident_text_head(&t, i);
	incident_text_place(&t, i, m);
	incident_text_sentence(&t, i);
	if (is_brief(i))
		incident_text_id(&t, i, " (", ")\n");
	else
		text_add(&t, "\n");
	if (!is_brief(i))
		incident_text_block(&t, i, m);
	if (i->phase != PHASE_CLOSE && log_verbose)
		incident_text_evidence(&t, &i->f, m);
	text_fold(&t, s->columns);
	if (t.data)
		err = lines_out_put(&s->out, t.data, t.len);
	free(t.data);
	return err;
}

/* --- findings that wait for the culprit's call site --- */

static bool waits_for_call_site(const struct incident *i)
{
	return i->phase == PHASE_OPEN && needs_call_site(i);
}

static void held_free(struct held *h)
{
	finding_drop(&h->i.f);
	free(h);
}

/* False: no memory to hold it. */
static bool held_add(struct terminal_sink *s, const struct incident *i)
{
	struct held **link = &s->held, *h = calloc(1, sizeof(*h));

	if (!h || incident_keep(&h->i, i)) {
		free(h);
		return false;
	}
	while (*link)
		link = &(*link)->next;
	*link = h;
	return true;
}

/* Prints those that were held since `before_ns` or longer. */
static int held_release(struct terminal_sink *s, uint64_t before_ns, const struct model *m)
{
	struct held *h;
	int err = 0;

	while (!err && (h = s->held) && h->i.t_ns <= before_ns) {
		s->held = h->next;
		err = incident_print(s, &h->i, m);
		held_free(h);
	}
	return err;
}

/* It changed or ended while it was held: with its call site it is printed as it opened, else both are. */
static int held_change(struct terminal_sink *s, const struct incident *i, const struct model *m)
{
	struct held **link = &s->held, *h;
	struct incident now;
	int err;

	while (*link && (*link)->i.number != i->number)
		link = &(*link)->next;
	h = *link;
	if (!h)
		return 0;
	now = h->i;
	if (i->phase == PHASE_UPDATE)
		now.f = i->f;
	if (i->phase == PHASE_UPDATE && !incident_has_call_site(&i->f))
		return incident_keep(&h->i, &now);
	*link = h->next;
	err = incident_print(s, &now, m);
	held_free(h);
	return err;
}

static bool is_held(const struct terminal_sink *s, uint64_t number)
{
	for (const struct held *h = s->held; h; h = h->next)
		if (h->i.number == number)
			return true;
	return false;
}

static int terminal_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	struct terminal_sink *s = (struct terminal_sink *)base;
	const struct shown *old;
	int err = held_change(s, i, m);

	old = shown_of(s, i->number);
	if (err || is_held(s, i->number) || (i->phase == PHASE_UPDATE && old && same_verdict(old, i)))
		return err;
	return waits_for_call_site(i) && held_add(s, i) ? 0 : incident_print(s, i, m);
}

/* "rank 3", "ranks 0, 1", behind `before`. False: it is not known, and nothing is added. */
static bool ranks_add(struct text *t, const char *before, const struct proc *p)
{
	const struct member *mb = p && p->shared ? rank_above(p, -1) : NULL;

	if (!mb && (!p || sink_rank(p) < 0))
		return false;
	if (!mb)
		text_add(t, "%srank %d", before, sink_rank(p));
	else
		text_add(t, "%sranks %d", before, member_rank(mb));
	while (mb && (mb = rank_above(p, member_rank(mb))))
		text_add(t, ", %d", member_rank(mb));
	return true;
}

static void who_add(struct text *t, const struct event *e, const struct model *m)
{
	text_add(t, ranks_add(t, "", model_proc(m, event_proc(e))) ? " (pid %u)" : "pid %u", e->tgid);
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
	text_add(t, ranks_add(t, " (", p) ? "): " : ": ");
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
	int err = s->held && e->ts_ns > CALL_SITE_NS ? held_release(s, e->ts_ns - CALL_SITE_NS, m) : 0;

	if (err ||
	    (e->kind != EV_TIER && (e->kind != EV_BUDGET || e->budget.what == BUDGET_COST || e->budget.of_other)))
		return err;
	err = -ENOMEM;
	text_time(&t, e->ts_ns, m);
	if (e->kind == EV_BUDGET) {
		budget_add(&t, e, m);
	} else {
		who_add(&t, e, m);
		text_add(&t, " is %s\n", what[e->tier.tier]);
	}
	if (t.data)
		err = lines_out_put(&s->out, t.data, t.len);
	free(t.data);
	return err;
}

static int terminal_flush(struct sink *base)
{
	return lines_out_flush(&((struct terminal_sink *)base)->out);
}

static int terminal_close(struct sink *base, const struct model *m)
{
	struct terminal_sink *s = (struct terminal_sink *)base;
	struct held *h;
	int err = held_release(s, UINT64_MAX, m), closed = lines_out_close(&s->out);

	err = err ? err : closed;
	while ((h = s->held)) {
		s->held = h->next;
		held_free(h);
	}
	free(s->shown);
	free(s);
	return err;
}

const struct sink_class sink_terminal = {
	.name = "terminal",
	.help = "findings as they open and close, for people",
	.lines = true,
	.open = terminal_open,
	.event = terminal_event,
	.incident = terminal_incident,
	.flush = terminal_flush,
	.close = terminal_close,
};
