/* SPDX-License-Identifier: Apache-2.0
 *
 * test_report.c - the message of a node: what the model knows comes back out of its bytes; what is no such message is
 * refused for the right reason, whatever its size.
 */
#include "cluster/report.h"
#include "cluster/report_make.h"
#include "tests/unit/job/outside_samples.h"

static char bytes[REPORT_BYTES_MAX];
static struct report_maker *maker;
static Cluster__NodeReport *back;

/* Ten collectives entered, read 0.2 s ago, the same since 0.5 s; rank 2 asleep in a read. */
static void ranks_play(void)
{
	const uint64_t n[] = { 9, 9, 8, 9 };

	for (int r = 0; r < RANKS; r++) {
		struct event e = job_proc_event(r, RANKS, 0);

		e.ts_ns = now;
		give(e);
		assert_int_equal(report_maker_event(maker, &e), 0);
	}
	at[2].state = TASK_SLEEP;
	at[2].syscall = "read";
	for (int i = 0; i < 2; i++) {
		world(n);
		tasks();
		tick();
	}
}

static size_t pack(Cluster__NodeReport *r)
{
	r->has_agent = r->has_sequence = 1;
	r->agent = 7;
	r->sequence = 42;
	return report_pack(r, bytes);
}

static const Cluster__Process *process(int rank)
{
	for (size_t i = 0; i < back->n_processes; i++)
		if (back->processes[i]->rank == rank)
			return back->processes[i];
	return NULL;
}

static void round_trip(void)
{
	size_t len = pack(report_make(maker, m));

	assert_int_equal(report_unpack(bytes, len, &back), REPORT_GOOD);
}

/* A text of an event is good for as long as the model has it. */
static void texts_of_events_may_go(void **state)
{
	char cgroup[] = "/slurm/job_1/task_0";
	struct event e = job_proc_event(0, RANKS, 0);

	(void)state;
	ranks_play();
	e.ts_ns = now;
	e.proc.cgroup = cgroup;
	e.proc.user = 1001;
	assert_int_equal(report_maker_event(maker, &e), 0);
	memset(cgroup, 'x', sizeof(cgroup) - 1);
	round_trip();
	assert_string_equal(process(0)->cgroup, "/slurm/job_1/task_0");
	assert_int_equal(process(0)->user, 1001);
	report_free(back);
	assert_int_equal(report_maker_event(maker, &e), 0); /* said again */
	round_trip();
	assert_int_equal(process(0)->cgroup[0], 'x');
	report_free(back);
}

static void what_is_known_comes_back(void **state)
{
	const Cluster__Process *p;

	(void)state;
	ranks_play();
	round_trip();
	assert_int_equal(back->agent, 7);
	assert_int_equal(back->sequence, 42);
	assert_int_equal(back->now_ns, m->now_ns);
	assert_int_equal(back->n_processes, RANKS);
	p = process(2);
	assert_non_null(p);
	assert_int_equal(p->world_size, RANKS);
	assert_int_equal(p->n_comms, 1);
	assert_int_equal(p->comms[0]->hash, WORLD);
	assert_int_equal(p->comms[0]->nranks, RANKS);
	assert_int_equal(p->comms[0]->n_counters, OP_KINDS_COUNTED);
	assert_int_equal(p->comms[0]->counters[OP_ALLREDUCE], 8);
	assert_int_equal(process(0)->comms[0]->counters[OP_ALLREDUCE], 9);
	assert_int_equal(m->now_ns - p->comms[0]->sampled_age_ns, m->procs->members->samples.seen_ns);
	assert_true(p->comms[0]->same_age_ns > p->comms[0]->sampled_age_ns);
	assert_false(p->comms[0]->has_entered); /* no call was seen */
	assert_int_equal(p->n_threads, 1);
	assert_int_equal(p->threads[0]->state, TASK_SLEEP);
	assert_string_equal(p->threads[0]->syscall, "read");
	assert_false(p->threads[0]->frozen);
	assert_false(back->partial);
	report_free(back);
	m->procs->node->partial = true;
	m->procs->tasks->frozen = true;
	round_trip();
	assert_int_equal(process(m->procs->rank)->threads[0]->frozen, true);
	assert_true(back->partial);
	report_free(back);
}

/* What the node found is in it as long as it holds. */
static void findings_come_and_go(void **state)
{
	struct incident i = { .id = "node-1", .phase = PHASE_OPEN };

	(void)state;
	ranks_play();
	i.f = (struct finding){ .kind = FINDING_HANG,
				.class = HANG_MISSING_ENTER,
				.severity = SEVERITY_WARNING,
				.subject = subject_rank(2, m->procs->key),
				.since_ns = m->now_ns - 3000000000ull,
				.n_ranks = 1,
				.n_ranks_all = 1,
				.ranks = { 2 },
				.pids = { 100 },
				.confidence = 0.9 };
	report_maker_incident(maker, &i);
	round_trip();
	assert_int_equal(back->n_findings, 1);
	assert_string_equal(back->findings[0]->kind, "hang");
	assert_string_equal(back->findings[0]->hang_class, "missing_enter");
	assert_int_equal(back->findings[0]->ranks[0], 2);
	assert_int_equal(back->findings[0]->since_age_ns, 3000000000ull);
	assert_int_equal(back->findings[0]->confidence_percent, 90);
	report_free(back);
	i.phase = PHASE_CLOSE;
	report_maker_incident(maker, &i);
	round_trip();
	assert_int_equal(back->n_findings, 0);
	report_free(back);
}

/* Of each process in its place, known or not; of one that is not in the list nothing. */
static void what_processes_have_of_a_gpu(void **state)
{
	const struct gpu_usage usage[] = { { 3, 12, 512, 0 }, { 3, 11, GPU_NO_VALUE, 98 }, { 3, 99, 7, 7 } };
	struct event e = { .kind = EV_GPU_PROCS, .ts_ns = now };

	(void)state;
	ranks_play();
	e.gpu_procs = (struct gpu_procs){ .index = 3, .n = 3, .pids = { 11, 12, 13 } };
	give(e);
	for (int i = 0; i < 3; i++) {
		e = (struct event){ .kind = EV_GPU_USAGE, .ts_ns = now };
		e.gpu_usage = usage[i];
		give(e);
	}
	round_trip();
	assert_int_equal(back->n_gpus, 1);
	assert_int_equal(back->gpus[0]->n_memory_mib, 3);
	assert_int_equal(back->gpus[0]->memory_mib[0], 0);
	assert_int_equal(back->gpus[0]->memory_mib[1], 512);
	assert_int_equal(back->gpus[0]->memory_mib[2], 0);
	assert_int_equal(back->gpus[0]->sm_percent[0], 99);
	assert_int_equal(back->gpus[0]->sm_percent[1], 1);
	assert_int_equal(back->gpus[0]->sm_percent[2], 0);
	report_free(back);
}

static void eight_ranks_fit_the_budget(void **state)
{
	size_t len;

	(void)state;
	ranks_play();
	len = pack(report_make(maker, m));
	print_message("%zu bytes for %d ranks\n", len, RANKS);
	assert_true(len / RANKS <= 20000 / 8);
}

/* --- refused --- */

static enum report_fault fault_of(Cluster__NodeReport *r)
{
	size_t len = cluster__node_report__pack(r, (uint8_t *)bytes);

	return report_unpack(bytes, len, &back);
}

static Cluster__NodeReport *whole(void)
{
	Cluster__NodeReport *r = report_make(maker, m);

	pack(r);
	return r;
}

static void a_newer_version_is_refused(void **state)
{
	Cluster__NodeReport *r;

	(void)state;
	ranks_play();
	r = whole();
	assert_int_equal(fault_of(r), REPORT_GOOD);
	report_free(back);
	r->version = REPORT_VERSION + 1;
	assert_int_equal(fault_of(r), REPORT_NEWER);
	assert_null(back);
	r->has_version = 0;
	assert_int_equal(fault_of(r), REPORT_MALFORMED);
}

/* A field that this version does not know is passed over: a later one may have added it. */
static void a_new_field_is_passed_over(void **state)
{
	const char unknown[] = { (char)0xc2, 0x3e, 3, 'n', 'e', 'w' }; /* field 1000, bytes */
	size_t len;

	(void)state;
	ranks_play();
	len = pack(report_make(maker, m));
	memcpy(bytes + len, unknown, sizeof(unknown));
	assert_int_equal(report_unpack(bytes, len + sizeof(unknown), &back), REPORT_GOOD);
	report_free(back);
}

/* Between two processes a cut is not seen, and what came before it is true; inside of one it is. */
static void what_is_cut_is_malformed(void **state)
{
	size_t len;
	int taken = 0;

	(void)state;
	ranks_play();
	len = pack(report_make(maker, m));
	for (size_t cut = 0; cut < len; cut++) {
		if (report_unpack(bytes, cut, &back))
			continue;
		taken++;
		assert_true(back->n_processes < RANKS);
		report_free(back);
	}
	assert_in_range(taken, RANKS, RANKS + 4); /* and between the numbers in front of them */
}

static void more_bytes_than_any_agent_sends(void **state)
{
	(void)state;
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(report_unpack(bytes, REPORT_BYTES_MAX + 1, &back), REPORT_OVERSIZED);
}

/* Two bytes each: 50 times as much unpacked. */
static void more_in_few_bytes_than_any_agent_sends(void **state)
{
	(void)state;
	for (size_t i = 0; i + 1 < sizeof(bytes); i += 2)
		memcpy(bytes + i, "\x62\x00", 2); /* an empty process */
	assert_int_equal(report_unpack(bytes, sizeof(bytes), &back), REPORT_OVERSIZED);
	assert_null(back);
}

static void impossible_values(void **state)
{
	Cluster__NodeReport *r;

	(void)state;
	ranks_play();
	r = whole();
	r->processes[0]->rank = RANKS;
	assert_int_equal(fault_of(r), REPORT_IMPOSSIBLE);
	r = whole();
	r->processes[0]->comms[0]->nranks = 1 << 30;
	assert_int_equal(fault_of(r), REPORT_IMPOSSIBLE);
	r = whole();
	r->processes[0]->threads[0]->state = 7;
	assert_int_equal(fault_of(r), REPORT_IMPOSSIBLE);
	r = whole();
	r->host = (char *)"";
	assert_int_equal(fault_of(r), REPORT_IMPOSSIBLE);
	r = whole();
	r->sequence = 0;
	assert_int_equal(fault_of(r), REPORT_IMPOSSIBLE);
	r = whole();
	r->processes[0]->comms[0]->sampled_age_ns = 1ull << 63;
	assert_int_equal(fault_of(r), REPORT_IMPOSSIBLE);
}

/* What is too much for a message is left out from its end, and counted. */
static void too_much_is_left_out(void **state)
{
	static char long_text[REPORT_TEXT_MAX - 1];
	Cluster__NodeReport *r;
	Cluster__Process *many[64];

	(void)state;
	ranks_play();
	memset(long_text, 'x', sizeof(long_text) - 1);
	r = whole();
	r->processes[0]->job = long_text;
	for (size_t i = 0; i < 64; i++)
		many[i] = r->processes[0];
	r->processes = many;
	r->n_processes = 64;
	assert_int_equal(report_unpack(bytes, pack(r), &back), REPORT_GOOD);
	assert_true(back->n_processes > 20 && back->n_processes < 64);
	assert_int_equal(back->left_out, 64 - back->n_processes);
	report_free(back);
}

static int with_maker(void **state)
{
	maker = report_maker_new();
	return maker ? start(state) : -1;
}

static int without(void **state)
{
	report_maker_free(maker);
	return end(state);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, with_maker, without)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(texts_of_events_may_go),
		CASE(what_is_known_comes_back),
		CASE(findings_come_and_go),
		CASE(what_processes_have_of_a_gpu),
		CASE(eight_ranks_fit_the_budget),
		CASE(a_newer_version_is_refused),
		CASE(a_new_field_is_passed_over),
		CASE(what_is_cut_is_malformed),
		CASE(more_bytes_than_any_agent_sends),
		CASE(more_in_few_bytes_than_any_agent_sends),
		CASE(impossible_values),
		CASE(too_much_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
