/* SPDX-License-Identifier: Apache-2.0
 *
 * wait.c - the collector's side: the system call and its arguments from /proc, what they point at by the reader, one
 * call of the worker for what lies behind descriptors; then the same for the one who is waited for, once. The call is
 * read again at the end: a thread that went on meanwhile waits for something else.
 */
#include "inspect/wait/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"
#include "inspect/reader/task_sample.h"
#include "inspect/stack/evidence.h"
#include "inspect/wait/wait_private.h"

#define TRIES 3
#define TRIES_NS 200000000ull /* none is begun later: the next round comes */
#define OWNERS_BUDGET_MS 200  /* a pass over all processes' descriptors */

struct reading { /* one reading under way */
	struct reader *r;
	unsigned deadline_ms;
	enum wait_depth depth;
	struct target_evidence e;
	struct target_wait *to;
};

/* Bytes of the target at `addr`; how many are there. */
static size_t memory_read(const struct reading *l, uint64_t addr, void *to, size_t len)
{
	struct reader_range range = { addr, to, len, 0 };

	if (!addr || !len || l->e.mmap_lock_held)
		return 0;
	return reader_memory(l->r, l->to->tgid, &range, 1, l->deadline_ms) ? 0 : range.got;
}

static uint64_t time_read(const struct reading *l, uint64_t addr, unsigned unit_ns)
{
	uint8_t bytes[16];

	return wait_time_take(bytes, memory_read(l, addr, bytes, sizeof(bytes)), unit_ns);
}

/* --- descriptors, children --- */

static void question_ask(const struct reading *l, const struct wait_question *q)
{
	struct waits_for *w = &l->to->w;
	struct wait_answer a;
	size_t len = 0;

	if (reader_run(l->r, 0, wait_op, q, sizeof(*q), l->deadline_ms, &a, sizeof(a), &len, NULL) ||
	    len != sizeof(a) || a.kind >= WAITS_KIND_MAX || a.act >= WAITS_ACT_MAX)
		return;
	w->kind = a.kind;
	w->act = a.act;
	w->flags = a.flags;
	w->pid = a.pid;
	w->n = a.n;
	w->until_ns = a.until_ns;
	w->since_ns = a.quiet_ns < w->ns ? w->ns - a.quiet_ns : 0;
	l->to->bytes = a.bytes;
	a.what[sizeof(a.what) - 1] = 0;
	memcpy(l->to->what, a.what, sizeof(a.what));
}

/* What is behind descriptors: by the name of the file at least, where the worker cannot say. */
static void fds_ask(const struct reading *l, const struct wait_fd *fds, size_t n)
{
	struct wait_question q = { .tgid = l->to->tgid,
				   .n = n,
				   .budget_ms = l->depth == WAIT_BRIEF ? 0 : OWNERS_BUDGET_MS };

	memcpy(q.fds, fds, n * sizeof(*fds));
	question_ask(l, &q);
}

static void child_ask(const struct reading *l, int ns_pid)
{
	struct wait_question q = { .tgid = l->to->tgid, .is_child = 1, .ns_pid = ns_pid > 0 ? ns_pid : 0 };

	question_ask(l, &q);
	if (ns_pid > 0)
		l->to->w.n = 1;
}

static void timer_set(struct waits_for *w, uint64_t length_ns)
{
	w->kind = WAITS_TIMER;
	w->length_ns = length_ns;
}

static void poll_sample(const struct reading *l)
{
	const uint64_t *args = l->e.args;
	struct wait_fd fds[WAIT_FDS_MAX];
	uint8_t bytes[WAIT_FDS_MAX * 8];
	size_t n = args[1] < WAIT_FDS_MAX ? args[1] : WAIT_FDS_MAX;

	n = wait_pollfds_take(bytes, memory_read(l, args[0], bytes, 8 * n), fds, WAIT_FDS_MAX);
	if (n)
		fds_ask(l, fds, n);
	else if (args[1])
		return;
	else if (!strcmp(l->e.syscall, "poll"))
		timer_set(&l->to->w, (int32_t)args[2] > 0 ? (uint64_t)args[2] * 1000000 : 0);
	else
		timer_set(&l->to->w, time_read(l, args[2], 1));
}

static void select_sample(const struct reading *l)
{
	const uint64_t *args = l->e.args;
	struct wait_fd fds[WAIT_FDS_MAX];
	uint8_t set[128];
	size_t len = (args[0] + 63) / 64 * 8, n = 0;

	len = len < sizeof(set) ? len : sizeof(set);
	for (int i = 0; i < 2; i++)
		n += wait_fdset_take(set, memory_read(l, args[1 + i], set, len), i ? WAITS_TO_WRITE : WAITS_TO_READ,
				     fds + n, WAIT_FDS_MAX - n);
	if (n)
		fds_ask(l, fds, n);
	else if (!args[1] && !args[2] && !args[3])
		timer_set(&l->to->w, time_read(l, args[4], strcmp(l->e.syscall, "select") ? 1 : 1000));
}

static void waitid_sample(const struct reading *l)
{
	struct wait_fd fd = { l->e.args[1], WAITS_TO_END };

	if (l->e.args[0] == P_PIDFD)
		fds_ask(l, &fd, 1);
	else
		child_ask(l, l->e.args[0] == P_PID ? (int)l->e.args[1] : 0);
}

/* --- locks, timers, files --- */

/* The thread of the process that calls itself so; 0 there is none. */
static uint32_t thread_of(uint32_t tgid, uint32_t ns_tid)
{
	struct proc_status status;
	struct target_thread *all = NULL;
	uint32_t found = 0;
	size_t n = 0;

	if (!ns_tid || target_threads_read(tgid, &all, &n))
		return 0;
	for (size_t i = 0; i < n && !found; i++)
		if (!proc_status_read(all[i].tid, &status) && status.ns_pid == ns_tid)
			found = all[i].tid;
	free(all);
	return found;
}

static void futex_sample(const struct reading *l)
{
	struct waits_for *w = &l->to->w;
	uint8_t bytes[20];
	size_t len = memory_read(l, l->e.args[0], bytes, sizeof(bytes));
	struct wait_futex f = { .kind = WAITS_CONDITION };

	if (len >= 4)
		f = wait_futex_of(bytes, len, l->e.args[1], l->e.args[2]);
	w->kind = f.kind;
	w->thread = f.kind == WAITS_CONDITION ? 0 : thread_of(l->to->tgid, f.owner);
	if (f.kind != WAITS_CONDITION && (!w->thread || w->thread == l->to->tid)) {
		w->kind = WAITS_CONDITION; /* it only looked like one */
		w->thread = 0;
	}
	w->act = w->kind == WAITS_THREAD ? WAITS_TO_END : WAITS_TO_OTHER;
}

/* Of another clock, as a time of CLOCK_MONOTONIC. */
static uint64_t monotonic_of(uint64_t clock, uint64_t ns)
{
	uint64_t ahead = clock == CLOCK_REALTIME   ? clock_realtime_offset_ns()
			 : clock == CLOCK_BOOTTIME ? clock_boottime_ns() - clock_monotonic_ns()
						   : 0;

	return ns > ahead ? ns - ahead : 0;
}

static void sleep_sample(const struct reading *l)
{
	const uint64_t *args = l->e.args;
	struct waits_for *w = &l->to->w;

	w->kind = WAITS_TIMER;
	if (!strcmp(l->e.syscall, "nanosleep"))
		w->length_ns = time_read(l, args[0], 1);
	else if (args[1] & TIMER_ABSTIME)
		w->until_ns = monotonic_of(args[0], time_read(l, args[2], 1));
	else
		w->length_ns = time_read(l, args[2], 1);
}

static void file_sample(const struct reading *l, enum waits_act act)
{
	struct target_wait *to = l->to;

	if (!*l->e.file)
		return;
	to->w.kind = WAITS_FILE;
	to->w.act = act;
	snprintf(to->what, sizeof(to->what), "%.*s", (int)sizeof(to->what) - 1, l->e.file);
	if (act == WAITS_TO_OPEN && !strcmp(l->e.wchan, "wait_for_partner")) {
		to->w.kind = WAITS_PIPE;
		to->w.flags |= WAITS_UNOPENED;
	}
	if (act == WAITS_TO_OTHER)
		snprintf(to->activity, sizeof(to->activity), "%s", l->e.syscall);
}

static void event_sample(const struct reading *l, const char *name)
{
	l->to->w.kind = WAITS_EVENT;
	snprintf(l->to->what, sizeof(l->to->what), "%s", name);
}

/* A call that a signal broke off and that goes on: its arguments are not those of this one. */
static void restarted_sample(const struct reading *l)
{
	if (strstr(l->e.wchan, "nanosleep"))
		l->to->w.kind = WAITS_TIMER;
	else if (strstr(l->e.wchan, "futex"))
		l->to->w.kind = WAITS_CONDITION;
}

static bool is_lock_command(uint64_t command)
{
	return command == F_SETLKW || command == F_OFD_SETLKW;
}

static void call_sample(const struct reading *l)
{
	struct wait_call c = wait_call_of(l->e.syscall_nr);
	struct wait_fd fd = { l->e.args[0], c.act };

	switch (c.ask) {
	case ASK_FD:
	case ASK_EPOLL: fds_ask(l, &fd, 1); break;
	case ASK_POLL: poll_sample(l); break;
	case ASK_SELECT: select_sample(l); break;
	case ASK_WAIT4: child_ask(l, l->e.args[0]); break;
	case ASK_WAITID: waitid_sample(l); break;
	case ASK_FUTEX: futex_sample(l); break;
	case ASK_SLEEP: sleep_sample(l); break;
	case ASK_SIGNAL: l->to->w.kind = WAITS_SIGNAL; break;
	case ASK_EVENT: event_sample(l, c.name); break;
	case ASK_FCNTL:
	case ASK_LOCK:
	case ASK_FILE:
		if (!strcmp(l->e.syscall, "restart_syscall"))
			restarted_sample(l);
		else
			file_sample(l, c.act);
		break;
	default: break;
	}
	if (l->to->w.kind == WAITS_UNKNOWN && c.ask == ASK_FD)
		file_sample(l, c.act);
	if (l->to->w.kind == WAITS_FILE && (c.ask == ASK_LOCK || (c.ask == ASK_FCNTL && is_lock_command(l->e.args[1]))))
		l->to->w.kind = WAITS_LOCK;
}

/* --- who is waited for --- */

/* "running"; of one that sleeps what it waits for itself. */
static void activity_text(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, char *to, size_t size)
{
	struct target_wait other;
	struct task_sample sample;

	*to = 0;
	if (task_sample_read(tgid, tid, &sample))
		return;
	if (sample.state == 'R')
		snprintf(to, size, "running");
	else if (sample.state == 'T' || sample.state == 't')
		snprintf(to, size, "stopped");
	else if (sample.state == 'Z' || sample.state == 'X')
		snprintf(to, size, "has ended");
	else if (!wait_sample(r, tgid, tid, deadline_ms, WAIT_BRIEF, &other))
		wait_text(&other.w, to, size);
	if (sample.state == 'D')
		snprintf(to + strlen(to), size - strlen(to), "%sblocked in D state", *to ? ", " : "");
}

void wait_name_read(uint32_t pid, uint32_t tid, char *to, size_t size)
{
	char text[64];

	if (proc_read(text, sizeof(text), "/proc/%u/task/%u/comm", pid, tid) > 0)
		snprintf(to, size, "%.*s", (int)strcspn(text, "\n"), text);
}

/* Start of a process on the monotonic clock. */
static uint64_t started_ns(uint32_t pid, uint64_t now_ns)
{
	struct proc_stat st;
	uint64_t boot_ns = clock_boottime_ns();

	if (proc_stat_read(pid, &st) || st.start_time_ns > boot_ns)
		return 0;
	return boot_ns - st.start_time_ns < now_ns ? now_ns - (boot_ns - st.start_time_ns) : 0;
}

static void other_side_sample(const struct reading *l)
{
	struct target_wait *to = l->to;
	uint32_t tgid = to->w.thread ? to->tgid : to->w.pid, tid = to->w.thread ? to->w.thread : to->w.pid;
	struct task_sample sample;

	if (!tid)
		return;
	wait_name_read(tgid, tid, to->who, sizeof(to->who));
	if (to->w.kind == WAITS_CHILD)
		to->w.since_ns = started_ns(to->w.pid, to->w.ns);
	if (!task_sample_read(tgid, tid, &sample))
		to->work_ns = sample.run_ns;
	if (l->depth != WAIT_BRIEF)
		activity_text(l->r, tgid, tid, l->deadline_ms, to->activity, sizeof(to->activity));
}

/* --- the whole --- */

static void texts_set(struct target_wait *to)
{
	to->w.what = to->what;
	to->w.who = to->who;
	to->w.activity = to->activity;
}

static void wait_clear(struct target_wait *to, uint32_t tgid, uint32_t tid)
{
	memset(to, 0, sizeof(*to));
	to->tgid = tgid;
	to->tid = tid;
	to->w.ns = clock_monotonic_ns();
	texts_set(to);
}

static void totals_read(struct target_wait *to)
{
	struct task_sample sample;

	if (!task_sample_read(to->tgid, to->tid, &sample))
		to->switches = sample.n_switches;
	if (to->w.kind == WAITS_FILE)
		to->bytes = task_sample_io_bytes(to->tgid);
	else if (to->w.kind == WAITS_CHILD && to->w.pid)
		to->bytes = task_sample_io_bytes(to->w.pid);
}

static int syscall_read(uint32_t tgid, uint32_t tid, char *to, size_t size)
{
	int n = proc_read(to, size, "/proc/%u/task/%u/syscall", tgid, tid);

	return n < 0 ? n : 0;
}

int wait_sample(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, enum wait_depth depth,
		struct target_wait *ret)
{
	struct reading l = { .r = r, .deadline_ms = deadline_ms, .depth = depth, .to = ret };
	char before[256], after[256];
	uint64_t begin_ns = clock_monotonic_ns();
	int err;

	for (int i = 0; i < TRIES && (!i || clock_monotonic_ns() < begin_ns + TRIES_NS); i++) {
		wait_clear(ret, tgid, tid);
		err = syscall_read(tgid, tid, before, sizeof(before));
		err = err ? err : evidence_read(r, tgid, tid, deadline_ms, &l.e);
		if (err)
			return err;
		if (l.e.state != 'R' && l.e.state != 'T' && l.e.state != 't')
			call_sample(&l);
		err = syscall_read(tgid, tid, after, sizeof(after));
		if (err)
			return err;
		if (!strcmp(before, after))
			break;
		wait_clear(ret, tgid, tid);
	}
	if (ret->w.kind == WAITS_CONDITION && depth == WAIT_WHOLE)
		wait_threads_follow(r, deadline_ms, ret);
	else if (ret->w.kind != WAITS_UNKNOWN)
		other_side_sample(&l);
	totals_read(ret);
	return 0;
}

int target_wait_read(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, struct target_wait *ret)
{
	return wait_sample(r, tgid, tid, deadline_ms, WAIT_WHOLE, ret);
}

void target_wait_copy(struct target_wait *to, const struct target_wait *from)
{
	*to = *from;
	texts_set(to);
}

static bool is_same(const struct target_wait *a, const struct target_wait *b)
{
	return a->tid == b->tid && a->w.kind == b->w.kind && a->w.act == b->w.act && a->w.pid == b->w.pid &&
	       a->w.thread == b->w.thread && !strcmp(a->what, b->what);
}

static bool has_moved(const struct target_wait *a, const struct target_wait *b)
{
	switch (b->w.kind) {
	case WAITS_SOCKET:
	case WAITS_FILE: return b->bytes != a->bytes;
	case WAITS_CHILD: return b->bytes != a->bytes || b->work_ns != a->work_ns;
	case WAITS_LOCK:
	case WAITS_THREAD: return b->work_ns != a->work_ns;
	default: return b->switches != a->switches;
	}
}

void target_wait_compare(const struct target_wait *before, struct target_wait *now)
{
	if (now->w.kind == WAITS_UNKNOWN || !is_same(before, now))
		return;
	now->w.flags |= has_moved(before, now) ? WAITS_MOVES : WAITS_STANDS;
	if (now->w.kind == WAITS_TIMER && now->switches != before->switches)
		now->w.flags |= WAITS_AGAIN;
}
