/* SPDX-License-Identifier: Apache-2.0
 *
 * all_text.c - the report of `stress all` for people: first what is wrong and what to do, then what each stage found.
 * With --quiet nothing of a host that passed, and a line a fault: what a health check's caller takes as its reason.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/stress/all/all.h"

#define GPUS_MAX 64

static const char *const words[] = { "passed", "FAILED", "usage", "not possible here" };

static bool is_type(const cJSON *line, const char *type)
{
	return !strcmp(line_text(line, "type"), type);
}

/* A port, or, with the one that it sends to, the link between the two as `stress rdma` calls it. */
static void port_text(const cJSON *port, const cJSON *to, char *text, size_t size)
{
	const char *from_host = line_text(port, "host"), *to_host = line_text(to, "host");
	bool is_far = strcmp(from_host, to_host);

	if (!cJSON_IsObject(to))
		snprintf(text, size, "port %.0f of %.32s", line_number(port, "port"), line_text(port, "device"));
	else
		snprintf(text, size, "%.40s%s%.20s:%.0f to %.40s%s%.20s:%.0f", is_far ? from_host : "",
			 is_far ? "/" : "", line_text(port, "device"), line_number(port, "port"), is_far ? to_host : "",
			 is_far ? "/" : "", line_text(to, "device"), line_number(to, "port"));
}

const char *subject_text(const cJSON *line, char *text, size_t size)
{
	const cJSON *subject = cJSON_GetObjectItemCaseSensitive(line, "subject");
	const cJSON *gpus = cJSON_GetObjectItemCaseSensitive(subject, "gpus");
	const char *type = line_text(subject, "type"), *host = line_text(subject, "host");

	if (gpus)
		snprintf(text, size, "link GPU %d to GPU %d", cJSON_GetArrayItem(gpus, 0)->valueint,
			 cJSON_GetArrayItem(gpus, 1)->valueint);
	else if (!strcmp(type, "gpu"))
		snprintf(text, size, "GPU %.0f", line_number(subject, "gpu"));
	else if (!strcmp(type, "rank"))
		snprintf(text, size, "rank %.0f (%.64s, GPU %.0f)", line_number(subject, "rank"), host,
			 line_number(subject, "gpu"));
	else if (!strcmp(type, "port"))
		port_text(subject, cJSON_GetObjectItemCaseSensitive(line, "to"), text, size);
	else if (!strcmp(type, "node"))
		snprintf(text, size, "node %.64s", host);
	else
		snprintf(text, size, "no single device");
	return text;
}

static bool is_same_fault(const cJSON *a, const cJSON *b)
{
	char one[128], other[128];

	return is_type(a, "fault") && !strcmp(line_text(a, "kind"), line_text(b, "kind")) &&
	       !strcmp(subject_text(a, one, sizeof(one)), subject_text(b, other, sizeof(other)));
}

/* How many faults of this kind the device has; 0: an earlier one was the first. */
static int times(const struct all *all, const cJSON *fault)
{
	const cJSON *line;
	int n = 0;

	cJSON_ArrayForEach(line, all->lines)
	{
		if (line == fault && n)
			return 0;
		n += is_same_fault(line, fault);
	}
	return n;
}

static void fault_print(const struct all *all, const cJSON *line, int n)
{
	const char *summary = line_text(line, "summary");
	char subject[128], more[48] = "";

	subject_text(line, subject, sizeof(subject));
	if (strstr(summary, subject))
		subject[0] = 0; /* it names it itself */
	if (n > 1)
		snprintf(more, sizeof(more), " (and %d more of this kind)", n - 1);
	if (!all->options->all.quiet)
		printf("%-8s ", line_text(line, "severity"));
	printf("%s%s%s: %s%s\n", subject, subject[0] ? ": " : "", line_text(line, "kind"), summary, more);
	if (!all->options->all.quiet)
		printf("         do: %s\n", line_text(line, "remedy"));
}

static void faults_print(const struct all *all)
{
	const cJSON *line;

	cJSON_ArrayForEach(line, all->lines)
	{
		int n = is_type(line, "fault") ? times(all, line) : 0;

		if (n)
			fault_print(all, line, n);
	}
}

void all_stage_print(const struct all *all, const struct stage *s)
{
	if (all->mode == REPORT_JSON || all->options->all.quiet)
		return;
	printf("%-10s %-8s %6.1f s", s->name, s->status == STAGE_LEFT_OUT ? "left out" : stage_status_name(s->status),
	       s->elapsed_s);
	if (s->n_faults)
		printf("  %u fault%s", s->n_faults, s->n_faults > 1 ? "s" : "");
	printf("%s%s\n", s->text[0] ? "  " : "", s->text);
	fflush(stdout);
}

static void inventory_print(const struct all *all)
{
	const cJSON *line;

	printf("\ninventory\n");
	cJSON_ArrayForEach(line, all->lines) if (is_type(line, "inventory"))
		printf("  %-14s %s\n", line_text(line, "part"), line_text(line, "text"));
}

/* Rates of GPUs and of collectives: value, bound, and the row. */
static void rates_print(const struct all *all)
{
	const cJSON *line;
	char subject[128];
	int n = 0;

	cJSON_ArrayForEach(line, all->lines)
	{
		bool is_rate = is_type(line, "rate") && cJSON_IsTrue(cJSON_GetObjectItem(line, "measured"));

		if (!is_rate && !is_type(line, "bus_rate"))
			continue;
		if (!n++)
			printf("\nrates\n");
		printf("  %-12.40s %-24s %9.4g %-8s",
		       is_rate ? subject_text(line, subject, sizeof(subject)) : line_text(line, "group"),
		       line_text(line, "measure"), line_number(line, "value"), line_text(line, "unit"));
		if (line_text(line, "rule")[0])
			printf("%s %.4g: %s\n", cJSON_IsTrue(cJSON_GetObjectItem(line, "failed")) ? "FAILED, " : "",
			       line_number(line, "bound"), line_text(line, "rule"));
		else
			printf("not judged: no baseline, no other, no row of the table\n");
	}
}

/* The matrix of one measure of links, where there is one. */
static void matrix_print(const struct all *all, const char *measure)
{
	const cJSON *at[GPUS_MAX][GPUS_MAX] = { 0 }, *line;
	const char *unit = "";
	int n = 0;

	cJSON_ArrayForEach(line, all->lines)
	{
		int from = (int)line_number(line, "from"), to = (int)line_number(line, "to");

		if (!is_type(line, "link") || strcmp(line_text(line, "measure"), measure) || from >= GPUS_MAX ||
		    to >= GPUS_MAX)
			continue;
		at[from][to] = line;
		unit = line_text(line, "unit");
		n = from >= n ? from + 1 : n;
		n = to >= n ? to + 1 : n;
	}
	if (n)
		printf("\nlinks, %s, %s, from row to column\n", measure, unit);
	for (int i = 0; i < n; i++) {
		printf("%6d", i);
		for (int j = 0; j < n; j++)
			if (at[i][j])
				printf("%9.1f%c", line_number(at[i][j], "value"),
				       cJSON_IsTrue(cJSON_GetObjectItem(at[i][j], "failed")) ? '!' : ' ');
			else
				printf("%9s ", "-");
		printf("\n");
	}
}

static void ports_print(const struct all *all)
{
	const cJSON *line;
	char subject[128];
	int n = 0;

	cJSON_ArrayForEach(line, all->lines)
	{
		bool is_tested = cJSON_IsTrue(cJSON_GetObjectItem(line, "tested"));

		if (!is_type(line, "port_verdict"))
			continue;
		printf("%s  %-20s %s\n", n++ ? "" : "\nRDMA ports\n", subject_text(line, subject, sizeof(subject)),
		       line_number(line, "faults") > 0                     ? "FAILED"
		       : !is_tested                                        ? "not tested"
		       : cJSON_IsTrue(cJSON_GetObjectItem(line, "passed")) ? "passed"
									   : "no fault so far");
	}
}

/* What the tests had to say beside their faults: a link that was unsteady, what was not compared. */
static void notes_of_tests_print(const struct all *all)
{
	const cJSON *line, *note;

	cJSON_ArrayForEach(line, all->lines)
	{
		if (!is_type(line, "end"))
			continue;
		cJSON_ArrayForEach(note, cJSON_GetObjectItem(line, "notes"))
			printf("note     %s: %s\n", line_text(line, "test"), cJSON_GetStringValue(note));
	}
}

/* Of a host that passed: devices that it has, and that were not tested. */
static void quiet_print(const struct all *all, int status)
{
	faults_print(all);
	for (int i = 0; i < all->n_stages; i++) {
		const struct stage *s = &all->stages[i];
		bool is_open = s->status == STAGE_REFUSED || s->status == STAGE_CUT;

		if ((is_open && status == STRESS_IMPOSSIBLE) || stage_is_untested(s))
			printf("%s: %s\n", s->name, s->text);
	}
	fflush(stdout);
}

void all_print(const struct all *all, int status)
{
	char host[65] = "";

	if (all->mode == REPORT_JSON)
		return;
	if (all->options->all.quiet) {
		quiet_print(all, status);
		return;
	}
	inventory_print(all);
	rates_print(all);
	matrix_print(all, "copy engine");
	ports_print(all);
	printf("\n");
	notes_of_tests_print(all);
	faults_print(all);
	gethostname(host, sizeof(host) - 1);
	printf("stress all %s on %s: %s after %.0f s%s\n", all->options->all.quick ? "--quick" : "--full", host,
	       words[status], (clock_monotonic_ns() - all->begin_ns) * 1e-9,
	       status == STRESS_PASSED && all->options->all.quick
		       ? ": a short check; --full has all types, sizes and patterns"
		       : "");
	fflush(stdout);
}
