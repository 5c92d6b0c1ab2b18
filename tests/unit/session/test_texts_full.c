/* SPDX-License-Identifier: Apache-2.0
 *
 * test_texts_full.c - a session that has no room for more texts: jobs stay apart, those of other users have their
 * names, a stack that found no room is one that was not read, and a file that begins then keeps jobs apart as well.
 * What is gone leaves its room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"
#include "pipeline/pipeline.h"
#include "schemas/collector.h"
#include "tracers/process/life.h"
#include "tracers/process/proc_wire.h"

#define SEC 1000000000ull
#define FLOOD_USER 2000
#define FLOOD 40000 /* 20 MB of names */

static struct pipeline *p;
static uint64_t ns;

static void feed_to(struct pipeline *to, struct wire_hdr *h, size_t size, int tracer, int kind, uint32_t pid)
{
	h->size = size;
	h->tracer = tracer;
	h->kind = kind;
	h->tgid = h->tid = pid;
	h->ts_ns = ns;
	assert_int_equal(pipeline_feed(to, h), 0);
}

static void feed(struct wire_hdr *h, size_t size, int tracer, int kind, uint32_t pid)
{
	feed_to(p, h, size, tracer, kind, pid);
}

static void tick(void)
{
	struct record_tick t = {};

	feed(&t.hdr, sizeof(t), WIRE_COLLECTOR, RECORD_TICK, 0);
	ns += SEC / 4;
}

static void session_begin(void)
{
	struct record_start s = { .hang_floor_ns = 1500000000ull, .version = WIRE_VERSION };

	feed(&s.hdr, sizeof(s), WIRE_COLLECTOR, RECORD_START, 0);
}

static int fresh(void **state)
{
	(void)state;
	p = pipeline_new();
	ns = SEC;
	if (p)
		session_begin();
	return p ? 0 : -1;
}

static int done(void **state)
{
	(void)state;
	pipeline_free(p);
	return 0;
}

static void comes(uint32_t pid, int rank, uint32_t uid, const char *job, const char *container, const char *cgroup)
{
	union {
		struct record_proc f;
		char bytes[PROC_WIRE_BYTES];
	} u = {};
	struct event_proc e = { .start_ns = ns,
				.parent_tgid = 1,
				.ns_pid = pid,
				.rank = rank,
				.local_rank = rank,
				.world_size = 2,
				.job = job,
				.name = "python3",
				.container = container,
				.cgroup = cgroup,
				.boot_id = "b",
				.netns = 7,
				.user = uid + 1 };

	proc_wire_write(&e, &u.f);
	feed(&u.f.hdr, u.f.hdr.size, WIRE_COLLECTOR, RECORD_PROC, pid);
}

static void goes(uint32_t pid)
{
	struct life_exit e = { .last = 1 };

	feed(&e.hdr, sizeof(e), WIRE_LIFE, LIFE_EXIT, pid);
}

static char *long_text(char *to, size_t size, const char *of, unsigned int n)
{
	memset(to, 'x', size - 1);
	to[size - 1] = 0;
	to[snprintf(to, 24, "%s-%u", of, n)] = '-';
	return to;
}

static void one_comes(uint32_t pid, unsigned int i)
{
	char job[250], cgroup[250];

	comes(pid, 0, FLOOD_USER, long_text(job, sizeof(job), "job", i), "",
	      long_text(cgroup, sizeof(cgroup), "/user", i));
}

/* Processes of one user that change their names, before any tick. */
static void flood(void)
{
	for (unsigned int i = 0; i < FLOOD; i++)
		one_comes(1000 + i % 1000, i);
}

/* As many, one behind the other. */
static void flood_that_goes(void)
{
	for (unsigned int i = 0; i < FLOOD; i++) {
		one_comes(1000 + i % 1000, i);
		if (i % 1000 != 999)
			continue;
		tick();
		for (uint32_t k = 0; k < 1000; k++)
			goes(1000 + k);
		for (int k = 0; k < 6; k++, ns += 15 * SEC) /* those that are gone are forgotten */
			tick();
	}
}

static const struct proc *proc_of(const struct pipeline *of, uint32_t pid)
{
	const struct proc *q = model_proc(pipeline_model(of), proc_key(0, pid));

	assert_non_null(q);
	return q;
}

static const struct job_id *job_of(uint32_t pid)
{
	return proc_of(p, pid)->job;
}

static void other_users_have_their_names(void **state)
{
	(void)state;
	flood();
	comes(900001, 0, 1001, "alice", "bbbbbbbbbbbb", "/slurm/job_2");
	comes(900002, 1, 1001, "alice", "bbbbbbbbbbbb", "/slurm/job_2");
	comes(900003, 0, 1002, "bob", "", "/slurm/job_3");
	comes(900004, 1, 1002, "bob", "", "/slurm/job_3");
	tick();
	tick();
	assert_string_equal(job_of(900001)->shown, "alice");
	assert_string_equal(proc_of(p, 900001)->container, "bbbbbbbbbbbb");
	assert_string_equal(job_of(900003)->shown, "bob");
	assert_true(job_of(900001) == job_of(900002) && job_of(900003) == job_of(900004));
	assert_true(job_of(900001) != job_of(900003));
}

/* Names of which there was no room are not one name. */
static void jobs_without_a_name_stay_apart(void **state)
{
	char a[250], b[250], place[250], other[250];
	struct pipeline_shortage s;

	(void)state;
	flood();
	long_text(place, sizeof(place), "/p", 1);
	long_text(other, sizeof(other), "/p", 2);
	comes(900001, 0, FLOOD_USER, long_text(a, sizeof(a), "one", 1), "", place);
	comes(900002, 1, FLOOD_USER, a, "", other); /* a cgroup for each rank, as Slurm makes them */
	comes(900003, 0, FLOOD_USER, long_text(b, sizeof(b), "two", 1), "", place);
	comes(900004, 1, FLOOD_USER, b, "", place);
	assert_true(job_of(900001) != job_of(900003)); /* before anything is settled, too */
	tick();
	tick();
	assert_true(job_of(900001) == job_of(900002) && job_of(900003) == job_of(900004));
	assert_true(job_of(900001) != job_of(900003));
	assert_string_not_equal(job_of(900001)->name, job_of(900003)->name);
	assert_string_not_equal(job_of(900001)->shown, job_of(900003)->shown);
	assert_true(pipeline_shortage(p, &s) && s.names > 0 && !s.records);
}

/* Nor does it matter how many there were. */
static void who_is_gone_leaves_its_room(void **state)
{
	struct pipeline_shortage s;
	char a[250];

	(void)state;
	flood_that_goes();
	comes(900001, 0, FLOOD_USER, long_text(a, sizeof(a), "one", 1), "", "/p");
	tick();
	assert_string_equal(job_of(900001)->name, a);
	assert_false(pipeline_shortage(p, &s));
}

static int to_copy(void *copy, const struct wire_hdr *rec)
{
	return pipeline_feed(copy, rec);
}

static void a_file_that_begins_then_keeps_them_apart(void **state)
{
	struct pipeline *copy = pipeline_new();
	struct record_tick t = {};
	char a[250], b[250], place[250];

	(void)state;
	flood();
	comes(900001, 0, FLOOD_USER, long_text(a, sizeof(a), "one", 1), "", long_text(place, sizeof(place), "/p", 1));
	comes(900002, 0, FLOOD_USER, long_text(b, sizeof(b), "two", 1), "", place);
	comes(900003, 0, FLOOD_USER, "short", "", place);
	comes(900004, 0, FLOOD_USER, "short", "", long_text(place, sizeof(place), "/p", 2));
	tick();
	tick();
	assert_true(job_of(900003) != job_of(900004)); /* one rank in two places */
	assert_int_equal(pipeline_state(p, to_copy, copy), 0);
	feed_to(copy, &t.hdr, sizeof(t), WIRE_COLLECTOR, RECORD_TICK, 0);
	assert_string_equal(proc_of(copy, 900001)->job->name, job_of(900001)->name);
	assert_true(proc_of(copy, 900001)->job != proc_of(copy, 900002)->job);
	assert_true(proc_of(copy, 900003)->job != proc_of(copy, 900004)->job);
	pipeline_free(copy);
}

static void stack(uint32_t pid, unsigned int n)
{
	static char bytes[8192];
	struct record_stack *f = (void *)bytes;

	memset(f, 0, sizeof(*f));
	memset(bytes + sizeof(*f), 0, 6);
	f->wait_len = f->file_len = f->kernel_len = f->native_len = f->end_len = f->frames_len = 1;
	f->python_len = 5000;
	long_text(f->text + 4, 5000, "train.py", n);
	memset(f->text + 5004, 0, 16);
	feed(&f->hdr, (sizeof(*f) + 5006 + 7) & ~7ul, WIRE_COLLECTOR, RECORD_STACK, pid);
}

static const struct task *main_task(uint32_t pid)
{
	const struct task *t = proc_of(p, pid)->tasks;

	while (t && t->tid != pid)
		t = t->next;
	assert_non_null(t);
	return t;
}

/* Nor do stacks of one user's processes take another's room, or that of names. */
static void a_stack_without_room_is_unread(void **state)
{
	struct pipeline_shortage s;
	const char *before;

	(void)state;
	comes(900001, 0, FLOOD_USER, "one", "", "/p");
	comes(900002, 0, 1001, "alice", "", "/a");
	tick();
	stack(900001, 0);
	before = main_task(900001)->stack.python;
	assert_int_equal(strlen(before), 4999);
	assert_null(proc_of(p, 900001)->outside.stacks_unread);
	for (unsigned int i = 1; i < 10000; i++)
		stack(900001, i);
	assert_string_equal(proc_of(p, 900001)->outside.stacks_unread, INTERN_FULL);
	assert_string_not_equal(main_task(900001)->stack.python, INTERN_FULL);
	stack(900002, 20000);
	assert_int_equal(strlen(main_task(900002)->stack.python), 4999);
	assert_null(proc_of(p, 900002)->outside.stacks_unread);
	comes(900003, 0, FLOOD_USER, "new", "", "/n");
	assert_string_equal(job_of(900003)->name, "new");
	tick();
	assert_true(pipeline_shortage(p, &s) && s.texts > 0 && !s.names);
	ns += 60 * SEC; /* of its stacks only the newest is of use */
	tick();
	assert_int_equal(strlen(main_task(900001)->stack.python), 4999);
	stack(900001, 30000);
	assert_null(proc_of(p, 900001)->outside.stacks_unread);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(other_users_have_their_names),   TEST(jobs_without_a_name_stay_apart),
		TEST(who_is_gone_leaves_its_room),    TEST(a_file_that_begins_then_keeps_them_apart),
		TEST(a_stack_without_room_is_unread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
