/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tcp.c - tracer tcp: what is read from a record, and records that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/decode.h"
#include "tracers/tcp/tcp.h"

static struct tcp_record record_of(uint8_t kind, int family, const char *local, const char *remote)
{
	struct tcp_record r = {
		.hdr = { .size = sizeof(r), .tracer = WIRE_TCP, .kind = kind, .tgid = 7, .tid = 7, .ts_ns = 9 },
		.family = family,
		.local_port = 40000,
		.remote_port = 29500,
		.state = 1,
		.n = 3
	};

	inet_pton(family, local, r.local);
	inet_pton(family, remote, r.remote);
	return r;
}

static int decode(const struct tcp_record *r, struct intern *strings, struct event *e)
{
	struct event all[DECODE_EVENTS_MAX];
	int n = decode_record(&r->hdr, strings, all);

	*e = all[0];
	return n;
}

static const struct event_arg *arg(const struct event *e, const char *name)
{
	for (int i = 0; i < e->generic.n_args; i++)
		if (!strcmp(e->generic.args[i].name, name))
			return &e->generic.args[i];
	return NULL;
}

static void test_records(void **state)
{
	static const char *const names[] = { "TCP sent again", "TCP connection broken", "TCP reset received",
					     "TCP reset sent" };
	struct intern *strings = intern_new();
	struct tcp_record r;
	struct event e;

	(void)state;
	for (int kind = TCP_SENT_AGAIN; kind <= TCP_RESET_WENT; kind++) {
		r = record_of(kind, AF_INET, "10.0.0.1", "10.0.0.2");
		assert_int_equal(decode(&r, strings, &e), 1);
		assert_int_equal(e.kind, EV_INSTANT);
		assert_int_equal(e.tgid, 7);
		assert_string_equal(e.generic.name, names[kind - 1]);
		assert_string_equal(e.generic.track, "TCP");
		assert_string_equal(arg(&e, "connection")->text, "10.0.0.1 port 40000 to 10.0.0.2 port 29500");
		assert_string_equal(arg(&e, "state")->text, "established");
		assert_int_equal(arg(&e, "segments") != NULL, kind == TCP_SENT_AGAIN);
		assert_null(arg(&e, "error"));
	}
	r = record_of(TCP_ENDED, AF_INET6, "fd00::1", "::1");
	r.state = 2;
	r.error = ECONNREFUSED;
	assert_int_equal(decode(&r, strings, &e), 1);
	assert_string_equal(e.generic.name, "TCP connect failed");
	assert_string_equal(arg(&e, "connection")->text, "fd00::1 port 40000 to ::1 port 29500");
	assert_string_equal(arg(&e, "error")->text, strerror(ECONNREFUSED));
	r.state = 200;
	r.family = 99;
	assert_int_equal(decode(&r, strings, &e), 1);
	assert_string_equal(arg(&e, "state")->text, "unknown");
	intern_free(strings);
}

static void test_no_records(void **state)
{
	struct intern *strings = intern_new();
	struct tcp_record r = record_of(TCP_SENT_AGAIN, AF_INET, "10.0.0.1", "10.0.0.2");
	struct event e;

	(void)state;
	r.hdr.size = sizeof(r) - 8;
	assert_int_equal(decode(&r, strings, &e), -EINVAL);
	r.hdr.size = sizeof(r);
	r.hdr.kind = 0;
	assert_int_equal(decode(&r, strings, &e), -EINVAL);
	r.hdr.kind = TCP_RESET_WENT + 1;
	assert_int_equal(decode(&r, strings, &e), -EINVAL);
	intern_free(strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_records), cmocka_unit_test(test_no_records) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
