/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - see trace.h. The test runs as the tracer's command, as a user's job would; what it issued comes in a file
 * (ISSUED_VARIABLE), what was recorded from `ranktrace replay --ops`.
 */
#include "tools/stress/trace/trace.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "tools/stress/nccl/member.h"
#include "tools/stress/nccl/nccl_run.h"
#include "tools/stress/report_json.h"

#define SELF "/proc/self/exe"
#define PATH_ROOM 4096
#define WORDS_MAX 128
#define SUFFIX ".pftrace"

/* Calls of NCCL by their name: what was issued and what is in the recording. */
struct calls {
	const char *name;
	uint64_t issued, issued_bytes, recorded, recorded_bytes;
};
static const char *const names[] = { "AllReduce", "AllGather", "ReduceScatter", "Broadcast",
				     "Reduce",    "AlltoAll",  "Send",          "Recv" };
#define N_NAMES ((int)(sizeof(names) / sizeof(names[0])))

struct trace {
	char timeline[PATH_ROOM], recording[PATH_ROOM], issued[PATH_ROOM];
	struct calls calls[N_NAMES];
	bool json;
};

/* --- processes --- */

static int program_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int recorded_run(const struct trace *t, int argc, char **argv)
{
	static const char *const begin[] = { "ranktrace", "record", "--quiet", "--budget=no", "--budget-node=no" };
	char *words[WORDS_MAX];
	int n = 0;
	pid_t pid;

	for (size_t i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
		words[n++] = (char *)begin[i];
	if (t->json)
		words[n++] = (char *)"--json";
	words[n++] = (char *)"-o";
	words[n++] = (char *)t->timeline;
	words[n++] = (char *)"-o";
	words[n++] = (char *)t->recording;
	words[n++] = (char *)"--";
	words[n++] = (char *)SELF;
	words[n++] = (char *)"stress";
	for (int i = 1; i < argc && n < WORDS_MAX - 1; i++)
		if (!strcmp(argv[i], "--trace"))
			i++;
		else if (strncmp(argv[i], "--trace=", 8))
			words[n++] = argv[i];
	words[n] = NULL;
	signal(SIGINT, SIG_IGN); /* the test's and the tracer's: both end by it */
	pid = fork();
	if (pid)
		return pid < 0 ? -1 : program_wait(pid);
	signal(SIGINT, SIG_DFL);
	setenv(ISSUED_VARIABLE, t->issued, 1);
	execv(SELF, words);
	_exit(STRESS_IMPOSSIBLE);
}

static pid_t ops_open(const struct trace *t, FILE **lines)
{
	int fds[2];
	pid_t pid;

	if (pipe(fds))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		execl(SELF, "ranktrace", "replay", "--quiet", "--ops", t->recording, NULL);
		_exit(STRESS_IMPOSSIBLE);
	}
	close(fds[1]);
	*lines = fdopen(fds[0], "r");
	return pid;
}

/* --- what was issued, what was recorded --- */

static struct calls *calls_of(struct trace *t, const char *name)
{
	for (int i = 0; i < N_NAMES; i++)
		if (!strcmp(names[i], name))
			return &t->calls[i];
	return NULL;
}

static void issued_add(struct trace *t, const char *name, uint64_t n, uint64_t bytes)
{
	struct calls *c = calls_of(t, name);

	if (!c)
		return;
	c->issued += n;
	c->issued_bytes += bytes;
}

/* False: the test did not come to its end. */
static bool issued_read(struct trace *t)
{
	FILE *f = fopen(t->issued, "re");
	unsigned long long n, bytes;
	char call[32];
	int rows = 0;

	for (; f && fscanf(f, "%31s %llu %llu", call, &n, &bytes) == 3; rows++)
		issued_add(t, call, n, bytes);
	if (f)
		fclose(f);
	unlink(t->issued);
	return rows > 0;
}

static uint64_t type_bytes(const char *name)
{
	for (int i = 0; i < N_TYPES; i++)
		if (!strcmp(nccl_types[i].name, name))
			return nccl_types[i].bytes;
	return 0;
}

static void op_take(struct trace *t, const char *text)
{
	cJSON *line = cJSON_Parse(text);
	const char *op = cJSON_GetStringValue(cJSON_GetObjectItem(line, "op"));
	const char *type = cJSON_GetStringValue(cJSON_GetObjectItem(line, "dtype"));
	struct calls *c = op ? calls_of(t, op) : NULL;

	if (c && type) {
		c->recorded++;
		c->recorded_bytes +=
			(uint64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(line, "count")) * type_bytes(type);
	}
	cJSON_Delete(line);
}

static int recorded_read(struct trace *t)
{
	FILE *lines = NULL;
	pid_t pid = ops_open(t, &lines);
	char *text = NULL;
	size_t room = 0;

	if (pid < 0 || !lines) {
		if (lines)
			fclose(lines);
		return -1;
	}
	while (getline(&text, &room, lines) > 0)
		op_take(t, text);
	free(text);
	fclose(lines);
	return program_wait(pid);
}

/* --- the comparison --- */

static bool is_bad(const struct calls *c)
{
	return c->issued != c->recorded || c->issued_bytes != c->recorded_bytes;
}

static void calls_say(const struct trace *t, const struct calls *c, const char *name)
{
	cJSON *line;

	if (!t->json) {
		printf("recorded: %-14s %llu of %llu calls, %llu of %llu bytes%s\n", name,
		       (unsigned long long)c->recorded, (unsigned long long)c->issued,
		       (unsigned long long)c->recorded_bytes, (unsigned long long)c->issued_bytes,
		       is_bad(c) ? "  DIFFERENT" : "");
		return;
	}
	json_lines_of("nccl");
	line = json_line_begin("traced");
	cJSON_AddStringToObject(line, "measure", name);
	cJSON_AddNumberToObject(line, "issued", (double)c->issued);
	cJSON_AddNumberToObject(line, "recorded", (double)c->recorded);
	cJSON_AddNumberToObject(line, "bytes_issued", (double)c->issued_bytes);
	cJSON_AddNumberToObject(line, "bytes_recorded", (double)c->recorded_bytes);
	cJSON_AddBoolToObject(line, "failed", is_bad(c));
	json_line_end(line);
}

static int compare(const struct trace *t, int status)
{
	bool bad = false;

	for (int i = 0; i < N_NAMES; i++) {
		if (!t->calls[i].issued && !t->calls[i].recorded)
			continue;
		calls_say(t, &t->calls[i], names[i]);
		bad |= is_bad(&t->calls[i]);
	}
	if (bad)
		log_error("stress nccl: --trace: the recording does not have what the test issued: fewer operations at "
			  "a time (--iterations), or ranktrace record with a larger --ring-size around the test");
	return bad && status == STRESS_PASSED ? STRESS_IMPOSSIBLE : status;
}

int trace_run(const char *path, int argc, char **argv, bool json)
{
	static struct trace t;
	size_t stem = strlen(path);
	int status;

	t.json = json;
	if (stem < sizeof(SUFFIX) || strcmp(path + stem - strlen(SUFFIX), SUFFIX) || stem > PATH_ROOM - 32) {
		log_error("stress nccl: --trace: %.200s does not end in %s", path, SUFFIX);
		return STRESS_USAGE;
	}
	stem -= strlen(SUFFIX);
	snprintf(t.timeline, sizeof(t.timeline), "%s", path);
	snprintf(t.recording, sizeof(t.recording), "%.*s.rtr", (int)stem, path);
	snprintf(t.issued, sizeof(t.issued), "%.*s.issued", (int)stem, path);
	status = recorded_run(&t, argc, argv);
	if (!issued_read(&t)) {
		log_error("stress nccl: --trace: the test did not run to its end, what is above says why; a recording "
			  "needs root ('ranktrace doctor' says what of this host can be seen)");
		return status == STRESS_PASSED || status < 0 ? STRESS_IMPOSSIBLE : status;
	}
	if (recorded_read(&t)) {
		log_error("stress nccl: --trace: %.200s cannot be read back", t.recording);
		return STRESS_IMPOSSIBLE;
	}
	return compare(&t, status);
}
