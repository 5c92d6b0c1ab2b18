/* SPDX-License-Identifier: Apache-2.0
 *
 * stress_all.c - `stress all`: what is wrong with this machine? Its inventory, then the tests in rising scope, and one
 * report of all of them. A stage that could not be done is no pass: 3, unless a device failed, which is 1.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/new_file.h"
#include "tools/stress/all/all.h"
#include "tools/stress/report_json.h"
#include "tools/stress/threshold.h"

#define SECOND_NS 1000000000ull
#define QUICK_NS (42 * SECOND_NS) /* then what is left is asked to end: all is over by 45 s */
#define SAMPLES_MAX 1200

static const struct stage stages[] = {
#define STAGE(name, gpus, nics, quick_s) { name, gpus, nics, quick_s, STAGE_LEFT_OUT, 0, 0, "" },
#include "tools/stress/all/stages.def"
#undef STAGE
};
#define N_STAGES ((int)(sizeof(stages) / sizeof(stages[0])))
_Static_assert(sizeof(stages) / sizeof(stages[0]) <= STAGES_MAX, "room for all stages");

static bool is_partial(const struct stage *stage)
{
	return !strncmp(stage->text, "partial: ", 9);
}

const char *stage_status_name(enum stage_status status)
{
	static const char *const names[] = { "passed", "failed", "refused", "cut", "left_out" };

	return names[status];
}

bool stage_is_untested(const struct stage *stage)
{
	return stage->status == STAGE_LEFT_OUT && is_partial(stage);
}

const char *line_text(const cJSON *line, const char *key)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, key));

	return text ? text : "";
}

double line_number(const cJSON *line, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, key);

	return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* --- lines --- */

/* A day has 86,400 samples: every second one goes whenever there are too many. */
static void samples_thin(struct all *all)
{
	int nth = 0;

	for (cJSON *line = all->lines->child, *next; line; line = next) {
		next = line->next;
		if (!strcmp(line_text(line, "type"), "sample") && nth++ % 2)
			cJSON_Delete(cJSON_DetachItemViaPointer(all->lines, line));
	}
	all->n_samples = (all->n_samples + 1) / 2;
	all->step *= 2;
}

static bool sample_is_kept(struct all *all)
{
	if (++all->n_skipped < all->step)
		return false;
	all->n_skipped = 0;
	if (++all->n_samples > SAMPLES_MAX)
		samples_thin(all);
	return true;
}

static void line_say(struct all *all, const cJSON *line)
{
	char *text = cJSON_PrintUnformatted(line);

	if (text && all->mode == REPORT_JSON) {
		puts(text);
		fflush(stdout);
	}
	if (text && all->copy)
		fprintf(all->copy, "%s\n", text);
	free(text);
}

static void devices_count(struct all *all, const cJSON *line)
{
	const cJSON *gpus = cJSON_GetObjectItem(line, "gpus"), *ports = cJSON_GetObjectItem(line, "ports"), *port;

	if (gpus)
		all->n_gpus = cJSON_GetArraySize(gpus);
	cJSON_ArrayForEach(port, ports)
	{
		all->n_ports++;
		all->n_ports_up += cJSON_IsTrue(cJSON_GetObjectItem(port, "active"));
	}
}

void all_take(struct all *all, struct stage *stage, cJSON *line)
{
	const char *type = line_text(line, "type");

	line_say(all, line);
	if (!strcmp(type, "fault")) {
		stage->n_faults++;
		all->n_faults++;
	}
	if (!strcmp(type, "begin"))
		devices_count(all, line);
	if (!strcmp(type, "inventory") && !strncmp(line_text(line, "text"), "firmware ", 9))
		all->n_nics++;
	if (!strcmp(type, "refused"))
		snprintf(stage->text, sizeof(stage->text), "%s", line_text(line, "summary"));
	if (!strcmp(type, "end") && line_text(line, "partial")[0])
		snprintf(stage->text, sizeof(stage->text), "partial: %s", line_text(line, "partial"));
	if (strcmp(type, "sample") || sample_is_kept(all))
		cJSON_AddItemToArray(all->lines, line);
	else
		cJSON_Delete(line);
}

static void own_line(struct all *all, cJSON *line)
{
	line_say(all, line);
	cJSON_AddItemToArray(all->lines, line);
}

static void begin_say(struct all *all)
{
	cJSON *line = json_line_begin("begin"), *names = cJSON_AddArrayToObject(line, "stages");

	for (int i = 0; i < all->n_stages; i++)
		cJSON_AddItemToArray(names, cJSON_CreateString(all->stages[i].name));
	if (all->options->all.quick)
		cJSON_AddNumberToObject(line, "budget_s", 45);
	own_line(all, line);
}

static void stage_say(struct all *all, const struct stage *stage)
{
	cJSON *line = json_line_begin("stage");

	cJSON_AddStringToObject(line, "stage", stage->name);
	cJSON_AddStringToObject(line, "status", stage_status_name(stage->status));
	cJSON_AddNumberToObject(line, "elapsed_s", stage->elapsed_s);
	if (stage->text[0])
		cJSON_AddStringToObject(line, "text", stage->text);
	own_line(all, line);
	all_stage_print(all, stage);
}

/* --- the order --- */

/* Why this host has no such stage; false: it has. */
static bool is_left_out(const struct all *all, struct stage *stage)
{
	if (!stress_find(stage->name))
		snprintf(stage->text, sizeof(stage->text), "this build has no stress %s", stage->name);
	else if (all->n_gpus && all->n_gpus < stage->gpus)
		snprintf(stage->text, sizeof(stage->text), "it needs %d GPUs, and this host has %d", stage->gpus,
			 all->n_gpus);
	else if (stage->nics > all->n_nics)
		snprintf(stage->text, sizeof(stage->text), "this host has no RDMA device");
	return stage->text[0];
}

/* Adapters without a cable are no reason not to use a host; that they were not tested is said. */
static void no_cable_take(const struct all *all, struct stage *stage)
{
	char why[LIBRARY_WHY];

	if (!stage->nics || stage->status != STAGE_REFUSED || !all->n_ports || all->n_ports_up)
		return;
	stage->status = STAGE_LEFT_OUT;
	snprintf(why, sizeof(why), "partial: %.480s", stage->text);
	memcpy(stage->text, why, sizeof(why));
}

static void stages_run(struct all *all)
{
	for (int i = 0; i < all->n_stages; i++) {
		struct stage *stage = &all->stages[i];

		if (all->stopped || clock_monotonic_ns() > all->end_ns) {
			stage->status = STAGE_CUT;
			snprintf(stage->text, sizeof(stage->text), "%s before it began",
				 all->stopped ? "stopped" : "the time was over");
		} else if (!is_left_out(all, stage)) {
			stage_run(all, stage);
			no_cable_take(all, stage);
		}
		stage_say(all, stage);
	}
}

static int status_of(struct all *all, struct stress_result *result)
{
	int n_passed = 0;

	if (all->n_faults)
		return STRESS_FAILED;
	for (int i = 0; i < all->n_stages; i++) {
		const struct stage *s = &all->stages[i];

		n_passed += s->status == STAGE_PASSED && s->gpus;
		if (s->status == STAGE_FAILED)
			return STRESS_FAILED;
		if ((s->status == STAGE_REFUSED || s->status == STAGE_CUT) && !result->why[0])
			snprintf(result->why, sizeof(result->why), "%s: %.400s", s->name, s->text);
	}
	if (!result->why[0] && !n_passed)
		snprintf(result->why, sizeof(result->why), "no GPU was tested: the lines above say why");
	return result->why[0] ? STRESS_IMPOSSIBLE : STRESS_PASSED;
}

/* What is missing of a whole check, in one line. */
static void partial_say(const struct all *all, char partial[160])
{
	int at = 0;

	for (int i = 0; i < all->n_stages && at < 150; i++)
		if (all->stages[i].status == STAGE_CUT || is_partial(&all->stages[i]))
			at += snprintf(partial + at, 160 - at, "%s%s", at ? ", " : "not all of ", all->stages[i].name);
	if (all->options->all.quick && at < 150)
		snprintf(partial + at, 160 - at, "%s--quick: few types, sizes and patterns", at ? "; " : "");
}

/* --- files --- */

static int copy_open(struct all *all, char why[LIBRARY_WHY])
{
	const char *path = all->options->all.lines, *page = all->options->all.html;
	int err = page ? baseline_writable(page) : 0, fd = -1;

	if (err)
		snprintf(why, LIBRARY_WHY, "--html: %.200s: %s", page, strerror(-err));
	else if (path && (fd = new_file_open(path)) < 0)
		snprintf(why, LIBRARY_WHY, "--lines: %.200s: %s", path, strerror(-fd));
	else if (path && !(all->copy = fdopen(fd, "w")))
		snprintf(why, LIBRARY_WHY, "--lines: %.200s: %s", path, strerror(errno));
	return why[0] ? STRESS_USAGE : STRESS_PASSED;
}

static int files_finish(struct all *all, int status, char why[LIBRARY_WHY])
{
	const char *page = all->options->all.html;
	int err = page ? all_page_write(all, status, page) : 0;
	bool torn = all->copy && (ferror(all->copy) | fclose(all->copy));

	if (err)
		snprintf(why, LIBRARY_WHY, "--html: %.200s: %s", page, strerror(-err));
	else if (torn)
		snprintf(why, LIBRARY_WHY, "--lines: %.200s: it could not be written whole", all->options->all.lines);
	return (err || torn) && status != STRESS_FAILED ? STRESS_USAGE : status;
}

int stress_all(const struct stress_options *options, enum report_mode mode, struct stress_result *result)
{
	struct all all = { .options = options, .mode = mode, .step = 1, .n_stages = N_STAGES };
	int status;

	memset(result, 0, sizeof(*result));
	memcpy(all.stages, stages, sizeof(stages));
	all.begin_ns = clock_monotonic_ns();
	all.end_ns = options->all.quick ? all.begin_ns + QUICK_NS : ~0ull;
	all.lines = cJSON_CreateArray();
	status = copy_open(&all, result->why);
	if (!status) {
		begin_say(&all);
		stages_run(&all);
		status = status_of(&all, result);
		partial_say(&all, result->partial);
		own_line(&all, json_end_make(status, result->partial, (clock_monotonic_ns() - all.begin_ns) * 1e-9));
		all_print(&all, status);
		status = files_finish(&all, status, result->why);
	}
	cJSON_Delete(all.lines);
	return status; /* lint: where status was not 0 before, there is no copy */
}
