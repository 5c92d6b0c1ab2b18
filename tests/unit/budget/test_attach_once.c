/* SPDX-License-Identifier: Apache-2.0
 *
 * test_attach_once.c - a process' calls are seen once, whatever happens to it and to its probes: its fork is read after
 * a scan found it, its probes are taken and come back, its library comes to lie elsewhere, it execs. What the kernel
 * counted and emitted, against the calls that were made. The target calls the simulated job's
 * libnccl, by a function whose probe goes last of all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/loader_internal.h"
#include "base/clock.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/reader.h"
#include "session/targets.h"
#include "tracers/nccl/nccl.h"
#include "tracers/process/life.h"

#define CALLS 53
#define SETTLE_NS 30000000000ull /* until closed links are gone and new ones in: the kernel waits for forks */

enum what { CALL, MOVE, EXEC, EXEC_OF_THREAD };
struct order {
	enum what what;
	int n;
};

static char library[4096];
static int ask[2], answer[2];
static unsigned n_ops, n_libs, n_probes;
static struct reader *reader;
static struct target_set *set;
static struct loader *loader;
static struct session_targets *targets;
static struct session_cfg cfg;
static uint32_t pid;
static uint64_t forked_ns;

static void *open_library(void)
{
	void *lib = dlopen(library, RTLD_NOW);

	return lib ? lib : (_exit(77), NULL);
}

/* Nothing else may be mapped where it was. */
static void *moved(void *lib)
{
	char *at = dlsym(lib, "ncclAllReduce");

	dlclose(lib);
	at = (char *)((uintptr_t)at & ~0xffful);
	if (mmap(at, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
		_exit(1);
	return open_library();
}

static void *exec_again(void *arg)
{
	char in[16], out[16];

	(void)arg;
	snprintf(in, sizeof(in), "%d", ask[0]);
	snprintf(out, sizeof(out), "%d", answer[1]);
	execl("/proc/self/exe", "target", in, out, library, NULL);
	_exit(1);
}

static void exec_of_thread(void)
{
	pthread_t t;

	if (!pthread_create(&t, NULL, exec_again, NULL))
		pthread_join(t, NULL);
	_exit(1);
}

static void target_run(void)
{
	void *lib = open_library();
	struct order order;

	do {
		int (*reduce)(const void *, void *, size_t, int, int, void *, void *);

		*(void **)&reduce = dlsym(lib, "ncclAllReduce");
		if (write(answer[1], "d", 1) != 1 || read(ask[0], &order, sizeof(order)) != sizeof(order))
			_exit(0);
		for (int i = 0; order.what == CALL && i < order.n; i++)
			reduce(NULL, NULL, 1, 0, 0, NULL, NULL); /* is refused */
		if (order.what == MOVE)
			lib = moved(lib);
		if (order.what == EXEC)
			exec_again(NULL);
		if (order.what == EXEC_OF_THREAD)
			exec_of_thread();
	} while (true);
}

static int emit(void *to, const struct wire_hdr *rec)
{
	(void)to;
	n_ops += rec->tracer == WIRE_NCCL && rec->kind == NCCL_OP;
	n_libs += rec->tracer == WIRE_COLLECTOR && rec->kind == RECORD_LIB;
	return 0;
}

static void done_wait(void)
{
	char done;

	assert_int_equal(read(answer[0], &done, 1), 1);
}

static void tell(enum what what, int n)
{
	struct order order = { what, n };

	assert_int_equal(write(ask[1], &order, sizeof(order)), sizeof(order));
	done_wait();
}

/* As a session's loop does: what the attaching thread made is taken first. */
static void rescan(void)
{
	assert_int_equal(loader_poll(loader, clock_monotonic_ns()), 0);
	assert_int_equal(session_targets_scan(targets, clock_monotonic_ns()), 0);
	loader_tick(loader, clock_monotonic_ns());
}

/* Traps of so many calls; their records are in n_ops. */
static uint32_t call(int n)
{
	struct hit_counts before, after;

	while (loader_consume(loader) > 0)
		;
	n_ops = 0;
	assert_true(loader_hits(loader, pid, &before));
	tell(CALL, n);
	while (loader_consume(loader) > 0)
		;
	assert_true(loader_hits(loader, pid, &after));
	return after.hits[PROBES_NEEDED] - before.hits[PROBES_NEEDED];
}

/* Never twice, while old links close and when new ones are in. */
static void check_once(void)
{
	uint64_t until_ns = clock_monotonic_ns() + SETTLE_NS;

	do {
		rescan();
		assert_true(call(1) <= 1);
		assert_true(n_ops <= 1);
	} while (loader_probes(loader) != n_probes && clock_monotonic_ns() < until_ns && !usleep(20000));
	assert_int_equal(loader_probes(loader), n_probes);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(call(CALLS), CALLS);
		assert_int_equal(n_ops, CALLS);
		rescan();
		usleep(50000);
	}
}

static void fork_note(uint64_t ts_ns)
{
	struct life_fork f = {
		.hdr = { .size = sizeof(f), .tracer = WIRE_LIFE, .kind = LIFE_FORK, .tgid = getpid(), .ts_ns = ts_ns },
		.child_tgid = pid,
		.child_tid = pid
	};

	session_targets_note(targets, &f.hdr);
}

static int setup(void **state)
{
	const char *o = getenv("O");
	struct loader_cfg with = { .tier = TIER_TRACE, .emit = emit, .ring_bytes = { 1 << 20, 1 << 20, 1 << 20 } };
	uint64_t until_ns;
	size_t n;
	const struct target_filter *filters = session_target_filters(&n);

	(void)state;
	if (geteuid())
		return 0;
	n_libs = 0;
	snprintf(library, sizeof(library), "%s/lib/ranktrace/sim/libnccl.so.2", o ? o : "build");
	if (pipe(ask) || pipe(answer) || reader_open(&reader))
		return -1;
	pid = fork();
	if (!pid) {
		close(ask[1]);
		target_run();
	}
	forked_ns = clock_monotonic_ns();
	close(ask[0]);
	close(answer[1]);
	done_wait();
	if (target_set_new(reader, filters, n, &set))
		return -1;
	with.reader = reader;
	with.targets = set;
	cfg = (struct session_cfg){ .tier = TIER_TRACE, .pids = &pid, .n_pids = 1 };
	if (loader_open(&with, &loader))
		return -1;
	targets = session_targets_new(&cfg, set, loader, NULL, emit, NULL);
	if (!targets)
		return -1;
	until_ns = clock_monotonic_ns() + SETTLE_NS;
	do
		rescan();
	while (session_targets_unattached(targets) && clock_monotonic_ns() < until_ns && !usleep(1000));
	n_probes = loader_probes(loader);
	return n_probes ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	if (geteuid())
		return 0;
	close(ask[1]);
	close(answer[0]);
	waitpid(pid, NULL, 0);
	session_targets_free(targets);
	loader_detach(loader);
	loader_free(loader);
	target_set_free(set);
	reader_free(reader);
	return 0;
}

static void skip_without_root(void)
{
	if (geteuid())
		skip();
}

static void has_one_owner(void **state)
{
	struct attached *second = calloc(1, sizeof(*second));

	(void)state;
	skip_without_root();
	second->tgid = pid;
	second->start_ns = attached_first(loader, pid)->start_ns;
	second->tracer = attached_first(loader, pid)->tracer;
	second->lib_id = attached_first(loader, pid)->lib_id;
	assert_int_equal(attached_add(loader, second), -EEXIST);
	second->start_ns++; /* the next process of that pid */
	assert_int_equal(attached_add(loader, second), 0);
}

/* A daemon that is busy attaching reads forks late. */
static void fork_is_read_late(void **state)
{
	unsigned libs = n_libs;

	(void)state;
	skip_without_root();
	assert_int_equal(call(CALLS), CALLS);
	fork_note(forked_ns);
	assert_int_equal(loader_probes(loader), n_probes);
	check_once();
	assert_int_equal(n_libs, libs);
}

static void probes_come_back(void **state)
{
	(void)state;
	skip_without_root();
	fork_note(clock_monotonic_ns() + 3600000000000ull); /* as if the pid came to another process */
	assert_int_equal(loader_probes(loader), 0);
	check_once();
	session_targets_shed(targets, pid, 1u << PROBES_NEEDED, 0);
	session_targets_shed(targets, pid, 0, 1u << PROBES_NEEDED);
	check_once();
}

static void lies_elsewhere(enum what what)
{
	unsigned libs = n_libs;

	skip_without_root();
	check_once();
	tell(what, 0);
	check_once();
	assert_true(n_libs > libs); /* a command that shows stacks learns where it lies */
}

static void library_moves(void **state)
{
	(void)state;
	lies_elsewhere(MOVE);
	lies_elsewhere(MOVE);
}

static void process_execs(void **state)
{
	(void)state;
	lies_elsewhere(EXEC);
}

static void thread_execs(void **state)
{
	(void)state;
	lies_elsewhere(EXEC_OF_THREAD);
}

#define ONE(TEST) cmocka_unit_test_setup_teardown(TEST, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		ONE(has_one_owner), ONE(fork_is_read_late), ONE(probes_come_back),
		ONE(library_moves), ONE(process_execs),     ONE(thread_execs),
	};

	if (argc == 4) {
		ask[0] = atoi(argv[1]);
		answer[1] = atoi(argv[2]);
		snprintf(library, sizeof(library), "%s", argv[3]);
		target_run();
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
