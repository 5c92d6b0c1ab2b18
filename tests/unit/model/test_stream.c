/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stream.c - the record stream between the rings and the model: merge by time, the recording and what is left of
 * it after damage, decode at the border of trust.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline/decode.h"
#include "recording/recording.h"
#include "pipeline/reorder.h"
#include "schemas/collector.h"
#include "schemas/probing.h"
#include "tracers/nccl/nccl.h"

static struct record_loss loss_at(uint64_t ts_ns, uint64_t mark)
{
	return (struct record_loss){ .hdr = { .size = sizeof(struct record_loss), .kind = RECORD_LOSS, .ts_ns = ts_ns },
				     .lost = mark };
}

struct order {
	uint64_t last_ts, n, marks;
};

static int order_take(void *to, const struct wire_hdr *rec)
{
	struct order *o = to;

	assert_true(rec->ts_ns >= o->last_ts);
	o->last_ts = rec->ts_ns;
	o->marks += ((const struct record_loss *)rec)->lost;
	o->n++;
	return 0;
}

static void reorder_sorts_and_loses_nothing(void **state)
{
	struct reorder *r = reorder_new(1 << 20);
	struct order o = {};
	uint64_t sum = 0;

	(void)state;
	srand(23);
	for (uint64_t i = 0; i < 5000; i++) {
		/* the window is 100 wide, the disorder at most 50 */
		struct record_loss f = loss_at(1000 + i * 10 + rand() % 50, i);

		sum += i;
		assert_int_equal(reorder_put(r, &f.hdr), 0);
		if (i % 7 == 0)
			assert_int_equal(reorder_drain(r, 1000 + i * 10 - 100, order_take, &o), 0);
	}
	assert_int_equal(reorder_drain(r, UINT64_MAX, order_take, &o), 0);
	assert_int_equal(o.n, 5000);
	assert_int_equal(o.marks, sum);
	assert_int_equal(reorder_bytes(r), 0);
	reorder_free(r);
}

static void reorder_keeps_order_of_equal_times(void **state)
{
	struct reorder *r = reorder_new(1 << 20);
	struct order o = {};

	(void)state;
	for (uint64_t i = 0; i < 10; i++) {
		struct record_loss f = loss_at(5, i);

		assert_int_equal(reorder_put(r, &f.hdr), 0);
	}
	assert_int_equal(reorder_drain(r, 4, order_take, &o), 0);
	assert_int_equal(o.n, 0);
	assert_int_equal(reorder_drain(r, 5, order_take, &o), 0);
	assert_int_equal(o.n, 10);
	reorder_free(r);
}

static void reorder_is_bounded(void **state)
{
	struct reorder *r = reorder_new(4096);
	struct order o = {};

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		struct record_loss f = loss_at(100 + i, 1);

		assert_int_equal(reorder_put(r, &f.hdr), 0);
		assert_int_equal(reorder_drain(r, 0, order_take, &o), 0);
		assert_true(reorder_bytes(r) <= 4096 + sizeof(f));
	}
	assert_int_equal(reorder_drain(r, UINT64_MAX, order_take, &o), 0);
	assert_int_equal(o.n, 1000);
	reorder_free(r);
}

static int count_take(void *to, const struct wire_hdr *rec)
{
	(void)rec;
	++*(uint64_t *)to;
	return 0;
}

/* Half of what is held goes at the limit; what comes older than that is handed out at once and counted. */
static void reorder_counts_what_came_too_late(void **state)
{
	struct reorder *r = reorder_new(4096);
	struct record_loss f;
	uint64_t n = 0, put = 0;

	(void)state;
	while (!reorder_full(r)) {
		f = loss_at(1000 + put++, 1);
		assert_int_equal(reorder_put(r, &f.hdr), 0);
	}
	assert_int_equal(reorder_drain(r, 0, count_take, &n), 0);
	assert_true(reorder_bytes(r) <= 2048 && n >= put / 2 && !reorder_late(r));
	f = loss_at(1000, 1);
	assert_int_equal(reorder_put(r, &f.hdr), 0);
	assert_int_equal(reorder_drain(r, 1000, count_take, &n), 0);
	assert_true(reorder_late(r) == 1);
	assert_int_equal(reorder_drain(r, UINT64_MAX, count_take, &n), 0);
	assert_true(n == put + 1 && reorder_late(r) == 1);
	reorder_free(r);
}

static void reorder_rejects_impossible_sizes(void **state)
{
	struct reorder *r = reorder_new(4096);
	struct wire_hdr h = { .size = 20 };

	(void)state;
	assert_int_equal(reorder_put(r, &h), -EINVAL);
	h.size = 28;
	assert_int_equal(reorder_put(r, &h), -EINVAL);
	h.size = WIRE_SIZE_MAX + 8;
	assert_int_equal(reorder_put(r, &h), -EINVAL);
	reorder_free(r);
}

static char rtr_path[] = "/tmp/ranktrace-test-XXXXXX";

static void recording_write(uint64_t n)
{
	struct recording *r = NULL;

	assert_int_equal(recording_create(rtr_path, &r), 0);
	for (uint64_t i = 0; i < n; i++) {
		struct record_loss f = loss_at(i, i);

		assert_int_equal(recording_put(r, &f.hdr), 0);
		if (i % 1000 == 999)
			assert_int_equal(recording_flush(r), 0);
	}
	assert_int_equal(recording_close(r), 0);
}

static int recording_count(uint64_t *ret_n)
{
	struct recording_reader *r = NULL;
	const struct wire_hdr *rec;
	int err = recording_open(rtr_path, &r);

	*ret_n = 0;
	if (err)
		return err;
	while ((err = recording_next(r, &rec)) == 1) {
		assert_int_equal(((const struct record_loss *)rec)->lost, *ret_n);
		++*ret_n;
	}
	recording_reader_free(r);
	return err;
}

static void recording_returns_what_was_put(void **state)
{
	uint64_t n;

	(void)state;
	recording_write(12345);
	assert_int_equal(recording_count(&n), 0);
	assert_int_equal(n, 12345);
}

/* Noise does not shrink: its chunks are the longest there are. */
static void recording_of_noise_is_readable(void **state)
{
	struct {
		struct record_loss f;
		uint8_t noise[4000];
	} rec = { .f = loss_at(1, 1) };
	struct recording *r = NULL;
	uint64_t n = 0;

	(void)state;
	srand(29);
	rec.f.hdr.size = sizeof(rec);
	assert_int_equal(recording_create(rtr_path, &r), 0);
	for (int i = 0; i < 500; i++) {
		rec.f.lost = i; /* recording_count() looks at it */
		for (size_t k = 0; k < sizeof(rec.noise); k++)
			rec.noise[k] = rand() >> 7;
		assert_int_equal(recording_put(r, &rec.f.hdr), 0);
	}
	assert_int_equal(recording_close(r), 0);
	assert_int_equal(recording_count(&n), 0);
	assert_true(n == 500);
}

static void recording_cut_off_is_readable_to_the_last_whole_chunk(void **state)
{
	struct stat st;
	uint64_t n, last = 0;
	int err;

	(void)state;
	recording_write(5000);
	assert_int_equal(stat(rtr_path, &st), 0);
	for (off_t size = sizeof(uint64_t) * 2; size < st.st_size; size += 97) {
		recording_write(5000);
		assert_int_equal(truncate(rtr_path, size), 0);
		err = recording_count(&n);
		assert_true(err == 0 || err == -EBADMSG);
		assert_true(n % 1000 == 0 && n >= last && n < 5000);
		last = n;
	}
	assert_int_equal(last, 4000);
}

static void recording_damage_ends_the_reading(void **state)
{
	struct stat st;
	uint64_t n;
	int fd, err, damaged = 0;
	char byte;

	(void)state;
	recording_write(5000);
	assert_int_equal(stat(rtr_path, &st), 0);
	for (off_t at = 16; at < st.st_size; at += 61) {
		recording_write(5000);
		fd = open(rtr_path, O_RDWR);
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x40;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		close(fd);
		err = recording_count(&n); /* never a crash, never a wrong record */
		damaged += err == -EBADMSG;
		assert_true(err == 0 || err == -EBADMSG);
	}
	assert_true(damaged > 10);
}

static void recording_refuses_other_files(void **state)
{
	uint64_t n;
	int fd = open(rtr_path, O_WRONLY | O_TRUNC);

	(void)state;
	assert_int_equal(write(fd, "root:x:0:0:root:/root:/bin/bash\n", 32), 32);
	close(fd);
	assert_int_equal(recording_count(&n), -EPROTO);
	assert_int_equal(truncate(rtr_path, 0), 0);
	assert_int_equal(recording_count(&n), -EPROTO);
}

static void decode_rejects_short_and_unknown(void **state)
{
	struct intern *strings = intern_new();
	struct event out[DECODE_EVENTS_MAX];
	union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} u;
	int accepted = 0;

	(void)state;
	for (int tracer = 0; tracer < 256; tracer++)
		for (int kind = 0; kind < 16; kind++) {
			memset(&u, 0xff, sizeof(u));
			u.h = (struct wire_hdr){ .size = sizeof(u.h), .tracer = tracer, .kind = kind };
			accepted += decode_record(&u.h, strings, out) > 0;
		}
	/* a bare header is enough for ticks, the session's end aside, and for an exec */
	assert_int_equal(accepted, 2);
	intern_free(strings);
}

static void decode_takes_longer_records(void **state)
{
	struct intern *strings = intern_new();
	struct event out[DECODE_EVENTS_MAX];
	struct {
		struct nccl_op op;
		uint64_t appended;
	} r = { .op = { .hdr = { .size = sizeof(r), .tracer = WIRE_NCCL, .kind = NCCL_OP, .tgid = 7, .ts_ns = 9 },
			.comm = 1,
			.count = 23,
			.op = OP_REDUCE,
			.dtype = 7,
			.peer = -1,
			.root = 3 } };

	(void)state;
	assert_int_equal(decode_record(&r.op.hdr, strings, out), 1);
	assert_int_equal(out[0].kind, EV_OP);
	assert_int_equal(out[0].op.count, 23);
	assert_int_equal(out[0].op.root, 3);
	assert_int_equal(out[0].tgid, 7);
	intern_free(strings);
}

/* NCCL mixes the handle of a reduction that the program made with its communicator's address. */
static void decode_takes_the_programs_reductions_for_one(void **state)
{
	const int handles[] = { -1, 0, 4, 5, 0x1234abcd, 0x7fffffff };
	const int known[] = { -1, 0, 4, REDOP_OWN, REDOP_OWN, REDOP_OWN };
	struct intern *strings = intern_new();
	struct event out[DECODE_EVENTS_MAX];

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct nccl_op r = { .hdr = { .size = sizeof(r), .tracer = WIRE_NCCL, .kind = NCCL_OP },
				     .comm = 1,
				     .count = 8,
				     .op = OP_ALLREDUCE,
				     .redop = handles[i],
				     .peer = -1,
				     .root = -1 };

		assert_int_equal(decode_record(&r.hdr, strings, out), 1);
		assert_int_equal(out[0].op.redop, known[i]);
	}
	intern_free(strings);
}

static void decode_leaves_empty_collectives_out(void **state)
{
	struct intern *strings = intern_new();
	struct event out[DECODE_EVENTS_MAX];
	struct nccl_op r = { .hdr = { .size = sizeof(r), .tracer = WIRE_NCCL, .kind = NCCL_OP },
			     .comm = 1,
			     .op = OP_ALLREDUCE,
			     .peer = -1,
			     .root = -1 };

	(void)state;
	assert_int_equal(decode_record(&r.hdr, strings, out), 0);
	r.op = OP_SEND; /* NCCL matches it with its Recv */
	assert_int_equal(decode_record(&r.hdr, strings, out), 1);
	r.op = OP_ALLREDUCE;
	r.count = 1;
	assert_int_equal(decode_record(&r.hdr, strings, out), 1);
	intern_free(strings);
}

static void decode_of_a_stranger_is_no_communicator(void **state)
{
	struct intern *strings = intern_new();
	struct event out[DECODE_EVENTS_MAX];
	struct nccl_comm r = { .hdr = { .size = sizeof(r), .tracer = WIRE_NCCL, .kind = NCCL_COMM },
			       .comm = 1,
			       .magic = 0x0280028002800280,
			       .end_magic = 0x0280028002800280,
			       .hash = 5,
			       .rank = 3,
			       .nranks = 8 };

	(void)state;
	assert_int_equal(decode_record(&r.hdr, strings, out), 1);
	r.rank = 8;
	assert_int_equal(decode_record(&r.hdr, strings, out), 0);
	r.rank = 3;
	r.end_magic++;
	assert_int_equal(decode_record(&r.hdr, strings, out), 0);
	intern_free(strings);
}

static void decode_of_a_budget(void **state)
{
	struct intern *strings = intern_new();
	struct event out[DECODE_EVENTS_MAX];
	struct record_budget f = {
		.hdr = { .size = sizeof(f), .tracer = WIRE_COLLECTOR, .kind = RECORD_BUDGET, .tgid = 7 },
		.budget_ppm = 10000,
		.hits_per_s = 61000,
		.node_hits_per_s = 70000,
		.cost_ns = 3800,
		.what = RECORD_BUDGET_SHED,
		.group = RECORD_PROBES_POLLS,
		.shed = 1 << RECORD_PROBES_POLLS,
		.flags = RECORD_BUDGET_OF_NODE
	};

	(void)state;
	assert_int_equal(decode_record(&f.hdr, strings, out), 1);
	assert_int_equal(out[0].kind, EV_BUDGET);
	assert_int_equal(out[0].budget.what, BUDGET_SHED);
	assert_int_equal(out[0].budget.group, PROBES_POLLS);
	assert_int_equal(out[0].budget.shed, 1 << PROBES_POLLS);
	assert_int_equal(out[0].budget.hits_per_s, 61000);
	assert_int_equal(out[0].budget.node_hits_per_s, 70000);
	assert_int_equal(out[0].budget.cost_ns, 3800);
	assert_true(out[0].budget.of_node && !out[0].budget.assumed);
	f.group = RECORD_PROBE_GROUPS;
	assert_int_equal(decode_record(&f.hdr, strings, out), -EINVAL);
	f.group = RECORD_PROBES_BURST;
	f.what = RECORD_BUDGET_WATCH;
	assert_int_equal(decode_record(&f.hdr, strings, out), 1);
	assert_int_equal(out[0].budget.what, BUDGET_WATCH);
	f.what = RECORD_BUDGET_WATCH + 1;
	assert_int_equal(decode_record(&f.hdr, strings, out), -EINVAL);
	f.what = RECORD_BUDGET_BACK;
	f.shed = 0xff;
	assert_int_equal(decode_record(&f.hdr, strings, out), 1);
	assert_int_equal(out[0].budget.shed, (1 << RECORD_PROBE_GROUPS) - 1);
	f.hdr.size -= 8;
	assert_int_equal(decode_record(&f.hdr, strings, out), -EINVAL);
	intern_free(strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reorder_sorts_and_loses_nothing),
		cmocka_unit_test(reorder_keeps_order_of_equal_times),
		cmocka_unit_test(reorder_is_bounded),
		cmocka_unit_test(reorder_counts_what_came_too_late),
		cmocka_unit_test(reorder_rejects_impossible_sizes),
		cmocka_unit_test(recording_returns_what_was_put),
		cmocka_unit_test(recording_of_noise_is_readable),
		cmocka_unit_test(recording_cut_off_is_readable_to_the_last_whole_chunk),
		cmocka_unit_test(recording_damage_ends_the_reading),
		cmocka_unit_test(recording_refuses_other_files),
		cmocka_unit_test(decode_rejects_short_and_unknown),
		cmocka_unit_test(decode_takes_longer_records),
		cmocka_unit_test(decode_takes_the_programs_reductions_for_one),
		cmocka_unit_test(decode_leaves_empty_collectives_out),
		cmocka_unit_test(decode_of_a_stranger_is_no_communicator),
		cmocka_unit_test(decode_of_a_budget),
	};
	int fd = mkstemp(rtr_path), failed;

	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(rtr_path);
	return failed;
}
