/* SPDX-License-Identifier: Apache-2.0
 *
 * report_json.c - see report_json.h.
 */
#include "tools/stress/report_json.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/stress/health.h"

#define SCHEMA_VERSION 1

static const char *test_now = "";

void json_lines_of(const char *test)
{
	test_now = test;
}

static const char *host_name(void)
{
	static char name[HOST_NAME_MAX + 1];

	if (!name[0] && gethostname(name, sizeof(name) - 1))
		snprintf(name, sizeof(name), "localhost");
	return name;
}

/* "2026-11-26T14:08:12.345Z" */
static void time_add(cJSON *line)
{
	char text[48], whole[32];
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &tm));
	snprintf(text, sizeof(text), "%s.%03dZ", whole, (int)(now.tv_nsec / 1000000 % 1000));
	cJSON_AddStringToObject(line, "time", text);
}

cJSON *json_line_begin(const char *type)
{
	cJSON *line = cJSON_CreateObject();

	cJSON_AddStringToObject(line, "type", type);
	cJSON_AddNumberToObject(line, "schema_version", SCHEMA_VERSION);
	cJSON_AddStringToObject(line, "test", test_now);
	cJSON_AddStringToObject(line, "host", host_name());
	cJSON_AddNumberToObject(line, "t_ns", clock_monotonic_ns());
	time_add(line);
	return line;
}

void json_line_end(cJSON *line)
{
	char *text = cJSON_PrintUnformatted(line);

	if (text)
		puts(text);
	fflush(stdout);
	free(text);
	cJSON_Delete(line);
}

cJSON *json_subject_add(cJSON *line, const char *type)
{
	cJSON *subject = cJSON_AddObjectToObject(line, "subject");

	cJSON_AddStringToObject(subject, "type", type);
	cJSON_AddStringToObject(subject, "host", host_name());
	return subject;
}

static void gpu_add(cJSON *to, const struct stress_gpu *gpu)
{
	cJSON_AddNumberToObject(to, "gpu", gpu->ordinal);
	cJSON_AddStringToObject(to, "pci", gpu->pci);
	cJSON_AddStringToObject(to, "uuid", gpu->uuid);
}

void json_subject_gpu(cJSON *line, const struct stress_gpu *gpu)
{
	gpu_add(json_subject_add(line, "gpu"), gpu);
}

void json_judged_add(cJSON *line, const struct judgement *j, const char *unit)
{
	cJSON_AddNumberToObject(line, "value", j->value);
	cJSON_AddStringToObject(line, "unit", unit);
	if (!j->judged)
		return;
	cJSON_AddNumberToObject(line, "bound", j->bound);
	cJSON_AddStringToObject(line, "rule", j->rule);
	cJSON_AddBoolToObject(line, "failed", j->failed);
	if (j->n_turns)
		cJSON_AddItemToObject(line, "turns", cJSON_CreateDoubleArray(j->turns, j->n_turns));
}

void json_begin(const struct stress_run *run)
{
	cJSON *line = json_line_begin("begin"), *gpus = cJSON_AddArrayToObject(line, "gpus");

	cJSON_AddNumberToObject(line, "time_s", run->options->time_ns * 1e-9);
	if (run->options->measures)
		cJSON_AddNumberToObject(line, "size", run->options->size);
	for (int i = 0; i < run->n_gpus; i++) {
		cJSON *one = cJSON_CreateObject();

		gpu_add(one, &run->gpus[i]);
		cJSON_AddStringToObject(one, "name", run->gpus[i].name);
		cJSON_AddItemToArray(gpus, one);
	}
	json_line_end(line);
}

void json_window(const struct stress_run *run, int round)
{
	cJSON *line = json_line_begin("window");

	cJSON_AddNumberToObject(line, "round", round);
	cJSON_AddStringToObject(line, "measure", measure_name(run->measure_now));
	if (run->again)
		cJSON_AddTrueToObject(line, "again");
	json_line_end(line);
}

void json_sample(const struct stress_run *run)
{
	cJSON *line = json_line_begin("sample"), *gpus = cJSON_AddArrayToObject(line, "gpus");
	char names[120];

	cJSON_AddNumberToObject(line, "elapsed_s", run_elapsed_s(run));
	if (run->measure_now >= 0) {
		cJSON_AddStringToObject(line, "measure", measure_name(run->measure_now));
		cJSON_AddStringToObject(line, "unit", measure_unit(run->measure_now));
	}
	for (int i = 0; i < run->n_gpus; i++) {
		const struct health *h = &run->gpus[i].health;
		cJSON *one = cJSON_CreateObject();

		cJSON_AddNumberToObject(one, "gpu", run->gpus[i].ordinal);
		if (run->measure_now >= 0)
			cJSON_AddNumberToObject(one, "rate", run->gpus[i].rate_now);
		cJSON_AddNumberToObject(one, "temperature_c", h->temperature_c);
		cJSON_AddNumberToObject(one, "memory_temperature_c", h->memory_temperature_c);
		cJSON_AddNumberToObject(one, "power_w", h->power_w);
		cJSON_AddNumberToObject(one, "sm_mhz", h->sm_mhz);
		cJSON_AddNumberToObject(one, "memory_mhz", h->mem_mhz);
		cJSON_AddStringToObject(one, "throttled_by", health_reasons(h->reasons, names, sizeof(names)));
		cJSON_AddNumberToObject(one, "ecc_corrected", h->ecc_corrected);
		cJSON_AddNumberToObject(one, "ecc_uncorrected", h->ecc_uncorrected);
		cJSON_AddItemToArray(gpus, one);
	}
	json_line_end(line);
}

cJSON *json_fault_begin(const struct fault *fault)
{
	cJSON *line = json_line_begin("fault");

	cJSON_AddStringToObject(line, "kind", fault_kind_name(fault->kind));
	cJSON_AddStringToObject(line, "severity", fault_severity(fault->kind));
	cJSON_AddStringToObject(line, "summary", fault->text);
	cJSON_AddStringToObject(line, "remedy", fault_remedy(fault->kind));
	cJSON_AddNumberToObject(line, "elapsed_s", fault->at_s);
	if (fault->held.judged)
		json_judged_add(line, &fault->held, fault->unit ? fault->unit : "");
	return line;
}

/* Where in a matrix or in memory. */
static void place_add(cJSON *line, const struct fault *fault)
{
	char bits[24];

	if (fault->kind == FAULT_CORRUPT || fault->kind == FAULT_DISPUTED || fault->kind == FAULT_CHECKSUM) {
		cJSON_AddNumberToObject(line, "row", fault->row);
		cJSON_AddNumberToObject(line, "column", fault->column);
		cJSON_AddNumberToObject(line, "elements", fault->elements);
		cJSON_AddNumberToObject(line, "row_period", fault->row_period);
		cJSON_AddNumberToObject(line, "column_period", fault->column_period);
	}
	if (fault->kind == FAULT_MEMORY)
		cJSON_AddNumberToObject(line, "address", fault->address);
	snprintf(bits, sizeof(bits), "0x%llx", (unsigned long long)fault->bits);
	if (fault->bits)
		cJSON_AddStringToObject(line, "bits", bits);
}

/* A link is named by both of its ends. */
static void subject_of(cJSON *line, const struct stress_run *run, const struct fault *fault)
{
	cJSON *subject, *gpus;

	if (!fault->to) {
		json_subject_gpu(line, &run->gpus[fault->gpu]);
		return;
	}
	subject = json_subject_add(line, "path");
	gpu_add(subject, &run->gpus[fault->gpu]);
	gpus = cJSON_AddArrayToObject(subject, "gpus");
	cJSON_AddItemToArray(gpus, cJSON_CreateNumber(run->gpus[fault->gpu].ordinal));
	cJSON_AddItemToArray(gpus, cJSON_CreateNumber(run->gpus[fault->to - 1].ordinal));
}

cJSON *json_of_fault(const struct stress_run *run, const struct fault *fault)
{
	cJSON *line = json_fault_begin(fault);

	subject_of(line, run, fault);
	if (fault->measure >= 0)
		cJSON_AddStringToObject(line, "measure", measure_name(fault->measure));
	place_add(line, fault);
	return line;
}

void json_fault(const struct stress_run *run, const struct fault *fault)
{
	json_line_end(json_of_fault(run, fault));
}

static void json_rate(const struct stress_gpu *gpu, int measure)
{
	const struct judgement *j = &gpu->judged[measure];
	cJSON *line = json_line_begin("rate");
	double trend;

	json_subject_gpu(line, gpu);
	cJSON_AddStringToObject(line, "measure", measure_name(measure));
	cJSON_AddBoolToObject(line, "measured", j->measured);
	cJSON_AddBoolToObject(line, "supported", !gpu->unsupported[measure]);
	cJSON_AddNumberToObject(line, "checked", gpu->checked[measure]);
	if (j->measured)
		json_judged_add(line, j, measure_unit(measure));
	if (measure < N_NUMBERS)
		cJSON_AddNumberToObject(line, "checksum_share", gpu->checksum_share[measure]);
	else
		cJSON_AddNumberToObject(line, "memory_bytes", gpu->memory_bytes);
	if (series_trend(&gpu->series[measure], &trend))
		cJSON_AddNumberToObject(line, "trend", trend);
	json_line_end(line);
}

static void json_verdict(const struct stress_gpu *gpu)
{
	const struct health *h = &gpu->health;
	cJSON *line = json_line_begin("verdict");
	char names[120];

	json_subject_gpu(line, gpu);
	cJSON_AddStringToObject(line, "name", gpu->name);
	cJSON_AddBoolToObject(line, "passed", !gpu->n_faults);
	cJSON_AddNumberToObject(line, "faults", gpu->n_faults);
	cJSON_AddNumberToObject(line, "temperature_max_c", h->temperature_max_c);
	cJSON_AddNumberToObject(line, "power_max_w", h->power_max_w);
	cJSON_AddNumberToObject(line, "power_limit_w", h->limit_w);
	cJSON_AddNumberToObject(line, "sm_mhz_min", h->sm_mhz_min);
	cJSON_AddStringToObject(line, "throttled_by", health_reasons(h->reasons_seen, names, sizeof(names)));
	json_line_end(line);
}

cJSON *json_end_make(int status, const char *partial, double elapsed_s)
{
	cJSON *line = json_line_begin("end");

	cJSON_AddBoolToObject(line, "passed", status == 0);
	cJSON_AddNumberToObject(line, "exit", status);
	cJSON_AddNumberToObject(line, "elapsed_s", elapsed_s);
	if (*partial)
		cJSON_AddStringToObject(line, "partial", partial);
	return line;
}

void json_end_line(int status, const char *partial, double elapsed_s, const struct notes *notes)
{
	cJSON *line = json_end_make(status, partial, elapsed_s), *texts = cJSON_AddArrayToObject(line, "notes");

	for (int i = 0; i < notes->n; i++)
		cJSON_AddItemToArray(texts, cJSON_CreateString(notes->texts[i]));
	json_line_end(line);
}

void json_refused(int status, const char *why)
{
	cJSON *line = json_line_begin("refused");

	cJSON_AddNumberToObject(line, "exit", status);
	cJSON_AddStringToObject(line, "summary", why);
	json_line_end(line);
}

void json_end(const struct stress_run *run, int status, const char *partial)
{
	for (int i = 0; i < run->n_gpus; i++) {
		for (int measure = 0; measure < N_MEASURES; measure++)
			if (run->options->measures >> measure & 1)
				json_rate(&run->gpus[i], measure);
		json_verdict(&run->gpus[i]);
	}
	json_end_line(status, partial, run_elapsed_s(run), &run->notes);
}
