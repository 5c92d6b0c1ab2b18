/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stress_rdma.c - which ports have a link in each shape; what a check of data sees; the table of rates against the
 * links' speeds; meanings of counters; how far memory is; our declaration of libibverbs against rdma-core's header.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/stress/lib/node.h"
#include "tools/stress/lib/verbs_abi.h"
#include "tools/stress/verbs/counters.h"
#include "tools/stress/verbs/pieces.h"
#include "tools/stress/rdma/rates.h"
#include "tools/stress/rdma/shape.h"

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>

#define SAME_SIZE(a, b) _Static_assert(sizeof(struct a) == sizeof(struct b), #a)
#define SAME_PLACE(a, f, b, g) _Static_assert(offsetof(struct a, f) == offsetof(struct b, g), #a "." #f)
#define SAME_NUMBER(a, b) _Static_assert((int)(a) == (int)(b), #a)
SAME_SIZE(verbs_device_attr, ibv_device_attr);
SAME_SIZE(verbs_port_attr, ibv_port_attr);
SAME_SIZE(verbs_mr, ibv_mr);
SAME_SIZE(verbs_qp_init_attr, ibv_qp_init_attr);
SAME_SIZE(verbs_ah_attr, ibv_ah_attr);
SAME_SIZE(verbs_qp_attr, ibv_qp_attr);
SAME_SIZE(verbs_sge, ibv_sge);
SAME_SIZE(verbs_send_wr, ibv_send_wr);
SAME_SIZE(verbs_recv_wr, ibv_recv_wr);
SAME_SIZE(verbs_wc, ibv_wc);
SAME_PLACE(verbs_device_attr, max_qp_init_rd_atom, ibv_device_attr, max_qp_init_rd_atom);
SAME_PLACE(verbs_device_attr, phys_port_cnt, ibv_device_attr, phys_port_cnt);
SAME_PLACE(verbs_port_attr, lid, ibv_port_attr, lid);
SAME_PLACE(verbs_port_attr, link_layer, ibv_port_attr, link_layer);
SAME_PLACE(verbs_device_context, poll_cq, ibv_context, ops.poll_cq);
SAME_PLACE(verbs_device_context, post_send, ibv_context, ops.post_send);
SAME_PLACE(verbs_device_context, post_recv, ibv_context, ops.post_recv);
SAME_PLACE(verbs_mr, rkey, ibv_mr, rkey);
SAME_PLACE(verbs_qp, qp_num, ibv_qp, qp_num);
SAME_PLACE(verbs_qp_attr, ah.port_num, ibv_qp_attr, ah_attr.port_num);
SAME_PLACE(verbs_qp_attr, timeout, ibv_qp_attr, timeout);
SAME_PLACE(verbs_qp_attr, rate_limit, ibv_qp_attr, rate_limit);
SAME_PLACE(verbs_send_wr, imm_data, ibv_send_wr, imm_data);
SAME_PLACE(verbs_send_wr, remote_addr, ibv_send_wr, wr.rdma.remote_addr);
SAME_PLACE(verbs_send_wr, rkey, ibv_send_wr, wr.rdma.rkey);
SAME_PLACE(verbs_wc, wc_flags, ibv_wc, wc_flags);
SAME_NUMBER(VERBS_PORT_ACTIVE, IBV_PORT_ACTIVE);
SAME_NUMBER(VERBS_LINK_INFINIBAND, IBV_LINK_LAYER_INFINIBAND);
SAME_NUMBER(VERBS_LINK_ETHERNET, IBV_LINK_LAYER_ETHERNET);
SAME_NUMBER(VERBS_QP_RC, IBV_QPT_RC);
SAME_NUMBER(VERBS_QPS_RTS, IBV_QPS_RTS);
SAME_NUMBER(VERBS_MTU_4096, IBV_MTU_4096);
SAME_NUMBER(VERBS_REMOTE_READ, IBV_ACCESS_REMOTE_READ);
SAME_NUMBER(VERBS_WR_READ, IBV_WR_RDMA_READ);
SAME_NUMBER(VERBS_WR_SEND_IMM, IBV_WR_SEND_WITH_IMM);
SAME_NUMBER(VERBS_SEND_INLINE, IBV_SEND_INLINE);
SAME_NUMBER(VERBS_WC_RETRY_EXCEEDED, IBV_WC_RETRY_EXC_ERR);
SAME_NUMBER(VERBS_WC_WITH_IMM, IBV_WC_WITH_IMM);
SAME_NUMBER(VERBS_QP_MAX_QP_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC);
SAME_NUMBER(VERBS_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_DEST_RD_ATOMIC);
SAME_NUMBER(VERBS_QP_DEST_QPN, IBV_QP_DEST_QPN);
#endif

/* `hosts` hosts of `each` ports, host by host. */
static int ports_make(struct shape_port *ports, int hosts, int each)
{
	for (int i = 0; i < hosts * each; i++)
		ports[i] = (struct shape_port){ .index = i, .host = i / each, .name = i % each };
	return hosts * each;
}

static uint8_t seen[64][64];

/* All rounds; within a round, does any port send, or hear, more than once? Returns the number of links. */
static int shape_all(enum rdma_shape shape, int hosts, int each, bool *collides)
{
	struct shape_port ports[64];
	struct shape_link links[64];
	int n = ports_make(ports, hosts, each), n_links, total = 0;

	memset(seen, 0, sizeof(seen));
	*collides = false;
	for (int round = 0; (n_links = shape_round(shape, ports, n, round, links)); round++) {
		uint8_t sends[64] = { 0 }, hears[64] = { 0 };

		assert_true(round < 4096);
		for (int i = 0; i < n_links; i++) {
			*collides |= sends[links[i].from]++ || hears[links[i].to]++;
			seen[links[i].from][links[i].to]++;
			total++;
		}
	}
	return total;
}

static void test_shapes(void **state)
{
	static const struct {
		enum rdma_shape shape;
		int hosts, each, links;
	} cases[] = {
		{ SHAPE_LOOPBACK, 1, 3, 3 },   { SHAPE_LOOPBACK, 4, 8, 32 },   { SHAPE_NIC_TO_NIC, 1, 8, 56 },
		{ SHAPE_NIC_TO_NIC, 1, 1, 0 }, { SHAPE_NIC_TO_NIC, 2, 8, 16 }, { SHAPE_NIC_TO_NIC, 5, 2, 40 },
		{ SHAPE_PAIR, 1, 4, 4 },       { SHAPE_PAIR, 1, 5, 4 },        { SHAPE_PAIR, 1, 1, 0 },
		{ SHAPE_PAIR, 4, 2, 8 },       { SHAPE_RING, 1, 4, 4 },        { SHAPE_RING, 3, 2, 6 },
		{ SHAPE_RING, 1, 1, 0 },       { SHAPE_MESH, 1, 6, 30 },       { SHAPE_MESH, 3, 2, 30 },
		{ SHAPE_MESH, 1, 1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool collides;
		int n = shape_all(cases[i].shape, cases[i].hosts, cases[i].each, &collides);

		assert_int_equal(n, cases[i].links);
		assert_false(collides);
		for (int from = 0; from < 64; from++)
			for (int to = 0; to < 64; to++)
				assert_true(seen[from][to] <= 1 &&
					    (!seen[from][to] || (from == to) == (cases[i].shape == SHAPE_LOOPBACK)));
	}
}

/* Over hosts each rail has its pairs for itself. */
static void test_rails(void **state)
{
	bool collides;

	(void)state;
	shape_all(SHAPE_NIC_TO_NIC, 5, 2, &collides);
	for (int from = 0; from < 10; from++)
		for (int to = 0; to < 10; to++)
			assert_int_equal(seen[from][to], from != to && from % 2 == to % 2);
	shape_all(SHAPE_PAIR, 4, 2, &collides);
	for (int from = 0; from < 8; from++)
		for (int to = 0; to < 8; to++)
			assert_true(!seen[from][to] || from % 2 == to % 2);
}

/* A rail with a hole: the host whose port is down has no link there, and no other takes its place. */
static void test_a_port_is_missing(void **state)
{
	struct shape_port ports[] = {
		{ 0, 0, 0, 0, 0 }, { 1, 0, 1, 0, 0 }, { 3, 1, 1, 0, 0 }, { 4, 2, 0, 0, 0 }, { 5, 2, 1, 0, 0 }
	};
	struct shape_link links[8];
	int n = shape_round(SHAPE_NIC_TO_NIC, ports, 5, 0, links);

	(void)state;
	assert_int_equal(n, 4); /* rail 0: 2 to 0 only; rail 1: all three */
	for (int i = 0; i < n; i++)
		assert_true((links[i].from == 4 && links[i].to == 0) || (links[i].from & 1 && links[i].to & 1));
}

/* Two ports of each link layer, one by one: no link joins two layers, and within one the mesh has all. */
static void test_layers(void **state)
{
	struct shape_port ports[] = {
		{ 0, 0, 0, 0, 1 }, { 1, 0, 1, -1, 2 }, { 2, 0, 2, 0, 1 }, { 3, 0, 3, -1, 2 }, { 4, 0, 4, 0, 2 }
	};
	static const int want[N_RDMA_SHAPES] = {
		[SHAPE_LOOPBACK] = 5, [SHAPE_NIC_TO_NIC] = 2, [SHAPE_PAIR] = 4, [SHAPE_RING] = 3, [SHAPE_MESH] = 8
	};
	struct shape_link links[8];

	(void)state;
	for (int shape = 0; shape < N_RDMA_SHAPES; shape++) {
		int total = 0, n;

		for (int round = 0; (n = shape_round(shape, ports, 5, round, links)); round++) {
			total += n > 0 ? n : 0;
			for (int i = 0; i < n; i++)
				assert_int_equal(ports[links[i].from].layer, ports[links[i].to].layer);
		}
		assert_int_equal(total, want[shape]);
	}
}

static uint8_t area[1 << 20], source[1 << 20];

static void transfer(const struct pieces *p, uint64_t seed)
{
	pattern_fill(source, sizeof(source), seed);
	pattern_poison(area, sizeof(area), seed);
	for (int i = 0; i < p->n; i++)
		memcpy(area + p->piece[i].at, source + p->piece[i].at, p->piece[i].bytes);
}

static void test_pieces(void **state)
{
	uint64_t at = 0, want = 0, got = 0;
	struct pieces p, again;

	(void)state;
	pieces_make(&p, 7, sizeof(area), 4096);
	pieces_make(&again, 7, sizeof(area), 4096);
	assert_true(p.n > 20 && !memcmp(&p, &again, sizeof(p.n) + p.n * sizeof(p.piece[0])));
	for (int i = 1; i < p.n; i++)
		assert_true(p.piece[i].at >= p.piece[i - 1].at + p.piece[i - 1].bytes);
	transfer(&p, 7);
	assert_int_equal(pieces_check(&p, area, sizeof(area), 7, &at, &want, &got), 0);
	area[p.piece[9].at + 3] ^= 0x10;
	assert_int_equal(pieces_check(&p, area, sizeof(area), 7, &at, &want, &got), 1);
	assert_int_equal(at, p.piece[9].at + 3);
	assert_int_equal(want ^ got, 0x10);
}

/* A message that went to another place, one that did not arrive, and one byte behind the end of one. */
static void test_wrong_places(void **state)
{
	uint64_t at, want, got;
	struct pieces p;

	(void)state;
	pieces_make(&p, 3, sizeof(area), 1024);
	transfer(&p, 3);
	memcpy(area + p.piece[10].at, source + p.piece[11].at, 8);
	assert_true(pieces_check(&p, area, sizeof(area), 3, &at, &want, &got) > 0);
	transfer(&p, 3);
	for (uint32_t i = 0; i < p.piece[4].bytes; i++)
		area[p.piece[4].at + i] = ~source[p.piece[4].at + i];
	assert_int_equal(pieces_check(&p, area, sizeof(area), 3, &at, &want, &got), p.piece[4].bytes);
	pieces_one(&p, 4096);
	transfer(&p, 3);
	area[4096] = source[4096];
	assert_int_equal(pieces_check(&p, area, sizeof(area), 3, &at, &want, &got), 1);
	assert_int_equal(at, 4096);
}

static void test_rows_near_the_speed(void **state)
{
	(void)state;
	assert_true(n_rate_rows >= 2);
	for (int i = 0; i < n_rate_rows; i++) {
		assert_true(rate_rows[i].least <= rate_rows[i].gbits && rate_rows[i].least >= rate_rows[i].gbits / 2);
		assert_true(strlen(rate_rows[i].source) > 8 && strlen(rate_rows[i].date) == 7);
		assert_ptr_equal(rate_row_find(rate_rows[i].gbits), &rate_rows[i]);
	}
	assert_null(rate_row_find(0));
}

static void test_counters(void **state)
{
	uint64_t before[PORT_COUNTERS], now[PORT_COUNTERS], rose[PORT_COUNTERS];
	char text[200];

	(void)state;
	for (int i = 0; i < PORT_COUNTERS; i++)
		before[i] = now[i] = i % 2 ? PORT_NOT_COUNTED : 100;
	now[PORT_OUT_OF_SEQUENCE] = 107;
	before[PORT_OUT_OF_SEQUENCE] = 100;
	now[PORT_SENT_PACKETS] = 5000;
	before[PORT_SENT_PACKETS] = 0;
	before[PORT_LINK_DOWNED] = 3;
	now[PORT_LINK_DOWNED] = 1; /* somebody reset it */
	counters_since(before, now, rose);
	assert_int_equal(counters_sum(rose, COUNTER_LOSS), 7);
	assert_int_equal(counters_sum(rose, COUNTER_HARD), 0);
	assert_string_equal(counters_text(rose, COUNTER_LOSS, text, sizeof(text)), "out_of_sequence 7");
	assert_int_equal(counter_meaning(PORT_LINK_DOWNED), COUNTER_HARD);
	assert_int_equal(counter_meaning(PORT_CNP_SENT), COUNTER_NOTE);
	assert_int_equal(counter_meaning(PORT_SENT_BYTES), COUNTER_TRAFFIC);
}

static void test_device_lists(void **state)
{
	char many[2048];

	(void)state;
	assert_true(devices_have(NULL, "mlx5_0", 1));
	assert_true(devices_have("mlx5_0,mlx5_1:2", "mlx5_0", 1));
	assert_true(devices_have("mlx5_0,mlx5_1:2", "mlx5_1", 2));
	assert_false(devices_have("mlx5_0,mlx5_1:2", "mlx5_1", 1));
	assert_false(devices_have("mlx5_1", "mlx5_10", 1));
	assert_false(devices_have("^mlx5_0", "mlx5_0", 1));
	assert_true(devices_have("^mlx5_0", "mlx5_1", 1));
	for (int i = 0, at = 0; i < 64; i++)
		at += snprintf(many + at, sizeof(many) - at, "%srocep%ds0f0np0:1", i ? "," : "", i);
	assert_true(devices_have(many, "rocep63s0f0np0", 1));
	assert_false(devices_have(many, "rocep64s0f0np0", 1));
}

/* A /sys of two sockets, two memory nodes each, an adapter on the third. */
static void sysfs_make(char dir[64], const char *const *links, int n)
{
	static const char *const distances[] = { "10 12 32 32", "12 10 32 32", "32 32 10 12", "32 32 12 10" };
	char command[512];

	strcpy(dir, "/tmp/ranktrace-apart-XXXXXX");
	assert_non_null(mkdtemp(dir));
	setenv("RANKTRACE_SYSFS", dir, 1);
	for (int i = 0; i < 4; i++) {
		snprintf(command, sizeof(command),
			 "mkdir -p %1$s/devices/system/node/node%2$d && echo %3$s > "
			 "%1$s/devices/system/node/node%2$d/distance",
			 dir, i, distances[i]);
		assert_int_equal(system(command), 0);
	}
	for (int i = 0; i < n; i++) {
		snprintf(command, sizeof(command),
			 "mkdir -p %1$s/$(dirname %3$s) %1$s/devices/%2$s && "
			 "ln -s %1$s/devices/%2$s %1$s/%3$s",
			 dir, links[2 * i], links[2 * i + 1]);
		assert_int_equal(system(command), 0);
	}
}

static void test_apart(void **state)
{
	static const char *const links[] = {
		"pci0000:a0/0000:a0:01.0/0000:a1:00.0/0000:a2:00.0/0000:a3:00.0",
		"class/infiniband/mlx5_0/device",
		"pci0000:a0/0000:a0:01.0/0000:a1:00.0/0000:a2:01.0/0000:ab:00.0",
		"bus/pci/devices/0000:ab:00.0",
		"pci0000:a0/0000:a0:02.0/0000:c1:00.0",
		"bus/pci/devices/0000:c1:00.0",
		"pci0001:00/0001:00:00.0",
		"bus/pci/devices/0001:00:00.0",
		"pci0000:a0/0000:a0:01.1/0000:d1:00.0",
		"bus/pci/devices/0000:d1:00.0",
	};
	static struct stress_run gpus = { .n_gpus = 5,
					  .gpus = { { .ordinal = 0, .pci = "0000:AB:00.0" },
						    { .ordinal = 1, .pci = "0000:C1:00.0" },
						    { .ordinal = 2, .pci = "00000001:00:00.0" },
						    { .ordinal = 3, .pci = "0000:EE:00.0" },
						    { .ordinal = 4, .pci = "0000:D1:00.0" } } };
	static const int want[] = {
		32, 32, 10, 12, APART_GPU_NEAR, APART_GPU_FAR, APART_GPU_FAR, APART_GPU_FAR, APART_GPU_FAR
	};
	static struct rdma_host host = { .n_ports = 1, .n_places = 9, .gpus = &gpus };
	char dir[64], command[128];

	(void)state;
	sysfs_make(dir, links, sizeof(links) / sizeof(links[0]) / 2);
	host.ports[0] = (struct rdma_port){ .device = "mlx5_0", .node = 2 };
	for (int i = 0; i < host.n_places; i++)
		host.places[i] = (struct rdma_place){ .gpu = i < 4 ? -1 : i - 4, .number = i < 4 ? i : -1 };
	places_measure(&host);
	for (int i = 0; i < host.n_places; i++)
		assert_int_equal(host.ports[0].apart[i], want[i]);
	host.ports[0].node = -1; /* a guest that does not say: no node is like another */
	places_measure(&host);
	assert_int_equal(host.ports[0].apart[2], NODE_UNKNOWN);
	host.n_places = 1; /* there is only one */
	places_measure(&host);
	assert_int_equal(host.ports[0].apart[0], NODE_OWN);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_rails),
		cmocka_unit_test(test_a_port_is_missing),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_wrong_places),
		cmocka_unit_test(test_rows_near_the_speed),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_device_lists),
		cmocka_unit_test(test_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
