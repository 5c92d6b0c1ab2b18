/* SPDX-License-Identifier: Apache-2.0
 *
 * reuse.c - one pid, many processes, for test_churn.py: reuse SIM TIMES runs TIMES jobs of one rank, each under the pid
 * of the one before (clone3 with set_tid), each with a communicator and one all-reduce more than the last. Prints a
 * line for each: pid and all-reduces.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct unique_id {
	char internal[128];
};

static void *must(void *library, const char *name)
{
	void *f = library ? dlsym(library, name) : NULL;

	if (!f) {
		fprintf(stderr, "reuse: no %s: %s\n", name, dlerror());
		_exit(3);
	}
	return f;
}

#define CALL(library, name, ...) \
	do { \
		if (((int (*)())must(library, name))(__VA_ARGS__)) { \
			fprintf(stderr, "reuse: %s failed\n", name); \
			_exit(4); \
		} \
	} while (0)

static void rank_run(const char *sim, int n)
{
	char path[4096];
	struct unique_id id;
	void *context, *stream, *comm, *cuda, *nccl;

	snprintf(path, sizeof(path), "%s/libcuda.so.1", sim);
	cuda = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	snprintf(path, sizeof(path), "%s/libnccl.so.2", sim);
	nccl = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	usleep(300000); /* as long as a driver's start takes at least */
	CALL(cuda, "cuInit", 0);
	CALL(cuda, "cuDevicePrimaryCtxRetain", &context, 0);
	CALL(cuda, "cuCtxSetCurrent", context);
	CALL(cuda, "cuStreamCreate", &stream, 1);
	CALL(nccl, "ncclGetUniqueId", &id);
	if (((int (*)(void **, int, struct unique_id, int))must(nccl, "ncclCommInitRank"))(&comm, 1, id, 0))
		_exit(5);
	for (int i = 0; i < n; i++) {
		if (((int (*)(void *, void *, size_t, int, int, void *, void *))must(nccl, "ncclAllReduce"))(
			    NULL, NULL, 1000, 7, 0, comm, stream))
			_exit(6);
		CALL(cuda, "cuStreamSynchronize", stream);
	}
	_exit(0);
}

static pid_t start(const char *sim, int n, pid_t pid)
{
	uint64_t tid = pid;
	pid_t tids[] = { tid };
	struct clone_args args = { .exit_signal = SIGCHLD,
				   .set_tid = pid ? (uintptr_t)tids : 0,
				   .set_tid_size = pid ? 1 : 0 };
	char text[16], job[32];
	pid_t child;

	for (int tries = 0; (child = syscall(SYS_clone3, &args, sizeof(args))) < 0 && errno == EEXIST && tries < 100;
	     tries++)
		usleep(1000); /* somebody else has it: he may be gone soon */
	if (child)
		return child;
	snprintf(text, sizeof(text), "%d", n);
	snprintf(job, sizeof(job), "reuse-%d", n);
	setenv("RANK", "0", 1);
	setenv("WORLD_SIZE", "1", 1);
	setenv("LOCAL_RANK", "0", 1);
	setenv("SIM_CUDA_DEVICES", "1", 1);
	setenv("TORCHELASTIC_RUN_ID", job, 1);
	execl("/proc/self/exe", "rank", sim, text, "rank", NULL);
	_exit(2);
}

int main(int argc, char **argv)
{
	pid_t pid = 0;
	int status;

	if (argc == 4)
		rank_run(argv[1], atoi(argv[2]));
	for (int i = 0; argc == 3 && i < atoi(argv[2]); i++) {
		pid_t child = start(argv[1], 5 + i, pid);

		if (child < 0) {
			perror("reuse: clone3");
			return errno == EPERM || errno == ENOSYS || errno == EINVAL ? 77 : 1;
		}
		pid = child;
		if (waitpid(child, &status, 0) != child || status) {
			fprintf(stderr, "reuse: child status %x\n", status);
			return 1;
		}
		printf("%d %d\n", child, 5 + i);
		fflush(stdout);
	}
	return argc != 3;
}
