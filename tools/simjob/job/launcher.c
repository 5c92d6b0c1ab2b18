// SPDX-License-Identifier: Apache-2.0
/*
 * The launcher: stands for torchrun. A rank dies with the launcher (PR_SET_PDEATHSIG), a rank that stopped itself is
 * continued after its injection's time, and the first rank that dies takes the others along, at once or after
 * --linger-sec.
 */
#include "tools/simjob/job/options.h"

#include "tools/simjob/job/injection.h"
#include "tools/simjob/job/job_log.h"
#include "tools/simjob/job/store.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct child {
	int pid;              /* 0: gone */
	uint64_t continue_ns; /* when to continue a stopped rank; 0: not stopped, or never */
	bool failed;
};

struct launcher {
	const struct options *options;
	char **argv;
	struct store *store;
	int store_fd;
	struct child children[MAX_RANKS];
	int nr_running;
	uint64_t kill_ns; /* when to end what still runs; 0: not yet */
	uint64_t began_ns;
};

static bool resource_is_needed(const struct options *options, const struct resource *resource)
{
	int i;

	for (i = 0; i < options->nr_injections; i++) {
		if (options->injections[i].resource == resource)
			return true;
	}
	return false;
}

/* In the order of faults.def. */
static void resources_create(const struct options *options, struct store *store)
{
	int i;

	for (i = 0; i < nr_resources; i++) {
		if (resource_is_needed(options, resources[i]))
			resources[i]->create(options, store);
	}
}

static void resources_release(const struct options *options)
{
	int i;

	for (i = 0; i < nr_resources; i++) {
		if (resource_is_needed(options, resources[i]) && resources[i]->release)
			resources[i]->release();
	}
}

static void resources_destroy(const struct options *options)
{
	int i;

	resources_release(options);
	for (i = nr_resources - 1; i >= 0; i--) {
		if (resource_is_needed(options, resources[i]) && resources[i]->destroy)
			resources[i]->destroy();
	}
}

static void env_set(const char *name, const char *format, ...)
{
	char value[300];
	va_list args;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	setenv(name, value, 1);
}

/* A process of several ranks gets none of them. */
static void env_set_shared(int first)
{
	static const char *const names[] = { "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_RANK" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	env_set("SIMJOB_FIRST_RANK", "%d", first);
}

/* What torchrun sets, for one node. */
static void env_set_torchrun(const struct options *options, int rank)
{
	env_set("RANK", "%d", rank);
	env_set("LOCAL_RANK", "%d", rank);
	env_set("WORLD_SIZE", "%d", options->nr_ranks);
	env_set("LOCAL_WORLD_SIZE", "%d", options->nr_ranks);
	env_set("GROUP_RANK", "0");
	env_set("GROUP_WORLD_SIZE", "1");
	env_set("ROLE_RANK", "%d", rank);
	env_set("ROLE_NAME", "default");
	env_set("ROLE_WORLD_SIZE", "%d", options->nr_ranks);
	env_set("MASTER_ADDR", "127.0.0.1");
	env_set("MASTER_PORT", "%d", options->port);
	env_set("TORCHELASTIC_RESTART_COUNT", "0");
	env_set("TORCHELASTIC_MAX_RESTARTS", "0");
	env_set("OMP_NUM_THREADS", "1");
	if (options->job_id)
		env_set("TORCHELASTIC_RUN_ID", "%s", options->job_id);
	else
		env_set("TORCHELASTIC_RUN_ID", "simjob-%d", getppid());
}

static void netns_enter(const struct options *options, int rank)
{
	char path[300];
	int fd;

	if (!options->netns)
		return;
	snprintf(path, sizeof(path), "/run/netns/%s%d", options->netns, rank);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0) {
		fprintf(stderr,
			"simjob: rank %d cannot enter network namespace %s: %s; make it with ip netns add, be root\n",
			rank, path, strerror(errno));
		_exit(1);
	}
	close(fd);
}

static void rank_exec(struct launcher *launcher, int rank, int launcher_pid, char **argv)
{
	sigset_t none;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != launcher_pid)
		_exit(1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	netns_enter(launcher->options, rank);
	env_set_torchrun(launcher->options, rank);
	if (launcher->options->ranks_per_process > 1)
		env_set_shared(rank);
	env_set("SIM_CUDA_DEVICES", "%d", launcher->options->nr_ranks);
	env_set("SIMJOB_STORE_FD", "%d", launcher->store_fd);
	env_set("SIM_NCCL_NET", "%s", launcher->options->net ? launcher->options->net : "");
	for (i = 0; i < nr_resources; i++) {
		if (resource_is_needed(launcher->options, resources[i]) && resources[i]->set_env)
			resources[i]->set_env();
	}
	execv(launcher->options->rank_exe ? launcher->options->rank_exe : "/proc/self/exe", argv);
	perror("simjob: cannot start a rank; is --rank-exe a build of simjob?");
	_exit(1);
}

static void rank_start(struct launcher *launcher, int rank)
{
	int launcher_pid = getpid(), pid = fork();

	if (pid == 0)
		rank_exec(launcher, rank, launcher_pid, launcher->argv);
	if (pid < 0) {
		perror("simjob: cannot fork a rank");
		exit(1);
	}
	launcher->children[rank].pid = pid;
	launcher->nr_running++;
}

/* A stopped rank has to be continued to die of a signal that it could handle; a starved one needs the CPU for that. */
static void ranks_signal(struct launcher *launcher, int signal)
{
	int rank;

	resources_release(launcher->options);
	for (rank = 0; rank < launcher->options->nr_ranks; rank++) {
		int pid = launcher->children[rank].pid;

		if (!pid)
			continue;
		kill(pid, signal);
		if (signal != SIGKILL)
			kill(pid, SIGCONT);
	}
}

static void rank_ended(struct launcher *launcher, int rank, int status)
{
	struct child *child = &launcher->children[rank];
	int pid = child->pid;

	child->pid = 0;
	launcher->nr_running--;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (WIFSIGNALED(status) && launcher->store->ranks[rank].resume_step && !launcher->kill_ns) {
		rank_start(launcher, rank);
		return;
	}
	child->failed = true;
	if (launcher->kill_ns)
		return;
	if (WIFSIGNALED(status))
		fprintf(stderr, "simjob: rank %d, pid %d, was killed by signal %d\n", rank, pid, WTERMSIG(status));
	else
		fprintf(stderr, "simjob: rank %d, pid %d, exited with %d\n", rank, pid, WEXITSTATUS(status));
	launcher->kill_ns = clock_now_ns() + launcher->options->linger_s * NSEC_PER_SEC;
}

/* For the injection that it has named in the store; or somebody else stopped it: then that one continues it. */
static void rank_stopped(struct launcher *launcher, int rank)
{
	const struct injection *injection;
	uint32_t number = 0;
	int i;

	for (i = 0; number == 0 && i < launcher->options->ranks_per_process; i++)
		number = atomic_exchange(&launcher->store->ranks[rank + i].stopped_for, 0);
	if (number == 0 || number > (uint32_t)launcher->options->nr_injections)
		return;
	injection = &launcher->options->injections[number - 1];
	if (injection->duration_s < FAULT_FOREVER)
		launcher->children[rank].continue_ns = clock_now_ns() + injection->duration_s * NSEC_PER_SEC;
}

static void children_reap(struct launcher *launcher)
{
	int pid, rank, status;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		for (rank = 0; rank < launcher->options->nr_ranks; rank++) {
			if (launcher->children[rank].pid == pid)
				break;
		}
		if (rank == launcher->options->nr_ranks)
			continue;
		if (WIFSTOPPED(status))
			rank_stopped(launcher, rank);
		else
			rank_ended(launcher, rank, status);
	}
}

/* What is due now, and when the next is. */
static uint64_t timers_run(struct launcher *launcher)
{
	uint64_t now_ns = clock_now_ns(), next_ns = now_ns + 10 * NSEC_PER_SEC;
	int rank;

	for (rank = 0; rank < launcher->options->nr_ranks; rank++) {
		struct child *child = &launcher->children[rank];

		if (child->pid && child->continue_ns && child->continue_ns <= now_ns) {
			child->continue_ns = 0;
			kill(child->pid, SIGCONT);
		}
		if (child->continue_ns && child->continue_ns < next_ns)
			next_ns = child->continue_ns;
	}
	if (launcher->kill_ns && launcher->kill_ns <= now_ns)
		ranks_signal(launcher, SIGKILL);
	else if (launcher->kill_ns && launcher->kill_ns < next_ns)
		next_ns = launcher->kill_ns;
	return next_ns;
}

static void signals_block(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGCHLD);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGHUP);
	sigprocmask(SIG_BLOCK, ret_set, NULL);
}

static void launcher_loop(struct launcher *launcher, const sigset_t *signals)
{
	while (launcher->nr_running > 0) {
		uint64_t next_ns = timers_run(launcher), now_ns = clock_now_ns();
		struct timespec wait = timespec_from_ns(next_ns > now_ns ? next_ns - now_ns : 1);
		int signal = sigtimedwait(signals, NULL, &wait);

		if (signal > 0 && signal != SIGCHLD) {
			ranks_signal(launcher, signal);
			/* A rank in uninterruptible sleep takes its time; one that ignores the signal is killed. */
			launcher->kill_ns = clock_now_ns() + 5 * NSEC_PER_SEC;
		}
		children_reap(launcher);
	}
}

static int launcher_sum_up(const struct launcher *launcher)
{
	const struct options *options = launcher->options;
	uint64_t steps_ns = 0, steps = 0;
	int rank, nr_failed = 0;

	for (rank = 0; rank < options->nr_ranks; rank++) {
		const struct store_rank *progress = &launcher->store->ranks[rank];

		nr_failed += launcher->children[rank].failed;
		steps_ns += progress->steps_ns;
		steps += progress->steps_done > 0 ? progress->steps_done - 1 : 0;
	}
	if (!options->quiet)
		fprintf(stderr, "simjob: %d ranks (tp=%d,dp=%d,pp=%d) ran %u steps of %.1f ms in %.1f s; %d failed\n",
			options->nr_ranks, options->tp, options->dp, options->pp, launcher->store->ranks[0].steps_done,
			steps ? (double)steps_ns / steps / NSEC_PER_MSEC : 0,
			(double)(clock_now_ns() - launcher->began_ns) / NSEC_PER_SEC, nr_failed);
	return nr_failed ? 1 : 0;
}

static void file_create_or_exit(const char *path)
{
	int err = path ? job_log_create(path) : 0;

	if (err) {
		fprintf(stderr, "simjob: cannot write %s: %s; choose another file\n", path, strerror(-err));
		exit(2);
	}
}

static int ids_needed(const struct options *options)
{
	int i, generations = 1;

	for (i = 0; i < options->nr_injections; i++)
		generations += options->injections[i].nr_restarts;
	/* And one for each injection: see injection_id_index(). */
	return generations * IDS_PER_GENERATION(options->nr_ranks) + EXTRA_IDS + options->nr_injections;
}

int launcher_main(const struct options *options, char **argv)
{
	static struct launcher launcher;
	sigset_t signals;
	int i, status;

	launcher.options = options;
	launcher.began_ns = clock_now_ns();
	file_create_or_exit(options->log_path);
	file_create_or_exit(options->step_log_path);
	file_create_or_exit(options->fault_log_path);
	file_create_or_exit(options->result_path);
	launcher.store = store_create(ids_needed(options), &launcher.store_fd);
	if (!launcher.store) {
		fprintf(stderr, "simjob: cannot make the job's store: %s\n", strerror(errno));
		return 1;
	}
	for (i = 0; i < options->nr_injections; i++)
		injection_print_plan(&options->injections[i]);
	signals_block(&signals);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	resources_create(options, launcher.store);
	launcher.argv = argv;
	for (i = 0; i < options->nr_ranks; i += options->ranks_per_process)
		rank_start(&launcher, i);
	launcher_loop(&launcher, &signals);
	status = launcher_sum_up(&launcher);
	resources_destroy(options);
	/* Children of killed ranks, which die with them but a moment later and are ours by then. */
	while (waitpid(-1, NULL, 0) > 0)
		;
	return status;
}
