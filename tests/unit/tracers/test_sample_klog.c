/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sample_klog.c - klog_sampler: which lines it takes and what it reads from them, lines that come in pieces, and
 * lines that are no such thing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inspect/reader/reader.h"
#include "tests/unit/job/job_script.h"
#include "tracers/gpu/klog.h"
#include "source.h"

static void test_lines(void **state)
{
	static const struct {
		const char *line;
		int class;
		uint32_t xid, pid;
		uint64_t pci;
	} cases[] = {
		{ "4,1234,5678901,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
		  KERNEL_LOG_XID, 79, 1234, GPU_PCI(0, 0x3b, 0) },
		{ "4,1,2,-;NVRM: Xid (PCI:0001:ff:1f): 48, pid='<unknown>', name=<unknown>, DBE", KERNEL_LOG_XID, 48, 0,
		  GPU_PCI(1, 0xff, 0x1f) },
		{ "3,1,2,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32", KERNEL_LOG_SXID,
		  12028, 0, GPU_PCI(0, 0xc1, 0) },
		{ "3,9,1,c;INFO: task pt_main_thread:812 blocked for more than 120 seconds.", KERNEL_LOG_HUNG_TASK, 0,
		  0, GPU_PCI_NONE },
		{ "6,9,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)", KERNEL_LOG_OOM, 0, 0, GPU_PCI_NONE },
		{ "3,9,1,-;pcieport 0000:00:1c.0: AER: Corrected error message received", KERNEL_LOG_PCIE, 0, 0,
		  GPU_PCI_NONE },
		{ "4,9,1,-;mlx5_core 0000:1b:00.0 ib0: Link down", KERNEL_LOG_RDMA, 0, 0, GPU_PCI_NONE },
		{ "2,9,1,-;mce: [Hardware Error]: Machine check events logged", KERNEL_LOG_MCE, 0, 0, GPU_PCI_NONE },
		{ "4,9,1,-;NVRM: GPU at 0000:3b:00.0 has software scheduler ENABLED", KERNEL_LOG_NVIDIA, 0, 0,
		  GPU_PCI_NONE },
		{ "6,9,1,-;EXT4-fs (sda1): mounted filesystem", 0, 0, 0, 0 },
		{ " SUBSYSTEM=NVRM: Xid", 0, 0, 0, 0 },
		{ "NVRM: Xid", 0, 0, 0, 0 },
		{ "", 0, 0, 0, 0 },
		{ ";", 0, 0, 0, 0 },
		{ "4,1,2,-;NVRM: Xid", KERNEL_LOG_NVIDIA, 0, 0, GPU_PCI_NONE },
		{ "4,1,2,-;NVRM: Xid (PCI:zz", KERNEL_LOG_NVIDIA, 0, 0, GPU_PCI_NONE },
		/* What processes call themselves, and what was written into the log from outside. */
		{ "6,1,2,-;NVRM: Xid(a):79[4711]: segfault at 0 ip 0 sp 0 error 4", KERNEL_LOG_NVIDIA, 0, 0,
		  GPU_PCI_NONE },
		{ "6,1,2,-;NVRM: Xid (PCI:[4711]: segfault at 0 ip 0", KERNEL_LOG_NVIDIA, 0, 0, GPU_PCI_NONE },
		{ "6,1,2,-;nvidia-nvswitch[4711]: SXid (PCI:0000:c1:00.0): 12028, Fatal", 0, 0, 0, 0 },
		{ "6,1,2,-;process 'NVRM: Xid (PCI:0000:3b:00): 79, pid=1' started with executable stack",
		  KERNEL_LOG_NVIDIA, 0, 0, GPU_PCI_NONE },
		{ "6,1,2,-; NVRM: Xid (PCI:0000:3b:00): 79, pid=1", KERNEL_LOG_NVIDIA, 0, 0, GPU_PCI_NONE },
		{ "12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python", 0, 0, 0, 0 },
		{ "4,1,2,-;NVRM: Xid (PCI:0000:3b:20): 79, pid=1234", KERNEL_LOG_NVIDIA, 0, 0, GPU_PCI_NONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct record_kernel_log f;
		char text[512];
		bool taken = klog_line_parse(cases[i].line, &f, text, sizeof(text));

		if (taken != !!cases[i].class)
			printf("%s\n", cases[i].line);
		assert_int_equal(taken, !!cases[i].class);
		if (!taken)
			continue;
		assert_int_equal(f.class, cases[i].class);
		assert_int_equal(f.xid, cases[i].xid);
		assert_int_equal(f.pid, cases[i].pid);
		assert_int_equal(f.pci, cases[i].pci);
		assert_string_equal(text, strchr(cases[i].line, ';') + 1);
	}
}

static int count(void *to, const struct wire_hdr *h)
{
	const struct record_kernel_log *f = (const void *)h;

	assert_int_equal(h->kind, RECORD_KERNEL_LOG);
	assert_int_equal(f->text_len, strlen(f->text) + 1);
	assert_true(sizeof(*f) + f->text_len <= h->size && h->size % 8 == 0);
	*(int *)to += 1;
	return 0;
}

static void append(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_APPEND);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void test_only_what_is_new_and_whole(void **state)
{
	static const char line[] = "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, gone\n";
	char path[] = "/tmp/ranktrace-kmsg-XXXXXX", big[5000];
	struct sampler_ctx ctx = { .reader = *state, .emit = count };
	int fd = mkstemp(path), n = 0;
	void *k = NULL;

	close(fd);
	append(path, line);
	setenv("RANKTRACE_KMSG", path, 1);
	ctx.emit_to = &n;
	assert_int_equal(source_klog.sampler->open(&ctx, &k), 0);
	assert_int_equal(source_klog.sampler->sample(k, 1), 0);
	assert_int_equal(n, 0); /* was there before */
	append(path, line);
	append(path, "4,1,2,-;NVRM: Xid (PCI:00");
	assert_int_equal(source_klog.sampler->sample(k, 2), 0);
	assert_int_equal(n, 1);
	append(path, "00:3b:00): 79, more\n SUBSYSTEM=pci\n6,1,1,-;nothing\n");
	assert_int_equal(source_klog.sampler->sample(k, 3), 0);
	assert_int_equal(n, 2);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	append(path, big);
	append(path, "\n");
	append(path, line);
	assert_int_equal(source_klog.sampler->sample(k, 4), 0);
	assert_int_equal(n, 3);
	source_klog.sampler->close(k);
	source_klog.sampler->close(NULL);
	unlink(path);
}

/* A line about a GPU that this host does not have. */
static void test_only_own_gpus(void **state)
{
	char dir[] = "/tmp/ranktrace-pci-XXXXXX", path[256], log[128];
	struct sampler_ctx ctx = { .reader = *state, .emit = count };
	int n = 0;
	void *k = NULL;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path),
		 "cd %s && mkdir 0000:3b:00.0 0000:00:1f.0 && echo 0x10de > 0000:3b:00.0/vendor && "
		 "echo 0x8086 > 0000:00:1f.0/vendor && : > log",
		 dir);
	assert_int_equal(system(path), 0);
	snprintf(log, sizeof(log), "%s/log", dir);
	setenv("RANKTRACE_KMSG", log, 1);
	setenv("RANKTRACE_PCI", dir, 1);
	ctx.emit_to = &n;
	assert_int_equal(source_klog.sampler->open(&ctx, &k), 0);
	append(log, "4,1,2,-;NVRM: Xid (PCI:0000:1f:00): 79, pid=1, none such\n");
	append(log, "4,1,2,-;NVRM: Xid (PCI:0000:00:1f): 79, pid=1, of another maker\n");
	assert_int_equal(source_klog.sampler->sample(k, 1), 0);
	assert_int_equal(n, 0);
	append(log, "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, ours\n");
	assert_int_equal(source_klog.sampler->sample(k, 2), 0);
	assert_int_equal(n, 1);
	source_klog.sampler->close(k);
	unsetenv("RANKTRACE_PCI");
	snprintf(path, sizeof(path), "rm -r %s", dir);
	assert_int_equal(system(path), 0);
}

/* Anything may stand in a log line: no crash, and nothing past its end. */
static void test_rubbish(void **state)
{
	uint64_t rng = test_seed();
	static const char words[] = "NVRM: Xid (PCI::)SXidpid=0123456789abcdef,;- \x80\xff";
	struct record_kernel_log f;
	char line[200], text[64];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t n = random_next(&rng) % (sizeof(line) - 1);

		for (size_t k = 0; k < n; k++)
			line[k] = words[random_next(&rng) % (sizeof(words) - 1)];
		memcpy(line, "4,1,2,-;NVRM: Xid", random_next(&rng) % 18 < n ? 17 : 0);
		line[n < 17 ? 17 : n] = 0;
		klog_line_parse(line, &f, text, sizeof(text));
	}
}

/* More lines than one call takes, and of each that is ours a record. */
static void test_a_flood(void **state)
{
	char path[] = "/tmp/ranktrace-kmsg-XXXXXX", line[300];
	struct sampler_ctx ctx = { .reader = *state, .emit = count };
	int fd = mkstemp(path), n = 0;
	void *k = NULL;

	ctx.emit_to = &n;
	setenv("RANKTRACE_KMSG", path, 1);
	assert_int_equal(source_klog.sampler->open(&ctx, &k), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, %d %0*d\n4,1,2,-;no\n", i,
			 i % 200, 1);
		assert_true(write(fd, line, strlen(line)) > 0);
	}
	assert_int_equal(source_klog.sampler->sample(k, 1), 0);
	assert_int_equal(n, 1000);
	source_klog.sampler->close(k);
	close(fd);
	unlink(path);
}

static int reader_begin(void **state)
{
	return reader_open((struct reader **)state);
}

static int reader_end(void **state)
{
	reader_free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),         cmocka_unit_test(test_only_what_is_new_and_whole),
		cmocka_unit_test(test_only_own_gpus), cmocka_unit_test(test_a_flood),
		cmocka_unit_test(test_rubbish),
	};

	return cmocka_run_group_tests(tests, reader_begin, reader_end);
}
