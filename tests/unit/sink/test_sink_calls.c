/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sink_calls.c - how long a call is drawn of which only the entry is probed, and tracks: none is empty or
 * constant, a communicator's says what it is for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sink/perfetto/perfetto.h"
#include "tests/perfetto/checked.h"

static void thread_gives(struct fixture *f, enum event_kind kind, uint64_t ts_ns)
{
	uint32_t pid = f->procs[0].tgid;

	fixture_event(f, (struct event){ .kind = kind, .tgid = pid, .tid = pid, .ts_ns = ts_ns });
}

static void op_over(struct fixture *f, struct op op)
{
	op.end_ns = op.call_ns + 5000000;
	fixture_op(f, op);
}

/* Until the thread's next event where that comes soon, of whatever kind; else it is an instant. */
static void test_length_of_calls(void **state)
{
	const char *path = path_of("calls.pftrace");
	char options[300], plain[120];
	struct fixture f;
	struct op ops[3];
	uint64_t ns;

	(void)state;
	fixture_open(&f, 1, path);
	ns = f.m.now_ns + 1000000;
	ops[0] = fixture_call(&f, 0, OP_ALLREDUCE, 0, ns, 0x10, 0);
	thread_gives(&f, EV_CUDA_EVENT, ns + 8000);
	thread_gives(&f, EV_CUDA_EVENT, ns + 3000000);
	ops[1] = fixture_call(&f, 0, OP_ALLGATHER, 1, ns + 4000000, 0x10, 0);
	ops[2] = fixture_call(&f, 0, OP_REDUCESCATTER, 2, ns + 904000000, 0x10, 0); /* 900 ms of something */
	for (int i = 0; i < 3; i++)
		op_over(&f, ops[i]);
	fixture_call(&f, 0, OP_BROADCAST, 3, ns + 910000000, 0x10, 0); /* nothing comes behind it */
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	assert_int_equal(call_end_ns(ns, ns + 8000), ns + 7999);
	assert_int_equal(call_end_ns(ns, ns + 900000000), 0);
	assert_int_equal(call_end_ns(ns, ns), 0);
	assert_int_equal(call_end_ns(ns, 0), 0);
	snprintf(plain, sizeof(plain), "%s/calls.plain", dir);
	snprintf(options, sizeof(options), "--expect-slices ncclAllReduce=1,AllGather=1 --longest-ms 6 --inflate '%s'",
		 plain);
	check_or_skip(options, path);
	assert_int_equal(check("--expect-slices ncclAllGather", path) > 0 && check("", path) == 0, 1);
	assert_int_equal(check("--expect-slices ncclReduceScatter", path) > 0, 1);
	assert_int_equal(check("--expect-slices ncclBroadcast", path) > 0, 1);
	assert_int_equal(count_in_file(plain, "ncclBroadcast"), 1);
	assert_int_equal(count_in_file(plain, "returned_within_us"), 1);
	assert_int_equal(count_in_file(plain, "at the latest: the thread's next event"), 1);
	unlink(plain);
}

/* A group is as long as its calls; GroupEnd, which launches them, counts to the thread's next event. */
static void test_length_of_groups(void **state)
{
	const char *path = path_of("groups.pftrace");
	char options[300], plain[120];
	struct fixture f;
	uint64_t ns;

	(void)state;
	fixture_open(&f, 1, path);
	ns = f.m.now_ns + 1000000;
	for (int i = 0; i < 3; i++, ns += 100000000) {
		struct op op;

		thread_gives(&f, EV_GROUP_START, ns);
		op = fixture_call(&f, 0, OP_ALLREDUCE, (uint64_t)i, ns + 10000, 0x10, 1);
		thread_gives(&f, EV_GROUP_END, ns + 20000);
		if (!i)
			thread_gives(&f, EV_CUDA_EVENT, ns + 70000);
		op_over(&f, op);
	}
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(plain, sizeof(plain), "%s/groups.plain", dir);
	snprintf(options, sizeof(options), "--expect-slices ncclGroup=3,ncclAllReduce=3 --inflate '%s'", plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "ncclGroupEnd was called"), 1); /* interned: of two */
	unlink(plain);
}

static void counter_gives(struct fixture *f, const char *name, int64_t value, uint64_t ts_ns)
{
	uint32_t pid = f->procs[0].tgid;

	fixture_event(f, (struct event){ .kind = EV_COUNTER,
					 .tgid = pid,
					 .tid = pid,
					 .ts_ns = ts_ns,
					 .generic = { .name = name, .value = value } });
}

static void test_no_empty_track(void **state)
{
	const char *path = path_of("tracks.pftrace");
	char options[300], plain[120];
	struct fixture f;
	uint64_t ns;

	(void)state;
	fixture_open(&f, 2, path);
	ns = f.m.now_ns + 1000;
	for (int i = 0; i < 3; i++) {
		counter_gives(&f, "depth", i == 2, ns + i * 1000u);
		counter_gives(&f, "always seven", 7, ns + i * 1000u);
	}
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(plain, sizeof(plain), "%s/tracks.plain", dir);
	snprintf(options, sizeof(options), "--expect-tracks 'depth,rank 1 · node-a · GPU 1' --inflate '%s'", plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "always seven"), 0);
	assert_int_equal(count_in_file(plain, "dataloader"), 0); /* a child of which nothing is known but that it is */
	unlink(plain);
}

/* Known with its use: the track has its name again, once. */
static void test_parallelism(void **state)
{
	const char *path = path_of("parallel.pftrace");
	char plain[120], options[300];
	struct fixture f;
	uint64_t ns;

	(void)state;
	fixture_open(&f, 2, path);
	f.comm.n_called = 2;
	f.comm.members = &f.members[0];
	f.members[0].next_in_comm = &f.members[1];
	ns = f.m.now_ns + 1000000;
	for (int r = 0; r < 2; r++)
		op_over(&f, fixture_call(&f, r, OP_ALLREDUCE, 0, ns, 0x10, 0));
	fixture_event(&f, (struct event){ .kind = EV_TICK, .ts_ns = ns + 1000000 });
	f.comm.parallelism = PARALLEL_TENSOR;
	strcpy(f.comm.process_group, "mesh_tp");
	for (uint64_t i = 2; i < 5; i++)
		fixture_event(&f, (struct event){ .kind = EV_TICK, .ts_ns = ns + i * 1000000 });
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(plain, sizeof(plain), "%s/parallel.plain", dir);
	snprintf(options, sizeof(options),
		 "--inflate '%s' --expect-tracks 'tp · mesh_tp · comm 0x72e8… (rank 0 of 2),"
		 "tp · mesh_tp · comm 0x72e8… (rank 1 of 2)'",
		 plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "tp · mesh_tp · comm 0x72e8"), 2); /* once each */
	assert_int_equal(count_in_file(plain, "comm 0x72e8"), 4);
	unlink(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_length_of_calls),
		cmocka_unit_test(test_length_of_groups),
		cmocka_unit_test(test_no_empty_track),
		cmocka_unit_test(test_parallelism),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
