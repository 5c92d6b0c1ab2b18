/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sink_storage.c - how long ranks were blocked on file systems, as JSON lines at the end.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/storage/storage.h"
#include "sink/sink.h"

static void lines(void **state)
{
	static char path[] = "/tmp/ranktrace-storage-XXXXXX";
	struct storage flush = { .sum = { .at = STORAGE_AT(52, STORAGE_FLUSH),
					  .blocked_ns = 3200000000,
					  .calls = 2,
					  .longest_ns = 3199000000,
					  .by_length = { [1] = 1, [7] = 1 } },
				 .mount = "/ck\"pt (nfs4 filer:/ckpt, 0:52)",
				 .file = "step-100.pt" },
		       names = { .sum = { .at = STORAGE_AT(0, STORAGE_NAMES) }, .mount = "", .file = "" };
	struct proc child = { .tgid = 8, .rank = 3, .storage = &flush },
		    rank = { .tgid = 7, .rank = 3, .storage_of_rank = &flush, .next = &child };
	struct model m = { .procs = &rank };
	char line[1024];
	struct sink *sink;
	FILE *f;

	(void)state;
	flush.next = &names;
	rank.leader = child.leader = &rank;
	close(mkstemp(path));
	assert_int_equal(sink_storage.open(path, &sink), 0);
	assert_int_equal(sink_storage.close(sink, &m), 0);
	f = fopen(path, "r");
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(
		line, "{\"rank\":3,\"pid\":7,\"mount\":\"/ck\\\"pt\",\"type\":\"nfs4\",\"source\":\"filer:/ckpt\","
		      "\"call\":\"flush\",\"blocked_ns\":3200000000,\"calls\":2,\"longest_ns\":3199000000,"
		      "\"longest_file\":\"step-100.pt\",\"calls_up_to_s\":{\"0.0003\":0,\"0.001\":1,\"0.003\":0,"
		      "\"0.01\":0,\"0.03\":0,\"0.1\":0,\"1\":0,\"10\":1,\"longer\":0}}\n");
	assert_non_null(fgets(line, sizeof(line), f));
	assert_non_null(strstr(line, "\"mount\":null,\"type\":null,\"source\":null,\"call\":\"names\""));
	assert_null(fgets(line, sizeof(line), f)); /* a child's is its rank's */
	fclose(f);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(lines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
