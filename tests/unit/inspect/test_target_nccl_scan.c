/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_nccl_scan.c - communicators found in another process by their magic number alone: planted in memory that
 * malloc maps by itself, in the heap, in places where none may be believed, and beside mappings that come and go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tracers/nccl/nccl_state.h"
#include "inspect/reader/proc_files.h"
#include "inspect/reader/reader.h"

/* Two layouts of a communicator; `near` fits in the heap, `far` is as large as a real one. */
static const struct nccl_layout near_layout = {
	.magic = 0,
	.hash = 64,
	.rank = 72,
	.nranks = 76,
	.end_magic = 4000,
	.device = 80,
	.counters = 88,
	.n_counters = 5,
	.async_result = 200,
	.init_state = 204,
	.abort_flag = 208,
	.size = 4008,
};
static const struct nccl_layout far_layout = {
	.magic = 0,
	.hash = 1000000,
	.rank = 900000,
	.nranks = 900004,
	.end_magic = 1100000,
	.device = NCCL_NOWHERE,
	.counters = 900016,
	.n_counters = 5,
	.async_result = NCCL_NOWHERE,
	.init_state = NCCL_NOWHERE,
	.abort_flag = NCCL_NOWHERE,
	.size = 1100008,
};

static struct reader *reader;

struct victim { /* a child that only holds memory */
	pid_t pid;
	uint64_t addr[8];
};

/* Nobody in that process reads it again: the compiler must not drop it for that. */
static void put(char *at, uint32_t offset, const void *v, size_t n)
{
	memcpy(at + offset, v, n);
	__asm__ volatile("" ::"r"(at) : "memory");
}

static void comm_write(char *at, const struct nccl_layout *l, uint64_t hash, int rank, int nranks)
{
	uint64_t magic = NCCL_MAGIC, counters[5] = { 1, 2, 3, 4, 5 + (uint64_t)rank };

	put(at, l->magic, &magic, 8);
	put(at, l->end_magic, &magic, 8);
	put(at, l->hash, &hash, 8);
	put(at, l->rank, &rank, 4);
	put(at, l->nranks, &nranks, 4);
	put(at, l->counters, counters, sizeof(counters));
}

/* Runs `fill` in a child, which then waits to be killed; its addresses come back through shared memory. */
static struct victim victim_start(void (*fill)(uint64_t *addr))
{
	uint64_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct victim v;

	assert_true(shared != MAP_FAILED);
	v.pid = fork();
	if (!v.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fill(shared);
		__atomic_store_n(&shared[63], 1, __ATOMIC_RELEASE);
		for (;;)
			pause();
	}
	while (!__atomic_load_n(&shared[63], __ATOMIC_ACQUIRE))
		usleep(1000);
	memcpy(v.addr, shared, sizeof(v.addr));
	munmap(shared, 4096);
	return v;
}

static void victim_end(const struct victim *v)
{
	kill(v->pid, SIGKILL);
	waitpid(v->pid, NULL, 0);
}

static struct nccl_places scan(const struct victim *v, const struct nccl_layout *l, size_t n)
{
	struct nccl_places found = { 0 };
	struct nccl_scan_at at = { 0 };

	assert_int_equal(nccl_scan(reader, v->pid, l, n, 0, &at, &found), 1);
	assert_true(at.far);
	assert_int_equal(nccl_scan(reader, v->pid, l, n, 0, &at, &found), 0);
	return found;
}

static void fill_two(uint64_t *addr)
{
	char *far = calloc(1, far_layout.size), *near = calloc(1, near_layout.size);

	comm_write(far, &far_layout, 0xaa, 3, 8);
	comm_write(near, &near_layout, 0xbb, 1, 2);
	addr[0] = (uintptr_t)far;
	addr[1] = (uintptr_t)near;
}

/* One in a mapping of its own, one in the heap. Each by its own layout. */
static void finds_each_where_it_lies(void **state)
{
	struct nccl_layout both[] = { near_layout, far_layout };
	struct victim v = victim_start(fill_two);
	struct nccl_places found = scan(&v, both, 2);

	(void)state;
	assert_int_equal(found.n, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(found.at[i].addr, v.addr[found.at[i].layout == 1 ? 0 : 1]);
	assert_false(found.cut);
	victim_end(&v);
}

static void fill_large(uint64_t *addr)
{
	char *large = mmap(NULL, 400ul << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     *near = calloc(1, near_layout.size);

	comm_write(large + (200 << 20), &near_layout, 0x51, 0, 2);
	comm_write(near, &near_layout, 0x52, 1, 2);
	addr[0] = (uintptr_t)near;
}

/* Large mappings come last, and not at all once the time is up. */
static void small_mappings_first(void **state)
{
	struct victim v = victim_start(fill_large);
	struct nccl_places found = { 0 };
	struct nccl_scan_at at = { 0 };

	(void)state;
	assert_int_equal(nccl_scan(reader, v.pid, &near_layout, 1, 0, &at, &found), 1);
	assert_int_equal(found.n, 1);
	assert_int_equal(found.at[0].addr, v.addr[0]);
	assert_int_equal(nccl_scan(reader, v.pid, &near_layout, 1, 1, &at, &found), 1);
	assert_int_equal(found.n, 1);
	assert_int_equal(nccl_scan(reader, v.pid, &near_layout, 1, 0, &at, &found), 0);
	assert_int_equal(found.n, 2);
	victim_end(&v);
}

static void reads_what_is_there(void **state)
{
	struct nccl_layout both[] = { near_layout, far_layout };
	struct victim v = victim_start(fill_two);
	struct nccl_places found = scan(&v, both, 2);
	struct nccl_state st[2];

	(void)state;
	assert_int_equal(nccl_states_read(reader, v.pid, both, found.at, 2, 500, NULL, st), 0);
	for (int i = 0; i < 2; i++) {
		bool far = found.at[i].layout == 1;

		assert_true(st[i].valid);
		assert_int_equal(st[i].hash, far ? 0xaa : 0xbb);
		assert_int_equal(st[i].rank, far ? 3 : 1);
		assert_int_equal(st[i].nranks, far ? 8 : 2);
		assert_int_equal(st[i].device, far ? -1 : 0);
		assert_int_equal(st[i].has_async_result, !far);
		assert_int_equal(st[i].n_counters, 5);
		assert_int_equal(st[i].counters[4], far ? 8 : 6);
		assert_false(st[i].has_abort); /* its pointer is NULL */
	}
	victim_end(&v);
}

static void fill_abort(uint64_t *addr)
{
	char *comm = calloc(1, near_layout.size);
	uint32_t *flag = calloc(4, sizeof(*flag));
	uint64_t at = (uintptr_t)&flag[2];

	comm_write(comm, &near_layout, 0xab, 0, 2);
	flag[2] = 7;
	put(comm, near_layout.abort_flag, &at, 8);
	addr[0] = (uintptr_t)comm;
	addr[1] = at;
}

/* Without a hint, with the right one, and with one of other memory. */
static void the_abort_flag(void **state)
{
	struct victim v = victim_start(fill_abort);
	struct nccl_place place = { .addr = v.addr[0] };
	struct nccl_state before[] = { { 0 },
				       { .abort_addr = v.addr[1] },
				       { .abort_addr = v.addr[0] },
				       { .abort_addr = 8 } },
			  st;

	(void)state;
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		assert_int_equal(
			nccl_states_read(reader, v.pid, &near_layout, &place, 1, 500, i ? &before[i] : NULL, &st), 0);
		assert_true(st.valid && st.has_abort);
		assert_int_equal(st.abort, 7);
		assert_int_equal(st.abort_addr, v.addr[1]);
	}
	victim_end(&v);
}

/* User data may hold anything, also the magic number, also twice. */
static void fill_lies(uint64_t *addr)
{
	uint64_t *flood = calloc(1, 8u << 20);
	char *at = calloc(16, near_layout.size), *one = at;
	uint64_t zero = 0;
	int fd = memfd_create("shared", MFD_CLOEXEC);

	for (size_t i = 0; i < (8u << 20) / 8 / 64; i++)
		flood[64 * i] = NCCL_MAGIC;
	comm_write(one, &near_layout, 0x11, 5, 5); /* a rank that cannot be */
	one += near_layout.size;
	comm_write(one, &near_layout, 0x12, -1, 5);
	one += near_layout.size;
	comm_write(one, &near_layout, 0, 1, 5); /* no hash */
	one += near_layout.size;
	comm_write(one, &near_layout, 0x13, 1, 5); /* no end */
	put(one, near_layout.end_magic, &zero, 8);
	one += near_layout.size;
	comm_write(one, &near_layout, 0x14, 1, 1 << 30);
	if (ftruncate(fd, 1 << 20))
		_exit(1);
	addr[0] = (uintptr_t)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	comm_write((char *)(uintptr_t)addr[0] + 16, &near_layout, 0x15, 1,
		   5); /* shared memory is nobody's communicator */
	addr[1] = (uintptr_t)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	comm_write((char *)(uintptr_t)addr[1] + 16, &near_layout, 0x16, 1, 5);
	mprotect((void *)(uintptr_t)addr[1], 1 << 20, PROT_READ); /* nor is what cannot be written */
	one = calloc(1, near_layout.size);
	comm_write(one, &near_layout, 0x17, 1, 5);
	addr[2] = (uintptr_t)one;
}

static void believes_no_lie(void **state)
{
	struct victim v = victim_start(fill_lies);
	struct nccl_places found = scan(&v, &near_layout, 1);

	(void)state;
	assert_int_equal(found.n, 1);
	assert_int_equal(found.at[0].addr, v.addr[2]);
	victim_end(&v);
}

/* One object that two layouts fit: nobody knows which of two ranks it is. */
static void fill_twofold(uint64_t *addr)
{
	char *at = calloc(1, near_layout.size);
	int rank = 7, nranks = 9;

	comm_write(at, &near_layout, 0x21, 1, 5);
	put(at, 300, &rank, 4);
	put(at, 304, &nranks, 4);
	addr[0] = (uintptr_t)at;
}

static void doubt_is_no_place(void **state)
{
	struct nccl_layout two[] = { near_layout, near_layout };
	struct victim v = victim_start(fill_twofold);

	(void)state;
	two[1].rank = 300;
	two[1].nranks = 304;
	assert_int_equal(scan(&v, two, 2).n, 0);
	assert_int_equal(scan(&v, two, 1).n, 1);
	victim_end(&v);
}

static void fill_many(uint64_t *addr)
{
	char *at = calloc(NCCL_PLACES_MAX + 50, near_layout.size);

	for (int i = 0; i < NCCL_PLACES_MAX + 50; i++)
		comm_write(at + i * near_layout.size, &near_layout, 0x31, i, 1000);
	addr[0] = (uintptr_t)at;
}

static void too_many_are_reported(void **state)
{
	struct victim v = victim_start(fill_many);
	struct nccl_places found = scan(&v, &near_layout, 1);

	(void)state;
	assert_int_equal(found.n, NCCL_PLACES_MAX);
	assert_true(found.cut);
	victim_end(&v);
}

/* 100 GB of address space with hardly a page in it, and a real one behind. */
static void fill_space(uint64_t *addr)
{
	char *space =
		mmap(NULL, 100ull << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (space != MAP_FAILED)
		comm_write(space + (77ull << 30) + 16, &near_layout, 0x41, 2, 4);
	addr[0] = space == MAP_FAILED ? 0 : (uintptr_t)(space + (77ull << 30) + 16);
}

static uint64_t page_tables_kb(pid_t pid)
{
	char text[8192], *at;

	assert_true(proc_read(text, sizeof(text), "/proc/%u/status", (unsigned)pid) > 0);
	at = strstr(text, "VmPTE:");
	assert_non_null(at);
	return strtoull(at + 6, NULL, 10);
}

static void untouched_memory_stays_so(void **state)
{
	struct victim v = victim_start(fill_space);
	uint64_t before = page_tables_kb(v.pid), begin_ns = clock_monotonic_ns();
	struct nccl_places found;

	(void)state;
	assert_true(v.addr[0]);
	found = scan(&v, &near_layout, 1);
	assert_int_equal(found.n, 1);
	assert_int_equal(found.at[0].addr, v.addr[0]);
	assert_true(clock_monotonic_ns() - begin_ns < 5000000000ull);
	assert_int_equal(page_tables_kb(v.pid), before);
	victim_end(&v);
}

static void *come_and_go(void *arg)
{
	for (;;) {
		char *at =
			mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		if (at != MAP_FAILED)
			munmap(at, 16 << 20);
	}
	return arg;
}

static void fill_vanishing(uint64_t *addr)
{
	pthread_t t;

	fill_two(addr);
	for (int i = 0; i < 2; i++)
		pthread_create(&t, NULL, come_and_go, NULL);
}

static void mappings_that_vanish(void **state)
{
	struct nccl_layout both[] = { near_layout, far_layout };
	struct victim v = victim_start(fill_vanishing);

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_int_equal(scan(&v, both, 2).n, 2);
	victim_end(&v);
}

static void fill_freed(uint64_t *addr)
{
	fill_two(addr);
	memset((char *)(uintptr_t)addr[0] + far_layout.end_magic, 0, 8); /* as NCCL poisons what it frees */
}

static void a_freed_one_is_no_sample(void **state)
{
	struct nccl_layout both[] = { near_layout, far_layout };
	struct victim v = victim_start(fill_freed);
	struct nccl_place places[] = { { .addr = v.addr[0], .layout = 1 },
				       { .addr = v.addr[1], .layout = 0 },
				       { .addr = 4096, .layout = 0 } };
	struct nccl_state st[3];

	(void)state;
	assert_int_equal(nccl_states_read(reader, v.pid, both, places, 3, 500, NULL, st), 0);
	assert_false(st[0].valid);
	assert_true(st[1].valid);
	assert_false(st[2].valid);
	victim_end(&v);
}

static void a_process_that_went(void **state)
{
	struct victim v = victim_start(fill_two);
	struct nccl_places found = { 0 };
	struct nccl_scan_at at = { 0 };

	(void)state;
	victim_end(&v);
	assert_true(nccl_scan(reader, v.pid, &near_layout, 1, 0, &at, &found) < 0);
	assert_int_equal(found.n, 0);
}

static int reader_start(void **state)
{
	(void)state;
	return reader_open(&reader);
}

static int reader_stop(void **state)
{
	(void)state;
	reader_free(reader);
	return 0;
}

static void counters_that_do_not_count(void **state)
{
	struct nccl_state s[2] = { { .valid = true, .n_counters = 5 }, { .valid = true, .n_counters = 5 } };

	(void)state;
	assert_false(nccl_counters_stand(s, 2)); /* nothing was launched yet */
	s[0].launches = 7;
	assert_true(nccl_counters_stand(s, 2));
	s[1].counters[4] = 1; /* one that only sends, beside one that counts */
	assert_false(nccl_counters_stand(s, 2));
}

/* NVIDIA's own, where there is one: what its DWARF says, against what a run on H200s was read with. */
static void the_real_library(void **state)
{
	struct nccl_layout l, known = {
		.magic = 0,
		.hash = 1066184,
		.rank = 1066192,
		.nranks = 1066196,
		.device = 1066200,
		.async_result = 1069044,
		.init_state = 1075672,
		.counters = 1075728,
		.n_counters = 5,
		.end_magic = 1082960,
		.size = 1082968,
	};
	int fd = open("/usr/local/cuda/lib/libnccl.so.2", O_RDONLY | O_CLOEXEC);

	(void)state;
	if (fd < 0) {
		print_message("no NCCL on this machine\n");
		skip();
	}
	assert_int_equal(nccl_layout_fetch(reader, fd, &l), 0);
	close(fd);
	assert_int_equal(l.magic, 0);
	assert_int_equal(l.end_magic, l.size - 8);
	assert_true(l.launches && l.abort_flag != NCCL_NOWHERE);
	print_message("hash %u rank %u size %u device %u counters %u x %u async %u init %u launches %u, struct %u\n",
		      l.hash, l.rank, l.nranks, l.device, l.counters, l.n_counters, l.async_result, l.init_state,
		      l.launches, l.size);
	if (l.size != known.size)
		return;
	known.abort_flag = l.abort_flag;
	known.launches = l.launches;
	assert_memory_equal(&l, &known, sizeof(l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_ADDRESS__ /* its allocator has no heap, and pages of its own in every mapping */
		cmocka_unit_test(finds_each_where_it_lies),
		cmocka_unit_test(small_mappings_first),
		cmocka_unit_test(untouched_memory_stays_so),
#endif
		cmocka_unit_test(reads_what_is_there),
		cmocka_unit_test(the_abort_flag),
		cmocka_unit_test(believes_no_lie),
		cmocka_unit_test(doubt_is_no_place),
		cmocka_unit_test(too_many_are_reported),
		cmocka_unit_test(mappings_that_vanish),
		cmocka_unit_test(a_freed_one_is_no_sample),
		cmocka_unit_test(a_process_that_went),
		cmocka_unit_test(counters_that_do_not_count),
		cmocka_unit_test(the_real_library),
	};

	return cmocka_run_group_tests(tests, reader_start, reader_stop);
}
