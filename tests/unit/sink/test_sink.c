/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sink.c - the table of sinks, JSON lines and operations. Lines are read back with cJSON and with
 * Python's own parser.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/log.h"
#include "sink/sink_io.h"
#include "tests/unit/sink/sink_file.h"

static void test_table(void **state)
{
	(void)state;
	assert_ptr_equal(sink_class_by_path("a/b.pftrace"), &sink_perfetto);
	assert_null(sink_class_by_path(".pftrace"));
	assert_null(sink_class_by_path("trace.rtr"));
	assert_ptr_equal(sink_class_by_name("ops"), &sink_ops);
	assert_null(sink_class_by_name("nothing"));
#define SINK(id, title, text) \
	assert_string_equal(sink_##id.name, title); \
	assert_string_equal(sink_##id.help, text); \
	assert_ptr_equal(sink_class_by_name(title), &sink_##id);
#include "sink/sinks.def"
#undef SINK
}

static void test_utf8(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain", "plain" },
		{ "rank 5 · €\xf0\x9f\x98\x80", "rank 5 · €\xf0\x9f\x98\x80" },
		{ "\xff", "\xef\xbf\xbd" },
		{ "a\xc3", "a\xef\xbf\xbd" },
		{ "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xed\xa0\x80x", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx" },
		{ "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *clean = utf8_dup(cases[i].in), small[6];

		assert_string_equal(clean, cases[i].out);
		assert_true(utf8_copy(small, sizeof(small), cases[i].in) < sizeof(small));
		assert_memory_equal(small, clean, strlen(small));
		free(clean);
	}
}

static const char *string_of(const cJSON *o, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
}

static bool null_at(const cJSON *o, const char *name)
{
	return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(o, name));
}

/* The schema asks for no key that a line lacks, and lists all that it has. */
static void assert_schema(const cJSON *line)
{
	FILE *f = fopen("schemas/incident.schema.json", "r");
	char *text = calloc(1, 1 << 20);
	cJSON *schema, *key;

	assert_true(f && text && fread(text, 1, (1 << 20) - 1, f));
	fclose(f);
	schema = cJSON_Parse(text);
	assert_non_null(schema);
	cJSON_ArrayForEach(key, cJSON_GetObjectItemCaseSensitive(schema, "required"))
		assert_true(cJSON_HasObjectItem(line, key->valuestring));
	cJSON_ArrayForEach(key, line)
		assert_true(cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(schema, "properties"), key->string));
	cJSON_Delete(schema);
	free(text);
}

static void assert_place(const cJSON *line)
{
	assert_string_equal(string_of(line, "boot_id"), "b007");
	assert_string_equal(string_of(line, "pod"), "llama-0");
	assert_string_equal(string_of(line, "namespace"), "train");
	assert_string_equal(string_of(line, "slurm_job"), "77");
	assert_null(cJSON_GetObjectItemCaseSensitive(line, "slurm_step"));
}

/* What is several values in one text is there as arrays, and nothing else is. */
static void assert_lists(cJSON *lists)
{
	char *text = cJSON_PrintUnformatted(lists);

	assert_string_equal(
		text, "{\"stack\":[\"clock_nanosleep\",\"main \xef\xbf\xbd\xef\xbf\xbd(\\\"\\\\\\\"\\u0001\\u001b["
		      "31m)\"],\"waiting_ranks\":[0,null,12],\"pids_using\":[4702],"
		      "\"comms\":[\"0xa0#7\",\"0xb0#1\"]}");
	free(text);
}

static void assert_words(const cJSON *line)
{
	assert_string_equal(
		string_of(line, "summary"),
		"rank 2 has not entered AllReduce #1842: its main thread sleeps outside of NCCL; 2 peers have waited "
		"2.7 s");
	assert_non_null(strstr(string_of(line, "remedy"), "ranktrace ps --stacks --pid 4702 shows"));
	assert_int_equal(strlen(string_of(line, "fingerprint")), 18);
	assert_int_equal(strlen(string_of(line, "time")), strlen("2025-11-13T03:36:42.700Z"));
	assert_int_equal(string_of(line, "since")[23], 'Z');
}

static void assert_bare_cause(const cJSON *line)
{
	assert_string_equal(string_of(line, "caused_by"), "node-a-9.3");
	assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "explains")));
	assert_null(cJSON_GetObjectItemCaseSensitive(line, "parallelism"));
	assert_true(null_at(line, "comm") && null_at(line, "seq") && null_at(line, "op") && null_at(line, "class"));
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(line, "evidence")), 1);
}

static void comm_used(struct comm *c)
{
	c->parallelism = PARALLEL_TENSOR;
	strcpy(c->process_group, "mesh_tp");
}

static void assert_use(const cJSON *line)
{
	assert_string_equal(string_of(line, "parallelism"), "tp");
	assert_string_equal(string_of(line, "process_group"), "mesh_tp");
	assert_null(cJSON_GetObjectItemCaseSensitive(line, "process_group_seq")); /* no call of it was seen */
}

static void test_json(void **state)
{
	struct incident i;
	struct fixture f;
	cJSON *first, *evidence;
	char *text, *line2, command[200];

	(void)state;
	fixture_open(&f, &sink_json);
	comm_used(&f.comm);
	i = hang_of(&f);
	i.f.since_ns = 9007199254740993; /* not a double: 2^53 + 1, 104 days of uptime */
	i.open_ns = i.t_ns = 9007201954740994;
	finding_note_text(&i.f, EVIDENCE_WAITING_RANKS, "0,?,12");
	finding_note_text(&i.f, EVIDENCE_PIDS_USING, "4702");
	finding_note_text(&i.f, EVIDENCE_COMMS, "0xa0#7,0xb0#1");
	finding_note_text(&i.f, EVIDENCE_WAITING_RANKS, "5"); /* twice: the first stays */
	fixture_incident(&f, i);
	i = (struct incident){ .number = 4,
			       .id = "node-a-9.4",
			       .caused_by = "node-a-9.3",
			       .explains = true,
			       .phase = PHASE_CLOSE,
			       .f = { .kind = FINDING_LOST_EVENTS, .peer = -1 } };
	finding_note(&i.f, EVIDENCE_LOST_TOTAL, 0.0 / 0.0);
	finding_note(&i.f, EVIDENCE_LOST_TOTAL, 1);
	fixture_incident(&f, i);
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_json.close(f.sink, &f.m), 0);
	text = file_text();
	assert_non_null(strstr(text, "\"since_ns\":9007199254740993,\"t_ns\":9007201954740994,"
				     "\"detected_after_s\":2.7,\"confidence\":0.971,"));
	line2 = strchr(text, '\n') + 1;
	line2[-1] = '\0';
	first = cJSON_Parse(text);
	assert_non_null(first);
	if (!access("schemas/incident.schema.json", R_OK))
		assert_schema(first);
	assert_string_equal(string_of(first, "id"), "node-a-9.3");
	assert_string_equal(string_of(first, "class"), "missing_enter");
	assert_string_equal(string_of(first, "severity"), "warning");
	assert_string_equal(string_of(first, "comm"), "0x72e8a1b2c3d4e5f6");
	assert_use(first);
	assert_string_equal(string_of(first, "job"), "llama");
	assert_string_equal(string_of(first, "host"), "node-a");
	assert_true(null_at(first, "caused_by") && !cJSON_GetObjectItemCaseSensitive(first, "explains"));
	assert_place(first);
	assert_words(first);
	evidence = cJSON_GetObjectItemCaseSensitive(first, "evidence");
	assert_string_equal(string_of(evidence, "stack"),
			    "clock_nanosleep\nmain \xef\xbf\xbd\xef\xbf\xbd(\"\\\"\x01\x1b[31m)\n");
	assert_lists(cJSON_GetObjectItemCaseSensitive(first, "lists"));
	cJSON_Delete(first);
	first = cJSON_Parse(line2);
	assert_non_null(first);
	assert_bare_cause(first);
	cJSON_Delete(first);
	free(text);
	snprintf(command, sizeof(command),
		 "! command -v python3 >/dev/null || python3 -m json.tool --json-lines %s >/dev/null", path);
	assert_int_equal(system(command), 0);
}

static void test_json_subject(void **state)
{
	const struct {
		struct subject s;
		const char *json;
	} cases[] = {
		{ subject_rank(3, 77), "{\"type\":\"rank\",\"host\":\"node-a\",\"rank\":3,\"pid\":77}" },
		{ subject_rank(3, 0), "{\"type\":\"rank\",\"host\":\"node-a\",\"rank\":3}" },
		{ subject_ranks(9), "{\"type\":\"ranks\"}" },
		{ subject_process(-1, 77), "{\"type\":\"process\",\"host\":\"node-a\",\"pid\":77}" },
		{ subject_thread(3, 77, 78),
		  "{\"type\":\"thread\",\"host\":\"node-a\",\"rank\":3,\"pid\":77,\"tid\":78}" },
		{ subject_gpu(0, 0, 0x10b2c),
		  "{\"type\":\"gpu\",\"host\":\"node-a\",\"gpu\":0,\"pci\":\"0001:0b:2c\"}" },
		{ subject_gpu(0, 4, GPU_PCI_NONE), "{\"type\":\"gpu\",\"host\":\"node-a\",\"gpu\":4}" },
		{ subject_port(0, "mlx5_0", 1, 3, 77),
		  "{\"type\":\"port\",\"host\":\"node-a\",\"device\":\"mlx5_0\",\"port\":1,\"rank\":3}" },
		{ subject_address("10.0.0.1", "eth0"),
		  "{\"type\":\"port\",\"address\":\"10.0.0.1\",\"netdev\":\"eth0\"}" },
		{ subject_path("10.0.0.1", "10.0.0.2"),
		  "{\"type\":\"path\",\"addresses\":[\"10.0.0.1\",\"10.0.0.2\"]}" },
		{ subject_path(NULL, NULL), "{\"type\":\"path\"}" },
		{ subject_path_of_ranks(3, 77, 0, 78), "{\"type\":\"path\",\"ranks\":[3,0]}" },
		{ subject_comm(0xabc, 0), "{\"type\":\"communicator\",\"comm\":\"0x0000000000000abc\"}" },
		{ subject_comm(0, 0xabc),
		  "{\"type\":\"communicator\",\"comm\":null,\"parent\":\"0x0000000000000abc\"}" },
		{ subject_job("llama", 1, "llama"), "{\"type\":\"job\",\"job\":\"llama\"}" },
		{ subject_job(NULL, 1, NULL), "{\"type\":\"job\"}" },
		{ subject_node(SUBJECT_NO_NODE), "{\"type\":\"node\",\"host\":\"node-a\"}" },
	};
	char expected[200];
	struct fixture f;
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct incident one;

		fixture_open(&f, &sink_json);
		one = hang_of(&f);
		one.f.subject = cases[i].s;
		fixture_incident(&f, one);
		assert_int_equal(sink_json.close(f.sink, &f.m), 0);
		text = file_text();
		snprintf(expected, sizeof(expected), ",\"subject\":%s,\"ranks\":[2],", cases[i].json);
		if (!strstr(text, expected))
			fail_msg("%s is not in %s", expected, text);
		free(text);
	}
}

static void test_ops(void **state)
{
	struct fixture f;
	struct op op;
	char *text;

	(void)state;
	fixture_open(&f, &sink_ops);
	op = fixture_call(&f, 1, OP_ALLREDUCE, 17, 5000000000100, 0, 0);
	op.count = 1048576;
	op.end_ns = 5000000900100;
	op.end_error_ns = 400;
	f.comm.parallelism = PARALLEL_DATA;
	fixture_op(&f, op);
	f.comm.parallelism = PARALLEL_UNKNOWN;
	strcpy(f.comm.process_group, "my \"\\");
	op.in_process_group = true;
	op.process_group_seq = 18;
	fixture_op(&f, op);
	op = fixture_call(&f, 2, OP_SEND, 0, 5000000000200, 0, 0);
	op.count = 7;
	op.dtype = -1;
	op.peer = 0;
	op.seq_from_attach = true;
	f.comm.hash = 0;
	f.procs[2].rank = -1;
	fixture_op(&f, op);
	op.graph_exec = 0x60; /* launched */
	op.seq_from_attach = false;
	fixture_op(&f, op);
	op.graph_exec = 0;
	op.captured = true; /* runs in launches only */
	fixture_op(&f, op);
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_ops.close(f.sink, &f.m), 0);
	text = file_text();
	assert_string_equal(
		text, "{\"rank\":1,\"pid\":4701,\"gpu\":1,\"comm_rank\":1,\"comm\":\"0x72e8a1b2c3d4e5f6\",\"seq\":17,"
		      "\"op\":\"AllReduce\",\"count\":1048576,\"dtype\":\"bf16\",\"peer\":null,"
		      "\"t_ns\":5000000000100,\"end_ns\":5000000900100,\"end_error_ns\":400,\"parallelism\":\"dp\"}\n"
		      "{\"rank\":1,\"pid\":4701,\"gpu\":1,\"comm_rank\":1,\"comm\":\"0x72e8a1b2c3d4e5f6\",\"seq\":17,"
		      "\"op\":\"AllReduce\",\"count\":1048576,\"dtype\":\"bf16\",\"peer\":null,"
		      "\"t_ns\":5000000000100,\"end_ns\":5000000900100,\"end_error_ns\":400,"
		      "\"process_group\":\"my \\\"\\\\\",\"process_group_seq\":18}\n"
		      "{\"rank\":null,\"pid\":4702,\"gpu\":2,\"comm_rank\":2,\"comm\":null,\"seq\":0,"
		      "\"op\":\"Send\",\"count\":7,\"dtype\":null,\"peer\":0,"
		      "\"t_ns\":5000000000200,\"end_ns\":null,\"end_error_ns\":null,\"seq_from_attach\":true}\n"
		      "{\"rank\":null,\"pid\":4702,\"gpu\":2,\"comm_rank\":2,\"comm\":null,\"seq\":0,"
		      "\"op\":\"Send\",\"count\":7,\"dtype\":null,\"peer\":0,"
		      "\"t_ns\":5000000000200,\"end_ns\":null,\"end_error_ns\":null,\"graph\":true}\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),        cmocka_unit_test(test_utf8), cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_subject), cmocka_unit_test(test_ops),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
