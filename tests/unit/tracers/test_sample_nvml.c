/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sample_nvml.c - nvml_sampler with its child and the stand-in library, against made-up GPUs: every field comes
 * over, a lost GPU is reported, a driver that does not answer is reported and never waited for, and asked again later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/confine.h"
#include "inspect/reader/proc_files.h"
#include "tracers/gpu/gpu_guess.h"
#include "tracers/gpu/nvml_child.h"
#include "source.h"
#include "schemas/collector.h"
#include "tracers/gpu/wire/gpu.h"
#include "tools/simjob/libnvml/gpu_state.h"

#define MS 1000000ull

struct seen {
	struct record_gpu_device devices[2];
	struct record_gpu_sample samples[2];
	struct record_gpu_health healths[2];
	struct record_gpu_procs procs[2];
	struct record_gpu_usage usage[2];
	struct record_gpu_state states[8];
	char texts[2][128]; /* names */
	int n_devices, n_samples, n_healths, n_procs, n_states, wanted;
	uint64_t longest_sample_ns;
};

static char state_path[64];

static int take(void *to, const struct wire_hdr *h)
{
	struct seen *s = to;
	uint32_t index = *(const uint32_t *)(h + 1);

	assert_int_equal(h->tracer, WIRE_COLLECTOR);
	assert_true(h->ts_ns > 0 && h->size % 8 == 0);
	switch (h->kind) {
	case RECORD_GPU_DEVICE:
		memcpy(&s->devices[index], h, sizeof(s->devices[0]));
		snprintf(s->texts[index], sizeof(s->texts[0]), "%s", (const char *)h + sizeof(s->devices[0]));
		s->n_devices++;
		break;
	case RECORD_GPU_SAMPLE:
		memcpy(&s->samples[index], h, sizeof(s->samples[0]));
		s->n_samples++;
		break;
	case RECORD_GPU_HEALTH:
		memcpy(&s->healths[index], h, sizeof(s->healths[0]));
		s->n_healths++;
		break;
	case RECORD_GPU_PROCS:
		memcpy(&s->procs[index], h, sizeof(s->procs[0]));
		s->n_procs++;
		break;
	case RECORD_GPU_USAGE: memcpy(&s->usage[index], h, sizeof(s->usage[0])); break;
	case RECORD_GPU_STATE:
		assert_true(s->n_states < 8);
		memcpy(&s->states[s->n_states++], h, sizeof(s->states[0]));
		break;
	default: fail();
	}
	return 0;
}

/* GPU 1 computes half of the time, GPU 0 not at all. */
static void compute(struct sim_gpus *g, uint64_t now_ns)
{
	struct sim_gpu *gpu = &g->gpus[1];
	struct sim_gpu_spans *to = &gpu->compute;
	uint64_t n = to->nr, from = n ? to->spans[(n - 1) % SIM_GPU_SPANS].begin_ns + 20 * MS : now_ns - 1000 * MS;

	for (; from < now_ns + 100 * MS; from += 20 * MS, n++) {
		to->spans[n % SIM_GPU_SPANS].begin_ns = from;
		to->spans[n % SIM_GPU_SPANS].end_ns = from + 10 * MS;
	}
	to->nr = n;
}

/* Looks until `until` says so; a minute at most. */
static void sample_until(void *sampler, struct seen *s, struct sim_gpus *g, bool (*until)(const struct seen *))
{
	uint64_t end_ns = clock_monotonic_ns() + 60000 * MS, now_ns, took_ns;

	do {
		now_ns = clock_monotonic_ns();
		compute(g, now_ns);
		assert_int_equal(source_nvml.sampler->sample(sampler, now_ns), 0);
		took_ns = clock_monotonic_ns() - now_ns;
		s->longest_sample_ns = took_ns > s->longest_sample_ns ? took_ns : s->longest_sample_ns;
		usleep(20000);
	} while (!until(s) && now_ns < end_ns);
	assert_true(until(s));
}

static bool all_emitted(const struct seen *s)
{
	return s->n_devices >= 2 && s->n_samples >= 6 && s->n_healths >= 2 && s->n_procs >= 2;
}
static bool state_emitted(const struct seen *s)
{
	return s->n_states == 1;
}
static bool two_states_emitted(const struct seen *s)
{
	return s->n_states == 2;
}

static struct sim_gpus *gpus_make(void)
{
	struct sim_gpus *g = sim_gpus_map();

	assert_non_null(g);
	g->nr_gpus = 2;
	g->gpus[1].pid = getpid();
	return g;
}

static void *sampler_open(struct sampler_ctx *ctx, struct seen *s)
{
	void *state = NULL;

	*ctx = (struct sampler_ctx){ .emit = take, .emit_to = s };
	assert_int_equal(source_nvml.sampler->open(ctx, &state), 0);
	return state;
}

static void test_every_field(void **state)
{
	struct sim_gpus *g = gpus_make();
	struct seen s = { 0 };
	struct sampler_ctx ctx;
	void *sampler = sampler_open(&ctx, &s);

	(void)state;
	atomic_fetch_or(&g->gpus[1].faults,
			SIM_GPU_THERMAL | SIM_GPU_ECC | SIM_GPU_ROWS | SIM_GPU_PCIE | SIM_GPU_INFOROM);
	g->gpus[1].fault_ns = clock_monotonic_ns();
	sample_until(sampler, &s, g, all_emitted);
	assert_int_equal(s.devices[1].body.n_gpus, 2);
	assert_int_equal(s.devices[1].body.pci, GPU_PCI(0, 0x11, 0));
	assert_int_equal(s.devices[1].body.pcie_width_max, 16);
	assert_int_equal(s.devices[1].body.n_nvlinks, 18);
	assert_int_equal(s.procs[0].body.n, 0);
	assert_int_equal(s.procs[1].body.n, 1);
	assert_int_equal(s.procs[1].body.pids[0], getpid());
	assert_int_equal(s.usage[0].body.pid, 0);
	assert_int_equal(s.usage[1].body.pid, getpid());
	assert_int_equal(s.usage[1].body.memory_mib, 20480);
	assert_in_range(s.usage[1].body.sm_percent, 0, 100);
	assert_in_range(s.samples[1].body.tensor_bp, 2300, 2900); /* half of 52 % */
	assert_in_range(s.samples[1].body.sm_bp, 4500, 5400);
	assert_true(s.samples[0].body.tensor_bp < 100);
	assert_true(s.samples[1].body.window_ns >= 400 * MS);
	assert_int_equal(s.samples[1].body.slowdown, 4 | 8 | 0x40);
	assert_int_equal(s.samples[1].body.temperature_c, 91);
	assert_int_equal(s.samples[0].body.sm_clock_mhz, 1980);
	assert_true(s.healths[1].body.ecc_uncorrected >= 1 && s.healths[1].body.ecc_uncorrected != ~0ull);
	assert_int_equal(s.healths[0].body.ecc_uncorrected, 0);
	assert_int_equal(s.healths[1].body.rows_pending, 1);
	assert_int_equal(s.healths[1].body.pages_pending, GPU_NO_VALUE); /* this one does not say */
	assert_int_equal(s.healths[1].body.pcie_width, 8);
	assert_int_equal(s.healths[1].body.inforom_bad, 1);
	assert_int_equal(s.healths[0].body.inforom_bad, 0);
	assert_int_equal(s.healths[1].body.nvlink_replay, 0);
	assert_int_equal(s.healths[1].body.nvlink_recovery, 0);
	assert_int_equal(s.healths[1].body.nvlink_crc,
			 ~0ull); /* no sum is kept here, and link by link it costs more than it tells */
	assert_int_equal(s.healths[1].body.nvlinks_active, 18);
	assert_int_equal(s.n_states, 0);
	source_nvml.sampler->close(sampler);
	g->gpus[1].faults = 0;
}

static void test_lost_gpu(void **state)
{
	struct sim_gpus *g = gpus_make();
	struct seen s = { 0 };
	struct sampler_ctx ctx;
	void *sampler = sampler_open(&ctx, &s);

	(void)state;
	sample_until(sampler, &s, g, all_emitted);
	atomic_fetch_or(&g->gpus[0].faults, SIM_GPU_LOST);
	sample_until(sampler, &s, g, state_emitted);
	assert_int_equal(s.states[0].body.index, 0);
	assert_int_equal(s.states[0].body.answer, GPU_IS_LOST);
	g->gpus[0].faults = 0;
	source_nvml.sampler->close(sampler);
}

static void test_driver_does_not_answer(void **state)
{
	struct sim_gpus *g = gpus_make();
	struct seen s = { 0 };
	struct sampler_ctx ctx;
	void *sampler = sampler_open(&ctx, &s);
	uint64_t begin_ns;

	(void)state;
	sample_until(sampler, &s, g, all_emitted);
	begin_ns = clock_monotonic_ns();
	atomic_fetch_or(&g->gpus[0].faults, SIM_GPU_SILENT);
	sample_until(sampler, &s, g, state_emitted);
	assert_int_equal(s.states[0].body.index, GPU_INDEX_ALL);
	assert_int_equal(s.states[0].body.answer, GPU_NO_ANSWER);
	printf("reported %.1f s after the driver stopped answering, the longest sample took %.1f ms\n",
	       (s.states[0].hdr.ts_ns - begin_ns) / 1e9, s.longest_sample_ns / 1e6);
	assert_true(s.states[0].hdr.ts_ns - s.states[0].body.since_ns >= 5000 * MS);
	assert_true(s.longest_sample_ns < 4000 * MS); /* had it waited, 5 s */
	g->gpus[0].faults = 0;
	sample_until(sampler, &s, g, two_states_emitted);
	assert_int_equal(s.states[1].body.answer, GPU_IS_THERE);
	source_nvml.sampler->close(sampler);
}

static bool more_emitted(const struct seen *s)
{
	return s->n_samples >= s->wanted;
}

/* The youngest: those of earlier tests may not be reaped yet. */
static pid_t child_of(void)
{
	char text[256], *at = text;
	pid_t pid = 0, next;

	assert_true(proc_read(text, sizeof(text), "/proc/self/task/%d/children", getpid()) > 0);
	while ((next = strtol(at, &at, 10)))
		pid = next;
	assert_true(pid > 0);
	return pid;
}

/* Who ends or stops the child is no driver that does not answer: another one takes its place. */
static void test_child_is_ended(void **state)
{
	static const int signals[] = { SIGKILL, SIGSTOP };
	struct sim_gpus *g = gpus_make();
	struct seen s = { 0 };
	struct sampler_ctx ctx;
	void *sampler = sampler_open(&ctx, &s);

	(void)state;
	sample_until(sampler, &s, g, all_emitted);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kill(child_of(), signals[i]), 0);
		s.wanted = s.n_samples + 4;
		sample_until(sampler, &s, g, more_emitted);
	}
	assert_int_equal(s.n_states, 0);
	source_nvml.sampler->close(sampler);
}

/* A library that acts on others, and says as its GPU's name what it got away with. */
static const char crime_library[] =
	"#define _GNU_SOURCE\n#include <fcntl.h>\n#include <sched.h>\n#include <signal.h>\n#include <stdio.h>\n"
	"#include <string.h>\n#include <sys/mount.h>\n#include <sys/ptrace.h>\n#include <sys/socket.h>\n"
	"#include <sys/stat.h>\n#include <sys/syscall.h>\n#include <sys/uio.h>\n#include <unistd.h>\n"
	"static char did[96];\n"
	"static void note(const char *name, long rc) { if (rc >= 0) strncat(did, name, 95 - strlen(did)); }\n"
	"#define TRY(act) note(#act \" \", act)\n"
	"int nvmlInit_v2(void)\n{\n"
	"	char path[] = PLACE \"/x\", old[] = PLACE \"/old\", byte, *args[] = { \"true\", 0 };\n"
	"	struct iovec v = { &byte, 1 };\n"
	"	TRY(open(path, O_CREAT | O_RDWR, 0600)); TRY(open(old, O_WRONLY)); TRY(open(old, O_RDWR));\n"
	"	TRY(open(old, O_RDONLY | O_TRUNC)); TRY(truncate(old, 0)); TRY(unlink(old)); TRY(rename(old, path));\n"
	"	TRY(chmod(old, 0666)); TRY(mkdir(path, 0700)); TRY(symlink(old, path)); TRY(link(old, path));\n"
	"	TRY(open(PLACE, O_TMPFILE | O_RDWR, 0600)); TRY(mknod(path, S_IFIFO, 0));\n"
	"	TRY(socket(AF_INET, SOCK_STREAM, 0)); TRY(socket(AF_UNIX, SOCK_STREAM, 0));\n"
	"	TRY(socket(AF_NETLINK, SOCK_RAW, 0)); TRY(fork() ? : pause()); TRY(vfork() ? : pause());\n"
	"	TRY(execv(\"/bin/true\", args)); TRY(ptrace(PTRACE_SEIZE, getppid(), 0, 0)); TRY(kill(getppid(), 0));\n"
	"	TRY(syscall(SYS_tgkill, getppid(), getppid(), 0)); TRY(process_vm_readv(getppid(), &v, 1, &v, 1, 0));\n"
	"	TRY(syscall(SYS_pidfd_open, getppid(), 0)); TRY(unshare(CLONE_NEWUSER)); TRY(setuid(65533));\n"
	"	TRY(mount(\"x\", \"/tmp\", \"tmpfs\", 0, 0)); TRY(chroot(\"/tmp\")); TRY(syscall(SYS_bpf, 5, 0, 0));\n"
	"	TRY(syscall(SYS_io_uring_setup, 1, did)); TRY(syscall(SYS_userfaultfd, 0)); TRY(setgid(65533));\n"
	"	if (open(old, O_RDONLY) < 0) strcat(did, \"cannot read \");\n"
	"	if (open(\"/dev/null\", O_RDWR) < 0) strcat(did, \"cannot write to a device \");\n"
	"	return 0;\n}\n"
	"int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }\n"
	"int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = did; return 0; }\n"
	"int nvmlDeviceGetName(void *d, char *to, unsigned n) { snprintf(to, n, \"%s\", did); return 0; }\n";

static bool device_emitted(const struct seen *s)
{
	return s->n_devices >= 1;
}

static void test_child_acts_on_nobody(void **state)
{
	char place[] = "/tmp/ranktrace-crime-XXXXXX", command[512], path[128];
	struct sampler_ctx ctx;
	struct seen s = { 0 };
	void *sampler;
	FILE *f;

	(void)state;
	if (CONFINE_SANITIZED) /* no filter */
		return;
	assert_non_null(mkdtemp(place));
	snprintf(path, sizeof(path), "%s/crime.c", place);
	f = fopen(path, "w");
	fputs(crime_library, f);
	fclose(f);
	snprintf(command, sizeof(command),
		 "cd %s && echo old > old && ${CC:-cc} -w -shared -fPIC -DPLACE='\"%s\"' -o crime.so crime.c", place,
		 place);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/crime.so", place);
	setenv("RANKTRACE_NVML", path, 1);
	sampler = sampler_open(&ctx, &s);
	sample_until(sampler, &s, gpus_make(), device_emitted);
	assert_string_equal(s.texts[0], "");
	source_nvml.sampler->close(sampler);
	snprintf(command, sizeof(command), "cd %s && test \"$(cat old)\" = old && test ! -e x && rm -r %s", place,
		 place);
	assert_int_equal(system(command), 0);
}

static void test_guess(void **state)
{
	(void)state;
	assert_int_equal(gpu_guess("", 3), 3);
	assert_int_equal(gpu_guess("", -1), -1);
	assert_int_equal(gpu_guess("4,5,6,7", 2), 6);
	assert_int_equal(gpu_guess("4,5,6,7", 4), -1);
	assert_int_equal(gpu_guess("5", 3), 5);
	assert_int_equal(gpu_guess("GPU-6a1e5c3b", 0), -1);
	assert_int_equal(gpu_guess("1,", 1), -1);
	assert_int_equal(gpu_guess("99999999999999999999", 0), -1);
	assert_false(gpu_in_use(getpid()));
}

static void test_no_library(void **state)
{
	struct seen s = { 0 };
	struct sampler_ctx ctx;
	void *sampler;

	(void)state;
	setenv("RANKTRACE_NVML", "/nowhere/libnvidia-ml.so.1", 1);
	sampler = sampler_open(&ctx, &s);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(source_nvml.sampler->sample(sampler, clock_monotonic_ns()), 0);
		usleep(10000);
	}
	assert_int_equal(s.n_states + s.n_devices, 0);
	source_nvml.sampler->close(sampler);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_field),
		cmocka_unit_test(test_lost_gpu),
		cmocka_unit_test(test_driver_does_not_answer),
		cmocka_unit_test(test_child_is_ended),
		cmocka_unit_test(test_child_acts_on_nobody),
		cmocka_unit_test(test_no_library),
		cmocka_unit_test(test_guess),
	};
	const char *o = getenv("O");
	char library[512];
	int failed, fd;

	if (argc == 2 && !strcmp(argv[0], NVML_CHILD_NAME)) /* as in user/main.c */
		return nvml_child_main(NVML_CHILD_FD, argv[1]);
	snprintf(state_path, sizeof(state_path), "/tmp/ranktrace-gpus-XXXXXX");
	fd = mkstemp(state_path);
	snprintf(library, sizeof(library), "%s/lib/ranktrace/sim/libnvidia-ml.so.1", o ? o : "build");
	setenv("RANKTRACE_NVML", library, 1);
	setenv("SIM_GPU_STATE", state_path, 1);
	failed = fd < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
	unlink(state_path);
	return failed;
}
