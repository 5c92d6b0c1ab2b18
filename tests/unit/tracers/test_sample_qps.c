/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sample_qps.c - what the kernel's RDMA netlink answers, whole and torn; addresses of ports from a made-up tree;
 * the records as the model gets them.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pipeline/decode.h"
#include "tracers/rdma/qp_list.h"
#include "source.h"
#include "schemas/collector.h"

struct message {
	char bytes[4096];
	size_t n;
};

static void put(struct message *m, const void *data, size_t len)
{
	memcpy(m->bytes + m->n, data, len);
	m->n += NLMSG_ALIGN(len);
}

/* Where it begins: for message_end(). */
static size_t message_begin(struct message *m, int type)
{
	struct nlmsghdr h = { .nlmsg_type = type };
	size_t at = m->n;

	put(m, &h, sizeof(h));
	return at;
}

static void message_end(struct message *m, size_t at)
{
	uint32_t len = m->n - at;

	memcpy(m->bytes + at, &len, sizeof(len));
}

static size_t attr(struct message *m, int type, const void *data, size_t len)
{
	struct nlattr a = { .nla_type = type, .nla_len = sizeof(a) + len };
	size_t at = m->n;

	put(m, &a, sizeof(a));
	if (len)
		put(m, data, len);
	return at;
}

static void number(struct message *m, int type, uint32_t value)
{
	attr(m, type, &value, sizeof(value));
}

static void byte(struct message *m, int type, uint8_t value)
{
	attr(m, type, &value, sizeof(value));
}

static void attr_end(struct message *m, size_t at)
{
	uint16_t len = m->n - at;

	memcpy(m->bytes + at, &len, sizeof(len));
}

/* pid 0: the kernel's own. */
static void qp_put(struct message *m, uint32_t qpn, uint32_t dest, uint32_t pid)
{
	size_t entry = attr(m, RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED, NULL, 0);

	number(m, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	number(m, RDMA_NLDEV_ATTR_RES_LQPN, qpn);
	number(m, RDMA_NLDEV_ATTR_RES_RQPN, dest);
	byte(m, RDMA_NLDEV_ATTR_RES_TYPE, 2);
	byte(m, RDMA_NLDEV_ATTR_RES_STATE, 3);
	if (pid)
		number(m, RDMA_NLDEV_ATTR_RES_PID, pid);
	else
		attr(m, RDMA_NLDEV_ATTR_RES_KERN_NAME, "ib_core", 8);
	attr_end(m, entry);
}

static struct message qps_of_device(uint32_t device)
{
	struct message m = { .n = 0 };
	size_t h = message_begin(&m, 1), table;

	number(&m, RDMA_NLDEV_ATTR_DEV_INDEX, device);
	attr(&m, RDMA_NLDEV_ATTR_DEV_NAME, "rxe0", 5);
	table = attr(&m, RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED, NULL, 0);
	qp_put(&m, 1, 0, 0);
	qp_put(&m, 17, 18, 4711);
	qp_put(&m, 18, 17, 4712);
	attr_end(&m, table);
	message_end(&m, h);
	return m;
}

static void test_answers(void **state)
{
	struct message m = { .n = 0 };
	struct qp_list *l = qp_list_new();
	size_t h = message_begin(&m, 1);

	(void)state;
	number(&m, RDMA_NLDEV_ATTR_DEV_INDEX, 3);
	attr(&m, RDMA_NLDEV_ATTR_DEV_NAME, "rxe0", 5);
	message_end(&m, h);
	assert_int_equal(qp_list_devices_take(l, m.bytes, m.n), 1);
	assert_int_equal(l->n_devices, 1);
	assert_string_equal(l->devices[0].name, "rxe0");
	assert_int_equal(l->devices[0].index, 3);
	m = qps_of_device(3);
	h = message_begin(&m, NLMSG_DONE);
	message_end(&m, h);
	assert_int_equal(qp_list_qps_take(l, m.bytes, m.n), 0);
	assert_int_equal(l->n, 2);
	assert_true(l->rows[0].qpn == 17 && l->rows[0].dest_qpn == 18 && l->rows[0].pid == 4711 &&
		    l->rows[0].device == 3);
	assert_true(l->rows[1].state == 3 && l->rows[1].type == 2 && l->rows[1].port == 1);
	qp_list_free(l);
}

/* Of every length: nothing behind its end is read (the sanitizers would say so), and what is torn is not believed. */
static void test_torn_answers(void **state)
{
	struct message m = qps_of_device(3);

	(void)state;
	for (size_t len = 0; len < m.n; len++) {
		struct qp_list *l = qp_list_new();
		char *torn = malloc(len + 1);

		uint32_t claims = len;

		memcpy(torn, m.bytes, len);
		if (len >= sizeof(struct nlmsghdr))
			memcpy(torn, &claims, sizeof(claims));
		qp_list_qps_take(l, torn, len);
		assert_true(l->n <= 2);
		free(torn);
		qp_list_free(l);
	}
}

static void test_errors(void **state)
{
	struct message m = { .n = 0 };
	struct qp_list *l = qp_list_new();
	size_t h = message_begin(&m, NLMSG_ERROR);
	struct nlmsgerr e = { .error = -EINVAL };

	(void)state;
	put(&m, &e, sizeof(e));
	message_end(&m, h);
	assert_int_equal(qp_list_qps_take(l, m.bytes, m.n), -EINVAL);
	assert_int_equal(qp_list_qps_take(l, "abc", 3), -EBADMSG);
	qp_list_free(l);
}

static void file_put(const char *root, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *at = path + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = 0;
		mkdir(path, 0755);
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_addresses(void **state)
{
	static const uint8_t v4[16] = { [10] = 0xff, 0xff, 10, 9, 0, 1 };
	char root[] = "/tmp/ranktrace-gids-XXXXXX", remove[64];
	struct qp_list *l = qp_list_new();

	(void)state;
	assert_non_null(mkdtemp(root));
	file_put(root, "class/infiniband/rxe0/ports/1/lid", "0x1f\n");
	file_put(root, "class/infiniband/rxe0/ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	file_put(root, "class/infiniband/rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a09:0001\n");
	file_put(root, "class/infiniband/rxe0/ports/1/gids/2", "0000:0000:0000:0000:0000:ffff:0a09:0001\n");
	file_put(root, "class/infiniband/rxe0/ports/1/gids/3", "nonsense\n");
	l->n_devices = 2;
	strcpy(l->devices[0].name, "absent");
	strcpy(l->devices[1].name, "rxe0");
	qp_list_gids(l, root);
	assert_int_equal(l->n_gids, 1);
	assert_true(l->gids[0].device == 1 && l->gids[0].port == 1 && l->gids[0].lid == 0x1f && l->gids[0].n == 1);
	assert_memory_equal(l->gids[0].gids[0], v4, 16);
	qp_list_free(l);
	snprintf(remove, sizeof(remove), "rm -r %s", root);
	assert_int_equal(system(remove), 0);
}

static void test_records(void **state)
{
	struct record_qp f = {
		.hdr = { .size = sizeof(f), .tracer = WIRE_COLLECTOR, .kind = RECORD_QP, .tgid = 4711, .ts_ns = 5 },
		.qpn = 17,
		.dest_qpn = 18,
		.state = 3,
		.type = 2,
		.device = "rxe0"
	};
	struct record_gids g = {
		.hdr = { .size = sizeof(g), .tracer = WIRE_COLLECTOR, .kind = RECORD_GIDS, .ts_ns = 5 },
		.port = 1,
		.n = 2,
		.device = "rxe0",
		.gids = { [1] = { [15] = 9 } }
	};
	struct intern *strings = intern_new();
	struct event e[DECODE_EVENTS_MAX];

	(void)state;
	assert_int_equal(decode_record(&f.hdr, strings, e), 1);
	assert_true(e->kind == EV_QP && e->tgid == 4711 && e->qp.qpn == 17 && e->qp.now.dest_qpn == 18 &&
		    e->qp.now.by_kernel);
	assert_true(e->qp.now.change == QP_FOUND && e->qp.now.state == QP_RTS);
	f.state = RECORD_QP_STATE_GONE;
	assert_int_equal(decode_record(&f.hdr, strings, e), 1);
	assert_true(e->qp.now.change == QP_GONE && e->qp.now.state == QP_STATE_UNKNOWN);
	f.hdr.size -= 8;
	assert_int_equal(decode_record(&f.hdr, strings, e), -EINVAL);
	assert_int_equal(decode_record(&g.hdr, strings, e), 1);
	assert_true(e->kind == EV_GIDS && e->qp.own.n == 2 && e->qp.own.gids[1][15] == 9);
	g.n = RECORD_GIDS_MAX + 1;
	assert_int_equal(decode_record(&g.hdr, strings, e), -EINVAL);
	intern_free(strings);
}

static int take(void *to, const struct wire_hdr *h)
{
	assert_int_equal(h->kind, RECORD_GIDS); /* nobody is traced: of no queue pair */
	++*(int *)to;
	return 0;
}

/* On this machine, with RDMA devices or without: it looks, and says nothing of processes that are not traced. */
static void test_sampler(void **state)
{
	int n = 0;
	struct sampler_ctx ctx = { .emit = take, .emit_to = &n };
	void *s = NULL;

	(void)state;
	assert_int_equal(source_qps.sampler->open(&ctx, &s), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(source_qps.sampler->sample(s, clock_monotonic_ns()), 0);
		usleep(10000);
	}
	source_qps.sampler->close(s);
	source_qps.sampler->close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),   cmocka_unit_test(test_torn_answers), cmocka_unit_test(test_errors),
		cmocka_unit_test(test_addresses), cmocka_unit_test(test_records),      cmocka_unit_test(test_sampler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
