/* SPDX-License-Identifier: Apache-2.0
 *
 * coordinator.c - see coordinator.h.
 */
#include "tools/stress/nccl/coordinator.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/stress/nccl/member.h"
#include "tools/stress/launch/rendezvous.h"
#include "tools/stress/run.h"

#define SLICE_NS 500000000ull
#define FIRST_WORD_NS 5000000000ull
#define AGAIN_NS 60000000000ull
#define END_NS 5000000000ull
#define STATUS_NS 1000000000ull

/* --- one rank --- */

static void rank_lose(struct rank *r, const char *why)
{
	int status;

	if (r->lost)
		return;
	r->lost = true;
	snprintf(r->why, sizeof(r->why), "%s", why);
	if (r->pid > 0 && waitpid(r->pid, &status, WNOHANG) == r->pid) {
		snprintf(r->why, sizeof(r->why), "its process ended by itself (%s %d)",
			 WIFSIGNALED(status) ? "signal" : "exit status",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		r->pid = 0;
	}
	if (r->pid > 0)
		kill(r->pid, SIGKILL);
}

static bool stopping(struct coordinator *c)
{
	c->stopped |= run_signal != 0;
	return c->stopped;
}

int rank_expect(struct coordinator *c, int rank, enum wire_type type, void *body, size_t bytes, uint64_t deadline_ns)
{
	char any[WIRE_BODY_MAX] __attribute__((aligned(8)));
	struct rank *r = &c->ranks[rank];
	enum wire_type got;

	while (!r->lost) {
		uint64_t slice_ns = clock_monotonic_ns() + SLICE_NS;
		int err = wire_receive(r->fd, &got, any, slice_ns < deadline_ns ? slice_ns : deadline_ns);

		if (stopping(c) && (err || got != type))
			return -ECANCELED;
		if (!err && got == WIRE_HELLO)
			r->again = false;
		if (!err && got == WIRE_REFUSED)
			rank_lose(r, ((const struct wire_refused *)any)->why);
		if (!err && got == type) {
			memcpy(body, any, bytes);
			return 0;
		}
		if (err == -ETIMEDOUT && clock_monotonic_ns() < deadline_ns)
			continue;
		if (err == -ETIMEDOUT)
			rank_lose(r, "it does not answer any more: its process or its host hangs");
		else if (err)
			rank_lose(r, "the connection to it broke: its process ended, or its host cannot be reached");
	}
	return -EIO;
}

bool rank_send(struct coordinator *c, int rank, enum wire_type type, const void *body, uint32_t bytes)
{
	struct rank *r = &c->ranks[rank];
	struct wire_hello hello;

	if (r->again && rank_expect(c, rank, WIRE_HELLO, &hello, sizeof(hello), clock_monotonic_ns() + AGAIN_NS))
		return false;
	if (!r->lost && wire_send(r->fd, type, body, bytes))
		rank_lose(r, "the connection to it broke: its process ended, or its host cannot be reached");
	return !r->lost;
}

/* --- the ranks of this host --- */

static int child_start(const struct stress_options *options, int rank, int size, int local, int *fd, pid_t *pid)
{
	struct member_place place = { .rank = rank, .size = size, .local = local, .forced = options->force };
	pid_t parent = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	*pid = fork();
	if (!*pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(STRESS_IMPOSSIBLE);
		place.fd = dup(pair[1]); /* this one alone goes on: the end of the other side has to be seen */
		member_become(&place, options->nccl.library);
		_exit(STRESS_IMPOSSIBLE);
	}
	close(pair[1]);
	*fd = pair[0];
	return *pid < 0 ? -errno : 0;
}

/* In a process of its own: CUDA does not survive a fork, and the coordinator has no GPU. */
static int gpus_count(const struct stress_options *options, int *n, char why[LIBRARY_WHY])
{
	struct {
		int n, status;
		char why[LIBRARY_WHY];
	} answer = { .status = STRESS_IMPOSSIBLE, .why = "the process that counts the GPUs ended by itself" };
	int pipes[2];
	pid_t pid = pipe(pipes) ? -1 : fork();

	if (!pid) {
		answer.why[0] = 0;
		answer.status = run_count(options, &answer.n, answer.why);
		_exit(write(pipes[1], &answer, sizeof(answer)) != sizeof(answer));
	}
	if (pid < 0) {
		snprintf(why, LIBRARY_WHY, "no process can be started: %s: raise the limit of processes (ulimit -u)",
			 strerror(errno));
		return STRESS_IMPOSSIBLE;
	}
	close(pipes[1]);
	if (read(pipes[0], &answer, sizeof(answer)) < 0)
		answer.status = STRESS_IMPOSSIBLE;
	close(pipes[0]);
	waitpid(pid, NULL, 0);
	*n = answer.n;
	snprintf(why, LIBRARY_WHY, "%s", answer.why);
	return answer.status;
}

static int locals_choose(const struct stress_options *options, int *locals, int *n, char why[LIBRARY_WHY])
{
	int there = 0, status = gpus_count(options, &there, why);

	*n = 0;
	if (status)
		return status;
	if (options->gpu) {
		snprintf(why, LIBRARY_WHY,
			 "--gpus: %.96s is one GPU, and collectives need two at least: give CUDA's numbers, as 0,2-3",
			 options->gpu);
		return STRESS_USAGE;
	}
	there = there < STRESS_GPUS_MAX ? there : STRESS_GPUS_MAX;
	if (options->gpus >> (there - 1) >> 1) {
		snprintf(why, LIBRARY_WHY, "--gpus: this host has %d (0 to %d; CUDA_VISIBLE_DEVICES counts)", there,
			 there - 1);
		return STRESS_USAGE;
	}
	for (int i = 0; i < there; i++)
		if (!options->gpus || options->gpus >> i & 1)
			locals[(*n)++] = i;
	if (*n >= 2)
		return STRESS_PASSED;
	snprintf(
		why, LIBRARY_WHY,
		"there is no other GPU to communicate with: %d under test on this host, and no launcher: at least two, "
		"or torchrun, mpirun or srun over several hosts",
		*n);
	return STRESS_IMPOSSIBLE;
}

/* --- those of others --- */

int coordinator_join(const struct launcher_place *place, const struct stress_options *options, char why[LIBRARY_WHY])
{
	struct member_place member = {
		.rank = place->rank, .size = place->size, .local = place->local, .forced = options->force
	};
	int status = rendezvous_connect(place, options->nccl.limit_ns, &member.fd, why), err;

	if (status)
		return status;
	err = member_become(&member, options->nccl.library);
	snprintf(why, LIBRARY_WHY, "rank %d: its process cannot be started: %s", place->rank, strerror(-err));
	return STRESS_IMPOSSIBLE;
}

/* --- until all are here --- */

struct arrival {
	struct coordinator *c;
	struct pollfd *polled; /* [0]: the listener */
	pid_t *pids;           /* of polled[i]; 0: not ours */
	int n, here;
	char *why;
};

static int missing_say(struct arrival *a)
{
	int first = -1, n = 0;

	for (int i = 0; i < a->c->n; i++)
		if (a->c->ranks[i].fd < 0) {
			first = first < 0 ? i : first;
			n++;
		}
	snprintf(a->why, LIBRARY_WHY,
		 "rank %d%s of %d did not come within %.3g s%s: is it started, can its host reach this one, and has it "
		 "the same --host?",
		 first, n > 1 ? " and others" : "", a->c->n, a->c->options->nccl.limit_ns * 1e-9,
		 run_signal ? " (stopped by a signal)" : "");
	return STRESS_IMPOSSIBLE;
}

static int hello_take(struct arrival *a, int i, const struct wire_hello *h)
{
	struct coordinator *c = a->c;
	struct rank *r;

	if (h->version != WIRE_VERSION || h->size != c->n || h->rank < 0 || h->rank >= c->n ||
	    c->ranks[h->rank].fd >= 0) {
		snprintf(a->why, LIBRARY_WHY,
			 "rank %d on %.60s came twice, counts %d ranks in place of %d, or is of another ranktrace: one "
			 "binary and one launcher for all",
			 h->rank, h->host, h->size, c->n);
		return STRESS_IMPOSSIBLE;
	}
	r = &c->ranks[h->rank];
	r->hello = *h;
	r->fd = a->polled[i].fd;
	r->pid = a->pids[i];
	a->polled[i].fd = -1;
	a->here++;
	return STRESS_PASSED;
}

/* A connection says its first word. What is none of ours is closed: a port scanner ends no test. */
static int word_take(struct arrival *a, int i)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	struct wire_refused refused;
	enum wire_type type;
	int err = wire_receive(a->polled[i].fd, &type, body, clock_monotonic_ns() + FIRST_WORD_NS);

	if (!err && type == WIRE_HELLO)
		return hello_take(a, i, (const struct wire_hello *)body);
	close(a->polled[i].fd);
	a->polled[i].fd = -1;
	if (!err && type == WIRE_REFUSED) {
		memcpy(&refused, body, sizeof(refused));
		snprintf(a->why, LIBRARY_WHY, "rank %d: %.440s", refused.rank, refused.why);
		return refused.status;
	}
	if (!a->pids[i])
		return STRESS_PASSED;
	snprintf(a->why, LIBRARY_WHY,
		 "a process of the test ended by itself before it had begun: the kernel log may "
		 "say why");
	return STRESS_IMPOSSIBLE;
}

static int all_wait(struct arrival *a)
{
	uint64_t end_ns = clock_monotonic_ns() + a->c->options->nccl.limit_ns;
	int status = STRESS_PASSED, room = 2 * a->c->n + 1;

	while (a->here < a->c->n && !status) {
		if (clock_monotonic_ns() > end_ns || run_signal)
			return missing_say(a);
		if (poll(a->polled, a->n, 200) <= 0)
			continue;
		for (int i = 1; i < a->n && !status; i++)
			if (a->polled[i].fd >= 0 && a->polled[i].revents)
				status = word_take(a, i);
		if (a->polled[0].fd >= 0 && a->polled[0].revents && a->n < room) {
			int fd = accept4(a->polled[0].fd, NULL, NULL, SOCK_CLOEXEC);

			if (fd < 0)
				continue;
			rendezvous_tune(fd);
			a->pids[a->n] = 0;
			a->polled[a->n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
		}
	}
	return status;
}

static void nodes_find(struct coordinator *c)
{
	for (int i = 0; i < c->n; i++) {
		int j = 0;

		while (strcmp(c->ranks[j].hello.host, c->ranks[i].hello.host))
			j++;
		c->ranks[i].node = j < i ? c->ranks[j].node : c->n_nodes++;
	}
}

static int ranks_start(struct coordinator *c, struct arrival *a, const int *locals, int n_children)
{
	for (int i = 0; i < n_children; i++) {
		int err = child_start(c->options, i, c->n, locals[i], &a->polled[a->n].fd, &a->pids[a->n]);

		if (err) {
			snprintf(a->why, LIBRARY_WHY,
				 "no process can be started: %s: raise the limit of processes "
				 "(ulimit -u)",
				 strerror(-err));
			return STRESS_IMPOSSIBLE;
		}
		a->polled[a->n++].events = POLLIN;
	}
	return STRESS_PASSED;
}

static void arrival_end(struct arrival *a, int status)
{
	for (int i = 0; i < a->n; i++) {
		if (a->polled[i].fd >= 0)
			close(a->polled[i].fd);
		if (status && a->pids[i] > 0 && a->polled[i].fd >= 0)
			kill(a->pids[i], SIGKILL);
	}
	free(a->polled);
	free(a->pids);
}

static void files_allow(int n)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= 2 * (rlim_t)n + 64)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int coordinator_open(struct coordinator *c, const struct stress_options *options, const struct launcher_place *place,
		     char why[LIBRARY_WHY])
{
	int locals[STRESS_GPUS_MAX] = { place ? place->local : 0 }, n_children = 1, status = STRESS_PASSED;
	struct arrival a = { .c = c, .why = why, .n = 1 };

	*c = (struct coordinator){ .options = options, .n = place ? place->size : 0 };
	if (!place)
		status = locals_choose(options, locals, &n_children, why);
	if (status)
		return status;
	c->n = place ? place->size : n_children;
	files_allow(c->n);
	c->ranks = calloc(c->n, sizeof(*c->ranks));
	a.polled = calloc(2 * c->n + 1, sizeof(*a.polled));
	a.pids = calloc(2 * c->n + 1, sizeof(*a.pids));
	if (!c->ranks || !a.polled || !a.pids)
		abort();
	for (int i = 0; i < c->n; i++)
		c->ranks[i].fd = -1;
	a.polled[0] = (struct pollfd){ .fd = -1, .events = POLLIN };
	if (place && rendezvous_listen(place->port, &a.polled[0].fd, why))
		status = STRESS_IMPOSSIBLE;
	status = status ? status : ranks_start(c, &a, locals, n_children);
	status = status ? status : all_wait(&a);
	arrival_end(&a, status);
	nodes_find(c);
	return status;
}

void coordinator_health(struct coordinator *c, void (*take)(void *arg, int rank, struct fault *fault), void *arg)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	uint64_t end_ns = clock_monotonic_ns() + END_NS;
	enum wire_type type;

	for (int i = 0; i < c->n && !c->stopped; i++)
		rank_send(c, i, WIRE_END, NULL, 0);
	for (int i = 0; i < c->n && !c->stopped; i++) {
		int err = c->ranks[i].lost;

		while (!err && !(err = wire_receive(c->ranks[i].fd, &type, body, end_ns)) && type != WIRE_BYE)
			if (type == WIRE_FAULT)
				take(arg, i, (struct fault *)body);
	}
}

/* To lost ones, too: one that was refused waits for it. After a signal results may be on their way: a connection that
 * is closed with something unread is reset, and the status with it. */
static void status_send(struct coordinator *c, int status)
{
	uint64_t end_ns = clock_monotonic_ns() + STATUS_NS;
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	enum wire_type type;

	for (int i = 0; i < c->n; i++)
		if (c->ranks[i].fd >= 0) {
			wire_send(c->ranks[i].fd, WIRE_STATUS, &status, sizeof(status));
			shutdown(c->ranks[i].fd, SHUT_WR);
		}
	for (int i = 0; i < c->n; i++)
		while (c->stopped && c->ranks[i].fd >= 0 && !c->ranks[i].lost &&
		       !wire_receive(c->ranks[i].fd, &type, body, end_ns))
			;
}

void coordinator_close(struct coordinator *c, int status)
{
	status_send(c, status);
	for (int i = 0; i < c->n; i++) {
		struct rank *r = &c->ranks[i];

		if (r->fd >= 0)
			close(r->fd);
		if (r->pid > 0 && (r->lost || c->stopped))
			kill(r->pid, SIGKILL);
	}
	for (int i = 0; i < c->n; i++)
		if (c->ranks[i].pid > 0)
			waitpid(c->ranks[i].pid, NULL, 0);
	free(c->ranks);
	c->ranks = NULL;
	c->n = 0;
}
