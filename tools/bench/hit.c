/* SPDX-License-Identifier: Apache-2.0
 *
 * hit.c - see hit.h. The target calls two functions that do next to nothing, in a loop, without and with the tracer;
 * the kernel's own account of BPF run time says what of the difference is ours and what is the trap. It also counts the
 * runs: a window in which they are not the calls made is no measurement, and the bench fails.
 */
#include "tools/bench/hit.h"

#include <bpf/bpf.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 2003 /* prime */
#define CHUNKS 40
#define CALLS (2ull * PAIRS * CHUNKS) /* a window */
#define ROUNDS 5
#define ATTACH_NS 20e9 /* at most, until the tracer has attached */

struct target {
	pid_t pid;
	int ask, answer;
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* ns a call; of the fastest chunk, since a trap slows every one and a neighbour only some. */
static double window_ns(int (*begin)(void), int (*end)(void))
{
	double best = 1e18, ns;

	for (int c = 0; c < CHUNKS; c++) {
		ns = now_ns();
		for (int i = 0; i < PAIRS; i++) {
			begin();
			end();
		}
		ns = (now_ns() - ns) / (2 * PAIRS);
		best = ns < best ? ns : best;
	}
	return best;
}

static void target_run(const char *library, int asked, int answer)
{
	void *lib = dlopen(library, RTLD_NOW);
	int (*begin)(void), (*end)(void);
	double ns;
	char go;

	if (!lib)
		_exit(1);
	*(void **)&begin = dlsym(lib, "ncclGroupStart");
	*(void **)&end = dlsym(lib, "ncclGroupEnd");
	while (begin && end && read(asked, &go, 1) == 1) {
		ns = window_ns(begin, end);
		if (write(answer, &ns, sizeof(ns)) != sizeof(ns))
			break;
	}
	_exit(0);
}

static bool target_start(struct target *t, const char *library)
{
	int ask[2], answer[2];

	if (pipe(ask) || pipe(answer))
		return false;
	t->pid = fork();
	if (!t->pid) {
		close(ask[1]);
		target_run(library, ask[0], answer[1]);
	}
	close(ask[0]);
	close(answer[1]);
	t->ask = ask[1];
	t->answer = answer[0];
	return t->pid > 0;
}

static double target_ns(const struct target *t)
{
	double ns = -1;

	if (write(t->ask, "g", 1) != 1 || read(t->answer, &ns, sizeof(ns)) != sizeof(ns))
		return -1;
	return ns;
}

static pid_t tracer_start(const char *ranktrace, pid_t pid)
{
	char text[16];
	pid_t tracer = fork();

	if (tracer)
		return tracer;
	snprintf(text, sizeof(text), "%d", (int)pid);
	execl(ranktrace, ranktrace, "record", "-q", "--budget", "no", "--pid", text, NULL); /* they are to stay */
	_exit(127);
}

struct account {
	uint64_t runs, ns;
};

/* The kernel's account of our program, of all sessions that run. */
static struct account account_read(void)
{
	struct account sum = { 0 };
	struct bpf_prog_info info;
	uint32_t id = 0, len;
	int fd;

	while (!bpf_prog_get_next_id(id, &id)) {
		fd = bpf_prog_get_fd_by_id(id);
		memset(&info, 0, sizeof(info));
		len = sizeof(info);
		if (fd >= 0 && !bpf_prog_get_info_by_fd(fd, &info, &len) && !strncmp(info.name, "nccl_group", 10)) {
			sum.runs += info.run_cnt;
			sum.ns += info.run_time_ns;
		}
		if (fd >= 0)
			close(fd);
	}
	return sum;
}

/* A window that the kernel accounts for, which costs something itself. */
static struct account window_account(const struct target *t)
{
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	struct account before = account_read(), after;

	target_ns(t);
	after = account_read();
	if (stats >= 0)
		close(stats);
	return (struct account){ after.runs - before.runs, after.ns - before.ns };
}

static int double_cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), double_cmp);
	return v[ROUNDS / 2];
}

struct round {
	double off, again, on, ours; /* ns a call; again: to off */
};

static bool attached(const struct target *t)
{
	for (double until = now_ns() + ATTACH_NS; now_ns() < until; usleep(100000))
		if (window_account(t).runs == CALLS)
			return true;
	return false;
}

/* The window with the tracer lies between two of which each call is accounted for. */
static bool traced_measure(const struct target *t, struct round *ret)
{
	struct account a;

	if (!attached(t)) {
		fprintf(stderr, "bench: hits counted are not the calls made: were probes removed, or is there another "
				"session?\n");
		return false;
	}
	ret->on = target_ns(t);
	a = window_account(t);
	ret->ours = (double)a.ns / CALLS;
	if (a.runs != CALLS)
		fprintf(stderr, "bench: %llu calls, %llu hits counted: the probes were removed, or the tracer ended\n",
			CALLS, (unsigned long long)a.runs);
	return a.runs == CALLS && ret->on > 0;
}

static bool round_measure(const struct target *t, const char *ranktrace, struct round *ret)
{
	pid_t tracer;
	bool good;

	ret->off = target_ns(t);
	ret->again = target_ns(t) / ret->off;
	tracer = tracer_start(ranktrace, t->pid);
	good = tracer > 0 && ret->off > 0 && traced_measure(t, ret);
	if (tracer > 0)
		kill(tracer, SIGINT);
	return tracer > 0 && waitpid(tracer, NULL, 0) == tracer && good;
}

static bool rounds_print(const struct target *t, const char *ranktrace)
{
	double off[ROUNDS], again[ROUNDS], on[ROUNDS], ours[ROUNDS];
	struct round r;

	for (int i = 0; i < ROUNDS; i++) {
		if (!round_measure(t, ranktrace, &r))
			return false;
		off[i] = r.off;
		again[i] = r.again;
		on[i] = r.on;
		ours[i] = r.ours;
	}
	printf("probe hit, ns: %.0f a call with the tracer, %.1f without (A/A %.3f); of it in our program %.0f, "
	       "the rest is the trap; %d windows of %llu calls, each counted\n",
	       median(on), median(off), median(again), median(ours), ROUNDS, CALLS);
	return true;
}

bool hit_print(const char *ranktrace, const char *library)
{
	struct target t;
	bool good;

	if (geteuid()) {
		printf("probe hit: not measured, needs root\n");
		return true;
	}
	if (!target_start(&t, library) || target_ns(&t) < 0) {
		fprintf(stderr, "bench: the target does not run with %s\n", library);
		return false;
	}
	good = rounds_print(&t, ranktrace);
	kill(t.pid, SIGTERM);
	waitpid(t.pid, NULL, 0);
	close(t.ask);
	close(t.answer);
	return good;
}
