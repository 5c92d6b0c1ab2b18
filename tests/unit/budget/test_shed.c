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

#define LOOKS 100                /* until probes that were taken away are gone */
#define SETTLE_NS 30000000000ull /* until attached: the kernel waits for forks */

enum what { POLL, WAIT, ALLOCATE };

static int ask[2], answer[2], n_records[16];
static uint32_t hits[PROBE_GROUPS], paid[PROBE_GROUPS];
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
	uint32_t before = hits[group], hits_before[PROBE_GROUPS];

	memcpy(hits_before, hits, sizeof(hits));
	memset(n_records, 0, sizeof(n_records));
	assert_int_equal(write(ask[1], &order, sizeof(order)), sizeof(order));
	done_wait();
	while (loader_consume(loader) > 0)
		;
	assert_true(loader_hits(loader, pid, hits, paid));
	for (int g = 0; g < PROBE_GROUPS; g++)
		assert_true(g == (int)group || hits[g] == hits_before[g]); /* in no other's name */
	return hits[group] - before;
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
	assert_true(paid[PROBES_POLLS] &&
		    paid[PROBES_POLLS] * (uint64_t)LOADER_PRICE_NS <= usual_ns + 202 * LOADER_PRICE_NS);
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

	for (int i = 0; i < 9; i++) {
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

/* A program that returns at once saves next to nothing: the trap is the price. So probes must go. */
static void only_removal_relieves(void **state)
{
	const uint32_t polls = 1u << PROBES_POLLS, tgid = pid;
	uint64_t begin_ns, took_ns;
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
	begin_ns = clock_monotonic_ns();
	loader_shed(loader, pid, polls);
	while (call(POLL, 1, PROBES_POLLS)) {
		turn();
		usleep(1000);
	}
	took_ns = clock_monotonic_ns() - begin_ns;
	usleep(300000); /* the return's link */
	without_ns = call_ns(2000);
	print_message("a call with probes %.0f ns, with programs that return at once %.0f ns, without %.0f ns; entry "
		      "probes were gone after %.0f ms\n",
		      with_ns, idle_ns, without_ns, took_ns / 1e6);
	assert_true(idle_ns > 4 * without_ns);
	assert_true(idle_ns > with_ns / 8);
	assert_true(without_ns < with_ns / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(taken_away_and_given_back),
					    cmocka_unit_test(only_removal_relieves) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
