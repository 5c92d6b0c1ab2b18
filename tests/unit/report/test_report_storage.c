/* SPDX-License-Identifier: Apache-2.0
 *
 * test_report_storage.c - the table of storage on a report's page: who was blocked where for how long, the longest
 * first; what is too short is left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "sink/sink.h"
#include "tests/unit/job/job_script.h"

#define MS 1000000ull
#define NFS "/ckpt (nfs4 filer:/export, 0:52)"

static struct model *m;

static void rank_is(int rank)
{
	struct event e = job_event(EV_PROC, rank, 1);

	e.proc.rank = rank;
	e.proc.job = e.proc.name = e.proc.container = e.proc.pod = "";
	assert_int_equal(model_apply(m, &e), 0);
}

static void blocked(int rank, uint32_t at, uint64_t blocked_ns, const char *mount)
{
	struct event e = job_event(EV_STORAGE, rank, 1);

	e.storage.sum =
		(struct storage_sum){ .at = at, .blocked_ns = blocked_ns, .calls = 3, .longest_ns = blocked_ns / 2 };
	e.storage.file = "step-100.pt";
	e.storage.mount = mount;
	assert_int_equal(model_apply(m, &e), 0);
}

/* The page's data; the caller deletes it. */
static cJSON *page(void)
{
	static const char begins[] = "<script type=\"application/json\" id=\"data\">";
	static char text[1 << 20], path[64];
	struct sink *sink;
	const char *data;
	cJSON *json;
	FILE *f;

	strcpy(path, "/tmp/ranktrace-report-storage-XXXXXX");
	close(mkstemp(path));
	assert_int_equal(sink_report.open(path, &sink), 0);
	assert_int_equal(sink_report.close(sink, m), 0);
	f = fopen(path, "r");
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
	unlink(path);
	data = strstr(text, begins);
	assert_non_null(data);
	json = cJSON_Parse(data + strlen(begins));
	assert_non_null(json);
	return json;
}

static void row_is(const cJSON *row, const char *expected)
{
	char *text = cJSON_PrintUnformatted(row);

	assert_string_equal(text, expected);
	free(text);
}

static void the_longest_first(void **state)
{
	cJSON *data;
	const cJSON *rows;

	(void)state;
	m = model_new();
	for (int r = 0; r < 2; r++)
		rank_is(r);
	blocked(0, STORAGE_AT(52, STORAGE_FLUSH), 2000 * MS, NFS);
	blocked(1, STORAGE_AT(52, STORAGE_FLUSH), 8000 * MS, NFS);
	blocked(0, STORAGE_AT(0, STORAGE_CLOSE), 500 * MS, "");
	blocked(1, STORAGE_AT(7, STORAGE_READ), MS - 1, NFS);
	data = page();
	rows = cJSON_GetObjectItem(data, "storage");
	assert_int_equal(cJSON_GetArraySize(rows), 3);
	row_is(cJSON_GetArrayItem(rows, 0),
	       "{\"rank\":1,\"pid\":1100,\"mount\":\"/ckpt\",\"type\":\"nfs4\",\"source\":\"filer:/export\","
	       "\"call\":\"flush\",\"calls\":3,\"blocked_s\":8,\"longest_s\":4,\"file\":\"step-100.pt\"}");
	assert_int_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 1), "rank")->valueint, 0);
	assert_string_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 2), "call")->valuestring, "close");
	assert_string_equal(cJSON_GetObjectItem(cJSON_GetArrayItem(rows, 2), "mount")->valuestring, "");
	cJSON_Delete(data);
	model_free(m);
}

static void none_at_all(void **state)
{
	cJSON *data;

	(void)state;
	m = model_new();
	rank_is(0);
	data = page();
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(data, "storage")), 0);
	cJSON_Delete(data);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_longest_first), cmocka_unit_test(none_at_all) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
