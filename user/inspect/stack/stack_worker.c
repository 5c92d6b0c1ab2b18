/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_worker.c - the job in the parser: the target's mappings, then for each thread its native and its Python frames,
 * and at the end names for all of them, so that each file's symbols are gone through once.
 */
#include "base/clock.h"
#include "inspect/stack/stack_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pass {
	struct stack_process p;
	struct memory memory;
	struct python_runtime python;
	struct python_thread *threads;
	size_t n_threads;
	struct stack_samples samples; /* of threads that run */
	uint64_t until_ns;
	struct reader_job *job;
};

/* Where all native frames of the answer are, so that they can be named together. */
struct frame_place {
	struct stack_native_frame *frame;
	const struct mapping *row;
	uint64_t offset;
};

static void *out_take(struct reader_job *job, size_t size)
{
	if (size > job->out_max - job->out_len)
		return NULL;
	void *at = job->out + job->out_len;

	memset(at, 0, size);
	job->out_len += size;
	return at;
}

/* ---- threads that run ---- */

static enum stack_end running_unwind(struct pass *s, const struct stack_task *t, struct stack_pc *pcs, size_t *n,
				     struct stack_row *row)
{
	const struct stack_sample *one = NULL;
	enum stack_end end;

	for (size_t i = 0; i < s->samples.n; i++)
		if (s->samples.row[i].tid == t->tid)
			one = &s->samples.row[i];
	if (!one || !one->regs.pc)
		return one && one->err ? STACK_NO_SAMPLE : STACK_RUNNING;
	if (one->asleep)
		return stack_unwind(&s->p, &one->regs, pcs, STACK_FRAMES_MAX, n);
	row->sampled = 1;
	stack_memory_overlay(s->p.memory, one->sp, one->stack, one->stack_len);
	end = stack_unwind(&s->p, &one->regs, pcs, STACK_FRAMES_MAX, n);
	stack_memory_overlay(s->p.memory, 0, NULL, 0);
	return end;
}

static void native_add(struct pass *s, const struct stack_task *t, struct stack_row *row)
{
	struct stack_regs regs = stack_regs_of(t->pc, t->sp);
	struct stack_pc pcs[STACK_FRAMES_MAX];
	size_t n = 0;

	row->native_end =
		t->pc ? stack_unwind(&s->p, &regs, pcs, STACK_FRAMES_MAX, &n) : running_unwind(s, t, pcs, &n, row);
	for (size_t i = 0; i < n; i++) {
		struct stack_native_frame *f = out_take(s->job, sizeof(*f));

		if (!f) {
			row->native_end = STACK_NO_TIME;
			return;
		}
		f->pc = pcs[i].pc;
		f->guessed = pcs[i].guessed;
		row->n_native++;
	}
}

static void python_add(struct pass *s, const struct stack_task *t, struct stack_row *row)
{
	static struct stack_python_frame frames[STACK_FRAMES_MAX];
	size_t n = 0;

	row->python_end = s->python.unknown ? STACK_UNKNOWN : STACK_NO_PYTHON;
	for (size_t i = 0; i < s->n_threads; i++)
		if (s->threads[i].ns_tid == t->ns_tid) {
			row->python_end = python_frames_read(&s->p, &s->python, s->threads[i].frame, frames,
							     STACK_FRAMES_MAX, &n);
			break;
		}
	struct stack_python_frame *to = n ? out_take(s->job, n * sizeof(*to)) : NULL;

	if (to)
		memcpy(to, frames, n * sizeof(*to));
	else if (n)
		row->python_end = STACK_NO_TIME;
	row->n_python = to ? n : 0;
}

static void python_open(struct pass *s, const struct stack_arg *a)
{
	python_runtime_find(&s->p, &s->python);
	if (!s->python.version || s->python.unknown)
		return;
	s->threads = calloc(STACK_THREADS_MAX, sizeof(*s->threads));
	if (!s->threads)
		return;
	s->n_threads = python_threads_list(&s->p, &s->python, s->threads, STACK_THREADS_MAX);
	python_threads_match(&s->p, s->threads, s->n_threads, a->tasks, a->n);
}

/* ---- names ---- */

static int place_compare(const void *a, const void *b)
{
	const struct frame_place *x = a, *y = b;

	if (x->row->inode != y->row->inode)
		return x->row->inode < y->row->inode ? -1 : 1;
	return x->row->dev_minor < y->row->dev_minor ? -1 : x->row->dev_minor > y->row->dev_minor;
}

static void module_name(struct stack_native_frame *f, const struct mapping *row)
{
	const char *slash = strrchr(row->path, '/');

	snprintf(f->module, sizeof(f->module), "%s", slash ? slash + 1 : row->path);
}

static void file_name_frames(struct frame_place *places, size_t n)
{
	struct stack_file *f = stack_file_get(places[0].row);
	uint64_t *offsets = malloc(n * sizeof(*offsets));
	struct elf_name *names = calloc(n, sizeof(*names));

	for (size_t i = 0; offsets && i < n; i++)
		offsets[i] = places[i].offset;
	if (f && offsets && names && stack_file_names(f, offsets, n, names) >= 0)
		for (size_t i = 0; i < n; i++) {
			uint64_t back = mapping_file_offset(places[i].row, places[i].frame->pc) - places[i].offset;

			snprintf(places[i].frame->func, sizeof(places[i].frame->func), "%.*s",
				 (int)sizeof(places[i].frame->func) - 1, names[i].name);
			places[i].frame->delta = names[i].delta + back;
		}
	free(offsets);
	free(names);
}

/* A return address may be the first byte of the next function: look at the call before it. */
static size_t places_fill(struct pass *s, struct frame_place *places, size_t max)
{
	char *at = s->job->out + sizeof(struct stack_out), *end = s->job->out + s->job->out_len;
	size_t n = 0;

	while (at < end) {
		struct stack_row *row = (struct stack_row *)at;
		struct stack_native_frame *frames = (struct stack_native_frame *)(row + 1);

		for (size_t i = 0; i < row->n_native && n < max; i++) {
			const struct mapping *m = maps_find(&s->memory.maps, frames[i].pc - (i > 0));

			if (!m)
				continue;
			module_name(&frames[i], m);
			if (m->inode)
				places[n++] = (struct frame_place){ &frames[i], m,
								    mapping_file_offset(m, frames[i].pc - (i > 0)) };
		}
		at = (char *)(frames + row->n_native) + row->n_python * sizeof(struct stack_python_frame);
	}
	return n;
}

static void name_all(struct pass *s)
{
	size_t max = s->job->out_len / sizeof(struct stack_native_frame);
	struct frame_place *places = calloc(max + 1, sizeof(*places));

	if (!places)
		return;
	size_t n = places_fill(s, places, max), begin = 0;

	qsort(places, n, sizeof(*places), place_compare);
	for (size_t i = 1; i <= n; i++)
		if (i == n || place_compare(&places[i], &places[begin])) {
			file_name_frames(places + begin, i - begin);
			begin = i;
		}
	free(places);
}

static void rows_add(struct pass *s, const struct stack_arg *a)
{
	for (uint32_t i = 0; i < a->n; i++) {
		struct stack_row *row = out_take(s->job, sizeof(*row));

		if (!row)
			return;
		row->tid = a->tasks[i].tid;
		if (clock_monotonic_ns() > s->until_ns) {
			row->native_end = row->python_end = STACK_NO_TIME;
			continue;
		}
		if (a->want_native)
			native_add(s, &a->tasks[i], row);
		else
			row->native_end = STACK_REFUSED;
		python_add(s, &a->tasks[i], row);
	}
}

static int process_read(struct pass *s, const struct stack_arg *a)
{
	struct stack_out *out = out_take(s->job, sizeof(*out));
	int rc = out ? stack_memory_open(&s->memory, &s->p.memory) : -EMSGSIZE;

	if (rc)
		return rc;
	stack_files_trim();
	python_open(s, a);
	out->python_version = s->python.version;
	out->python_unknown = s->python.unknown;
	if (s->job->n_fds > MEMORY_FILES)
		stack_samples_load(s->job->fds[MEMORY_FILES], &s->samples);
	rows_add(s, a);
	name_all(s);
	stack_samples_free(&s->samples);
	stack_memory_free(s->p.memory);
	free(s->threads);
	return 0;
}

int stack_op(struct reader_job *job)
{
	const struct stack_arg *a = job->arg;
	struct pass s = { .job = job, .until_ns = clock_monotonic_ns() + a->budget_ms * 1000000ull };
	int rc = memory_open(job->fds, &s.memory);

	if (rc)
		return rc;
	s.p.exe = a->exe;
	s.p.maps = &s.memory.maps;
	rc = process_read(&s, a);
	memory_free(&s.memory);
	return rc;
}
