/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_cost.c - measures what a probe hit costs on this machine and kernel.
 *
 * It calls a few functions in a memory file of the collector's own, without and with a probe. A library's file would
 * do, but other processes map it, and an attach waits for their locks. The trap costs the same whatever the program
 * does, so any tracer's program serves. What our programs take beside it is timed as they run (bpf/own_time.bpf.h).
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
#include "schemas/ring.h"

_Static_assert(LOADER_PRICE_NS == TARGET_PRICE_NS, "the unit of prices");

#define CALLS 201
#define WARM_UP 10
#define ASSUMED_NS 4000     /* 3.7 to 4.4 us were measured on virtual machines, over the functions of a real driver */
#define OWN_ASSUMED_NS 1000 /* 0.7 to 0.9 us were measured on virtual machines */
#define CLIP_TRAPS 4        /* a run of a program that takes so many dear traps was interrupted */
#define CODE_BYTES 16
#define CODE_PAIR HIT_RETURN  /* probed at its return, too */
#define CODE_BARE HIT_CLASSES /* not probed */
#define CODES (HIT_CLASSES + 1)
#define WALK_BYTES (32 << 10) /* the first level's cache */
#define CACHE_LINE 64

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

struct hit_page {
	const char *functions;
	double more_ns[HIT_CLASSES][CALLS]; /* than the bare one; a return: than the one that is probed at its entry */
	volatile char walked[WALK_BYTES];
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
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static uint64_t call_ns(const struct hit_page *p, int function)
{
	const char *at = p->functions + function * CODE_BYTES;
	uint64_t begin_ns;
	int (*f)(int);

	memcpy(&f, &at, sizeof(f));
	begin_ns = clock_monotonic_ns();
	f(0);
	return clock_monotonic_ns() - begin_ns;
}

/* Between two calls a job does other work, after which less of the trap's way is in the caches. */
static void caches_use(struct hit_page *p)
{
	for (size_t i = 0; i < sizeof(p->walked); i += CACHE_LINE)
		p->walked[i]++;
}

static const struct bpf_program *any_program(const struct loader *l)
{
	struct bpf_program *p;

	for (int i = 0; i < l->n_tracers; i++)
		if (l->tracers[i].object)
			bpf_object__for_each_program(p, l->tracers[i].object) if (program_is_uprobe(p)) return p;
	return NULL;
}

static int functions_probe(struct loader *l, struct attached *a, int fd)
{
	const struct bpf_program *prog = any_program(l);
	struct batch b;
	char path[64];
	int err = prog ? batch_new(&b, CODE_BARE) : -ENOENT;

	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	b.n = 1;
	b.offsets[0] = CODE_PAIR * CODE_BYTES;
	err = batch_attach(l, a, prog, path, &b, true);
	for (b.n = 0; b.n < CODE_BARE; b.n++)
		b.offsets[b.n] = b.n * CODE_BYTES;
	if (!err)
		err = batch_attach(l, a, prog, path, &b, false);
	batch_free(&b);
	return err;
}

/* The functions are called in turns: what slows the machine for a while slows all of them. */
static void functions_time(struct hit_page *p)
{
	uint64_t ns[CODES];

	for (int i = 0; i < WARM_UP + CALLS; i++) {
		for (int f = 0; f < CODES; f++) {
			caches_use(p);
			ns[f] = call_ns(p, f);
		}
		for (int f = 0; i >= WARM_UP && f < CODE_BARE; f++)
			p->more_ns[f][i - WARM_UP] = (double)ns[f] - ns[f == CODE_PAIR ? HIT_PUSH : CODE_BARE];
	}
}

static uint64_t price_take(double *more_ns)
{
	qsort(more_ns, CALLS, sizeof(*more_ns), ns_compare);
	return more_ns[CALLS / 2] > 0 ? more_ns[CALLS / 2] : 0;
}

static bool prices_measure(struct loader *l, int fd, struct hit_page *p, struct hit_prices *ret)
{
	struct attached a = { .tgid = getpid() };
	bool good = !functions_probe(l, &a, fd);

	if (good)
		functions_time(p);
	for (int i = 0; good && i < HIT_CLASSES; i++)
		ret->ns[i] = price_take(p->more_ns[i]);
	detacher_close(l->detacher, a.links, a.n_links, &(struct detach_of){ .lib_id = LIB_OWN, .tgid = a.tgid });
	if (good && !ret->ns[HIT_RETURN])
		ret->ns[HIT_RETURN] = ret->ns[HIT_PUSH];
	return good && ret->ns[HIT_PUSH] && ret->ns[HIT_LANDING] && ret->ns[HIT_OTHER];
}

/* Until runs of a group were timed a program is taken to cost as much again as a cheap trap, which it did on virtual
 * machines and on an H200's host. */
static void own_prices(struct loader *l, struct hit_prices *ret)
{
	uint64_t clip_ns = CLIP_TRAPS * ret->ns[HIT_OTHER];
	uint32_t idle_ns = l->heartbeat->idle_ns;

	ret->idle_ns = idle_ns == UINT32_MAX ? 0 : idle_ns;
	ret->own_ns = ret->assumed ? OWN_ASSUMED_NS : ret->ns[HIT_PUSH];
	l->heartbeat->clip_ns = clip_ns > OWN_CLIP_NS ? clip_ns : OWN_CLIP_NS;
}

static bool functions_write(int fd)
{
	for (int f = 0; f < CODES; f++)
		if (pwrite(fd, code[f < CODE_PAIR ? f : HIT_PUSH], CODE_BYTES, f * CODE_BYTES) != CODE_BYTES)
			return false;
	return true;
}

void loader_prices(struct loader *l, struct hit_prices *ret)
{
	long size = sysconf(_SC_PAGESIZE);
	int fd = code[0][0] ? memfd_create("ranktrace-hit", MFD_CLOEXEC) : -1;
	struct hit_page *p = calloc(1, sizeof(*p));
	void *page = MAP_FAILED;

	l->heartbeat->idle_ns = UINT32_MAX;
	if (p && fd >= 0 && !ftruncate(fd, size) && functions_write(fd))
		page = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (page != MAP_FAILED)
		p->functions = page;
	ret->assumed = page == MAP_FAILED || !prices_measure(l, fd, p, ret);
	if (page != MAP_FAILED)
		munmap(page, size);
	if (fd >= 0)
		close(fd);
	free(p);
	for (int i = 0; ret->assumed && i < HIT_CLASSES; i++)
		ret->ns[i] = ASSUMED_NS;
	own_prices(l, ret);
}

const struct hit_prices *loader_prices_known(const struct loader *l)
{
	return &l->prices;
}
