/* SPDX-License-Identifier: Apache-2.0
 *
 * test_storage.c - how long ranks are blocked on file systems: from the record to the sums of a rank and its children,
 * and which system calls are about files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "pipeline/decode.h"
#include "model/storage/storage.h"
#include "tests/unit/job/job_script.h"
#include "tracers/sched/sched.h"
#include "tracers/sched/storage.h"

#define MS 1000000ull
#define DEVICE 52u
#define NFS "/data (nfs4 filer:/export, 0:52)"

enum { READ = STORAGE_AT(DEVICE, STORAGE_READ), FLUSH = STORAGE_AT(DEVICE, STORAGE_FLUSH), CHILD = 5 };

static struct model *m;
static struct intern *strings;

static union {
	struct sched_storage r;
	char bytes[512];
} rec;

static void process(int rank, int pid_of, bool is_child)
{
	struct event e = job_event(EV_PROC, pid_of, 1);

	e.proc.rank = rank;
	e.proc.is_child = is_child;
	e.proc.parent_tgid = is_child ? job_pid(rank) : 0;
	e.proc.job = e.proc.name = e.proc.container = e.proc.pod = "";
	assert_int_equal(model_apply(m, &e), 0);
}

static int begin(void **state)
{
	(void)state;
	strings = intern_new();
	m = model_new();
	process(0, 0, false);
	process(1, 1, false);
	process(0, CHILD, true);
	return 0;
}

static int end(void **state)
{
	(void)state;
	model_free(m);
	intern_free(strings);
	return 0;
}

/* Sums as the process `who` has them by now. */
static void put(int who, uint32_t at, uint64_t blocked_ms, uint64_t longest_ms, uint64_t calls, const char *file)
{
	rec.r = (struct sched_storage){ .hdr = { sizeof(rec.r), WIRE_SCHED, SCHED_STORAGE, job_pid(who), job_pid(who),
						 0, 10 * MS },
					.body = { .at = at,
						  .blocked_ns = blocked_ms * MS,
						  .calls = calls,
						  .longest_ns = longest_ms * MS,
						  .by_length = { [STORAGE_BOUNDS] = calls } } };
	strcpy(rec.r.body.file, file);
	strcpy(rec.r.text, NFS);
	rec.r.mount_len = sizeof(NFS);
	rec.r.hdr.size += (sizeof(NFS) + 7) & ~7u;
}

static void give(int who, uint32_t at, uint64_t blocked_ms, uint64_t longest_ms, uint64_t calls, const char *file)
{
	struct event e = { 0 };

	put(who, at, blocked_ms, longest_ms, calls, file);
	assert_int_equal(decode_record(&rec.r.hdr, strings, &e), 1);
	assert_int_equal(model_apply(m, &e), 0);
}

static const struct storage *of_rank(int rank, uint32_t at)
{
	const struct storage *s = model_proc(m, job_pid(rank))->storage_of_rank;

	while (s && s->sum.at != at)
		s = s->next;
	return s;
}

/* A rank's is its own and its children's, each as the newest record has it. */
static void a_rank_and_its_children(void **state)
{
	(void)state;
	give(0, READ, 10, 4, 3, "a.bin");
	give(0, READ, 30, 9, 5, "b.bin");
	give(CHILD, READ, 100, 50, 2, "c.bin");
	give(CHILD, READ, 101, 50, 3, "c.bin");
	give(1, READ, 7, 7, 1, "d.bin");
	give(0, FLUSH, 5, 5, 1, "ckpt.pt");
	assert_int_equal(of_rank(0, READ)->sum.blocked_ns, 131 * MS);
	assert_int_equal(of_rank(0, READ)->sum.calls, 8);
	assert_int_equal(of_rank(0, READ)->sum.by_length[STORAGE_BOUNDS], 8);
	assert_int_equal(of_rank(0, READ)->sum.longest_ns, 50 * MS);
	assert_string_equal(of_rank(0, READ)->file, "c.bin");
	assert_string_equal(of_rank(0, READ)->mount, NFS);
	assert_int_equal(of_rank(0, FLUSH)->sum.blocked_ns, 5 * MS);
	assert_int_equal(of_rank(1, READ)->sum.blocked_ns, 7 * MS);
	assert_null(of_rank(1, FLUSH));
}

/* A process number that comes back counts from 0; what a rank has grows only. */
static void one_that_begins_anew(void **state)
{
	(void)state;
	give(CHILD, READ, 100, 50, 9, "a");
	give(CHILD, READ, 20, 20, 1, "b");
	assert_int_equal(of_rank(0, READ)->sum.blocked_ns, 120 * MS);
	assert_int_equal(of_rank(0, READ)->sum.calls, 10);
	assert_int_equal(of_rank(0, READ)->sum.by_length[STORAGE_BOUNDS], 10);
}

/* Of one file system the mount is known by whichever call it was named with. */
static void the_mount(void **state)
{
	struct mount_parts parts;

	(void)state;
	give(0, READ, 1, 1, 1, "");
	assert_string_equal(storage_mount(model_proc(m, job_pid(0)), STORAGE_AT(DEVICE, STORAGE_OPEN)), NFS);
	assert_string_equal(storage_mount(model_proc(m, job_pid(CHILD)), FLUSH), NFS);
	assert_string_equal(storage_mount(model_proc(m, job_pid(1)), FLUSH), "");
	assert_string_equal(storage_mount(model_proc(m, job_pid(0)), STORAGE_AT(DEVICE + 1, STORAGE_READ)), "");
	mount_split("/a (b) c (lustre 10.0.0.1@tcp:/x, y, 0:60)", &parts);
	assert_string_equal(parts.point, "/a (b) c");
	assert_string_equal(parts.type, "lustre");
	assert_string_equal(parts.source, "10.0.0.1@tcp:/x, y");
	mount_split("", &parts);
	assert_true(!*parts.point && !*parts.type && !*parts.source);
	mount_split("/a (b)", &parts);
	assert_string_equal(parts.point, "");
}

static void a_wait_of_a_task(void **state)
{
	struct sched_storage_wait w = { .off = { .hdr = { sizeof(w), WIRE_SCHED, SCHED_STORAGE_WAIT, 7, 7, 0, 9 },
						 .begin_ns = 4,
						 .state = SCHED_DISK },
					.at = FLUSH,
					.file = "ckpt.pt" };
	struct event e = { 0 };

	(void)state;
	assert_int_equal(decode_record(&w.off.hdr, strings, &e), 1);
	assert_true(e.kind == EV_TASK_OFF && e.off.begin_ns == 4 && e.off.state == TASK_DISK);
	assert_int_equal(e.off.storage_at, FLUSH);
	assert_string_equal(e.off.file, "ckpt.pt");
	assert_string_equal(storage_act_name(e.off.storage_at), "flush");
	w.at = 0;
	assert_int_equal(decode_record(&w.off.hdr, strings, &e), -EINVAL);
}

static void task_is(uint64_t since_ms, enum task_state state)
{
	struct event e = { .kind = EV_TASK,
			   .tgid = job_pid(0),
			   .tid = job_pid(0),
			   .ts_ns = (since_ms + 1000) * MS,
			   .task = { .state = state, .since_ns = since_ms * MS } };

	assert_int_equal(model_apply(m, &e), 0);
}

/* A server does not answer a client that sleeps in no D state: until the task is seen elsewhere, or its end is said. */
static void a_task_that_sleeps_in_a_call(void **state)
{
	struct {
		struct sched_blocked r;
		char text[24];
	} w = { .r = { .hdr = { sizeof(w), WIRE_SCHED, SCHED_BLOCKED, job_pid(0), job_pid(0), 0, 900 * MS },
		       .begin_ns = 400 * MS,
		       .len = { 1, 1, 1, 5, 5 },
		       .asleep = 1,
		       .mount_len = 3 } };
	struct event e = { 0 }, over = { 0 };
	const struct task *t;

	(void)state;
	memcpy(w.r.text, "\0\0\0read\0/d/x\0/d", 16);
	assert_int_equal(decode_record(&w.r.hdr, strings, &e), 1);
	assert_true(e.kind == EV_BLOCKED && e.blocked.asleep);
	assert_int_equal(model_apply(m, &e), 0);
	t = model_task(m, job_pid(0), job_pid(0));
	assert_true(t->stalled && !t->blocked && t->state == TASK_SLEEP && t->blocked_since_ns == 400 * MS);
	assert_string_equal(t->syscall, "read");
	assert_string_equal(t->file, "/d/x");
	assert_string_equal(t->mount, "/d");
	task_is(400, TASK_SLEEP);
	assert_true(t->stalled);
	task_is(2000, TASK_SLEEP); /* the next wait; the end of that one was lost */
	assert_false(t->stalled);
	e.ts_ns = 4000 * MS;
	assert_int_equal(model_apply(m, &e), 0);
	assert_true(t->stalled);
	over = e;
	over.kind = EV_BLOCKED_END;
	assert_int_equal(model_apply(m, &over), 0);
	assert_true(!t->stalled && !t->blocked);
	e.blocked.asleep = false;
	assert_int_equal(model_apply(m, &e), 0);
	assert_true(t->blocked && !t->stalled && t->state == TASK_DISK);
}

static void what_is_no_record(void **state)
{
	struct event e = { 0 };

	(void)state;
	put(0, STORAGE_AT(DEVICE, STORAGE_NONE), 1, 1, 1, "");
	assert_int_equal(decode_record(&rec.r.hdr, strings, &e), -EINVAL);
	put(0, READ, 1, 1, 1, "");
	rec.r.mount_len = 400;
	assert_int_equal(decode_record(&rec.r.hdr, strings, &e), -EINVAL);
	rec.r.hdr.size = sizeof(rec.r) - 8;
	assert_int_equal(decode_record(&rec.r.hdr, strings, &e), -EINVAL);
}

static void calls_about_files(void **state)
{
	(void)state;
	assert_int_equal(storage_call_act(SYS_fsync), STORAGE_FLUSH);
	assert_int_equal(storage_call_act(SYS_read), STORAGE_READ);
	assert_int_equal(storage_call_act(SYS_openat), STORAGE_OPEN | STORAGE_BY_PATH);
	assert_int_equal(storage_call_act(SYS_futex), STORAGE_NONE);
	assert_int_equal(storage_call_act(SYS_flock), STORAGE_NONE); /* a wait for another program */
	assert_int_equal(storage_call_act(STORAGE_CALLS_MAX), STORAGE_NONE);
	for (uint32_t nr = 0; nr < STORAGE_CALLS_MAX; nr++)
		assert_true((storage_call_act(nr) & ~STORAGE_BY_PATH) < STORAGE_ACTS);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_rank_and_its_children),
		TEST(one_that_begins_anew),
		TEST(the_mount),
		TEST(a_wait_of_a_task),
		TEST(what_is_no_record),
		TEST(calls_about_files),
		TEST(a_task_that_sleeps_in_a_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
