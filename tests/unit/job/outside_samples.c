/* SPDX-License-Identifier: Apache-2.0
 *
 * outside_samples.c - see outside_samples.h.
 */
#include "base/larger.h"
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/outside_samples.h"

struct model *m;
struct detectors *d;
struct finding_list list;
uint64_t now;
struct samples_of at[RANKS];
bool seen[RANKS];
struct samples_stack stack_of[RANKS];

int start(void **state)
{
	struct event e = { .kind = EV_START, .ts_ns = now = JOB_T0 };

	(void)state;
	m = model_new();
	d = detectors_new();
	e.start.hang_floor_ns = e.start.dstate_limit_ns = 250 * MSEC;
	e.start.busy_limit_ns = 90 * SEC;
	e.start.host = "node7";
	assert_int_equal(model_apply(m, &e), 0);
	memset(stack_of, 0, sizeof(stack_of));
	for (int r = 0; r < RANKS; r++) {
		at[r].state = TASK_SLEEP;
		at[r].wakes = false;
		at[r].slept_ns = 0;
		at[r].syscall = "futex";
		seen[r] = true;
	}
	return 0;
}

int end(void **state)
{
	(void)state;
	finding_list_free(&list);
	detectors_free(d);
	model_free(m);
	return 0;
}

void give(struct event e)
{
	e.ts_ns = now;
	assert_int_equal(model_apply(m, &e), 0);
}

void ranks_appear(void)
{
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_proc_event(r, RANKS, 0);

		e.proc.job = "";
		give(e);
	}
}

void who(void)
{
	ranks_appear();
	for (int r = 0; r < RANKS; r++)
		give(job_event(EV_COMM_SCAN, r, 0));
}

/* One communicator of one rank, `n[]` collectives of each kind entered. */
void sample(int r, uint64_t hash, int rank, int nranks, const uint64_t n[OP_KINDS_COUNTED])
{
	struct event e = job_event(EV_COMM_SAMPLE, r, 0);

	e.comm_sample.comm = e.comm_sample.hash = hash;
	e.comm_sample.rank = rank;
	e.comm_sample.nranks = nranks;
	e.comm_sample.device = r;
	e.comm_sample.n_counters = OP_KINDS_COUNTED;
	for (int k = 0; k < OP_KINDS_COUNTED; k++)
		e.comm_sample.counters[k] = n[k];
	give(e);
}

static void stack_give(int r)
{
	struct event e = job_event(EV_STACK, r, 0);

	if (!stack_of[r].native)
		return;
	e.tid = e.tgid;
	e.stack.wait = at[r].syscall;
	e.stack.file = e.stack.kernel = e.stack.end = "";
	e.stack.python = stack_of[r].python;
	e.stack.native = stack_of[r].native;
	e.stack.frames = stack_of[r].frames;
	give(e);
}

void tasks(void)
{
	for (int r = 0; r < RANKS; r++) {
		struct event t = job_event(EV_TASK, r, 0), place = job_event(EV_TASK_AT, r, 0);

		t.tid = place.tid = t.tgid;
		t.task.state = at[r].state;
		t.task.since_ns =
			now < JOB_T0 + 400 * MSEC || at[r].wakes ? now : larger(at[r].slept_ns, JOB_T0 + MSEC);
		t.task.run_ns = at[r].state == TASK_RUNNABLE ? now - JOB_T0 : 0;
		place.task_at.wchan = place.task_at.file = "";
		place.task_at.syscall = at[r].syscall;
		give(t);
		give(place);
		stack_give(r);
	}
}

void tick(void)
{
	struct event e = { .kind = EV_TICK };

	now += MSEC;
	tasks();
	now += 500 * MSEC;
	give(e);
	assert_int_equal(detectors_tick(d, m, &list), 0);
}

void world(const uint64_t n[RANKS])
{
	for (int r = 0; r < RANKS; r++)
		if (seen[r])
			sample(r, WORLD, r, RANKS, REDUCED(n[r]));
}

const struct finding *only(void)
{
	for (size_t i = 0; i < list.n && list.n > 1; i++)
		print_error("%s %s rank %d\n", finding_kind_name(list.items[i].kind),
			    hang_class_name(list.items[i].class), list.items[i].ranks[0]);
	assert_int_equal(list.n, 1);
	return &list.items[0];
}

const char *text_of(const struct finding *f, const char *name)
{
	return text_named(f, name, NULL);
}

void two_groups(void)
{
	who();
	for (int i = 0; i < 2; i++) {
		for (int r = 0; r < RANKS; r++)
			sample(r, r < 2 ? LEFT : RIGHT, r % 2, 2, REDUCED(r % 2 ? 20 : 21));
		tick();
	}
}

char *report(bool verdict)
{
	char path[] = "/tmp/test_autopsy.XXXXXX", *text = calloc(1, 65536);
	struct event stop = { .kind = EV_STOP, .ts_ns = now }, first = { .kind = EV_COMM_SAMPLE, .ts_ns = JOB_T0 };
	struct incident i = { .number = 1, .id = "x.1", .phase = PHASE_OPEN, .open_ns = now, .t_ns = now };
	struct sink *s;
	FILE *f;
	int fd = mkstemp(path);

	assert_true(fd >= 0 && text);
	close(fd);
	assert_int_equal(sink_class_by_name("autopsy")->open(path, &s), 0);
	assert_int_equal(s->class->event(s, &first, m), 0);
	if (verdict) {
		i.f = *only();
		assert_int_equal(s->class->incident(s, &i, m), 0);
	}
	assert_int_equal(s->class->event(s, &stop, m), 0);
	assert_int_equal(s->class->close(s, m), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, 65535, f) > 0);
	fclose(f);
	unlink(path);
	return text;
}
