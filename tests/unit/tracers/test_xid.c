/* SPDX-License-Identifier: Apache-2.0
 *
 * test_xid.c - tracer xid: what is read from a record, and records that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/decode.h"
#include "schemas/collector.h"
#include "tracers/gpu/xid.h"

static struct xid_record record_of(const char *device, const char *message)
{
	struct xid_record r = { .hdr = { .size = sizeof(r), .tracer = WIRE_XID, .kind = XID_REPORTED, .ts_ns = 7 },
				.number = 79 };

	/* May fill it whole: then without a zero byte. */
	memcpy(r.device, device, strnlen(device, sizeof(r.device)));
	memcpy(r.message, message, strnlen(message, sizeof(r.message)));
	return r;
}

static int decode(const struct xid_record *r, struct intern *strings, struct event *e)
{
	struct event all[DECODE_EVENTS_MAX];
	int n = decode_record(&r->hdr, strings, all);

	*e = all[0];
	return n;
}

static void test_record(void **state)
{
	struct intern *strings = intern_new();
	struct xid_record r = record_of("0001:3b:00.0", "pid=4711, name=python, GPU has fallen off the bus.");
	struct event e;

	(void)state;
	assert_int_equal(decode(&r, strings, &e), 1);
	assert_int_equal(e.kind, EV_XID);
	assert_int_equal(e.kernel_log.xid, 79);
	assert_int_equal(e.kernel_log.pid, 4711);
	assert_int_equal(e.kernel_log.pci, GPU_PCI(1, 0x3b, 0));
	assert_false(e.kernel_log.of_switch);
	assert_string_equal(e.kernel_log.text, r.message);
	r = record_of("", "pid='<unknown>', name=<unknown>");
	r.of_switch = 1;
	assert_int_equal(decode(&r, strings, &e), 1);
	assert_int_equal(e.kernel_log.pid, 0);
	assert_int_equal(e.kernel_log.pci, GPU_PCI_NONE);
	assert_true(e.kernel_log.of_switch);
	intern_free(strings);
}

static void test_no_record(void **state)
{
	struct intern *strings = intern_new();
	char big[400];
	struct xid_record r;
	struct event e;

	(void)state;
	memset(big, 'f', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	r = record_of(big, big);
	assert_int_equal(decode(&r, strings, &e), 1);
	assert_int_equal(strlen(e.kernel_log.text), XID_MESSAGE_LEN);
	r.hdr.size = 64;
	assert_int_equal(decode(&r, strings, &e), -EINVAL);
	r = record_of("", "");
	r.hdr.kind = 9;
	assert_int_equal(decode(&r, strings, &e), -EINVAL);
	r.hdr.kind = XID_REPORTED;
	r.number = 0;
	assert_int_equal(decode(&r, strings, &e), -EINVAL);
	intern_free(strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_record), cmocka_unit_test(test_no_record) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
