/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stress_nccl.c - what each rank has to get in each collective, against a plain model; sums that are exact in
 * every type for any number of ranks; nccl-tests' factors; launchers' variables; the table of bandwidths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fnmatch.h>

#include <cmocka.h>

#include "tools/stress/nccl/busbw.h"
#include "tools/stress/nccl/collective.h"
#include "tools/stress/launch/launcher.h"

#define RANKS_MAX 5
#define ELEMENTS_MAX 512

/* An element of an operand is told by its rank and index; sums of all ranks' have rank -1. */
struct tag {
	int rank, index;
};

/* What rank `me` has at place i, in plain words of NCCL's documentation. */
static struct tag model(int collective, int n, int me, int root, int count, int i)
{
	switch (collective) {
	case COLLECTIVE_all_reduce:
	case COLLECTIVE_reduce: return (struct tag){ -1, i };
	case COLLECTIVE_all_gather: return (struct tag){ i / count, i % count };
	case COLLECTIVE_reduce_scatter: return (struct tag){ -1, me * count + i };
	case COLLECTIVE_broadcast: return (struct tag){ root, i };
	case COLLECTIVE_alltoall: return (struct tag){ i / count, me * count + i % count };
	default: return (struct tag){ me ? me - 1 : n - 1, i };
	}
}

static void rank_check(const struct nccl_case *c, int n, int me)
{
	struct layout l;

	collective_layout(c, n, me, &l);
	for (uint64_t i = 0; i < l.recv && l.checks; i++) {
		struct tag want = model(c->collective, n, me, c->root, l.count, i);

		assert_int_equal(l.ranks_summed, want.rank < 0 ? n : 1);
		assert_int_equal(l.first_rank + i / l.segment, want.rank < 0 ? 0 : want.rank);
		assert_int_equal(l.base + i % l.segment, want.index);
	}
	assert_int_equal(l.checks, c->collective != COLLECTIVE_reduce || me == (int)c->root);
	assert_int_equal(l.fills, c->collective != COLLECTIVE_broadcast || me == (int)c->root);
	assert_true(l.send_at + (collectives[c->collective].can_be_in_place ? l.send : 0) <=
		    (l.send > l.recv ? l.send : l.recv));
	assert_int_equal(l.count * nccl_types[c->type].bytes % 16, 0);
}

static void test_layouts(void **state)
{
	(void)state;
	for (uint32_t collective = 0; collective < N_COLLECTIVES; collective++)
		for (int n = 2; n <= RANKS_MAX; n++)
			for (int me = 0; me < n; me++)
				for (uint32_t type = 0; type < N_TYPES; type++)
					rank_check(&(struct nccl_case){ .collective = collective,
									.type = type,
									.bytes = 960,
									.root = n - 1 },
						   n, me);
}

/* As nccl-tests counts: the size is what lies in the larger buffer, and the factors of its doc/PERFORMANCE.md. */
static void test_bandwidths(void **state)
{
	struct layout l;

	(void)state;
	assert_float_equal(collective_bus_factor(COLLECTIVE_all_reduce, 8), 1.75, 1e-9);
	assert_float_equal(collective_bus_factor(COLLECTIVE_all_gather, 8), 0.875, 1e-9);
	assert_float_equal(collective_bus_factor(COLLECTIVE_reduce_scatter, 4), 0.75, 1e-9);
	assert_float_equal(collective_bus_factor(COLLECTIVE_alltoall, 2), 0.5, 1e-9);
	assert_float_equal(collective_bus_factor(COLLECTIVE_broadcast, 8), 1, 1e-9);
	assert_float_equal(collective_bus_factor(COLLECTIVE_reduce, 8), 1, 1e-9);
	assert_float_equal(collective_bus_factor(COLLECTIVE_sendrecv, 8), 1, 1e-9);
	collective_layout(&(struct nccl_case){ .collective = COLLECTIVE_all_gather, .bytes = 1 << 20 }, 8, 0, &l);
	assert_int_equal(l.count, (1 << 20) / 4 / 8);
	assert_int_equal(l.bytes, 1 << 20);
	collective_layout(&(struct nccl_case){ .collective = COLLECTIVE_all_reduce, .bytes = 1 << 20 }, 8, 0, &l);
	assert_int_equal(l.count, (1 << 20) / 4);
	collective_layout(&(struct nccl_case){ .collective = COLLECTIVE_alltoall, .bytes = 8 }, 8, 0, &l);
	assert_int_equal(l.bytes, 128); /* 16 for each */
}

/* The largest sum that ranks can come to, in any order, is one that the type has. */
static void test_sums_are_exact(void **state)
{
	static const int exact[N_TYPES] = {
		[TYPE_fp32] = 1 << 24,   [TYPE_bf16] = 1 << 8,    [TYPE_fp16] = 1 << 11,  [TYPE_fp64] = 1 << 30,
		[TYPE_fp8e4m3] = 1 << 4, [TYPE_fp8e5m2] = 1 << 3, [TYPE_int8] = 127,      [TYPE_uint8] = 255,
		[TYPE_int32] = 1 << 30,  [TYPE_uint32] = 1 << 30, [TYPE_int64] = 1 << 30, [TYPE_uint64] = 1 << 30
	};
	struct pattern p;

	(void)state;
	for (uint32_t type = 0; type < N_TYPES; type++)
		for (int n = 2; n <= 4096; n++) {
			collective_pattern(&(struct nccl_case){ .collective = COLLECTIVE_all_reduce, .type = type }, n,
					   &p);
			assert_true(p.most >= 1 && p.every >= 1);
			assert_true((uint64_t)p.most * ((n + p.every - 1) / p.every) <= (uint64_t)exact[type]);
		}
	collective_pattern(&(struct nccl_case){ .collective = COLLECTIVE_alltoall }, 8, &p);
	assert_int_equal(p.most, 0); /* all bits, as nothing is computed */
}

static void test_bytes(void **state)
{
	struct nccl_options o = { 0 };
	static const char *const wrong[] = { "", "x", "0", "1M-", "1M-1K", "1M:1", "1M-2M:", "1T", "-1", "1M-2M:2x" };

	(void)state;
	assert_int_equal(bytes_parse("8-128M:2", &o), 0);
	assert_true(o.bytes_min == 8 && o.bytes_max == 128 << 20 && o.factor == 2);
	assert_int_equal(bytes_parse("4G", &o), 0);
	assert_true(o.bytes_min == 4ull << 30 && o.bytes_max == 4ull << 30);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(bytes_parse(wrong[i], &o), -EINVAL);
}

static void test_hosts(void **state)
{
	static const char *const wrong[] = { "", ":5", "a:", "a:0", "a:70000", "a:5x" };
	char host[128];
	int port = 7;

	(void)state;
	assert_int_equal(launcher_host_parse("node1", host, &port), 0);
	assert_true(!strcmp(host, "node1") && port == 7);
	assert_int_equal(launcher_host_parse("10.0.0.1:80", host, &port), 0);
	assert_true(!strcmp(host, "10.0.0.1") && port == 80);
	assert_int_equal(launcher_host_parse("[fe80::1]:81", host, &port), 0);
	assert_true(!strcmp(host, "fe80::1") && port == 81);
	assert_int_equal(launcher_host_parse("fe80::2", host, &port), 0);
	assert_true(!strcmp(host, "fe80::2") && port == 81);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(launcher_host_parse(wrong[i], host, &port), -EINVAL);
}

static void environment(const char *const *pairs)
{
	static const char *const all[] = { "RANK",
					   "WORLD_SIZE",
					   "LOCAL_RANK",
					   "LOCAL_WORLD_SIZE",
					   "MASTER_ADDR",
					   "MASTER_PORT",
					   "TORCHELASTIC_USE_AGENT_STORE",
					   "OMPI_COMM_WORLD_RANK",
					   "OMPI_COMM_WORLD_SIZE",
					   "OMPI_COMM_WORLD_LOCAL_RANK",
					   "OMPI_COMM_WORLD_LOCAL_SIZE",
					   "SLURM_PROCID",
					   "SLURM_STEP_NUM_TASKS",
					   "SLURM_LOCALID",
					   "SLURM_STEP_NODELIST",
					   "SLURM_JOB_ID",
					   "PMI_RANK",
					   "SLURM_STEP_TASKS_PER_NODE" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		unsetenv(all[i]);
	for (; *pairs; pairs += 2)
		setenv(pairs[0], pairs[1], 1);
}

static void test_launchers(void **state)
{
	struct launcher_place p;
	char why[LIBRARY_WHY];

	(void)state;
	environment((const char *const[]){ NULL });
	assert_int_equal(launcher_find(NULL, &p, why), -ENOENT);
	environment((const char *const[]){ "RANK", "0", "WORLD_SIZE", "1", "LOCAL_RANK", "0", NULL });
	assert_int_equal(launcher_find(NULL, &p, why), -ENOENT);
	environment((const char *const[]){ "RANK", "9", "WORLD_SIZE", "16", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "8",
					   "MASTER_ADDR", "node0", "MASTER_PORT", "29500",
					   "TORCHELASTIC_USE_AGENT_STORE", "True", NULL });
	assert_int_equal(launcher_find(NULL, &p, why), 0);
	assert_true(p.rank == 9 && p.size == 16 && p.local == 1 && p.port == 29501 && !strcmp(p.host, "node0"));
	assert_int_equal(launcher_find("other:5", &p, why), 0);
	assert_true(p.port == 5 && !strcmp(p.host, "other"));
	environment((const char *const[]){ "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2",
					   "OMPI_COMM_WORLD_LOCAL_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "2",
					   NULL });
	assert_int_equal(launcher_find(NULL, &p, why), 0);
	assert_string_equal(p.host, "127.0.0.1");
	environment((const char *const[]){ "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "16",
					   "OMPI_COMM_WORLD_LOCAL_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "8",
					   NULL });
	assert_int_equal(launcher_find(NULL, &p, why), -EINVAL);
	assert_non_null(strstr(why, "--host"));
	environment((const char *const[]){ "SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "16", "SLURM_LOCALID", "3",
					   "SLURM_STEP_NODELIST", "gpu[007-012,20],x", "SLURM_JOB_ID", "41234", NULL });
	assert_int_equal(launcher_find(NULL, &p, why), 0);
	assert_true(!strcmp(p.host, "gpu007") && p.port == 20000 + 41234 % 20000 && p.rank == 3);
	environment((const char *const[]){ "RANK", "4", "WORLD_SIZE", "4", "LOCAL_RANK", "0", NULL });
	assert_int_equal(launcher_find(NULL, &p, why), -EINVAL);
	environment((const char *const[]){ "RANK", "1", "WORLD_SIZE", "4", "MASTER_ADDR", "a", NULL });
	assert_int_equal(launcher_find(NULL, &p, why), -EINVAL);
	assert_non_null(strstr(why, "LOCAL_RANK"));
}

/* NVLink one way, of NVIDIA's data sheets. */
static void test_rows_near_the_limit(void **state)
{
	static const struct {
		const char *device;
		double gbytes_s;
	} links[] = { { "*H200", 450 }, { "*H100 80GB HBM3*", 450 }, { "*A100-SXM4-80GB*", 300 } };

	(void)state;
	for (int i = 0; i < n_busbws; i++) {
		double peak = 0;

		for (size_t j = 0; j < sizeof(links) / sizeof(links[0]); j++)
			if (!strcmp(links[j].device, busbws[i].device))
				peak = links[j].gbytes_s;
		assert_true(busbws[i].least <= peak && busbws[i].least >= peak / 2);
		assert_true(strlen(busbws[i].source) > 8 && strlen(busbws[i].date) == 7);
	}
	assert_non_null(busbw_find("NVIDIA H200", COLLECTIVE_all_reduce, 8, 1, true, 1ull << 30));
	assert_true(busbw_find("NVIDIA H200", COLLECTIVE_all_reduce, 8, 1, true, 1ull << 30)->least >
		    busbw_find("NVIDIA H200", COLLECTIVE_all_reduce, 8, 1, false, 1ull << 30)->least);
	assert_null(busbw_find("NVIDIA H200", COLLECTIVE_all_reduce, 8, 2, true, 1ull << 30));
	assert_null(
		busbw_find("NVIDIA H200 NVL", COLLECTIVE_all_reduce, 8, 1, false, 1ull << 30)); /* bridges of four */
	assert_null(busbw_find("NVIDIA A100-SXM4-80GB MIG 3g.40gb", COLLECTIVE_all_reduce, 8, 1, false, 1ull << 30));
	assert_null(busbw_find("NVIDIA H200", COLLECTIVE_all_reduce, 4, 1, true, 1ull << 30));
	assert_null(busbw_find("NVIDIA H200", COLLECTIVE_all_reduce, 8, 1, true, 1ull << 20));
}

/* Buffers twice as large as the cache, or as large as one operation, and all of it is walked over. */
static void operations_walk_over_their_buffers(void **state)
{
	uint64_t mib = 1 << 20, room = collective_room(mib, 50 * mib, 80000 * mib);
	unsigned visited = 0;

	(void)state;
	assert_int_equal(room, 100 * mib);
	for (uint32_t i = 0; i < 200; i++) {
		uint64_t at = collective_place(room, mib, i);

		assert_int_equal(at % mib, 0);
		assert_true(at + mib <= room);
		visited += i < 100 && at == i * mib;
	}
	assert_int_equal(visited, 100);
	assert_int_equal(collective_place(room, 100, 3), 3 * 256); /* not across an alignment */
	assert_int_equal(collective_room(300 * mib, 50 * mib, 80000 * mib), 300 * mib);
	assert_int_equal(collective_place(300 * mib, 300 * mib, 7), 0);
	assert_int_equal(collective_room(mib, 50 * mib, 399 * mib), mib); /* a GPU that is full */
	assert_int_equal(collective_room(1000, 0, 80000 * mib), 1024);    /* a driver that does not tell */
	assert_int_equal(collective_place(1024, 1000, 5), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_bandwidths),
		cmocka_unit_test(test_sums_are_exact),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_launchers),
		cmocka_unit_test(test_rows_near_the_limit),
		cmocka_unit_test(operations_walk_over_their_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
