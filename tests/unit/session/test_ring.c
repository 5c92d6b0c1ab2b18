// SPDX-License-Identifier: Apache-2.0
/* test_ring.c - the rings: a node's CPUs find their own ring, every other node the first; a ring that fills wakes the
 * collector before it overflows, and once. The kernel side is the real one (process life); needs root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <cmocka.h>

#include "attach/loader.h"
#include "inspect/discover/discover.h"
#include "attach/ring.h"
#include "tracers/process/life.h"

#define BURST_THREADS 4000
#define QUARTER 103 /* records: 4 KiB, with 8 bytes of the ring's own for each */
#define TAKEN_MOST_MS 20000

static void test_node_lists(void **state)
{
	(void)state;
	assert_true(ring_nodes_parse("0\n") == 1);
	assert_true(ring_nodes_parse("0-1\n") == 3);
	assert_true(ring_nodes_parse("0,2-3\n") == 0xd);
	assert_true(ring_nodes_parse("1-1") == 2);
	assert_true(ring_nodes_parse("62-70") == 3ull << 62);
	assert_true(ring_nodes_parse("") == 0 && ring_nodes_parse("none") == 0);
	assert_true(ring_nodes_read() != 0);
}

static int take_nothing(void *to, const struct wire_hdr *rec)
{
	(void)to;
	(void)rec;
	return 0;
}

static uint32_t map_id_at(int rings_fd, uint32_t slot)
{
	uint32_t id = 0;

	assert_int_equal(bpf_map_lookup_elem(rings_fd, &slot, &id), 0);
	return id;
}

/* Two nodes, of which this machine may have one: the second ring is then made on the first node. */
static void test_every_node_has_a_ring(void **state)
{
	struct ring_cfg cfg = { .bytes = { 65536, 131072, 65536 }, .nodes = 3, .emit = take_nothing };
	LIBBPF_OPTS(bpf_map_create_opts, outer), mappable = { .sz = sizeof(mappable), .map_flags = BPF_F_MMAPABLE };
	struct ring_source *r = NULL;
	int rings, states;

	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(ring_open(&cfg, &r), 0);
	outer.inner_map_fd = ring_template_fd(r);
	rings = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "rings", 4, 4, RING_SLOTS, &outer);
	states = bpf_map_create(BPF_MAP_TYPE_ARRAY, "states", 4, sizeof(struct ring_state), RING_SLOTS, &mappable);
	assert_true(rings >= 0 && states >= 0);
	assert_int_equal(ring_publish(r, rings, states), 0);
	for (int class = 0; class < RING_CLASSES; class ++) {
		uint32_t first = map_id_at(rings, class * RING_NODES_MAX),
			 second = map_id_at(rings, class * RING_NODES_MAX + 1);
		struct ring_state s;

		assert_true(first && second && first != second);
		for (uint32_t node = 2; node < RING_NODES_MAX; node++)
			assert_int_equal(map_id_at(rings, class * RING_NODES_MAX + node), first);
		assert_int_equal(bpf_map_lookup_elem(states, &(uint32_t){ class * RING_NODES_MAX + 1 }, &s), 0);
		assert_true(s.wake_bytes == cfg.bytes[class] / 4 && !s.woken);
	}
	assert_true(ring_bytes_mapped(r) >= 2 * 2 * (65536 + 131072 + 65536));
	assert_int_equal(ring_consume(r), 0);
	ring_free(r);
	close(rings);
	close(states);
}

struct burst {
	bool woken; /* it waits for who is woken to take it, so that a busy machine loses none */
	atomic_bool done;
	atomic_ulong taken;
	uint64_t lost, wakes;
};

static int burst_take(void *to, const struct wire_hdr *rec)
{
	struct burst *b = to;

	b->taken += rec->tracer == WIRE_LIFE;
	return 0;
}

static void *thread_ends(void *arg)
{
	return arg;
}

/* What wakes nobody yet may be left: a quarter of the ring. */
static bool is_taken(const struct burst *b, unsigned long made)
{
	for (int ms = 0; ms < TAKEN_MOST_MS && b->taken + QUARTER < made; ms++)
		usleep(1000);
	return b->taken + QUARTER >= made;
}

/* Each thread is two records: its fork and its exit. */
static void *burst_run(void *arg)
{
	struct burst *b = arg;
	bool goes_on = true;
	pthread_t t;

	for (unsigned long i = 0; i < BURST_THREADS; i++) {
		if (!pthread_create(&t, NULL, thread_ends, NULL))
			pthread_join(t, NULL);
		if (b->woken && goes_on && i % (QUARTER / 2) == 0)
			goes_on = is_taken(b, 2 * i);
	}
	b->done = true;
	return NULL;
}

/* A burst into a ring that holds a fraction of it, taken when the ring wakes, or at the end alone. Returns with what
 * was taken and lost. */
static struct burst burst_measure(bool woken)
{
	struct burst b = { .woken = woken };
	struct loader_cfg cfg = { .ring_bytes = { 16384, 65536, 65536 }, .emit = burst_take, .emit_to = &b };
	struct loader *l = NULL;
	struct pollfd fd;
	pthread_t t;

	assert_int_equal(loader_open(&cfg, &l), 0);
	fd = (struct pollfd){ .fd = loader_wake_fd(l), .events = POLLIN };
	assert_int_equal(loader_target_add(l, getpid(), UID_UNKNOWN), 0);
	assert_int_equal(loader_attach_life(l), 0);
	assert_int_equal(pthread_create(&t, NULL, burst_run, &b), 0);
	while (!b.done) {
		/* a wake-up that meets one that is being taken is none: the loop has a timer besides, here a slow one
		 */
		b.wakes += poll(&fd, woken, woken ? 1000 : 20) > 0;
		assert_true(!woken || loader_consume(l) >= 0);
	}
	pthread_join(t, NULL);
	assert_true(loader_consume(l) >= 0);
	assert_int_equal(loader_tick(l, 1), 0);
	b.lost = loader_lost(l, RING_CRITICAL);
	loader_free(l);
	return b;
}

static void test_a_filling_ring_wakes(void **state)
{
	struct burst end, wake;

	(void)state;
	if (geteuid())
		skip();
	end = burst_measure(false);
	wake = burst_measure(true);
	printf("%d records into 16 KiB: at the end %lu lost; woken %lu times, %lu lost\n", 2 * BURST_THREADS + 1,
	       end.lost, wake.wakes, wake.lost);
	assert_true(end.lost > BURST_THREADS / 10); /* else the burst proves nothing */
	assert_int_equal(wake.lost, 0);
	/* the burst's own thread is one fork more, and its exit may be seen or not */
	assert_in_range(end.taken + end.lost, 2 * BURST_THREADS + 1, 2 * BURST_THREADS + 2);
	assert_in_range(wake.taken + wake.lost, 2 * BURST_THREADS + 1, 2 * BURST_THREADS + 2);
	/* about once for each quarter of the ring: 32-byte records with 8 bytes of the ring's own */
	assert_true(wake.wakes >= 8 && wake.wakes <= 2 * ((2 * BURST_THREADS + 2) * 40 / 4096 + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_node_lists),
		cmocka_unit_test(test_every_node_has_a_ring),
		cmocka_unit_test(test_a_filling_ring_wakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
