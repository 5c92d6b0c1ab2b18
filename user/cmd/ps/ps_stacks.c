/* SPDX-License-Identifier: Apache-2.0
 *
 * ps_stacks.c - see ps_stacks.h. Reads the stacks of one process after the other, then prints them: as text grouped
 * over all ranks, or as JSON, a line per process.
 */
#include "cmd/ps/ps_stacks.h"

#include "base/foreign.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "command.h"
#include "inspect/reader/proc_files.h"
#include "inspect/stack/stack.h"
#include "inspect/wait/wait.h"
#include "sink/stack_group.h"

#define TEXT_MAX 16384
#define PARENTS_MAX 64
#define WAITS_SAID 4 /* of a group */

struct process {
	const struct target_proc *proc; /* NULL: the set does not know it */
	uint32_t tgid;
	int rank;
	struct target_stacks stacks;
	char **waits; /* of each thread what it waits for; NULL not looked for, or not known */
};

struct view {
	struct process *processes;
	size_t n;
	struct stack_item *items;            /* one thread each */
	const struct stack_thread **threads; /* in the same order */
	const char **waits;                  /* and of each what it waits for; NULL */
	size_t n_items;
};

/* Is it `pid`, or does it descend from it? */
static bool is_below(uint32_t tgid, uint32_t pid)
{
	struct proc_stat st;

	for (int i = 0; tgid > 1 && i < PARENTS_MAX; i++) {
		if (tgid == pid)
			return true;
		tgid = proc_stat_read(tgid, &st) ? 0 : st.parent;
	}
	return tgid == pid;
}

/* Whom a reader asks for: main threads, and those in which the job's own code may be. A rank has hundreds. */
static bool is_asked_for(const struct process *p, const struct stack_thread *t)
{
	return t->tid == p->tgid || t->n_python || t->state == 'D';
}

static void waits_read(struct reader *r, struct process *p)
{
	struct target_wait w;
	char text[640];

	p->waits = calloc(p->stacks.n + 1, sizeof(*p->waits));
	for (size_t i = 0; p->waits && i < p->stacks.n; i++) {
		uint32_t tid = p->stacks.threads[i].tid;

		if (!is_asked_for(p, &p->stacks.threads[i]) || target_wait_read(r, p->tgid, tid, WAIT_DEADLINE_MS, &w))
			continue;
		wait_text(&w.w, text, sizeof(text));
		p->waits[i] = *text ? strdup(text) : NULL;
	}
}

static void process_free(struct process *p)
{
	for (size_t i = 0; p->waits && i < p->stacks.n; i++)
		free(p->waits[i]);
	free(p->waits);
	target_stacks_free(&p->stacks);
}

static bool process_read(struct reader *r, const struct target_proc *proc, uint32_t tgid, struct process *ret)
{
	struct target_stacks stacks;
	int err = target_stacks_read(r, tgid, STACK_DEADLINE_MS, &stacks);

	if (err && err != -ESRCH) /* a process that ended meanwhile is left out */
		log_error("process %u: its threads cannot be read: %s; run as root", tgid, strerror(-err));
	if (err)
		return false;
	*ret = (struct process){ proc, tgid, proc ? proc->rank : -1, stacks, NULL };
	waits_read(r, ret);
	return true;
}

static const char *job_of(const struct process *p)
{
	return !p->proc ? "" : *p->proc->place->job ? p->proc->place->job : p->proc->job;
}

static int process_compare(const void *a, const void *b)
{
	const struct process *x = a, *y = b;
	int by_job = strcmp(job_of(x), job_of(y));

	if (by_job || x->rank != y->rank)
		return by_job ? by_job : x->rank < y->rank ? -1 : 1;
	return x->tgid < y->tgid ? -1 : x->tgid > y->tgid;
}

static bool process_add(struct reader *r, const struct target_set *set, uint32_t tgid, struct view *v)
{
	struct process *more = realloc(v->processes, (v->n + 1) * sizeof(*more));

	if (!more)
		return false;
	v->processes = more;
	v->n += process_read(r, target_set_find(set, tgid), tgid, &v->processes[v->n]);
	return true;
}

/* `pid` and all its descendants, training or not. */
static int tree_read(struct reader *r, const struct target_set *set, uint32_t pid, struct view *v)
{
	DIR *dir = opendir("/proc");
	int err = dir ? 0 : -errno;

	for (struct dirent *e; dir && !err && (e = readdir(dir));) {
		uint32_t tgid = strtoul(e->d_name, NULL, 10);

		if (tgid && is_below(tgid, pid) && !is_below(tgid, getpid()) && !process_add(r, set, tgid, v))
			err = -ENOMEM;
	}
	if (dir)
		closedir(dir);
	if (!err && !v->n)
		log_info("process %u: no such process, or it has ended", pid);
	return err;
}

static int processes_read(struct reader *r, struct target_set *set, uint32_t pid, struct view *v)
{
	size_t n;
	const struct target_proc *const *list = target_set_list(set, &n);
	int err = 0;

	if (pid)
		err = tree_read(r, set, pid, v);
	else
		for (size_t i = 0; !err && i < n; i++)
			err = process_add(r, set, list[i]->tgid, v) ? 0 : -ENOMEM;
	if (v->n)
		qsort(v->processes, v->n, sizeof(*v->processes), process_compare);
	return err;
}

/* ---- text ---- */

/* Equal threads have the same wait and the same frames. */
static char *thread_key(const struct stack_thread *t)
{
	char *text = malloc(TEXT_MAX);

	if (!text)
		return NULL;
	int used = snprintf(text, 128, "%c %s\n", t->state ? t->state : '?', t->wait);

	stack_thread_text(t, text + used, TEXT_MAX - used);
	char *fit = realloc(text, strlen(text) + 1);

	return fit ? fit : text; /* lint: what does not shrink is returned as it is */
}

static int items_make(struct view *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n; i++)
		n += v->processes[i].stacks.n;
	v->items = calloc(n + 1, sizeof(*v->items));
	v->threads = calloc(n + 1, sizeof(*v->threads));
	v->waits = calloc(n + 1, sizeof(*v->waits));
	if (!v->items || !v->threads || !v->waits)
		return -ENOMEM;
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->processes[i].stacks.n; k++) {
			const struct process *p = &v->processes[i];
			const struct stack_thread *t = &p->stacks.threads[k];
			char *key = thread_key(t);

			if (!key)
				return -ENOMEM;
			v->threads[v->n_items] = t;
			v->waits[v->n_items] = p->waits ? p->waits[k] : NULL;
			v->items[v->n_items++] = (struct stack_item){ key, p->rank, p->tgid, t->tid };
		}
	return 0;
}

static void lines_print(const char *indent, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		foreign_print("%s%.*s\n", indent, (int)len, text);
		text += len + (text[len] == '\n');
	}
}

static void end_print(const struct stack_thread *t)
{
	const char *native = stack_end_text(t->native_end), *python = stack_end_text(t->python_end);

	if (*native)
		foreign_print("      (%s)\n", native);
	if (*python && strcmp(native, python))
		foreign_print("      (Python: %s)\n", python);
}

static void who_print(const struct stack_item *items, const size_t *order, size_t n)
{
	const struct stack_item *last = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct stack_item *it = &items[order[i]];

		if (last && last->tgid == it->tgid) {
			foreign_print(",%u", it->tid);
		} else {
			foreign_print("%s", i ? "; " : "    ");
			if (it->rank >= 0)
				foreign_print("rank %d ", it->rank);
			foreign_print("pid %u thread %u", it->tgid, it->tid);
		}
		last = it;
	}
	foreign_print("\n");
}

/* Each sentence once: peers of one stack may wait for different ones. */
static void waits_print(const struct view *v, size_t first, const size_t *order, const struct stack_group *g)
{
	int n_said = 0;

	for (size_t i = 0; i < g->n; i++) {
		const char *text = v->waits[first + order[g->first + i]], *before = NULL;

		for (size_t k = 0; text && k < i && (!before || strcmp(before, text)); k++)
			before = v->waits[first + order[g->first + k]];
		if (!text || (before && !strcmp(before, text)))
			continue;
		if (n_said++ == WAITS_SAID) {
			foreign_print("      ...\n");
			return;
		}
		foreign_print("      %s\n", text);
	}
}

static void group_print(const struct view *v, size_t first, const size_t *order, const struct stack_group *g)
{
	const struct stack_item *items = v->items + first, *it = &items[order[g->first]];
	const struct stack_thread *t = v->threads[first + order[g->first]];
	const char *of = it->rank >= 0 ? g->n_ranks == 1 ? "rank" : "ranks" : g->n_ranks == 1 ? "process" : "processes";

	foreign_print("%zu thread%s of %zu %s: %s, %c", g->n, g->n == 1 ? "" : "s", g->n_ranks, of, t->name,
		      t->state ? t->state : '?');
	foreign_print("%s%s%s%s\n", *t->wait ? " in " : "", t->wait, *t->file ? " of " : "", t->file);
	who_print(items, order + g->first, g->n);
	waits_print(v, first, order, g);
	if (t->kernel)
		lines_print("      [kernel] ", t->kernel);
	lines_print("      ", it->text + strcspn(it->text, "\n") + 1);
	end_print(t);
	foreign_print("\n");
}

/* Compares the ranks of one job, never of two jobs: n items from `first` on. */
static int job_print(const struct view *v, size_t first, size_t n)
{
	size_t *order = calloc(n + 1, sizeof(*order));
	struct stack_group *groups = calloc(n + 1, sizeof(*groups));
	int err = order && groups ? 0 : -ENOMEM;
	size_t n_groups = err ? 0 : stack_groups_make(v->items + first, n, order, groups);

	for (size_t i = 0; i < n_groups; i++)
		group_print(v, first, order, &groups[i]);
	free(order);
	free(groups);
	return err;
}

static int jobs_print(const struct view *v)
{
	size_t first = 0, end = 0;
	int err = 0;

	for (size_t i = 0; !err && i < v->n; i++) {
		end += v->processes[i].stacks.n;
		if (i + 1 < v->n && !strcmp(job_of(&v->processes[i]), job_of(&v->processes[i + 1])))
			continue;
		if (*job_of(&v->processes[i]))
			foreign_print("== job %s\n\n", job_of(&v->processes[i]));
		err = job_print(v, first, end - first);
		first = end;
	}
	return err;
}

static int text_print(struct view *v)
{
	int err = items_make(v);

	if (!err)
		err = jobs_print(v);
	for (size_t i = 0; i < v->n_items; i++)
		free((char *)v->items[i].text);
	free(v->items);
	free(v->threads);
	free(v->waits);
	return err;
}

/* ---- JSON ---- */

static cJSON *native_json(const struct stack_thread *t)
{
	cJSON *rows = cJSON_CreateArray();

	for (size_t i = 0; i < t->n_native; i++) {
		cJSON *o = cJSON_CreateObject();

		foreign_json(o, "func", t->native[i].func);
		cJSON_AddNumberToObject(o, "delta", t->native[i].delta);
		foreign_json(o, "module", t->native[i].module);
		cJSON_AddBoolToObject(o, "guessed", t->native[i].guessed);
		cJSON_AddItemToArray(rows, o);
	}
	return rows;
}

static cJSON *python_json(const struct stack_thread *t)
{
	cJSON *rows = cJSON_CreateArray();

	for (size_t i = 0; i < t->n_python; i++) {
		cJSON *o = cJSON_CreateObject();

		foreign_json(o, "func", t->python[i].func);
		foreign_json(o, "file", t->python[i].file);
		cJSON_AddNumberToObject(o, "line", t->python[i].line);
		cJSON_AddItemToArray(rows, o);
	}
	return rows;
}

static cJSON *thread_json(const struct stack_thread *t, const char *waits_for)
{
	cJSON *o = cJSON_CreateObject();
	char state[2] = { t->state, 0 };

	cJSON_AddNumberToObject(o, "tid", t->tid);
	foreign_json(o, "name", t->name);
	foreign_json(o, "state", state);
	foreign_json(o, "wait", t->wait);
	foreign_json(o, "file", t->file);
	foreign_json(o, "waits_for", waits_for ? waits_for : "");
	foreign_json(o, "kernel", t->kernel ? t->kernel : "");
	cJSON_AddItemToObject(o, "native", native_json(t));
	foreign_json(o, "native_end", stack_end_text(t->native_end));
	cJSON_AddItemToObject(o, "python", python_json(t));
	foreign_json(o, "python_end", stack_end_text(t->python_end));
	return o;
}

/* Before 3.11 the micro version is unknown. */
static void version_text(int version, char *to, size_t size)
{
	int used = version ? snprintf(to, size, "%d.%d", version >> 16, version >> 8 & 0xff)
			   : snprintf(to, size, "%s", "");

	if (version >= 0x030b00)
		snprintf(to + used, size - used, ".%d", version & 0xff);
}

static void process_print_json(const struct process *p)
{
	cJSON *o = cJSON_CreateObject(), *threads = cJSON_CreateArray();
	char version[16], *text;

	version_text(p->stacks.python_version, version, sizeof(version));
	cJSON_AddNumberToObject(o, "pid", p->tgid);
	cJSON_AddNumberToObject(o, "rank", p->rank);
	cJSON_AddBoolToObject(o, "is_child", p->proc && p->proc->is_child);
	foreign_json(o, "job", job_of(p));
	foreign_json(o, "python", version);
	cJSON_AddNumberToObject(o, "threads_left_out", p->stacks.n_left_out);
	for (size_t i = 0; i < p->stacks.n; i++)
		cJSON_AddItemToArray(threads, thread_json(&p->stacks.threads[i], p->waits ? p->waits[i] : NULL));
	cJSON_AddItemToObject(o, "threads", threads);
	text = cJSON_PrintUnformatted(o);
	if (text)
		puts(text);
	free(text);
	cJSON_Delete(o);
}

int ps_stacks_print(struct reader *r, struct target_set *set, uint32_t pid, bool json)
{
	struct view v = { 0 };

	/* One process at a time, each up to its deadline: `ps --stacks` may wait for a blocked process. */
	reader_set_timeout(r, 0);
	int err = processes_read(r, set, pid, &v);
	int code = !pid ? ps_end(v.n) : v.n ? EXIT_CLEAN : EXIT_UNSUPPORTED;

	for (size_t i = 0; !err && json && i < v.n; i++)
		process_print_json(&v.processes[i]);
	if (!err && !json)
		err = text_print(&v);
	if (err)
		log_error("stacks: %s", strerror(-err));
	for (size_t i = 0; i < v.n; i++)
		process_free(&v.processes[i]);
	free(v.processes);
	return err ? EXIT_INTERNAL : code;
}
