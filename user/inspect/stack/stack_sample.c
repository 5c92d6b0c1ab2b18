/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_sample.c - registers and stack of threads that run: a perf event on each (the kernel's own clock, no hardware
 * counter), taken away after its first sample. Costs the thread a timer interrupt; it is not stopped. A reader takes
 * and copies them; what they mean is for the parser, which gets them as a file: the answer of the one is too large for
 * the question to the other.
 */
#include "base/clock.h"
#include "inspect/reader/proc_files.h"
#include "inspect/stack/stack_private.h"

#include <asm/perf_regs.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SAMPLE_MS 60 /* for a thread that shares its CPU with others */
#define PERIOD_NS 1000000ull
#define STACK_BYTES 24576u /* a record is 64 KiB at most */
#define DATA_PAGES 16u
#define POLL_NS 1000000l

#if defined(__x86_64__)
#define REGS (0x1ffull | 0xffull << PERF_REG_X86_R8)
static int dwarf_number(int reg)
{
	static const int low[] = { 0, 3, 2, 1, 4, 5, 6, 7 };

	return reg < 8 ? low[reg] : reg >= PERF_REG_X86_R8 ? reg - PERF_REG_X86_R8 + 8 : -1;
}
#define REG_PC PERF_REG_X86_IP
#define REG_STACK PERF_REG_X86_SP
#elif defined(__aarch64__)
#define REGS ((1ull << PERF_REG_ARM64_MAX) - 1)
static int dwarf_number(int reg)
{
	return reg < PERF_REG_ARM64_PC ? reg : -1;
}
#define REG_PC PERF_REG_ARM64_PC
#define REG_STACK PERF_REG_ARM64_SP
#endif

struct stack_sampler {
	uint32_t tid;
	int fd, err;
	struct perf_event_mmap_page *ring;
};

static size_t ring_bytes(void)
{
	return (DATA_PAGES + 1) * sysconf(_SC_PAGESIZE);
}

static void sampler_open(struct stack_sampler *s)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD_NS,
		.sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = REGS,
		.sample_stack_user = STACK_BYTES,
	};

	s->fd = syscall(SYS_perf_event_open, &attr, (pid_t)s->tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	s->err = s->fd < 0 ? errno : 0;
	if (s->err)
		return;
	s->ring = mmap(NULL, ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (s->ring == MAP_FAILED) {
		s->err = errno;
		s->ring = NULL;
	}
}

static void sampler_close(struct stack_sampler *s)
{
	if (s->ring)
		munmap(s->ring, ring_bytes());
	if (s->fd >= 0)
		close(s->fd);
}

/* The first sample in the ring; NULL none yet. Nothing is ever consumed, so the data begins at the ring's start. */
static const struct perf_event_header *first_sample(const struct stack_sampler *s)
{
	const char *data = (const char *)s->ring + s->ring->data_offset; /* lint: called with a ring only */
	uint64_t head = __atomic_load_n(&s->ring->data_head, __ATOMIC_ACQUIRE), at = 0;

	while (at + sizeof(struct perf_event_header) <= head && at < s->ring->data_size) { /* lint: as above */
		const struct perf_event_header *h = (const void *)(data + at);

		if (h->size < sizeof(*h) || at + h->size > head || at + h->size > s->ring->data_size)
			return NULL;
		if (h->type == PERF_RECORD_SAMPLE)
			return h;
		at += h->size;
	}
	return NULL;
}

static void regs_take(const uint64_t *at, struct stack_sample *to)
{
	for (int reg = 0; reg < 64; reg++) {
		if (!(REGS >> reg & 1))
			continue;
		if (reg == REG_PC)
			to->regs.pc = *at;
		if (reg == REG_STACK)
			to->sp = *at;
		if (dwarf_number(reg) >= 0) {
			to->regs.value[dwarf_number(reg)] = *at;
			to->regs.known |= 1ull << dwarf_number(reg);
		}
		at++;
	}
}

/* u64 abi, the registers in the order of their bits, u64 size, that many bytes of stack, u64 how many of them are
 * valid. */
static void sample_take(const struct perf_event_header *h, struct stack_sample *to)
{
	const uint64_t *at = (const void *)(h + 1), *end = (const void *)((const char *)h + h->size);
	int n_regs = __builtin_popcountll(REGS);

	if (end - at < n_regs + 2 || *at++ != PERF_SAMPLE_REGS_ABI_64)
		return;
	regs_take(at, to);
	at += n_regs;
	uint64_t size = *at++;

	if (size % 8 || size / 8 + 1 > (uint64_t)(end - at))
		return;
	to->stack_len = at[size / 8] < size ? at[size / 8] : size;
	to->stack = (const uint8_t *)at;
}

static bool all_have_one(const struct stack_sampler *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!s[i].err && !first_sample(&s[i]))
			return false;
	return true;
}

/* ---- the job of a reader ---- */

struct samples_arg {
	uint32_t pid, n, budget_ms;
	uint32_t tids[STACK_SAMPLES_MAX];
};

/* It ran a moment ago and gave no sample: it may sleep by now. */
static void asleep_take(uint32_t pid, struct stack_sample *to)
{
	unsigned long long word[9];
	char text[256];
	int k = proc_read(text, sizeof(text), "/proc/%u/task/%u/syscall", pid, to->tid);

	if (k <= 0)
		return;
	k = sscanf(text, "%lld %llx %llx %llx %llx %llx %llx %llx %llx", (long long *)&word[0], &word[1], &word[2],
		   &word[3], &word[4], &word[5], &word[6], &word[7], &word[8]);
	if (k == 9)
		to->regs = stack_regs_of(word[8], word[7]);
	else if (k == 3)
		to->regs = stack_regs_of(word[2], word[1]);
	to->asleep = k == 9 || k == 3;
}

/* A row, and its stack behind it, of which the pointer says nothing to who reads it. */
static void row_add(struct reader_job *job, const struct stack_sample *row)
{
	size_t padded = (row->stack_len + 7) & ~7ul;

	if (sizeof(*row) + padded > job->out_max - job->out_len)
		return;
	memcpy(job->out + job->out_len, row, sizeof(*row));
	if (row->stack_len)
		memcpy(job->out + job->out_len + sizeof(*row), row->stack, row->stack_len);
	job->out_len += sizeof(*row) + padded;
}

static void samples_wait(const struct stack_sampler *s, size_t n, unsigned budget_ms)
{
	uint64_t until_ns = clock_monotonic_ns() + budget_ms * 1000000ull;
	const struct timespec nap = { 0, POLL_NS };

	while (!all_have_one(s, n) && clock_monotonic_ns() < until_ns)
		nanosleep(&nap, NULL);
}

static int samples_op(struct reader_job *job)
{
	const struct samples_arg *a = job->arg;
	struct stack_sampler s[STACK_SAMPLES_MAX] = { { 0 } };

	for (uint32_t i = 0; i < a->n; i++) {
		s[i].tid = a->tids[i];
		sampler_open(&s[i]);
	}
	samples_wait(s, a->n, a->budget_ms);
	for (uint32_t i = 0; i < a->n; i++) {
		const struct perf_event_header *h = s[i].ring ? first_sample(&s[i]) : NULL;
		struct stack_sample row = { .tid = s[i].tid, .err = s[i].err };

		if (h)
			sample_take(h, &row);
		if (!row.regs.pc)
			asleep_take(a->pid, &row);
		row_add(job, &row);
		sampler_close(&s[i]);
	}
	return 0;
}

/* ---- in the collector ---- */

static int file_of(const char *bytes, size_t len, int *ret_fd)
{
	int fd = memfd_create("ranktrace-samples", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (pwrite(fd, bytes, len, 0) == (ssize_t)len) {
		*ret_fd = fd;
		return 0;
	}
	close(fd);
	return -EIO;
}

int stack_samples_fetch(struct reader *r, const struct stack_arg *a, unsigned deadline_ms, int *ret_fd)
{
	size_t room = STACK_SAMPLES_MAX * (sizeof(struct stack_sample) + STACK_BYTES), len = 0;
	struct samples_arg arg = { .pid = a->pid,
				   .budget_ms = a->budget_ms / 5 < SAMPLE_MS ? a->budget_ms / 5 : SAMPLE_MS };

	for (uint32_t i = 0; i < a->n && arg.n < STACK_SAMPLES_MAX; i++)
		if (!a->tasks[i].pc)
			arg.tids[arg.n++] = a->tasks[i].tid;
	if (!arg.n)
		return -ENODATA;
	char *bytes = malloc(room);
	int rc = bytes ? reader_run(r, a->pid, samples_op, &arg, sizeof(arg), deadline_ms, bytes, room, &len, NULL)
		       : -ENOMEM;

	if (!rc)
		rc = file_of(bytes, len, ret_fd);
	free(bytes);
	return rc;
}

/* ---- in the parser ---- */

static void rows_find(struct stack_samples *s, size_t len)
{
	for (size_t at = 0; s->n < STACK_SAMPLES_MAX && len - at >= sizeof(s->row[0]);) {
		struct stack_sample *row = &s->row[s->n];

		memcpy(row, s->bytes + at, sizeof(*row));
		at += sizeof(*row);
		row->stack = s->bytes + at;
		if (row->stack_len > len - at)
			return;
		at += (row->stack_len + 7) & ~7ul;
		s->n++;
		if (at > len)
			return;
	}
}

void stack_samples_load(int fd, struct stack_samples *ret)
{
	size_t room = STACK_SAMPLES_MAX * (sizeof(struct stack_sample) + STACK_BYTES);
	ssize_t len;

	ret->n = 0;
	ret->bytes = malloc(room);
	len = ret->bytes ? pread(fd, ret->bytes, room, 0) : -1;
	if (len > 0)
		rows_find(ret, len);
}

void stack_samples_free(struct stack_samples *s)
{
	free(s->bytes);
}
