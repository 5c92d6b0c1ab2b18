/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sink_split.c - the operations of the timeline: how large they are, and what of each was a wait for others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sink/op_size.h"
#include "sink/perfetto/perfetto.h"
#include "tests/perfetto/checked.h"

/* One AllReduce of 4 MiB that rank 2 enters 5 ms after the others; it ends 10 ms after that. The stream of rank 0 may
 * be busy for longer. */
static void late_rank_play(struct fixture *f, uint64_t seq, uint64_t ns, uint64_t busy_until_ns)
{
	for (int r = 0; r < f->n_ranks; r++) {
		struct op op = fixture_call(f, r, OP_ALLREDUCE, seq, ns + (r == 2 ? 5000000 : 1000 * r), 0x10, 0);

		op.count = 1 << 20;
		op.dtype = 7;
		op.start_bound_ns = !r && busy_until_ns ? busy_until_ns : ns + 5000000;
		op.end_ns = ns + 15000000;
		op.end_error_ns = 20000;
		fixture_op(f, op);
	}
}

/* Until `end_ns`; its peer is not known, so it is drawn at once. */
static void stream_busy(struct fixture *f, uint64_t begin_ns, uint64_t end_ns)
{
	struct op op = fixture_call(f, 0, OP_SEND, 0, begin_ns, 0x10, 0);

	op.start_bound_ns = begin_ns;
	op.end_ns = end_ns;
	fixture_op(f, op);
}

/* An operation is a wait until the last rank came, and the transfer; who came last is named where it is sure. */
static void test_split(void **state)
{
	const char *path = path_of("split.pftrace");
	char options[300], plain[120];
	struct fixture f;
	uint64_t ns;

	(void)state;
	fixture_open(&f, 3, path);
	ns = f.m.now_ns + 1000000;
	late_rank_play(&f, 365, ns, 0);
	ns += 30000000; /* rank 0 may have arrived after rank 2: no rank is named */
	stream_busy(&f, ns - 100000, ns + 7000000);
	late_rank_play(&f, 366, ns, ns + 7000000);
	f.comm.n_seen = 2; /* a rank that nobody traces may be the last */
	late_rank_play(&f, 367, ns + 30000000, 0);
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(plain, sizeof(plain), "%s/split.plain", dir);
	snprintf(options, sizeof(options),
		 "--expect-slices AllReduce=9,wait=4,transfer=4 --longest-ms 15 --inflate '%s'", plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "AllReduce #365 4 MiB"), 3);
	assert_int_equal(count_in_file(plain, "stream 1"), 3); /* each rank's first, whatever its handle */
	assert_int_equal(count_in_file(plain, "wait for rank 2"), 2);
	assert_int_equal(count_in_file(plain, "wait for rank"), 2);
	assert_int_equal(count_in_file(plain, "busbw_GBps"), 1); /* interned; the end is known well */
	assert_int_equal(count_in_file(plain, "at_least"), 0);
	unlink(plain);
}

static void test_sizes(void **state)
{
	char text[24];

	(void)state;
	assert_int_equal(op_size_bytes(OP_ALLREDUCE, 1 << 20, 7, 8), 4 << 20);
	assert_int_equal(op_size_bytes(OP_ALLGATHER, 1 << 20, 7, 8), 32 << 20); /* each has a part */
	assert_int_equal(op_size_bytes(OP_REDUCESCATTER, 10, 7, 4), 160);
	assert_int_equal(op_size_bytes(OP_SEND, 10, 7, 4), 40);
	assert_int_equal(op_size_bytes(OP_SEND, 10, -1, 4), 0);
	assert_true(op_bus_factor(OP_ALLREDUCE, 8) == 1.75 && op_bus_factor(OP_ALLGATHER, 8) == 0.875);
	assert_true(op_bus_factor(OP_SEND, 8) == 1 && op_bus_factor(OP_ALLREDUCE, 0) == 1);
	put_bytes(put_text(text, "of "), 16 << 20);
	assert_string_equal(text, "of 16 MiB");
	put_bytes(text, 1536);
	assert_string_equal(text, "1.5 KiB");
	put_bytes(text, 8);
	assert_string_equal(text, "8 B");
	put_bytes(text, 123456789);
	assert_string_equal(text, "118 MiB");
}

static void printed_bytes(char *to, size_t size, uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = bytes;
	int unit = 0;

	for (; value >= 1024 && unit < 4; unit++)
		value /= 1024;
	snprintf(to, size, value >= 100 || value == (uint64_t)value ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

/* Sizes and numbers as printf has them, of which a slice cannot afford the price. */
static void test_printed(void **state)
{
	struct fixture f = { .seed = 77 };
	char text[40], expected[40];

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t v = ((uint64_t)fixture_random(&f, 1u << 31) << 22 ^ fixture_random(&f, 1u << 31)) >>
			     fixture_random(&f, 53);
		double rate = (double)(v + 1) / (1 + fixture_random(&f, 1u << 31));

		put_bytes(text, v);
		printed_bytes(expected, sizeof(expected), v);
		assert_string_equal(text, expected);
		put_number(text, v);
		snprintf(expected, sizeof(expected), "%llu", (unsigned long long)v);
		assert_string_equal(text, expected);
		snprintf(expected, sizeof(expected), "%.3g", rate);
		assert_true(rate >= 1e12 || three_digits(rate) == strtod(expected, NULL));
	}
	assert_true(three_digits(0.99951) == 1 && three_digits(999.6) == 1000 && three_digits(1234567) == 1230000);
}

static struct incident finding_of(struct fixture *f, uint64_t number, int rank, uint64_t since_ns, uint64_t open_ns)
{
	struct incident i = { .number = number,
			      .id = "node-a-1.1",
			      .phase = PHASE_OPEN,
			      .open_ns = open_ns,
			      .t_ns = open_ns,
			      .f = { .kind = FINDING_HANG,
				     .class = HANG_MISSING_ENTER,
				     .has_op = true,
				     .op = OP_ALLREDUCE,
				     .seq = 7,
				     .peer = -1,
				     .since_ns = since_ns } };

	finding_add_rank(&i.f, rank, f->procs[rank].tgid);
	return i;
}

/* From its begin to its end, or to the trace's; for all and for the rank; no track for what never happened. */
static void test_findings(void **state)
{
	const char *path = path_of("findings.pftrace");
	char options[300], plain[120];
	struct incident over, open;
	struct fixture f;
	uint64_t ns;

	(void)state;
	fixture_open(&f, 2, path);
	ns = f.m.now_ns;
	over = finding_of(&f, 1, 0, ns + 1000000, ns + 1500000000);
	open = finding_of(&f, 2, 1, ns + 2000000, ns + 1600000000);
	fixture_incident(&f, over);
	fixture_incident(&f, open);
	over.phase = PHASE_UPDATE;
	over.t_ns += 250000000;
	fixture_incident(&f, over);
	over.phase = PHASE_CLOSE;
	over.t_ns = ns + 2001000000;
	fixture_incident(&f, over);
	fixture_event(&f, (struct event){ .kind = EV_TICK, .ts_ns = ns + 3002000000 });
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(plain, sizeof(plain), "%s/findings.plain", dir);
	snprintf(options, sizeof(options),
		 "--expect-tracks findings --longest-ms 3000 --inflate '%s' --expect-slices 'rank 0 has not "
		 "entered AllReduce=2,rank 1 has not entered AllReduce=2'",
		 plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "lasted 2.0 s"), 2);
	assert_int_equal(count_in_file(plain, "for 3.0 s"), 2);
	assert_int_equal(count_in_file(plain, " missing_enter"), 4); /* reported once each */
	assert_int_equal(count_in_file(plain, "lost records"), 0);
	unlink(plain);
}

/* Four operations a step. What a young clock says is drawn once it has proved itself; a clock of two operations, which
 * was a mistake, draws nothing. */
static void test_steps(void **state)
{
	const char *path = path_of("steps.pftrace");
	char options[300], plain[120];
	struct steps clock = { .phase = 1 };
	struct fixture f;
	uint64_t ns;

	(void)state;
	fixture_open(&f, 1, path);
	ns = f.m.now_ns + 1000000;
	f.procs[0].steps = &clock;
	for (uint64_t nth = 0; nth < 120; nth++) {
		struct op op = fixture_call(&f, 0, OP_ALLREDUCE, nth, ns + nth * 10000000, 0x10, 0);

		clock.period_ops = nth < 5 ? 0 : nth < 20 ? 2 : 4;
		clock.n = nth < 20 ? 0 : (nth - 20) / 4;
		op.nth = nth;
		op.end_ns = op.call_ns + 5000000;
		fixture_op(&f, op);
	}
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(plain, sizeof(plain), "%s/steps.plain", dir);
	snprintf(options, sizeof(options),
		 "--expect-tracks steps --expect-slices 'step 5=1,step 28=1,AllReduce=120' --longest-ms 40 --inflate "
		 "'%s'",
		 plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "step 4"), 0); /* of the clock of two: 8 and 9 of it are 4 and 5 */
	assert_int_equal(count_in_file(plain, "step "), 24); /* 5 to 28; 29 has no end */
	unlink(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),    cmocka_unit_test(test_sizes), cmocka_unit_test(test_printed),
		cmocka_unit_test(test_findings), cmocka_unit_test(test_steps),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
