/* SPDX-License-Identifier: Apache-2.0
 *
 * stack.c - the collector's side: what /proc says of each thread without a lock, one call of the worker for the rest,
 * and every length in its answer checked.
 */
#include "inspect/stack/stack.h"
#include "inspect/discover/discover.h"
#include "inspect/stack/evidence.h"
#include "inspect/reader/proc_files.h"
#include "inspect/stack/stack_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct stack_arg) <= READER_ARG_MAX, "all tasks of a process must fit one call");

const char *stack_end_text(enum stack_end end)
{
	switch (end) {
	case STACK_WHOLE: return "";
	case STACK_RUNNING: return "running, and no sample of it came in time";
	case STACK_NO_UNWIND: return "no unwind information for what called this";
	case STACK_BROKEN: return "what lies beyond makes no sense";
	case STACK_UNREADABLE: return "what lies beyond is not in memory";
	case STACK_TOO_DEEP: return "deeper frames left out";
	case STACK_NO_TIME: return "not read in time";
	case STACK_BLOCKED: return "the process' mmap_lock is held: its memory cannot be read";
	case STACK_REFUSED: return "its files or memory could not be read";
	case STACK_NO_PYTHON: return "";
	case STACK_NO_SAMPLE: return "running, and the kernel gives no sample of it (perf_event_open: CAP_PERFMON)";
	case STACK_UNKNOWN: return "a Python of an unknown version or without its symbols";
	}
	return "";
}

static void thread_free(struct stack_thread *t)
{
	free(t->kernel);
	free(t->native);
	free(t->python);
}

void target_stacks_free(struct target_stacks *s)
{
	for (size_t i = 0; i < s->n; i++)
		thread_free(&s->threads[i]);
	free(s->threads);
	*s = (struct target_stacks){ 0 };
}

/* False: the thread has ended. */
static bool thread_sample(struct reader *r, uint32_t tgid, const struct target_thread *from, unsigned deadline_ms,
			  struct stack_thread *ret, struct stack_task *ret_task, bool *ret_blocked)
{
	struct target_evidence e;
	struct proc_status st;

	if (evidence_read(r, tgid, from->tid, deadline_ms, &e))
		return false;
	*ret = (struct stack_thread){ .tid = from->tid, .state = e.state, .python_end = STACK_NO_PYTHON };
	memcpy(ret->name, from->name, sizeof(ret->name));
	snprintf(ret->wait, sizeof(ret->wait), "%.63s", *e.syscall ? e.syscall : e.wchan);
	snprintf(ret->file, sizeof(ret->file), "%.255s", e.file);
	ret->kernel = *e.kernel_stack ? strdup(e.kernel_stack) : NULL;
	*ret_task = (struct stack_task){ from->tid, from->tid, e.pc, e.sp };
	if (!proc_status_read(from->tid, &st))
		ret_task->ns_tid = st.ns_pid;
	*ret_blocked |= e.mmap_lock_held;
	return true;
}

/* That thread alone; 0: all of them. */
static int threads_list(uint32_t tgid, uint32_t tid, struct target_thread **ret, size_t *ret_n)
{
	if (!tid)
		return target_threads_read(tgid, ret, ret_n);
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(*ret)->tid = tid;
	*ret_n = 1;
	return 0;
}

static int threads_sample(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, struct target_stacks *s,
			  struct stack_arg *a, bool *ret_blocked)
{
	struct target_thread *rows = NULL;
	size_t n = 0;
	int rc = threads_list(tgid, tid, &rows, &n);

	if (rc)
		return rc;
	s->n_left_out = n > STACK_THREADS_MAX ? n - STACK_THREADS_MAX : 0;
	n -= s->n_left_out;
	s->threads = calloc(n + 1, sizeof(*s->threads));
	rc = s->threads ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++)
		if (thread_sample(r, tgid, &rows[i], deadline_ms, &s->threads[s->n], &a->tasks[s->n], ret_blocked))
			s->n++;
	a->n = s->n;
	free(rows);
	return rc ? rc : s->n ? 0 : -ESRCH;
}

static void ends_set(struct target_stacks *s, enum stack_end end)
{
	for (size_t i = 0; i < s->n; i++)
		s->threads[i].native_end = s->threads[i].python_end = end;
}

/* `len` bytes off the answer, NULL when it is shorter than it says. */
static const void *answer_take(const char **at, const char *end, size_t len)
{
	const char *from = *at;

	if (len > (size_t)(end - from))
		return NULL;
	*at = from + len;
	return from;
}

static void *copy_of(const void *from, size_t size)
{
	void *to = size ? malloc(size) : NULL;

	return to ? memcpy(to, from, size) : NULL;
}

static void thread_fill(struct stack_thread *t, const struct stack_row *row, const void *native, const void *python)
{
	t->native_end = row->native_end <= STACK_NO_SAMPLE ? row->native_end : STACK_BROKEN;
	t->python_end = row->python_end <= STACK_NO_SAMPLE ? row->python_end : STACK_BROKEN;
	t->sampled = row->sampled;
	t->native = copy_of(native, row->n_native * sizeof(*t->native));
	t->python = copy_of(python, row->n_python * sizeof(*t->python));
	t->n_native = t->native ? row->n_native : 0;
	t->n_python = t->python ? row->n_python : 0;
	for (size_t i = 0; i < t->n_native; i++) {
		t->native[i].func[sizeof(t->native[i].func) - 1] = '\0';
		t->native[i].module[sizeof(t->native[i].module) - 1] = '\0';
	}
	for (size_t i = 0; i < t->n_python; i++) {
		t->python[i].func[sizeof(t->python[i].func) - 1] = '\0';
		t->python[i].file[sizeof(t->python[i].file) - 1] = '\0';
	}
}

static void answer_read(struct target_stacks *s, const char *at, size_t len)
{
	const char *end = at + len;
	const struct stack_out *out = answer_take(&at, end, sizeof(*out));

	ends_set(s, STACK_NO_TIME);
	if (!out)
		return;
	s->python_version = out->python_version;
	s->python_unknown = out->python_unknown;
	for (size_t i = 0; i < s->n; i++) {
		const struct stack_row *row = answer_take(&at, end, sizeof(*row));

		if (!row || row->tid != s->threads[i].tid)
			return;
		const void *native = answer_take(&at, end, row->n_native * sizeof(struct stack_native_frame));
		const void *python =
			native ? answer_take(&at, end, row->n_python * sizeof(struct stack_python_frame)) : NULL;

		if (!python)
			return;
		thread_fill(&s->threads[i], row, native, python);
	}
}

static int parser_ask_stacks(struct reader *r, const struct stack_arg *a, int samples, unsigned deadline_ms, char *out,
			     size_t *ret_len)
{
	return parser_run_memory(r, a->pid, stack_op, a, offsetof(struct stack_arg, tasks) + a->n * sizeof(a->tasks[0]),
				 &samples, samples >= 0, deadline_ms, out, READER_OUT_MAX, ret_len);
}

/* Threads that run are sampled first. Once more without the native part when the worker died: a file of the target
 * killed it. */
static int worker_ask(struct reader *r, struct stack_arg *a, unsigned deadline_ms, char *out, size_t *ret_len)
{
	int samples = -1, rc = stack_samples_fetch(r, a, deadline_ms, &samples);

	if (rc == -ETIMEDOUT || rc == -EBUSY || rc == -ESRCH || rc == -EPIPE)
		return rc;
	rc = parser_ask_stacks(r, a, samples, deadline_ms, out, ret_len);
	if (rc == -EIO) {
		a->want_native = 0;
		rc = parser_ask_stacks(r, a, samples, deadline_ms, out, ret_len);
	}
	if (samples >= 0)
		close(samples);
	return rc;
}

/* Of the process' program; touches no disk and no lock. */
static void exe_read(struct stack_arg *a)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/%u/exe", a->pid);
	ssize_t n = readlink(link, a->exe, sizeof(a->exe) - 1);

	a->exe[n > 0 ? n : 0] = '\0';
}

static int stacks_read(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, struct target_stacks *ret)
{
	struct target_stacks s = { .tgid = tgid };
	struct stack_arg *a = calloc(1, sizeof(*a));
	char *out = malloc(READER_OUT_MAX); /* pages that no answer reaches cost nothing */
	bool blocked = false;
	size_t len = 0;
	int rc = a && out ? threads_sample(r, tgid, tid, READER_DEADLINE_MS, &s, a, &blocked) : -ENOMEM;

	if (!rc && !blocked) {
		a->pid = tgid;
		a->want_native = 1;
		a->budget_ms = deadline_ms / 2;
		exe_read(a);
		rc = worker_ask(r, a, deadline_ms, out, &len);
		blocked = rc == -ETIMEDOUT || rc == -EBUSY;
		if (!rc)
			answer_read(&s, out, len);
		else if (!blocked && rc != -ESRCH && rc != -EPIPE)
			ends_set(&s, rc == -EAGAIN || rc == -EINPROGRESS ? STACK_NO_TIME : STACK_REFUSED);
		rc = rc == -ESRCH || rc == -EPIPE ? rc : 0;
	}
	if (blocked)
		ends_set(&s, STACK_BLOCKED);
	if (rc)
		target_stacks_free(&s);
	*ret = s;
	free(out);
	free(a);
	return rc;
}

int target_stacks_read(struct reader *r, uint32_t tgid, unsigned deadline_ms, struct target_stacks *ret)
{
	return stacks_read(r, tgid, 0, deadline_ms, ret);
}

int target_stack_read_thread(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms,
			     struct target_stacks *ret)
{
	return stacks_read(r, tgid, tid, deadline_ms, ret);
}
