/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_sample.c - registers and stack of threads that run: a perf event on each (the kernel's own clock, no hardware
 * counter), taken away after its first sample. Costs the thread a timer interrupt; it is not stopped.
 */
#include "base/clock.h"
#include "inspect/stack/stack_private.h"

#include <asm/perf_regs.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
	const char *data = (const char *)s->ring + s->ring->data_offset;
	uint64_t head = __atomic_load_n(&s->ring->data_head, __ATOMIC_ACQUIRE), at = 0;

	while (at + sizeof(struct perf_event_header) <= head && at < s->ring->data_size) {
		const struct perf_event_header *h = (const void *)(data + at);

		if (h->size < sizeof(*h) || at + h->size > head || at + h->size > s->ring->data_size)
			return NULL;
		if (h->type == PERF_RECORD_SAMPLE)
			return h;
		at += h->size;
	}
	return NULL;
}

/* u64 abi, the registers in the order of their bits, u64 size, that many bytes of stack, u64 how many of them are
 * valid. */
static bool sample_read(const struct perf_event_header *h, struct stack_sample *ret)
{
	const uint64_t *at = (const void *)(h + 1), *end = (const void *)((const char *)h + h->size);
	int n_regs = __builtin_popcountll(REGS);

	*ret = (struct stack_sample){ 0 };
	if (end - at < n_regs + 2 || *at++ != PERF_SAMPLE_REGS_ABI_64)
		return false;
	for (int reg = 0; reg < 64; reg++) {
		if (!(REGS >> reg & 1))
			continue;
		if (reg == REG_PC)
			ret->regs.pc = *at;
		if (reg == REG_STACK)
			ret->sp = *at;
		if (dwarf_number(reg) >= 0) {
			ret->regs.value[dwarf_number(reg)] = *at;
			ret->regs.known |= 1ull << dwarf_number(reg);
		}
		at++;
	}
	uint64_t size = *at++;

	if (size % 8 || size / 8 + 1 > (uint64_t)(end - at))
		return size == 0;
	ret->stack_len = at[size / 8] < size ? at[size / 8] : size;
	ret->stack = malloc(ret->stack_len + 1);
	if (ret->stack)
		memcpy(ret->stack, at, ret->stack_len);
	else
		ret->stack_len = 0;
	return true;
}

static bool all_have_one(const struct stack_sampler *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!s[i].err && !first_sample(&s[i]))
			return false;
	return true;
}

size_t stack_samples_take(const uint32_t *tids, size_t n, unsigned budget_ms, struct stack_sample *ret)
{
	struct stack_sampler *s = calloc(n + 1, sizeof(*s));
	uint64_t until_ns = clock_monotonic_ns() + budget_ms * 1000000ull;
	const struct timespec nap = { 0, POLL_NS };
	size_t taken = 0;

	for (size_t i = 0; s && i < n; i++) {
		s[i].tid = tids[i];
		sampler_open(&s[i]);
	}
	while (s && !all_have_one(s, n) && clock_monotonic_ns() < until_ns)
		nanosleep(&nap, NULL);
	for (size_t i = 0; i < n; i++) {
		const struct perf_event_header *h = s && s[i].ring ? first_sample(&s[i]) : NULL;

		ret[i] = (struct stack_sample){ 0 };
		if (h && sample_read(h, &ret[i]))
			taken++;
		ret[i].tid = tids[i];
		ret[i].err = s ? s[i].err : ENOMEM;
		if (s)
			sampler_close(&s[i]);
	}
	free(s);
	return taken;
}
