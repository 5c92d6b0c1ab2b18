/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_proxy.c - progress of NCCL's proxies read out of another process: layouts learned from the real library
 * and from the stand-in's builds, an operation list as NCCL keeps it, and memory that means harm: circles, wild
 * pointers, counts that cannot be, mappings that go, lists that change under the reader.
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

#include "tracers/nccl/nccl_layout.h"
#include "inspect/reader/reader.h"

enum { SUBS = 4, OPS = 8, MANY = 300 };

/* A made-up build: members in an order of its own. */
struct connection {
	char tcomm[24];
	int transport;
	int send;
};
struct sub {
	uint64_t done, transmitted, flushed, received, posted, base;
	int peer, nsteps, channel, reg;
	struct connection *connection;
};
struct args {
	struct args *next_peer, *next;
	uint64_t op_count;
	uint8_t protocol, coll, algorithm;
	int state, nsubs;
	struct sub subs[SUBS];
};
struct proxy {
	char names[40];
	struct args *active;
	pthread_t thread;
};
struct comm {
	uint64_t magic;
	struct proxy *proxy;
	uint64_t hash;
};

static const struct nccl_proxy_layout layout = {
	.known = 1,
	.proxy_state = offsetof(struct comm, proxy),
	.active = offsetof(struct proxy, active),
	.thread = offsetof(struct proxy, thread),
	.subs = offsetof(struct args, subs),
	.stride = sizeof(struct sub),
	.max_subs = SUBS,
	.nsubs = offsetof(struct args, nsubs),
	.op_count = offsetof(struct args, op_count),
	.state = offsetof(struct args, state),
	.next = offsetof(struct args, next),
	.next_peer = offsetof(struct args, next_peer),
	.coll = offsetof(struct args, coll),
	.algorithm = offsetof(struct args, algorithm),
	.protocol = offsetof(struct args, protocol),
	.connection = offsetof(struct sub, connection),
	.channel = offsetof(struct sub, channel),
	.nsteps = offsetof(struct sub, nsteps),
	.peer = offsetof(struct sub, peer),
	.base = offsetof(struct sub, base),
	.posted = offsetof(struct sub, posted),
	.received = offsetof(struct sub, received),
	.flushed = offsetof(struct sub, flushed),
	.transmitted = offsetof(struct sub, transmitted),
	.done = offsetof(struct sub, done),
	.is_send = offsetof(struct connection, send),
	.transport = offsetof(struct connection, transport),
};

/* All of the target's: shared, so that the test can change it under the reader's eyes. */
struct world {
	struct comm comm;
	struct proxy proxy;
	struct connection connections[2];
	struct args ops[MANY];
	uint32_t tid;
	int ready;
};

static struct reader *reader;
static struct world *world;
static pid_t target;
static struct nccl_proxy_sample look;

static void *progress(void *arg)
{
	struct world *w = arg;

	w->tid = gettid();
	__atomic_store_n(&w->ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
	return NULL;
}

static void op_fill(struct args *a, int send, uint64_t op_count)
{
	*a = (struct args){ .op_count = op_count, .coll = 4, .algorithm = 1, .protocol = 2, .state = 2, .nsubs = 2 };
	for (int i = 0; i < a->nsubs; i++)
		a->subs[i] = (struct sub){
			.connection = &world->connections[send],
			.channel = i,
			.peer = send ? 1 : 3,
			.nsteps = 256,
			.base = 512,
			.posted = 32,
			.received = 30,
			.flushed = 29,
			.transmitted = 24,
			.done = 20,
			.reg = 77,
		};
}

/* Two operations, a receive and a send, and one queued behind the send. */
static int start(void **state)
{
	pthread_t handle;

	(void)state;
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(world != MAP_FAILED);
	memset(world, 0, sizeof(*world));
	world->connections[0] = (struct connection){ .transport = 2, .send = 0 };
	world->connections[1] = (struct connection){ .transport = 2, .send = 1 };
	world->comm = (struct comm){ .magic = NCCL_MAGIC, .proxy = &world->proxy, .hash = 0xabc };
	world->proxy.active = &world->ops[0];
	op_fill(&world->ops[0], 0, 10);
	op_fill(&world->ops[1], 1, 10);
	op_fill(&world->ops[2], 1, 12);
	world->ops[0].next = &world->ops[1];
	world->ops[1].next_peer = &world->ops[2];
	target = fork();
	if (!target) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t i = 0; i < sizeof(*world); i += 4096) /* or its page table has none of them */
			((volatile char *)world)[i];
		pthread_create(&handle, NULL, progress, world);
		world->proxy.thread = handle;
		for (;;)
			pause();
	}
	while (!__atomic_load_n(&world->ready, __ATOMIC_ACQUIRE) || !world->proxy.thread)
		usleep(1000);
	return 0;
}

static int end(void **state)
{
	(void)state;
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	munmap(world, sizeof(*world));
	return 0;
}

static int read_now(void)
{
	return nccl_proxy_read(reader, target, &layout, (uintptr_t)&world->comm, offsetof(struct comm, hash), 0xabc, 0,
			       2000, &look);
}

static void every_part_of_every_operation(void **state)
{
	(void)state;
	assert_int_equal(read_now(), 0);
	assert_int_equal(look.n, 4);
	assert_int_equal(look.moving, 0);
	assert_int_equal(look.thread, world->tid);
	for (uint32_t i = 0; i < look.n; i++) {
		const struct proxy_part *s = &look.parts[i];
		bool send = i >= 2;

		assert_int_equal(proxy_part_sends(s), send);
		assert_int_equal(s->peer, send ? 1 : 3);
		assert_int_equal(s->channel, i % 2);
		assert_int_equal(s->queued, send);
		assert_int_equal(s->op_count, 10);
		assert_int_equal(s->coll, 4);
		assert_int_equal(s->algorithm, 1);
		assert_int_equal(s->protocol, 2);
		assert_int_equal(s->transport, 2);
		assert_int_equal(s->base, 512);
		assert_int_equal(s->nsteps, 256);
		assert_int_equal(s->posted, 32);
		assert_int_equal(s->received, send ? 0 : 30);
		assert_int_equal(s->flushed, send ? 0 : 29);
		assert_int_equal(s->transmitted, 24);
		assert_int_equal(s->done, 20);
	}
}

/* What it has not begun counts from an earlier operation; what is over is not there. */
static void states_of_operations(void **state)
{
	(void)state;
	world->ops[0].state = 1;
	world->ops[1].state = 0;
	assert_int_equal(read_now(), 0);
	assert_int_equal(look.n, 2);
	assert_int_equal(look.parts[0].state, 1);
	assert_int_equal(look.parts[0].posted, 0);
	assert_int_equal(look.parts[0].nsteps, 256);
}

static void nothing_active(void **state)
{
	(void)state;
	world->proxy.active = NULL;
	assert_int_equal(read_now(), 0);
	assert_int_equal(look.n, 0);
	assert_int_equal(look.moving, 0);
}

static void nothing_is_believed(void)
{
	assert_int_equal(read_now(), -ENOENT);
	assert_int_equal(look.n, 0);
}

static void circles(void **state)
{
	(void)state;
	world->ops[1].next = &world->ops[0];
	nothing_is_believed();
	world->ops[1].next = &world->ops[1];
	nothing_is_believed();
	world->ops[1].next = NULL;
	world->ops[2].next_peer = &world->ops[1]; /* only counted, and to an end */
	assert_int_equal(read_now(), 0);
	assert_int_equal(look.parts[2].queued, 64);
}

static void a_list_too_long(void **state)
{
	(void)state;
	for (int i = 0; i < MANY; i++) {
		op_fill(&world->ops[i], 1, 10);
		world->ops[i].next = i + 1 < MANY ? &world->ops[i + 1] : NULL;
	}
	nothing_is_believed();
	world->ops[200].next = NULL;
	assert_int_equal(read_now(), 0);
	assert_int_equal(look.n, NCCL_PROXY_SUBS_MAX);
	assert_true(look.cut);
}

static void wild_pointers(void **state)
{
	static const uintptr_t wild[] = {
		1, 0x1000, 0x7fffffff0000, UINT64_MAX - 7, 0xffff800000000000, 0x0102030405060708
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		world->ops[1].next = (void *)wild[i];
		nothing_is_believed();
		world->ops[1].next = NULL;
		world->ops[0].subs[1].connection = (void *)wild[i];
		nothing_is_believed();
		world->ops[0].subs[1].connection = &world->connections[0];
		world->proxy.active = (void *)wild[i];
		nothing_is_believed();
		world->proxy.active = &world->ops[0];
		world->comm.proxy = (void *)wild[i];
		nothing_is_believed();
		world->comm.proxy = &world->proxy;
		world->ops[1].next_peer = (void *)wild[i]; /* not followed for more than a count */
		assert_int_equal(read_now(), 0);
		world->ops[1].next_peer = NULL;
		world->proxy.thread = wild[i];
		assert_int_equal(read_now(), 0);
		assert_int_equal(look.thread, 0);
	}
	world->comm.proxy = NULL;
	nothing_is_believed();
}

static void counts_that_cannot_be(void **state)
{
	struct sub *s = &world->ops[0].subs[1];
	const struct sub good = *s;

	(void)state;
	world->ops[0].nsubs = SUBS + 1;
	nothing_is_believed();
	world->ops[0].nsubs = 2;
	world->ops[0].state = 3;
	nothing_is_believed();
	world->ops[0].state = 2;
	s->done = s->transmitted + 1;
	nothing_is_believed();
	*s = good;
	s->received = s->posted + 1;
	nothing_is_believed();
	*s = good;
	s->nsteps = -1;
	nothing_is_believed();
	*s = good;
	s->channel = 1 << 20;
	nothing_is_believed();
	*s = good;
	s->peer = -1;
	nothing_is_believed();
	*s = good;
	world->connections[0].send = 2;
	nothing_is_believed();
}

/* Reading a page that the target never touched would make it. */
static void untouched_memory_is_not_read(void **state)
{
	struct args *far = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	world->ops[1].next = far; /* not mapped in the target, which was forked before */
	nothing_is_believed();
	munmap(far, 1 << 20);
}

static void another_communicator_now(void **state)
{
	(void)state;
	world->comm.hash = 0xdef;
	assert_int_equal(read_now(), -ESTALE);
}

static void *churn(void *arg)
{
	int *stop = arg;

	for (uint64_t i = 0; !__atomic_load_n(stop, __ATOMIC_RELAXED); i++) {
		world->ops[0].op_count = world->ops[1].op_count = 10 + 2 * i;
		__atomic_store_n(&world->proxy.active, i & 1 ? &world->ops[0] : &world->ops[1], __ATOMIC_RELEASE);
	}
	return NULL;
}

/* A list that changes all the time: never half of one and half of another. */
static void a_list_that_moves(void **state)
{
	pthread_t t;
	int stop = 0;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, churn, &stop), 0);
	for (int i = 0; i < 200; i++) {
		int err = read_now();

		assert_true(err == 0 || err == -ENOENT);
		assert_true(err || look.moving || look.n == 4 || look.n == 2);
		if (look.moving)
			assert_int_equal(look.n, 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
}

static void a_process_that_is_gone(void **state)
{
	(void)state;
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	assert_int_not_equal(read_now(), 0);
	target = fork();
	if (!target)
		_exit(0);
}

static void no_layout_no_word(void **state)
{
	const struct nccl_proxy_layout none = { 0 };

	(void)state;
	assert_int_equal(nccl_proxy_read(reader, target, &none, (uintptr_t)&world->comm, 0, 0xabc, 0, 500, &look),
			 -ENOENT);
}

/* --- layouts --- */

static bool layout_of(const char *path, struct nccl_proxy_layout *l)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	nccl_proxy_layout_fetch(reader, fd, l);
	close(fd);
	return true;
}

/* 2.28.9: values read off a job on H200s (field notes, section 1). */
static void the_real_library(void **state)
{
	static const char *const paths[] = { "/usr/local/cuda/lib64/libnccl.so.2", "/usr/local/cuda/lib/libnccl.so.2",
					     "/usr/local/cuda-13.0/lib/libnccl.so.2" };
	struct nccl_proxy_layout l;
	bool found = false;

	(void)state;
	for (size_t i = 0; !found && i < sizeof(paths) / sizeof(paths[0]); i++)
		found = layout_of(paths[i], &l);
	if (!found) {
		print_message("skipped: no libnccl.so.2 below /usr/local/cuda\n");
		skip();
	}
	assert_true(l.known);
	print_message("comm.proxyState %u active %u thread %u subs %u x %u stride %u\n", l.proxy_state, l.active,
		      l.thread, l.subs, l.max_subs, l.stride);
	if (l.proxy_state != 1069312) {
		print_message("skipped: another version than 2.28.9, whose places are known\n");
		skip();
	}
	assert_int_equal(l.active, 336 + 1072);
	assert_int_equal(l.stride, 512);
	assert_int_equal(l.nsubs, 32776);
	assert_int_equal(l.op_count, 32792);
	assert_int_equal(l.state, 32856);
	assert_int_equal(l.next, 32976);
	assert_int_equal(l.channel, 72);
	assert_int_equal(l.nsteps, 76);
	assert_int_equal(l.peer, 96);
	assert_int_equal(l.base, 120);
	assert_int_equal(l.posted, 128);
	assert_int_equal(l.done, 160);
}

/* A file without DWARF, one without these structs, and none at all. */
static void nothing_learned_from_others(void **state)
{
	struct nccl_proxy_layout l = { .known = 1 };

	(void)state;
	assert_true(layout_of("/proc/self/exe", &l));
	assert_false(l.known);
	l.known = 1;
	assert_true(layout_of("/bin/true", &l));
	assert_false(l.known);
	l.known = 1;
	assert_true(layout_of("/dev/null", &l));
	assert_false(l.known);
}

#define ON_A_TARGET(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_TARGET(every_part_of_every_operation),
		ON_A_TARGET(states_of_operations),
		ON_A_TARGET(nothing_active),
		ON_A_TARGET(circles),
		ON_A_TARGET(a_list_too_long),
		ON_A_TARGET(wild_pointers),
		ON_A_TARGET(counts_that_cannot_be),
		ON_A_TARGET(untouched_memory_is_not_read),
		ON_A_TARGET(another_communicator_now),
		ON_A_TARGET(a_list_that_moves),
		ON_A_TARGET(a_process_that_is_gone),
		ON_A_TARGET(no_layout_no_word),
		cmocka_unit_test(the_real_library),
		cmocka_unit_test(nothing_learned_from_others),
	};
	int failed, err = reader_open(&reader);

	if (err)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	reader_free(reader);
	return failed;
}
