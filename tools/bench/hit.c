/* SPDX-License-Identifier: Apache-2.0
 *
 * hit.c - see hit.h. The target calls two functions that do next to nothing, in a loop, without and with the tracer;
 * the kernel's own account of BPF run time says what of the difference is ours and what is the trap.
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
#define ROUNDS 5

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

/* Our program's own time per hit, by the kernel's account; -1 where it keeps none. */
static double program_ns(void)
{
	struct bpf_prog_info info;
	uint32_t id = 0, len;
	double ns = -1;
	int fd;

	while (!bpf_prog_get_next_id(id, &id)) {
		fd = bpf_prog_get_fd_by_id(id);
		memset(&info, 0, sizeof(info));
		len = sizeof(info);
		if (fd >= 0 && !bpf_prog_get_info_by_fd(fd, &info, &len) && !strncmp(info.name, "nccl_group", 10) &&
		    info.run_cnt)
			ns = (double)info.run_time_ns / info.run_cnt;
		if (fd >= 0)
			close(fd);
	}
	return ns;
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

static bool rounds(const struct target *t, const char *ranktrace, double *off, double *again, double *on, double *ours)
{
	for (int i = 0; i < ROUNDS; i++) {
		int stats;
		pid_t tracer;

		off[i] = target_ns(t);
		again[i] = target_ns(t) / off[i];
		tracer = tracer_start(ranktrace, t->pid);
		sleep(2); /* it attaches */
		on[i] = target_ns(t);
		stats = bpf_enable_stats(BPF_STATS_RUN_TIME); /* costs something itself: apart from the window above */
		target_ns(t);
		ours[i] = program_ns();
		if (stats >= 0)
			close(stats);
		kill(tracer, SIGINT);
		if (waitpid(tracer, NULL, 0) != tracer || off[i] < 0 || on[i] < 0)
			return false;
	}
	return true;
}

void hit_print(const char *ranktrace, const char *library)
{
	double off[ROUNDS], again[ROUNDS], on[ROUNDS], ours[ROUNDS];
	struct target t;

	printf("probe hit, ns: ");
	fflush(stdout);
	if (geteuid()) {
		printf("needs root\n");
		return;
	}
	if (!target_start(&t, library) || target_ns(&t) < 0 || !rounds(&t, ranktrace, off, again, on, ours)) {
		printf("%s or %s does not run\n", ranktrace, library);
		return;
	}
	printf("%.0f a call with the tracer, %.1f without (A/A %.3f); of it in our program %.0f, the rest is the "
	       "trap\n",
	       median(on), median(off), median(again), median(ours));
	kill(t.pid, SIGTERM);
	waitpid(t.pid, NULL, 0);
	close(t.ask);
	close(t.answer);
}
