/* SPDX-License-Identifier: Apache-2.0
 *
 * baseline.c - own earlier measurements: a file of JSON lines, one a GPU and measure. See threshold.h.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/stress/threshold.h"

#define ENTRIES_MAX 4096
#define LINE_BYTES 1024

struct entry {
	char uuid[64], device[96], measure[64], date[16];
	double value;
	uint32_t size; /* of the matrices; 0: memory */
};

struct baseline {
	int n;
	struct entry entries[];
};

static bool text_take(const cJSON *line, const char *key, char *to, size_t size)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);

	if (!cJSON_IsString(item))
		return false;
	snprintf(to, size, "%s", item->valuestring);
	return true;
}

static bool entry_parse(const char *text, struct entry *e)
{
	cJSON *line = cJSON_Parse(text);
	const cJSON *value = cJSON_GetObjectItemCaseSensitive(line, "value");
	const cJSON *size = cJSON_GetObjectItemCaseSensitive(line, "size");
	bool ok = text_take(line, "uuid", e->uuid, sizeof(e->uuid)) &&
		  text_take(line, "device", e->device, sizeof(e->device)) &&
		  text_take(line, "measure", e->measure, sizeof(e->measure)) &&
		  text_take(line, "date", e->date, sizeof(e->date)) && cJSON_IsNumber(value) && value->valuedouble > 0;

	e->value = ok ? value->valuedouble : 0;
	e->size = cJSON_IsNumber(size) && size->valuedouble > 0 ? (uint32_t)size->valuedouble : 0;
	cJSON_Delete(line);
	return ok;
}

int baseline_read(const char *path, struct baseline **of, int *line)
{
	struct baseline *all = calloc(1, sizeof(*all) + ENTRIES_MAX * sizeof(all->entries[0]));
	FILE *f = fopen(path, "re");
	char text[LINE_BYTES];
	int err = !all ? -ENOMEM : !f ? -errno : 0;

	for (*line = 1; !err && fgets(text, sizeof(text), f); ++*line)
		if (all->n == ENTRIES_MAX || !entry_parse(text, &all->entries[all->n++]))
			err = -EINVAL, --*line;
	if (!err && (ferror(f) || !all->n))
		err = ferror(f) ? -EIO : -EINVAL;
	if (f)
		fclose(f);
	if (err)
		free(all);
	else
		*of = all;
	return err;
}

double baseline_find(const struct baseline *of, const char *uuid, const char *device, const char *measure,
		     uint32_t size, const char **date)
{
	const struct entry *found = NULL;

	for (int i = 0; i < of->n; i++) {
		const struct entry *e = &of->entries[i];

		if (strcmp(e->measure, measure) || strcmp(e->device, device) || e->size != size)
			continue;
		if (!strcmp(e->uuid, uuid) || !found)
			found = e;
		if (!strcmp(e->uuid, uuid))
			break;
	}
	*date = found ? found->date : "";
	return found ? found->value : NAN;
}

void baseline_free(struct baseline *of)
{
	free(of);
}

int baseline_writable(const char *path)
{
	char temporary[PATH_MAX];
	FILE *f;

	if (snprintf(temporary, sizeof(temporary), "%s.part", path) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	f = fopen(temporary, "we");
	if (!f)
		return -errno;
	fclose(f);
	remove(temporary);
	return 0;
}

int baseline_lines_write(const char *path, const struct baseline_line *lines, int n)
{
	time_t now = time(NULL);
	char date[16], temporary[PATH_MAX];
	struct tm tm;
	FILE *f;
	int err = 0;

	if (snprintf(temporary, sizeof(temporary), "%s.part", path) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	f = fopen(temporary, "we");
	if (!f)
		return -errno;
	strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &tm));
	for (const struct baseline_line *l = lines; l < lines + n; l++)
		fprintf(f,
			"{\"uuid\":\"%s\",\"device\":\"%s\",\"measure\":\"%s\",\"size\":%u,"
			"\"value\":%.6g,\"unit\":\"%s\",\"date\":\"%s\"}\n",
			l->uuid, l->device, l->measure, l->size, l->value, l->unit, date);
	if (ferror(f))
		err = -EIO;
	if (fclose(f) && !err)
		err = -errno;
	if (!err && rename(temporary, path))
		err = -errno;
	if (err)
		remove(temporary);
	return err;
}

int baseline_write(const char *path, const struct stress_run *run)
{
	struct baseline_line lines[STRESS_GPUS_MAX * N_MEASURES];
	int n = 0;

	for (int i = 0; i < run->n_gpus * N_MEASURES; i++) {
		const struct stress_gpu *gpu = &run->gpus[i / N_MEASURES];
		int measure = i % N_MEASURES;

		if (gpu->judged[measure].measured)
			lines[n++] = (struct baseline_line){ gpu->uuid,
							     gpu->name,
							     measure_name(measure),
							     measure_unit(measure),
							     measure < N_NUMBERS ? run->options->size : 0,
							     gpu->judged[measure].value };
	}
	return baseline_lines_write(path, lines, n);
}

int baseline_open(const struct stress_options *options, struct baseline **baseline, char why[LIBRARY_WHY])
{
	int line, err = options->save_baseline ? baseline_writable(options->save_baseline) : 0;

	if (err) {
		snprintf(why, LIBRARY_WHY, "--save-baseline: %.200s: %s", options->save_baseline, strerror(-err));
		return STRESS_USAGE;
	}
	err = options->baseline ? baseline_read(options->baseline, baseline, &line) : 0;
	if (!err)
		return STRESS_PASSED;
	if (err == -EINVAL)
		snprintf(why, LIBRARY_WHY, "--baseline: %.200s, line %d is none that --save-baseline wrote",
			 options->baseline, line);
	else
		snprintf(why, LIBRARY_WHY, "--baseline: %.200s: %s", options->baseline, strerror(-err));
	return STRESS_USAGE;
}
