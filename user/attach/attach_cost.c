/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_cost.c - measures what a probe hit costs on this machine and kernel.
 *
 * It calls a few functions in a memory file of the collector's own, without and with a probe. A library's file would
 * do, but other processes map it, and an attach waits for their locks. The trap costs the same whatever the program
 * does, so any tracer's program serves.
 */
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "bpf/cookie.h"
#include "bpf/target.h"
#include "attach/loader_internal.h"

_Static_assert(LOADER_PRICE_NS == TARGET_PRICE_NS, "the unit of prices");

#define CALLS 201
#define WARM_UP 10
#define ASSUMED_NS 4000 /* 3.7 to 4.4 us were measured on virtual machines, over the functions of a real driver */
#define CODE_BYTES 16

/* First instructions that the kernel treats differently, each as a small function. */
static const uint8_t code[HIT_RETURN][CODE_BYTES] = {
#if defined(__x86_64__)
	[HIT_PUSH] = { 0x53 /* push %rbx */, 0x5b, 0xc3 },
	[HIT_LANDING] = { 0xf3, 0x0f, 0x1e, 0xfa /* endbr64 */, 0xc3 },
	[HIT_OTHER] = { 0x8d, 0x47, 0x01 /* lea 1(%rdi), %eax */, 0xc3 },
#elif defined(__aarch64__)
	[HIT_PUSH] = { 0xfd, 0x7b, 0xbf, 0xa9 /* stp x29, x30, [sp, #-16]! */, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f,
		       0xd6 },
	[HIT_LANDING] = { 0x5f, 0x24, 0x03, 0xd5 /* bti c */, 0xc0, 0x03, 0x5f, 0xd6 },
	[HIT_OTHER] = { 0x00, 0x04, 0x00, 0x11 /* add w0, w0, #1 */, 0xc0, 0x03, 0x5f, 0xd6 },
#endif
};

enum hit_class hit_class_at(int fd, uint64_t offset)
{
	uint8_t b[4] = { 0 };

	if (pread(fd, b, sizeof(b), offset) != sizeof(b))
		return HIT_OTHER;
#if defined(__x86_64__)
	if ((b[0] & 0xf8) == 0x50 || (b[0] == 0x41 && (b[1] & 0xf8) == 0x50))
		return HIT_PUSH;
	return memcmp(b, code[HIT_LANDING], 4) ? HIT_OTHER : HIT_LANDING;
#else
	if (b[3] == 0xa9) /* stp of 64-bit registers */
		return HIT_PUSH;
	return b[3] == 0xd5 && b[2] == 0x03 ? HIT_LANDING : HIT_OTHER; /* hints: bti, paciasp */
#endif
}

__u64 cookie_pays(const struct loader *l, enum probe_group group, enum hit_class class, bool pair)
{
	uint64_t ns = l->prices.ns[class] + (pair ? l->prices.ns[HIT_RETURN] : 0),
		 price = (ns + TARGET_PRICE_NS / 2) / TARGET_PRICE_NS;

	return COOKIE_PAYS(probe_group_counted(group), 1 + pair, price < COOKIE_PRICE_MAX ? price : COOKIE_PRICE_MAX);
}

static int ns_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t call_ns(int (*f)(int))
{
	uint64_t ns[CALLS], begin_ns;

	for (int i = 0; i < WARM_UP; i++)
		f(i);
	for (int i = 0; i < CALLS; i++) {
		begin_ns = clock_monotonic_ns();
		f(i);
		ns[i] = clock_monotonic_ns() - begin_ns;
	}
	qsort(ns, CALLS, sizeof(*ns), ns_compare);
	return ns[CALLS / 2];
}

static const struct bpf_program *any_program(const struct loader *l)
{
	struct bpf_program *p;

	for (int i = 0; i < l->n_tracers; i++)
		if (l->tracers[i].object)
			bpf_object__for_each_program(p, l->tracers[i].object) if (program_is_uprobe(p)) return p;
	return NULL;
}

/* Time that probes on the function at `offset` add to one call; 0: could not be measured. */
static uint64_t probes_ns(struct loader *l, int fd, const char *page, unsigned long offset, bool at_return)
{
	const struct bpf_program *p = any_program(l);
	struct attached a = { .tgid = getpid() };
	const char *at = page + offset;
	uint64_t without_ns, with_ns = 0;
	int (*f)(int) = NULL;
	struct batch b;
	char path[64];

	memcpy(&f, &at, sizeof(f));
	if (batch_new(&b, 1) || !p) {
		batch_free(&b);
		return 0;
	}
	b.n = 1;
	b.offsets[0] = offset;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	without_ns = call_ns(f);
	if (!batch_attach(l, &a, p, path, &b, at_return))
		with_ns = call_ns(f);
	detacher_close(l->detacher, a.links, a.n_links, &(struct detach_of){ .lib_id = LIB_OWN, .tgid = a.tgid });
	batch_free(&b);
	return with_ns > without_ns ? with_ns - without_ns : 0;
}

static bool prices_measure(struct loader *l, int fd, const char *page, struct hit_prices *ret)
{
	uint64_t both_ns;

	for (int i = 0; i < HIT_RETURN; i++) {
		ret->ns[i] = probes_ns(l, fd, page, i * CODE_BYTES, false);
		if (!ret->ns[i])
			return false;
	}
	both_ns = probes_ns(l, fd, page, HIT_PUSH * CODE_BYTES, true); /* a return probe also traps at the entry */
	ret->ns[HIT_RETURN] = both_ns > ret->ns[HIT_PUSH] ? both_ns - ret->ns[HIT_PUSH] : ret->ns[HIT_PUSH];
	return true;
}

void loader_prices(struct loader *l, struct hit_prices *ret)
{
	long size = sysconf(_SC_PAGESIZE);
	int fd = code[0][0] ? memfd_create("ranktrace-hit", MFD_CLOEXEC) : -1;
	char *page = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, size) && pwrite(fd, code, sizeof(code), 0) == sizeof(code))
		page = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	ret->assumed = page == MAP_FAILED || !prices_measure(l, fd, page, ret);
	if (page != MAP_FAILED)
		munmap(page, size);
	if (fd >= 0)
		close(fd);
	for (int i = 0; ret->assumed && i < HIT_CLASSES; i++)
		ret->ns[i] = ASSUMED_NS;
}

const struct hit_prices *loader_prices_known(const struct loader *l)
{
	return &l->prices;
}
