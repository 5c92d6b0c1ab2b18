/* SPDX-License-Identifier: Apache-2.0
 *
 * test_autopsy_gpus.c - an autopsy beside an NVML child that fails: one that cannot be started, that dies at once, in
 * an answer, or never answers. The autopsy goes on, in time, and leaves no process; only what cannot be emitted ends
 * it.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "autopsy/gpus.h"
#include "base/clock.h"
#include "schemas/collector.h"
#include "tracers/gpu/nvml_child.h"
#include "tracers/gpu/wire/gpu.h"

#define MS 1000000ull
#define POLL_MS 700 /* what an autopsy waits between two samples of the ranks, about */

static int n_emitted, emit_result;

/* --- the child --- */

static void answer_half(void)
{
	struct record_gpu_sample f = {
		.hdr = { .size = sizeof(f), .tracer = WIRE_COLLECTOR, .kind = RECORD_GPU_SAMPLE }
	};
	struct nvml_question q;

	while (recv(NVML_CHILD_FD, &q, sizeof(q), 0) == sizeof(q))
		if (send(NVML_CHILD_FD, &f, sizeof(f), MSG_NOSIGNAL) < 0 || !strcmp(getenv("TEST_CHILD"), "dies later"))
			break;
}

static int bad_child(void)
{
	const char *how = getenv("TEST_CHILD");

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!strcmp(how, "dies"))
		return 1;
	answer_half();
	while (!strcmp(how, "hangs"))
		pause();
	return 1;
}

/* --- the autopsy --- */

static int emit(void *to, const struct wire_hdr *rec)
{
	(void)to;
	assert_int_equal(rec->kind, RECORD_GPU_SAMPLE);
	n_emitted++;
	return emit_result;
}

static int gpus_poll(const char *child, uint64_t *ret_took_ns)
{
	struct sampler_ctx ctx = { .emit = emit };
	struct autopsy_gpus g;
	uint64_t begin_ns = clock_monotonic_ns();
	int err;

	setenv("TEST_CHILD", child, 1);
	n_emitted = 0;
	autopsy_gpus_open(&g, &ctx);
	err = autopsy_gpus_poll_until(&g, begin_ns + POLL_MS * MS);
	autopsy_gpus_close(&g);
	*ret_took_ns = clock_monotonic_ns() - begin_ns;
	return err;
}

static void nobody_is_left(void)
{
	pid_t pid = 0;

	for (int i = 0; i < 200 && pid >= 0; i++) { /* killed, and ours to reap */
		pid = waitpid(-1, NULL, WNOHANG);
		usleep(pid ? 0 : 10000);
	}
	assert_true(pid == -1 && errno == ECHILD);
}

static void goes_on(const char *child, int emitted_least, int emitted_most)
{
	uint64_t took_ns;

	assert_int_equal(gpus_poll(child, &took_ns), 0);
	assert_in_range(n_emitted, emitted_least, emitted_most);
	assert_in_range(took_ns, POLL_MS * MS, (POLL_MS + 500) * MS);
	nobody_is_left();
}

static void a_child_that_cannot_start(void **state)
{
	struct rlimit was, none;
	int fd = dup(0);

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ (rlim_t)fd, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	goes_on("hangs", 0, 0);
	setrlimit(RLIMIT_NOFILE, &was);
	close(fd);
}

static void a_child_that_dies(void **state)
{
	(void)state;
	goes_on("dies", 0, 0);
}

/* In the middle of an answer: what came counts. */
static void a_child_that_dies_in_an_answer(void **state)
{
	(void)state;
	goes_on("dies later", 1, 1);
}

static void a_child_that_never_answers(void **state)
{
	(void)state;
	goes_on("hangs", 1, 1);
}

/* The autopsy's own output: that is its end. */
static void what_cannot_be_emitted(void **state)
{
	uint64_t took_ns;

	(void)state;
	emit_result = -ENOSPC;
	assert_int_equal(gpus_poll("hangs", &took_ns), -ENOSPC);
	assert_int_equal(n_emitted, 1);
	assert_true(took_ns < POLL_MS * MS);
	emit_result = 0;
	nobody_is_left();
}

/* A machine without a driver: there is no sampler, and nothing is asked. */
static void no_driver(void **state)
{
	char *library = strdup(getenv("RANKTRACE_NVML"));

	(void)state;
	unsetenv("RANKTRACE_NVML");
	if (access("/dev/nvidiactl", F_OK) && access("/proc/driver/nvidia/version", F_OK))
		goes_on("hangs", 0, 0);
	setenv("RANKTRACE_NVML", library, 1);
	free(library);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_that_cannot_start),      cmocka_unit_test(a_child_that_dies),
		cmocka_unit_test(a_child_that_dies_in_an_answer), cmocka_unit_test(a_child_that_never_answers),
		cmocka_unit_test(what_cannot_be_emitted),         cmocka_unit_test(no_driver),
	};

	if (argc == 2 && !strcmp(argv[0], NVML_CHILD_NAME)) /* as in user/main.c */
		return bad_child();
	setenv("RANKTRACE_NVML", "/nowhere", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
