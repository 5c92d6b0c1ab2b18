/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy.c - the report on a job that was sampled from outside, for people, at the end of the sampling: the verdict in
 * the first lines, a line for each rank, then the evidence. Says what is not known as plainly as what is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sink/autopsy_stacks.h"
#include "sink/incident_text.h"
#include "sink/sink.h"
#include "sink/sink_io.h"

#define COMMS_SHOWN 8 /* of a rank */

struct autopsy_sink {
	struct sink base;
	int fd;
	bool colour;
	int width;             /* columns of the terminal; 0: as wide as it gets */
	struct incident *open; /* as last reported */
	size_t n, cap;
	uint64_t first_ns; /* the first sample of a communicator, 0 none */
};

/* COLUMNS is for those whose output goes through a pager. */
static int width_of(int fd)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;

	if (isatty(fd) && !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col)
		return size.ws_col;
	return columns ? atoi(columns) : 0;
}

static int autopsy_open(const char *path, struct sink **ret_sink)
{
	const char *no_colour = getenv("NO_COLOR");
	struct autopsy_sink *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->base.class = &sink_autopsy;
	s->fd = open_output(path);
	if (s->fd < 0) {
		int err = s->fd;

		free(s);
		return err;
	}
	s->width = width_of(s->fd);
	s->colour = (!no_colour || !*no_colour) && isatty(s->fd);
	*ret_sink = &s->base;
	return 0;
}

/* --- incidents --- */

static struct incident *incident_find(struct autopsy_sink *s, uint64_t number)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->open[i].number == number)
			return &s->open[i];
	return NULL;
}

static int open_keep(struct autopsy_sink *s, const struct incident *i)
{
	size_t cap = s->cap ? 2 * s->cap : 16;
	struct incident *at = incident_find(s, i->number);

	if (!at && s->n == s->cap) {
		at = realloc(s->open, cap * sizeof(*at));
		if (!at)
			return -ENOMEM;
		s->open = at;
		s->cap = cap;
		at = NULL;
	}
	if (!at) {
		at = &s->open[s->n++];
		*at = (struct incident){ 0 };
	}
	return incident_keep(at, i);
}

static int autopsy_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	struct autopsy_sink *s = (struct autopsy_sink *)base;
	struct incident *at = incident_find(s, i->number);

	(void)m;
	if (i->phase != PHASE_CLOSE)
		return open_keep(s, i);
	if (!at)
		return 0;
	finding_drop(&at->f);
	*at = s->open[--s->n];
	return 0;
}

/* --- verdict --- */

struct census {
	int n_ranks, n_seen, n_moved, n_uncounted;
};

static bool is_rank(const struct proc *p)
{
	return !p->is_child && (p->rank >= 0 || p->members);
}

/* One rank of a process that is several: by one of its members; else `of` is NULL, and the process the rank. */
struct rank_row {
	const struct proc *p;
	const struct member *of;
};

/* The next rank of the process behind `last`, which begins as { p, NULL }. False: there is none. */
static bool row_next(struct rank_row *last, bool is_first)
{
	const struct proc *p = last->p;

	if (!p->shared)
		return is_first;
	last->of = rank_above(p, is_first ? -1 : member_rank(last->of));
	return last->of;
}

static bool is_of_row(const struct member *mb, const struct rank_row *row)
{
	return !row->of || mb->device == row->of->device;
}

static void row_count(struct census *c, const struct rank_row *row)
{
	bool moved = false, counted = false;

	for (const struct member *mb = row->p->members; mb; mb = mb->next_in_proc) {
		moved |= is_of_row(mb, row) && mb->samples.moved;
		counted |= is_of_row(mb, row) && mb->samples.counted;
	}
	c->n_ranks++;
	c->n_seen += row->p->members != NULL;
	c->n_moved += moved;
	c->n_uncounted += row->p->members && !counted;
}

static struct census census_take(const struct model *m)
{
	struct census c = { 0 };

	for (const struct proc *p = m->procs; p; p = p->next) {
		struct rank_row row = { p, NULL };

		for (bool more = is_rank(p) && row_next(&row, true); more; more = row_next(&row, false))
			row_count(&c, &row);
	}
	return c;
}

static void text_scanned(struct text *t, const struct autopsy_sink *s, const struct model *m)
{
	if (s->first_ns && m->now_ns > s->first_ns)
		text_duration(t, (m->now_ns - s->first_ns) * 1e-9);
	else
		text_add(t, "no time");
}

/* No rank is behind: is it alive, or is that not known? */
static void text_no_finding(struct text *t, const struct autopsy_sink *s, const struct model *m, const struct census *c)
{
	if (!c->n_seen) {
		text_add(t, "UNKNOWN  no communicator of any rank could be read");
	} else if (c->n_moved) {
		text_add(t, "HEALTHY  %d of %d ranks entered collectives while they were sampled, for ", c->n_moved,
			 c->n_seen);
		text_scanned(t, s, m);
	} else if (c->n_uncounted == c->n_seen) {
		text_add(t, "LIMITED  this NCCL keeps no count of its collectives (2.26 and later do): which rank is "
			    "behind is not known");
	} else {
		text_add(t, "UNKNOWN  no rank is behind, and no counter moved for ");
		text_scanned(t, s, m);
		text_add(t, ": a long step, or all stalled inside one operation");
	}
	text_add(t, "\n");
}

#define MISSING_NAMED 8

/* Of a merge: those with processes. */
static int hosts_count(const struct model *m)
{
	int n = 0;

	for (const struct node *node = model_next_node(m, NULL); node; node = model_next_node(m, node))
		n += m->merged && node->n_procs;
	return n;
}

/* Of the largest communicator: ranks that no process here is. */
static void text_missing(struct text *t, const struct model *m)
{
	const struct comm *best = NULL;
	int n = 0;

	for (const struct comm *c = m->comms; c; c = c->next)
		if (c->by_rank && (!best || c->nranks > best->nranks))
			best = c;
	if (!best || best->n_seen == best->nranks)
		return;
	text_add(t,
		 hosts_count(m) > 1
			 ? "nothing is known of %d of %d ranks: their hosts are missing here, or they are gone"
			 : "not seen here (gone, not started, or on another node): %d of %d ranks",
		 best->nranks - best->n_seen, best->nranks);
	for (int r = 0; r < best->nranks && best->nranks - best->n_seen <= MISSING_NAMED; r++)
		if (!best->by_rank[r])
			text_add(t, "%s %d", n++ ? "," : best->nranks - best->n_seen == 1 ? ", rank" : ", ranks", r);
	text_add(t, "\n");
}

static void text_verdict(struct text *t, const struct autopsy_sink *s, const struct model *m)
{
	struct census c = census_take(m);

	for (size_t i = 0; i < s->n; i++) {
		incident_text_head(t, &s->open[i]);
		incident_text_place(t, &s->open[i], m);
		incident_text_sentence(t, &s->open[i]);
		text_add(t, "\n");
		incident_text_block(t, &s->open[i], m);
	}
	if (!s->n)
		text_no_finding(t, s, m, &c);
	text_add(t, "%d ranks on %s, sampled for ", c.n_ranks, m->host);
	text_scanned(t, s, m);
	text_add(t, " without a probe; communicators of %d read\n", c.n_seen);
	text_missing(t, m);
}

/* --- ranks --- */

/* The largest communicator first. */
static const struct member *member_after(const struct rank_row *row, const struct member *last)
{
	const struct member *best = NULL;
	bool past = !last;

	for (const struct member *mb = row->p->members; mb; mb = mb->next_in_proc) {
		int n = mb->comm->nranks;

		if (!is_of_row(mb, row))
			continue;
		if (mb == last) {
			past = true;
			continue;
		}
		if (last && (n > last->comm->nranks || (n == last->comm->nranks && !past)))
			continue;
		if (!best || n > best->comm->nranks)
			best = mb;
	}
	return best;
}

int autopsy_rank(const struct proc *p)
{
	const struct member *mb = p->rank < 0 ? member_after(&(struct rank_row){ p, NULL }, NULL) : NULL;

	return mb ? mb->rank : p->rank;
}

static const struct task *main_task(const struct proc *p)
{
	const struct task *t = p->tasks;

	while (t && t->tid != p->tgid)
		t = t->next;
	return t;
}

static const char *state_word(const struct task *t)
{
	static const char *const words[] = {
		[TASK_UNKNOWN] = "?",    [TASK_ON_CPU] = "runs",      [TASK_RUNNABLE] = "runs",
		[TASK_SLEEP] = "sleeps", [TASK_DISK] = "blocked (D)", [TASK_STOPPED] = "stopped",
		[TASK_DEAD] = "dead",
	};

	return t && t->seen_ns ? words[t->state] : "?";
}

/* The Python line without its directories; else the native frame, else the kernel's word. */
static const char *place_word(const struct task *t)
{
	if (t && t->stack.ns && *t->stack.python)
		return strrchr(t->stack.python, '/') ? strrchr(t->stack.python, '/') + 1 : t->stack.python;
	if (t && t->stack.ns && *t->stack.native)
		return t->stack.native;
	if (!t || t->state == TASK_RUNNABLE || t->state == TASK_ON_CPU)
		return "";
	return *t->syscall && strcmp(t->syscall, "running") ? t->syscall : t->wchan;
}

/* Exactly that wide, and two more: what is longer is cut. */
static void text_cell(struct text *t, const char *cell, int width)
{
	size_t from = t->len, at;
	int columns = 0;

	text_foreign(t, cell, NULL);
	for (at = from; at < t->len && columns < width - 2; columns++) {
		size_t n = utf8_len(t->data + at);

		at += n ? n : 1;
	}
	if (at < t->len) {
		t->len = at;
		text_add(t, "\u2026 ");
	} else {
		text_add(t, "%*s", width - columns, "");
	}
}

/* By how much others of the communicator are ahead: 0 none is. */
static uint64_t behind_by(const struct member *mb)
{
	uint64_t n = mb->entered_seq[SEQ_COLL], highest = mb->comm->highest_seq[SEQ_COLL];

	return mb->samples.counted && highest > n ? highest - n : 0;
}

static void text_member(struct text *t, const struct member *mb)
{
	uint64_t behind = behind_by(mb);

	text_add(t, "  0x%.4" PRIx64 "\u2026 %d/%d", mb->comm->hash >> 48, mb->rank, mb->comm->nranks);
	if (mb->samples.counted)
		text_add(t, " #%" PRIu64, mb->entered_seq[SEQ_COLL]);
	if (behind)
		text_add(t, " behind by %" PRIu64, behind);
	if (mb->samples.aborted)
		text_add(t, " aborted");
	if (mb->samples.async_result)
		text_add(t, " error %d", mb->samples.async_result);
}

#define HOST_COLUMNS 16

static int place_columns(int width)
{
	return width && width < 110 ? 18 : 34;
}

static void text_rank(struct text *t, const struct model *m, const struct rank_row *row, int width)
{
	size_t from = t->len;
	const struct proc *p = row->p;
	const struct task *main = main_task(p);
	const struct member *mb = member_after(row, NULL);
	int n = 0;

	text_add(t, "%5d %8u ", row->of ? member_rank(row->of) : autopsy_rank(p), p->tgid);
	if (m->merged)
		text_cell(t, p->node->name, HOST_COLUMNS);
	if (mb && mb->device >= 0)
		text_add(t, "%4d  ", mb->device);
	else
		text_add(t, "   -  ");
	text_cell(t, p->dead ? "dead" : state_word(main), 13);
	text_cell(t, place_word(main), place_columns(width));
	if (!mb)
		text_add(t, "  not read");
	for (; mb && n < COMMS_SHOWN; mb = member_after(row, mb), n++)
		text_member(t, mb);
	text_add(t, "%s\n", mb ? "  \u2026" : "");
	text_cut(t, from, width);
}

static int by_rank(const void *a, const void *b)
{
	const struct proc *x = *(const struct proc *const *)a, *y = *(const struct proc *const *)b;
	int d = strcmp(x->job->shown, y->job->shown), i = autopsy_rank(x), k = autopsy_rank(y);

	if (d)
		return d;
	return i != k ? (i < k ? -1 : 1) : x->key < y->key ? -1 : x->key > y->key;
}

static void text_ranks(struct text *t, const struct model *m, int width)
{
	const struct proc **all = calloc(m->n_procs + 1, sizeof(*all));
	size_t n = 0, from;

	for (const struct proc *p = m->procs; all && p; p = p->next)
		if (is_rank(p))
			all[n++] = p; /* lint: without room, n stays 0 */
	if (n) {
		qsort(all, n, sizeof(*all), by_rank);
		text_add(t, "\n");
		from = t->len;
		text_add(t, " RANK      PID ");
		if (m->merged)
			text_cell(t, "HOST", HOST_COLUMNS);
		text_add(t, " GPU  MAIN THREAD  %-*s  COMMUNICATORS: rank/size #collectives entered\n",
			 place_columns(width) - 2, "IN");
		text_cut(t, from, width);
	}
	for (size_t i = 0; i < n; i++) {
		struct rank_row row = { all[i], NULL };

		for (bool more = row_next(&row, true); more; more = row_next(&row, false))
			text_rank(t, m, &row, width);
	}
	free(all);
}

/* Without what stands above already; of a consequence, what its cause says. */
static struct finding evidence_left(const struct incident *i)
{
	const struct finding *f = &i->f;
	static const enum evidence_id shown[] = {
		EVIDENCE_STACK,       EVIDENCE_STACK_END,  EVIDENCE_THREAD,       EVIDENCE_TID,
		EVIDENCE_WCHAN,       EVIDENCE_SYSCALL,    EVIDENCE_PYTHON,       EVIDENCE_NATIVE_FRAME,
		EVIDENCE_KERNEL_WAIT, EVIDENCE_WAITING_IN, EVIDENCE_STACK_UNREAD, EVIDENCE_WAITS_FOR,
	};
	struct finding left = *f;
	int n = 0;

	for (int k = 0; k < f->n_evidence; k++) {
		enum evidence_id id = f->evidence[k].id;
		bool skip = *i->caused_by && id == EVIDENCE_KERNEL_STACK;

		for (size_t j = 0; j < sizeof(shown) / sizeof(shown[0]); j++)
			skip |= id == shown[j];
		if (!skip)
			left.evidence[n++] = f->evidence[k];
	}
	left.n_evidence = n;
	return left;
}

static void text_details(struct text *t, const struct autopsy_sink *s, const struct model *m)
{
	for (size_t i = 0; i < s->n; i++) {
		text_add(t, "\n");
		incident_text_head(t, &s->open[i]);
		text_add(t, "%s, confidence %.2f\n", s->open[i].id, s->open[i].f.confidence);
		struct finding left = evidence_left(&s->open[i]);

		incident_text_evidence(t, &left, m);
	}
}

static int autopsy_event(struct sink *base, const struct event *e, const struct model *m)
{
	struct autopsy_sink *s = (struct autopsy_sink *)base;
	struct text t = { .colour = s->colour };
	int err = 0;

	if (e->kind == EV_COMM_SAMPLE && !s->first_ns)
		s->first_ns = e->ts_ns;
	if (e->kind != EV_STOP || !m->procs) /* nothing was sampled: the command says why */
		return 0;
	text_verdict(&t, s, m);
	text_ranks(&t, m, s->width);
	text_stacks(&t, m, s->width);
	text_details(&t, s, m);
	err = t.data ? write_whole(s->fd, t.data, t.len) : -ENOMEM;
	free(t.data);
	return err;
}

static int autopsy_close(struct sink *base, const struct model *m)
{
	struct autopsy_sink *s = (struct autopsy_sink *)base;
	int err = close_output(s->fd);

	(void)m;
	for (size_t i = 0; i < s->n; i++)
		finding_drop(&s->open[i].f);
	free(s->open);
	free(s);
	return err;
}

const struct sink_class sink_autopsy = {
	.name = "autopsy",
	.help = "the report on a job sampled from outside: verdict, ranks, evidence",
	.lines = true,
	.open = autopsy_open,
	.event = autopsy_event,
	.incident = autopsy_incident,
	.close = autopsy_close,
};
