/* SPDX-License-Identifier: Apache-2.0
 *
 * test_pb_write.c - the protobuf writer, byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sink/perfetto/pb_write.h"

static void assert_bytes(struct pb *b, const char *expected, size_t len)
{
	assert_false(b->failed);
	assert_int_equal(b->len, len);
	assert_memory_equal(b->data, expected, len);
	pb_reset(b);
}
#define ASSERT_BYTES(b, s) assert_bytes(b, s, sizeof(s) - 1)

/* The first vectors are those of the protobuf documentation's page on encoding. */
static void test_pb_scalars(void **state)
{
	struct pb b = { 0 };

	(void)state;
	pb_u64(&b, 1, 150);
	ASSERT_BYTES(&b, "\x08\x96\x01");
	pb_text(&b, 2, "testing");
	ASSERT_BYTES(&b, "\x12\x07testing");
	pb_i64(&b, 1, -2);
	ASSERT_BYTES(&b, "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	pb_u64(&b, 16, 0);
	ASSERT_BYTES(&b, "\x80\x01\x00");
	pb_u64(&b, 1, UINT64_MAX);
	ASSERT_BYTES(&b, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	pb_fixed64(&b, 47, 0x0102030405060708u);
	ASSERT_BYTES(&b, "\xf9\x02\x08\x07\x06\x05\x04\x03\x02\x01");
	pb_double(&b, 5, 1.0);
	ASSERT_BYTES(&b, "\x29\x00\x00\x00\x00\x00\x00\xf0\x3f");
	pb_bytes(&b, 3, NULL, 0);
	ASSERT_BYTES(&b, "\x1a\x00");
	pb_free(&b);
}

static void test_pb_nested(void **state)
{
	static const size_t sizes[] = { 0, 1, 125, 126, 127, 128, 16000, 16384, 70000 };
	char *filler = calloc(1, 70001);
	struct pb b = { 0 };
	size_t outer, inner;

	(void)state;
	outer = pb_open(&b, 3);
	pb_u64(&b, 1, 150);
	pb_close(&b, outer);
	ASSERT_BYTES(&b, "\x1a\x03\x08\x96\x01");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) { /* around each length of a length */
		struct pb flat = { 0 }, whole = { 0 };

		memset(filler, 'x', sizes[i]);
		outer = pb_open(&b, 1);
		inner = pb_open(&b, 2);
		pb_bytes(&b, 3, filler, sizes[i]);
		pb_close(&b, inner);
		pb_u64(&b, 4, 7);
		pb_close(&b, outer);
		pb_bytes(&flat, 3, filler, sizes[i]);
		pb_bytes(&whole, 2, flat.data, flat.len);
		pb_u64(&whole, 4, 7);
		pb_reset(&flat);
		pb_bytes(&flat, 1, whole.data, whole.len);
		assert_bytes(&b, (const char *)flat.data, flat.len);
		pb_free(&flat);
		pb_free(&whole);
	}
	pb_free(&b);
	free(filler);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pb_scalars),
		cmocka_unit_test(test_pb_nested),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
