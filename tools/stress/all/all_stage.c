/* SPDX-License-Identifier: Apache-2.0
 *
 * all_stage.c - one test as a stage: in a child, whose JSON lines come through a pipe. It is asked to end when its time
 * is over, and killed when it does not; a child that does not end even then hangs in the driver, which is a fault.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/stress/all/all.h"
#include "tools/stress/nccl/collective.h"
#include "tools/stress/report_json.h"
#include "tools/stress/run.h"
#include "tools/stress/threshold.h"
#include "tools/stress/verbs/rdma.h"

#define SECOND_NS 1000000000ull
#define GRACE_NS (2 * SECOND_NS) /* to end when it is asked to */
#define REAP_NS SECOND_NS        /* to be gone when it is killed */
#define LINE_ROOM (1u << 20)
#define POLL_MS 100
#define REAP_POLL_US 20000

#define QUICK_GPU_NS (10 * SECOND_NS)
#define QUICK_P2P_BYTES (32u << 20)
#define QUICK_NCCL_BYTES (128u << 20)
#define QUICK_RDMA_NS (SECOND_NS / 10)
#define FULL_GPU_NS (300 * SECOND_NS)

struct child {
	pid_t pid;
	int fd;
	char *text;
	size_t n;
	uint64_t ask_ns, kill_ns; /* ~0: not yet */
	bool asked, killed, ended;
};

/* Eight ports take 8 rounds of two measurements: 2 s. What a user gave by hand stays. */
static void rdma_quick(struct rdma_options *o)
{
	o->operations = o->operations == ~0u ? 1u << RDMA_WRITE : o->operations;
	o->measures = o->measures == ~0u ? 1u << RDMA_BANDWIDTH | 1u << RDMA_LATENCY : o->measures;
	o->time_ns = QUICK_RDMA_NS;
}

/* What a user gave by hand stays; the rest is by scope. */
static struct stress_options stage_options(const struct all *all, const char *name)
{
	const struct all_options *of = &all->options->all;
	struct stress_options o = *all->options;

	o.baseline = o.save_baseline = NULL; /* one file would hold the lines of several tests */
	o.p2p_bytes = of->sized ? o.nccl.bytes_max & ~4095ull : of->quick ? QUICK_P2P_BYTES : 0;
	if (!of->timed)
		o.time_ns = of->quick ? QUICK_GPU_NS : FULL_GPU_NS;
	if (strcmp(name, "gpu"))
		o.time_ns = 0; /* each case once */
	if (!of->quick)
		return o;
	o.again_ns = AGAIN_QUICK_NS;
	rdma_quick(&o.rdma);
	o.measures &= 1u << NUMBER_bf16 | 1u << NUMBER_fp64 | 1u << MEASURE_MEMORY;
	o.nccl.collectives = 1u << COLLECTIVE_all_reduce;
	o.nccl.types = o.nccl.types ? o.nccl.types : 1u << TYPE_bf16;
	o.nccl.in_place = false;
	o.nccl.iterations = 10;
	o.nccl.bytes_min = of->sized ? o.nccl.bytes_max : QUICK_NCCL_BYTES;
	o.nccl.bytes_max = o.nccl.bytes_min;
	return o;
}

static void child_main(const struct all *all, const struct stage *stage, int fd)
{
	struct stress_options options = stage_options(all, stage->name);
	static struct stress_result result;
	pid_t parent = getppid();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || dup2(fd, STDOUT_FILENO) < 0)
		_exit(STRESS_IMPOSSIBLE);
	exit(stress_run_test(stage->name, &options, REPORT_JSON, &result));
}

/* With --quick: its own time, or what those after it leave of the whole. */
static uint64_t ask_at(const struct all *all, const struct stage *stage)
{
	uint64_t own_ns = clock_monotonic_ns() + stage->quick_s * SECOND_NS, left_ns = all->end_ns;

	for (const struct stage *later = stage + 1; later < all->stages + all->n_stages; later++)
		left_ns -= stress_find(later->name) ? later->quick_s * SECOND_NS : 0;
	own_ns = own_ns > left_ns ? own_ns : left_ns;
	return own_ns < all->end_ns ? own_ns : all->end_ns;
}

static int child_start(const struct all *all, const struct stage *stage, struct child *c)
{
	int fds[2];

	*c = (struct child){ .fd = -1, .ask_ns = ~0ull, .kill_ns = ~0ull, .text = malloc(LINE_ROOM) };
	if (!c->text)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	fflush(NULL); /* what is buffered is not the child's to write */
	c->pid = fork();
	if (!c->pid)
		child_main(all, stage, fds[1]);
	close(fds[1]);
	c->fd = fds[0];
	if (all->options->all.quick)
		c->ask_ns = ask_at(all, stage);
	return c->pid < 0 ? -errno : 0;
}

/* Whole lines go to the report; what is no JSON is a library's own word on standard output. */
static void lines_take(struct all *all, struct stage *stage, struct child *c)
{
	char *at = c->text, *end;

	c->text[c->n] = 0;
	while ((end = strchr(at, '\n'))) {
		cJSON *line;

		*end = 0;
		line = cJSON_Parse(at);
		at = end + 1;
		if (line)
			all_take(all, stage, line);
	}
	c->n -= (size_t)(at - c->text);
	memmove(c->text, at, c->n);
	if (c->n == LINE_ROOM - 1)
		c->n = 0; /* no line of ours is that long */
}

static void child_read(struct all *all, struct stage *stage, struct child *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	ssize_t n;

	if (poll(&p, 1, POLL_MS) <= 0)
		return;
	n = read(c->fd, c->text + c->n, LINE_ROOM - 1 - c->n);
	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		c->ended = true;
	if (n > 0)
		c->n += (size_t)n;
	lines_take(all, stage, c);
}

static void child_hurry(struct all *all, struct child *c)
{
	uint64_t now_ns = clock_monotonic_ns();

	all->stopped |= run_signal != 0;
	if (!c->asked && (all->stopped || now_ns > c->ask_ns)) {
		kill(c->pid, SIGINT);
		c->asked = true;
		c->kill_ns = now_ns + GRACE_NS;
	}
	if (c->asked && !c->killed && now_ns > c->kill_ns) {
		kill(c->pid, SIGKILL);
		c->killed = true;
	}
	if (c->killed && now_ns > c->kill_ns + REAP_NS)
		c->ended = true; /* its end of the pipe stays open: it hangs in the kernel */
}

/* Its exit status; -1: a signal ended it, -2: it does not end. */
static int child_reap(struct child *c)
{
	uint64_t end_ns = clock_monotonic_ns() + REAP_NS;
	int status;

	while (waitpid(c->pid, &status, WNOHANG) != c->pid) {
		if (clock_monotonic_ns() > end_ns && c->killed)
			return -2;
		if (clock_monotonic_ns() > end_ns) {
			kill(c->pid, SIGKILL);
			c->killed = true;
			end_ns += REAP_NS;
		}
		usleep(REAP_POLL_US);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void hang_say(struct all *all, struct stage *stage)
{
	struct fault fault = { .kind = FAULT_STALLED, .gpu = -1, .measure = -1 };
	cJSON *line;

	snprintf(fault.text, sizeof(fault.text), "the process of stress %s cannot be killed: it hangs in the driver",
		 stage->name);
	line = json_fault_begin(&fault);
	json_subject_add(line, "node");
	all_take(all, stage, line);
}

static void status_take(struct all *all, struct stage *stage, const struct child *c, int status)
{
	if (status == -2)
		hang_say(all, stage);
	if (stage->n_faults || status == STRESS_FAILED)
		stage->status = STAGE_FAILED;
	else if (status == STRESS_PASSED)
		stage->status = STAGE_PASSED;
	else if (c->asked)
		stage->status = STAGE_CUT;
	else
		stage->status = STAGE_REFUSED;
	if (status == -1 && !c->killed && !stage->text[0])
		snprintf(stage->text, sizeof(stage->text), "its process ended by itself: run stress %s alone",
			 stage->name);
	if (stage->status == STAGE_CUT)
		snprintf(stage->text, sizeof(stage->text), "%s before it had a verdict",
			 all->stopped ? "stopped" : "its time was over");
}

void stage_run(struct all *all, struct stage *stage)
{
	uint64_t begin_ns = clock_monotonic_ns();
	struct child c;
	int err = child_start(all, stage, &c);

	if (err) {
		stage->status = STAGE_REFUSED;
		snprintf(stage->text, sizeof(stage->text), "no process can be started: %s: raise the limit (ulimit -u)",
			 strerror(-err));
		if (c.fd >= 0)
			close(c.fd);
		free(c.text);
		return;
	}
	while (!c.ended) {
		child_read(all, stage, &c);
		child_hurry(all, &c);
	}
	status_take(all, stage, &c, child_reap(&c));
	close(c.fd);
	free(c.text);
	stage->elapsed_s = (clock_monotonic_ns() - begin_ns) * 1e-9;
}
