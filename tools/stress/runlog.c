/* SPDX-License-Identifier: Apache-2.0
 *
 * runlog.c - see runlog.h. A torn last line (the machine went down) is left out at a resume.
 */
#include "tools/stress/runlog.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/stress/report_json.h"

#define LINE_BYTES 4096

struct runlog {
	FILE *file;
	int err;
	uint32_t windows_logged[STRESS_GPUS_MAX][N_MEASURES];
};

static void line_write(struct runlog *log, cJSON *line)
{
	char *text = cJSON_PrintUnformatted(line);

	if (!text || fprintf(log->file, "%s\n", text) < 0 || fflush(log->file))
		log->err = log->err ? log->err : errno ? -errno : -EIO;
	free(text);
	cJSON_Delete(line);
}

void runlog_window(struct runlog *log, const struct stress_run *run, int measure)
{
	for (int i = 0; i < run->n_gpus; i++) {
		const struct stress_gpu *gpu = &run->gpus[i];
		const struct series *s = &gpu->series[measure];
		cJSON *line;

		if (gpu->windows[measure] == log->windows_logged[i][measure] || !s->n)
			continue;
		log->windows_logged[i][measure] = gpu->windows[measure];
		line = json_line_begin("measured");
		json_subject_gpu(line, gpu);
		cJSON_AddNumberToObject(line, "elapsed_s", run_elapsed_s(run));
		cJSON_AddStringToObject(line, "measure", measure_name(measure));
		cJSON_AddNumberToObject(line, "value", s->values[s->n - 1]);
		cJSON_AddStringToObject(line, "unit", measure_unit(measure));
		cJSON_AddNumberToObject(line, "checked", gpu->checked[measure]);
		cJSON_AddNumberToObject(line, "memory_turns", gpu->memory_turns);
		cJSON_AddNumberToObject(line, "temperature_c", gpu->health.temperature_c);
		cJSON_AddNumberToObject(line, "power_w", gpu->health.power_w);
		line_write(log, line);
	}
}

void runlog_fault(struct runlog *log, const struct stress_run *run, const struct fault *fault)
{
	line_write(log, json_of_fault(run, fault));
}

int runlog_close(struct runlog *log)
{
	int err = log->err;

	if (fclose(log->file) && !err)
		err = -errno;
	free(log);
	return err;
}

/* --- resume --- */

static const char *text_of(const cJSON *line, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, key));

	return text ? text : "";
}

static double number_of(const cJSON *line, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static struct stress_gpu *gpu_of(struct stress_run *run, const cJSON *line)
{
	const char *uuid = text_of(cJSON_GetObjectItemCaseSensitive(line, "subject"), "uuid");

	for (int i = 0; i < run->n_gpus; i++)
		if (!strcmp(run->gpus[i].uuid, uuid))
			return &run->gpus[i];
	return NULL;
}

static void fault_resume(struct stress_run *run, struct stress_gpu *gpu, const cJSON *line)
{
	struct fault fault = { .gpu = gpu->index, .measure = measure_find(text_of(line, "measure")) };

	for (int kind = 0; kind < N_FAULT_KINDS; kind++)
		if (!strcmp(fault_kind_name(kind), text_of(line, "kind")))
			fault.kind = kind;
	fault.at_s = number_of(line, "elapsed_s");
	snprintf(fault.text, sizeof(fault.text), "%s", text_of(line, "summary"));
	gpu->n_faults++;
	run->n_faults_all++;
	if (run->n_faults < RUN_FAULTS_MAX)
		run->faults[run->n_faults++] = fault;
}

/* false: the line is of a GPU that is not under test now. */
static bool line_resume(struct stress_run *run, const cJSON *line, double *elapsed_s)
{
	struct stress_gpu *gpu = gpu_of(run, line);
	int measure = measure_find(text_of(line, "measure"));
	const char *type = text_of(line, "type");

	if (strcmp(type, "measured") && strcmp(type, "fault"))
		return true;
	if (!gpu)
		return false;
	*elapsed_s = number_of(line, "elapsed_s") > *elapsed_s ? number_of(line, "elapsed_s") : *elapsed_s;
	if (!strcmp(type, "fault")) {
		fault_resume(run, gpu, line);
	} else if (measure >= 0) {
		series_add(&gpu->series[measure], number_of(line, "value"));
		gpu->windows[measure]++;
		gpu->checked[measure] = (uint64_t)number_of(line, "checked");
		gpu->memory_turns = (uint32_t)number_of(line, "memory_turns");
	}
	return true;
}

/* A device or a pipe has no end to go on from. */
static FILE *log_read(const char *path)
{
	FILE *f = fopen(path, "re");
	struct stat st;

	if (f && (fstat(fileno(f), &st) || !S_ISREG(st.st_mode))) {
		fclose(f);
		errno = EINVAL;
		return NULL;
	}
	return f;
}

static int resume_read(struct stress_run *run, const char *path, char why[LIBRARY_WHY])
{
	FILE *f = log_read(path);
	char text[LINE_BYTES];
	double elapsed_s = 0;
	long whole = 0;
	int n = 0, status = STRESS_PASSED;

	if (!f) {
		snprintf(why, LIBRARY_WHY, "--resume: %.200s: %s: without --resume the run begins anew", path,
			 strerror(errno));
		return STRESS_USAGE;
	}
	while (!status && fgets(text, sizeof(text), f)) {
		bool is_whole = strchr(text, '\n');
		cJSON *line = cJSON_Parse(text);

		n++;
		if ((!line && is_whole) || (line && !line_resume(run, line, &elapsed_s))) {
			snprintf(why, LIBRARY_WHY, "--resume: %.200s, line %d: %s", path, n,
				 line ? "of a GPU that is not under test now: resume with the same --gpus"
				      : "no line of a log of this test");
			status = STRESS_USAGE;
		}
		cJSON_Delete(line);
		whole = is_whole ? ftell(f) : whole;
	}
	fclose(f);
	if (!status && truncate(path, whole)) /* a torn line goes */
		status = STRESS_USAGE, snprintf(why, LIBRARY_WHY, "--resume: %.200s: %s", path, strerror(errno));
	run->elapsed_before_ns = (uint64_t)(elapsed_s * 1e9);
	return status;
}

int runlog_open(struct runlog **log, const char *path, bool resume, struct stress_run *run, char why[LIBRARY_WHY])
{
	int status = resume ? resume_read(run, path, why) : STRESS_PASSED;
	struct runlog *l = status ? NULL : calloc(1, sizeof(*l));

	if (status)
		return status;
	if (!l)
		abort();
	l->file = fopen(path, resume ? "ae" : "wxe");
	if (!l->file) {
		snprintf(why, LIBRARY_WHY, "--log: %.200s: %s%s", path, strerror(errno),
			 errno == EEXIST ? ": go on with it (--resume), or give another name" : "");
		free(l);
		return STRESS_USAGE;
	}
	for (int i = 0; i < run->n_gpus; i++)
		memcpy(l->windows_logged[i], run->gpus[i].windows, sizeof(l->windows_logged[i]));
	*log = l;
	return STRESS_PASSED;
}
