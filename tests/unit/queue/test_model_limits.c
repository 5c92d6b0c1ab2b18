/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_limits.c - how much the model follows: one more than each limit costs the oldest, or is left alone; what a
 * communicator's size and ranks may be; who counts as seen in it when members go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/job/hand_model.h"

enum { COMM = 7, HASH = 97, STREAM_ITEMS = 8192, STREAMS = 1024, CUDA_EVENTS = 8192, NRANKS_MOST = 1 << 20 };

static const struct member *member(int r)
{
	const struct member *mb = model_proc(m, job_pid(r))->members;

	while (mb && mb->gone)
		mb = mb->next_in_proc;
	return mb;
}

static void call(uint64_t stream)
{
	now += 1000;
	give(job_call_event(0, OP_ALLREDUCE, COMM, stream, 10));
}

static const struct op *newest(void)
{
	return model_proc(m, job_pid(0))->last_op;
}

static void stream_synced(uint64_t stream)
{
	struct event e = job_event(EV_SYNC_END, 0, 0);

	now += MSEC;
	e.sync.kind = SYNC_STREAM;
	e.sync.handle = stream;
	e.sync.begin_ns = now;
	give(e);
}

static void event_at(enum event_kind kind, uint64_t handle, uint64_t stream)
{
	struct event e = job_event(kind, 0, 0);

	e.cuda_event.handle = handle;
	e.cuda_event.stream = stream;
	give(e);
}

/* --- queues --- */

/* The first of so many falls off the queue: nobody sees it end; one less, and it does. */
static void so_many_on_a_stream(void **state)
{
	(void)state;
	for (int more = 0; more < 2; more++) {
		const struct op *first, *other;

		done(NULL);
		fresh(NULL);
		call(6);
		other = newest();
		event_at(EV_CUDA_EVENT, 1, 6);
		call(5);
		first = newest();
		for (int i = 1; i < STREAM_ITEMS + more; i++)
			event_at(EV_CUDA_EVENT_WAIT, 1, 5);
		now += MSEC;
		stream_synced(5);
		assert_int_equal(!first->end_ns, more);
		assert_true(other->end_ns); /* it was waited for */
	}
}

static void so_many_streams(void **state)
{
	(void)state;
	for (int i = 1; i <= STREAMS; i++)
		call(1000 + i);
	stream_synced(1000 + STREAMS);
	assert_true(newest()->end_ns);
	call(5); /* one more is not followed */
	stream_synced(5);
	assert_false(newest()->end_ns);
	call(1001); /* those that are there are */
	stream_synced(1001);
	assert_true(newest()->end_ns);
}

static void so_many_cuda_events(void **state)
{
	(void)state;
	for (int more = 0; more < 2; more++) {
		done(NULL);
		fresh(NULL);
		call(5);
		for (int i = 0; i < CUDA_EVENTS + more; i++)
			event_at(EV_CUDA_EVENT, 100 + i, 5);
		event_at(EV_CUDA_EVENT_QUERY, 100, 0); /* it is done */
		assert_int_equal(!newest()->end_ns, more);
		event_at(EV_CUDA_EVENT_QUERY, 101, 0);
		assert_true(newest()->end_ns);
	}
}

/* --- a communicator --- */

static void joins(int r, int rank, int nranks)
{
	struct event e = job_ready_event(r, nranks, COMM, HASH);

	e.comm_init.rank = rank;
	give(e);
}

static void how_large_it_may_be(void **state)
{
	static const struct {
		int nranks, is;
	} cases[] = { { -1, -1 }, { 0, -1 }, { 1, 1 }, { NRANKS_MOST, NRANKS_MOST }, { NRANKS_MOST + 1, -1 } };

	for (int i = 0; i < 5; i++) {
		joins(0, 0, cases[i].nranks);
		assert_int_equal(member(0)->comm->nranks, cases[i].is);
		assert_int_equal(member(0)->comm->n_seen, cases[i].is > 0);
		assert_int_equal(member(0)->rank, cases[i].is > 0 ? 0 : -1);
		joins(1, 1, 4); /* the first that is known counts */
		assert_int_equal(member(0)->comm->nranks, cases[i].is > 0 ? cases[i].is : 4);
		done(state);
		fresh(state);
	}
}

static void ranks_that_are_none(void **state)
{
	(void)state;
	joins(0, 4, 4);
	assert_true(member(0)->rank == -1 && member(0)->comm->n_seen == 0);
	joins(1, -1, 4);
	assert_true(member(1)->rank == -1 && member(1)->comm->n_seen == 0);
	joins(2, 3, 4);
	assert_true(member(2)->rank == 3 && member(2)->comm->n_seen == 1 && comm_global_rank(member(2)->comm, 3) == 3);
	assert_int_equal(comm_global_rank(member(2)->comm, 4), -1);
	assert_int_equal(comm_global_rank(member(2)->comm, 2), -1);
}

/* Who comes as a rank that is there: a living one keeps its place, one that is gone or dead does not. */
static void a_rank_twice(void **state)
{
	struct event gone = job_event(EV_COMM_GONE, 0, 0);
	const struct comm *c;

	(void)state;
	joins(0, 1, 4);
	c = member(0)->comm;
	joins(1, 1, 4);
	assert_true(c->by_rank[1] == member(0) && c->n_seen == 1);
	gone.comm_gone.addr = COMM;
	give(gone);
	joins(2, 1, 4);
	assert_true(c->by_rank[1] == member(2) && c->n_seen == 1);
	exits(0, job_pid(2));
	joins(3, 1, 4);
	assert_true(c->by_rank[1] == member(3) && c->n_seen == 1);
	joins(4, 2, 4);
	assert_int_equal(c->n_seen, 2);
}

/* One whose memory shows another communicator is seen in that, and no more in the first. */
static void who_is_seen(void **state)
{
	struct event other = job_seen_event(1, 8, COMM, HASH + 1);
	const struct comm *c;

	(void)state;
	for (int r = 0; r < 3; r++)
		joins(r, r, 4);
	c = member(0)->comm;
	assert_int_equal(c->n_seen, 3);
	other.comm_seen.rank = 5;
	give(other);
	assert_true(c->n_seen == 2 && !c->by_rank[1] && c->by_rank[2] == member(2));
	assert_true(member(1)->comm != c && member(1)->comm->n_seen == 1 && member(1)->comm->by_rank[5] == member(1));
	for (const struct member *mb = c->members; mb; mb = mb->next_in_comm)
		assert_ptr_equal(c->by_rank[mb->rank], mb);
	joins(3, 1, 4);
	assert_int_equal(c->n_seen, 3);
	joins(4, 2, 4); /* that one is there */
	other = job_seen_event(4, 8, COMM, HASH + 1);
	give(other);
	assert_true(c->n_seen == 3 && c->by_rank[2] == member(2));
}

/* Two ranks of one communicator in a process, whichever came first; of two communicators they are two anyway. */
static void several_in_one_process(void **state)
{
	(void)state;
	for (int same = 0; same < 2; same++) {
		struct event e = job_ready_event(0, 4, COMM, HASH);

		give(e);
		e.comm_init.addr = COMM + 1;
		e.comm_init.id_hash = same ? HASH : HASH + 1;
		e.comm_init.rank = 2;
		give(e);
		assert_int_equal(model_proc(m, job_pid(0))->shared, same);
		joins(1, 1, 4);
		assert_false(model_proc(m, job_pid(1))->shared);
		done(state);
		fresh(state);
	}
}

/* --- creations --- */

static const struct comm_init_member *begins(int r, uint32_t thread, uint64_t id)
{
	struct event e = job_event(EV_COMM_INIT, r, 0);

	now += SEC;
	e.tid = e.tgid + thread;
	e.comm_init.kind = COMM_INIT_RANK;
	e.comm_init.id_hash = id;
	e.comm_init.rank = r;
	e.comm_init.nranks = 4;
	give(e);
	for (const struct comm_init *b = m->comm_inits; b; b = b->next)
		if (b->id_hash == id)
			return b->members;
	return NULL;
}

/* A thread that begins another creation is through with the one before; other threads and processes are not. */
static void one_creation_after_the_other(void **state)
{
	const struct comm_init_member *first = begins(0, 0, 5), *beside, *other;

	(void)state;
	assert_true(first && first->since_ns == now && !first->done_ns);
	beside = begins(0, 1, 6);
	other = begins(1, 0, 7);
	assert_true(beside && other && !first->done_ns && !beside->done_ns);
	assert_non_null(begins(0, 0, 8));
	assert_int_equal(first->done_ns, now);
	assert_true(!beside->done_ns && !other->done_ns);
}

/* --- counters that NCCL has itself --- */

static void counters_are(uint64_t sum)
{
	struct event e = job_seen_event(0, 4, COMM, HASH);

	e.comm_seen.counters_sum = sum;
	e.comm_seen.counters_valid = true;
	give(e);
}

static void what_counters_correct(void **state)
{
	const struct member *mb;

	(void)state;
	counters_are(10);
	mb = member(0);
	assert_true(mb->seq_known && mb->base_seq == 10 && mb->next_seq[SEQ_COLL] == 10 &&
		    mb->entered_seq[SEQ_COLL] == 10);
	assert_true(mb->checked_ns == now && mb->comm->highest_seq[SEQ_COLL] == 10);
	call(5);
	assert_int_equal(mb->entered_seq[SEQ_COLL], 11);
	counters_are(11);
	assert_int_equal(mb->entered_seq[SEQ_COLL], 11);
	counters_are(9); /* an older reading */
	assert_int_equal(mb->entered_seq[SEQ_COLL], 11);
	counters_are(14); /* three were lost */
	assert_true(mb->entered_seq[SEQ_COLL] == 14 && mb->next_seq[SEQ_COLL] == 14 && mb->base_seq == 10);
	assert_int_equal(mb->comm->highest_seq[SEQ_COLL], 14);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, done)
	const struct CMUnitTest tests[] = {
		TEST(so_many_on_a_stream),   TEST(so_many_streams),
		TEST(so_many_cuda_events),   TEST(how_large_it_may_be),
		TEST(ranks_that_are_none),   TEST(a_rank_twice),
		TEST(who_is_seen),           TEST(several_in_one_process),
		TEST(what_counters_correct), TEST(one_creation_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
