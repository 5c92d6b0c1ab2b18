/* SPDX-License-Identifier: Apache-2.0
 *
 * test_shed.c - a group of probes is taken from a process and given back: what the kernel counted and what it emitted,
 * against the calls that were made. The target calls the simulated job's libcuda, as often as it is told to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "bpf/target.h"
#include "pipeline/decode.h"
#include "source.h"
#include "attach/loader_internal.h"
#include "attach/probe_rows.h"
#include "session/targets.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/reader.h"
#include "tracers/cuda/cuda.h"

#define LOOKS 100 /* until probes that were taken away are gone */
#define CALL_ROUNDS 9
#define TIMED_CALLS 1000
#define ROUNDS 9                 /* odd */
#define SETTLE_NS 30000000000ull /* until attached: the kernel waits for forks */

enum what { POLL, WAIT, ALLOCATE };

static int ask[2], answer[2], n_records[16];
static struct hit_counts counts;
static struct reader *reader;
static struct target_set *set;
static struct loader *loader;
static pid_t pid;

static void target_run(const char *library)
{
	struct {
		enum what what;
		int n;
	} order;
	int (*poll)(void *), (*wait)(void *), (*allocate)(void *, size_t);
	void *lib = dlopen(library, RTLD_NOW);

	if (!lib)
		_exit(77);
	*(void **)&poll = dlsym(lib, "cuEventQuery");
	*(void **)&wait = dlsym(lib, "cuStreamSynchronize");
	*(void **)&allocate = dlsym(lib, "cuMemAlloc_v2");
	do {
		if (write(answer[1], "d", 1) != 1)
			_exit(1);
		if (read(ask[0], &order, sizeof(order)) != sizeof(order))
			_exit(0);
		for (int i = 0; i < order.n; i++)
			order.what == POLL ? poll(NULL) : order.what == WAIT ? wait(NULL) : allocate(NULL, 0);
	} while (true);
}

static void done_wait(void)
{
	char done;

	assert_int_equal(read(answer[0], &done, 1), 1);
}

static int emit(void *to, const struct wire_hdr *rec)
{
	(void)to;
	n_records[rec->kind & 15] += rec->tracer == WIRE_CUDA;
	return 0;
}

/* As a session's loop does: takes what the attaching thread made, closes links that waited. */
static void turn(void)
{
	loader_slice_begin(loader);
	assert_int_equal(loader_poll(loader, clock_monotonic_ns()), 0);
	assert_int_equal(loader_tick(loader, clock_monotonic_ns()), 0);
}

/* What comes back waits for the end of what was taken away; what is new, for the attaching thread. */
static void lib_attach(const struct target_proc *p, const struct target_lib *lib, enum probe_group group)
{
	uint64_t until_ns = clock_monotonic_ns() + SETTLE_NS;
	struct attach_note note;

	do {
		note = (struct attach_note){ 0 };
		turn();
		assert_true(loader_attach_lib(loader, source_cuda.tracer, p, lib, group, TIER_TRACE, &note) >= 0);
	} while ((note.waits || note.more) && clock_monotonic_ns() < until_ns && !usleep(2000));
	assert_false(note.waits || note.more);
}

static void attach(uint32_t groups)
{
	const struct target_proc *p = target_set_find(set, pid);

	assert_non_null(p);
	for (size_t i = 0; i < p->n_libs; i++)
		for (int g = 0; g < PROBE_GROUPS; g++) {
			if (p->libs[i].tracers & 1u << source_cuda.tracer->id && groups >> g & 1 &&
			    probe_group_tier(g) <= TIER_TRACE)
				lib_attach(p, &p->libs[i], g);
		}
}

static int setup(void **state)
{
	const char *o = getenv("O");
	char library[4096];
	size_t n;
	const struct target_filter *filters = session_target_filters(&n);
	struct loader_cfg cfg = {
		.tier = TIER_TRACE, .prices = true, .emit = emit, .ring_bytes = { 1 << 20, 1 << 20, 1 << 20 }
	};

	(void)state;
	if (geteuid())
		return 0;
	snprintf(library, sizeof(library), "%s/lib/ranktrace/sim/libcuda.so.1", o ? o : "build");
	if (pipe(ask) || pipe(answer) || reader_open(&reader))
		return -1;
	pid = fork();
	if (!pid) {
		close(ask[1]);
		target_run(library);
	}
	close(ask[0]);
	close(answer[1]);
	done_wait();
	if (target_set_new(reader, filters, n, &set) || target_set_scan(set))
		return -1;
	cfg.reader = reader;
	cfg.targets = set;
	return loader_open(&cfg, &loader) || loader_target_add(loader, pid, UID_UNKNOWN);
}

static int teardown(void **state)
{
	(void)state;
	if (geteuid())
		return 0;
	close(ask[1]);
	waitpid(pid, NULL, 0);
	loader_detach(loader);
	loader_free(loader);
	target_set_free(set);
	reader_free(reader);
	return 0;
}

/* What came of n calls: hits of the group; records are in n_records. */
static uint32_t call(enum what what, int n, enum probe_group group)
{
	struct {
		enum what what;
		int n;
	} order = { what, n };
	struct hit_counts before = counts;

	memset(n_records, 0, sizeof(n_records));
	assert_int_equal(write(ask[1], &order, sizeof(order)), sizeof(order));
	done_wait();
	while (loader_consume(loader) > 0)
		;
	assert_true(loader_hits(loader, pid, &counts));
	for (int g = 0; g < PROBE_GROUPS; g++)
		assert_true(g == (int)group || counts.hits[g] == before.hits[g]); /* in no other's name */
	return counts.hits[group] - before.hits[group];
}

static void taken_away_and_given_back(void **state)
{
	const uint32_t polls = 1u << PROBES_POLLS, calls = 1u << PROBES_CALLS;
	const struct hit_prices *prices;
	uint64_t usual_ns;
	int looks = 0;
	uint32_t n;

	(void)state;
	if (geteuid())
		skip();
	attach(~0u);
	assert_int_equal(call(POLL, 101, PROBES_POLLS), 202); /* entry and return */
	assert_int_equal(n_records[CUDA_EVENT_QUERY], 101);
	prices = loader_prices_known(loader);
	usual_ns =
		202ull * (prices->ns[HIT_OTHER] > prices->ns[HIT_PUSH] ? prices->ns[HIT_OTHER] : prices->ns[HIT_PUSH]);
	assert_true(counts.paid[PROBES_POLLS] &&
		    counts.paid[PROBES_POLLS] * (uint64_t)LOADER_PRICE_NS <= usual_ns + 202 * LOADER_PRICE_NS);
	assert_int_equal(call(WAIT, 53, PROBES_NEEDED), 106);
	assert_int_equal(n_records[CUDA_SYNC_BEGIN], 53);
	assert_int_equal(n_records[CUDA_SYNC_END], 53);
	assert_int_equal(call(ALLOCATE, 31, PROBES_CALLS), 62);

	n = loader_probes(loader);
	loader_shed(loader, pid, polls);
	assert_true(loader_probes(loader) < n);
	while (call(POLL, 1, PROBES_POLLS) && looks++ < LOOKS) {
		turn();
		usleep(50000);
	}
	usleep(300000); /* the return's link is closed behind the entry's */
	assert_int_equal(call(POLL, 1009, PROBES_POLLS), 0);
	assert_int_equal(n_records[CUDA_EVENT_QUERY], 0);
	assert_int_equal(call(WAIT, 53, PROBES_NEEDED), 106);
	assert_int_equal(n_records[CUDA_SYNC_END], 53);
	assert_int_equal(call(ALLOCATE, 31, PROBES_CALLS), 62);

	loader_shed(loader, pid, polls | calls);
	for (looks = 0; call(ALLOCATE, 1, PROBES_CALLS) && looks < LOOKS; looks++) {
		turn();
		usleep(50000);
	}
	assert_int_equal(call(ALLOCATE, 31, PROBES_CALLS), 0);
	assert_int_equal(call(WAIT, 53, PROBES_NEEDED), 106);

	loader_shed(loader, pid, calls);
	attach(~calls);
	assert_int_equal(call(POLL, 101, PROBES_POLLS), 202);
	assert_int_equal(n_records[CUDA_EVENT_QUERY], 101);
	assert_int_equal(call(ALLOCATE, 31, PROBES_CALLS), 0);
	assert_int_equal(call(WAIT, 53, PROBES_NEEDED), 106);
}

/* Of one call, at best. */
static double call_ns(int n)
{
	struct {
		enum what what;
		int n;
	} order = { POLL, n };
	double best = 1e9, ns;

	for (int i = 0; i < CALL_ROUNDS; i++) {
		uint64_t begin_ns = clock_monotonic_ns();

		assert_int_equal(write(ask[1], &order, sizeof(order)), sizeof(order));
		done_wait();
		ns = (double)(clock_monotonic_ns() - begin_ns) / n;
		best = ns < best ? ns : best;
		while (loader_consume(loader) > 0)
			;
	}
	return best;
}

static bool any_library(const void *to, uint32_t a, uint32_t b)
{
	(void)to;
	(void)a;
	(void)b;
	return true;
}

/* Returns how long it took until entries were not seen any more. */
static uint64_t polls_remove(void)
{
	const struct detach_of of = { .tgid = pid, .start_ns = target_set_find(set, pid)->start_time_ns };
	uint64_t begin_ns = clock_monotonic_ns(), took_ns;

	loader_shed(loader, pid, 1u << PROBES_POLLS);
	while (call(POLL, 1, PROBES_POLLS)) {
		turn();
		usleep(1000);
	}
	took_ns = clock_monotonic_ns() - begin_ns;
	while (detacher_closes(loader->detacher, &of, any_library, NULL)) { /* the return's link, behind it */
		turn();
		usleep(1000);
	}
	return took_ns;
}

/* A program that returns at once saves next to nothing: the trap is the price. So probes must go. */
static void only_removal_relieves(void **state)
{
	const uint32_t tgid = pid;
	uint64_t took_ns;
	double with_ns, idle_ns, without_ns;
	struct target t;

	(void)state;
	if (geteuid())
		skip();
	loader_shed(loader, pid, 0);
	attach(~0u);
	with_ns = call_ns(2000);
	assert_int_equal(bpf_map_lookup_elem(loader_map_fd(loader, "targets"), &tgid, &t), 0);
	assert_int_equal(bpf_map_delete_elem(loader_map_fd(loader, "targets"), &tgid), 0);
	idle_ns = call_ns(2000);
	assert_int_equal(bpf_map_update_elem(loader_map_fd(loader, "targets"), &tgid, &t, BPF_ANY), 0);
	took_ns = polls_remove();
	without_ns = call_ns(2000);
	print_message("a call with probes %.0f ns, with programs that return at once %.0f ns, without %.0f ns; entry "
		      "probes were gone after %.0f ms\n",
		      with_ns, idle_ns, without_ns, took_ns / 1e6);
	assert_true(idle_ns > 4 * without_ns);
	assert_true(idle_ns > with_ns / 8);
	assert_true(without_ns < with_ns / 4);
}

/* Runs of our programs, and what they took, by the kernel's account. */
struct account {
	uint64_t runs, ns;
};

static struct account account_read(void)
{
	struct account sum = { 0 };
	struct bpf_program *p;

	for (int i = 0; i < loader->n_tracers; i++) {
		if (!loader->tracers[i].object)
			continue;
		bpf_object__for_each_program(p, loader->tracers[i].object)
		{
			struct bpf_prog_info info = { 0 };
			uint32_t len = sizeof(info);

			assert_int_equal(bpf_prog_get_info_by_fd(bpf_program__fd(p), &info, &len), 0);
			sum.runs += info.run_cnt;
			sum.ns += info.run_time_ns;
		}
	}
	return sum;
}

/* Of one run by the kernel's account, of so many calls; it counts the clock, and the call of the program, in. */
static double kernel_ns(void)
{
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	struct account begin = account_read(), end;

	assert_true(fd >= 0);
	call_ns(TIMED_CALLS);
	end = account_read();
	close(fd);
	assert_int_equal(end.runs - begin.runs, 2 * TIMED_CALLS * CALL_ROUNDS);
	return (double)(end.ns - begin.ns) / (end.runs - begin.runs);
}

/* The same with programs that return at once, as they do for a process that is no target. */
static double kernel_idle_ns(void)
{
	const uint32_t tgid = pid;
	struct target t;
	double ns;

	assert_int_equal(bpf_map_lookup_elem(loader_map_fd(loader, "targets"), &tgid, &t), 0);
	assert_int_equal(bpf_map_delete_elem(loader_map_fd(loader, "targets"), &tgid), 0);
	ns = kernel_ns();
	assert_int_equal(bpf_map_update_elem(loader_map_fd(loader, "targets"), &tgid, &t, BPF_ANY), 0);
	return ns;
}

struct round {
	double kernel_ns, own_ns, ratio; /* of a run, beyond one that returns at once; ours to the kernel's */
};

static void round_measure(struct round *ret, uint32_t *ret_runs)
{
	struct hit_counts before, after;
	uint32_t runs;

	ret->kernel_ns = -kernel_idle_ns();
	assert_true(loader_hits(loader, pid, &before));
	ret->kernel_ns += kernel_ns();
	assert_true(loader_hits(loader, pid, &after));
	runs = after.own_runs[PROBES_POLLS] - before.own_runs[PROBES_POLLS];
	assert_true(runs);
	ret->own_ns = (double)(after.own_ns[PROBES_POLLS] - before.own_ns[PROBES_POLLS]) / runs -
		      loader_prices_known(loader)->idle_ns;
	ret->ratio = ret->own_ns / ret->kernel_ns;
	*ret_runs += runs;
}

static int double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int ratio_compare(const void *a, const void *b)
{
	double x = ((const struct round *)a)->ratio, y = ((const struct round *)b)->ratio;

	return x < y ? -1 : x > y;
}

/* What our programs add to the traps: by the timing of some runs, and by the kernel's account of all. */
static void own_time_is_the_kernels(void **state)
{
	struct round r[ROUNDS];
	uint32_t runs = 0;

	(void)state;
	if (geteuid())
		skip();
	loader_shed(loader, pid, 0);
	attach(~0u);
	for (int i = 0; i < ROUNDS; i++)
		round_measure(&r[i], &runs);
	qsort(r, ROUNDS, sizeof(*r), ratio_compare);
	print_message("a run takes %.0f ns beyond one that returns at once, by the kernel %.0f: %.3f (%.3f to %.3f); "
		      "%u of %u timed\n",
		      r[ROUNDS / 2].own_ns, r[ROUNDS / 2].kernel_ns, r[ROUNDS / 2].ratio, r[0].ratio,
		      r[ROUNDS - 1].ratio, runs, ROUNDS * CALL_ROUNDS * 2 * TIMED_CALLS);
	assert_in_range(runs, ROUNDS * CALL_ROUNDS * TIMED_CALLS / OWN_TIME_EVERY,
			ROUNDS * CALL_ROUNDS * 4 * TIMED_CALLS / OWN_TIME_EVERY);
	assert_true(r[ROUNDS / 2].ratio > 0.7 && r[ROUNDS / 2].ratio < 1.3);
}

/* What a hit is taken to cost, at the prices that the traps have now: the machine's own pace changes. */
static double shown_ns(const struct hit_counts *before, const struct hit_counts *after)
{
	const struct hit_prices *known = loader_prices_known(loader);
	uint32_t n = after->hits[PROBES_POLLS] - before->hits[PROBES_POLLS],
		 runs = after->own_runs[PROBES_POLLS] - before->own_runs[PROBES_POLLS];
	double trap_ns = (double)(after->paid[PROBES_POLLS] - before->paid[PROBES_POLLS]) * LOADER_PRICE_NS / n;
	struct hit_prices now;

	loader_prices(loader, &now);
	assert_true(n && runs && !now.assumed);
	return trap_ns * (now.ns[HIT_PUSH] + now.ns[HIT_RETURN]) / (known->ns[HIT_PUSH] + known->ns[HIT_RETURN]) +
	       (double)(after->own_ns[PROBES_POLLS] - before->own_ns[PROBES_POLLS]) / runs - now.idle_ns;
}

/* The price of a hit against what a call takes longer for it, with probes and without in turns. */
static void price_is_what_calls_slow_down(void **state)
{
	double ratio[ROUNDS], shown, slower;
	struct hit_counts before, after;

	(void)state;
	if (geteuid())
		skip();
	for (int i = 0; i < ROUNDS; i++) {
		loader_shed(loader, pid, 0);
		attach(~0u);
		assert_true(loader_hits(loader, pid, &before));
		slower = call_ns(TIMED_CALLS);
		assert_true(loader_hits(loader, pid, &after));
		shown = shown_ns(&before, &after);
		polls_remove();
		slower = (slower - call_ns(TIMED_CALLS)) / 2;
		ratio[i] = shown / slower;
		print_message("a hit is taken to cost %.0f ns, and slows a call down by %.0f\n", shown, slower);
	}
	qsort(ratio, ROUNDS, sizeof(*ratio), double_compare);
	print_message("price to slow-down: %.2f (%.2f to %.2f)\n", ratio[ROUNDS / 2], ratio[0], ratio[ROUNDS - 1]);
	assert_true(ratio[ROUNDS / 2] > 0.7 && ratio[ROUNDS / 2] < 1.6);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(taken_away_and_given_back),
					    cmocka_unit_test(own_time_is_the_kernels),
					    cmocka_unit_test(price_is_what_calls_slow_down),
					    cmocka_unit_test(only_removal_relieves) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
