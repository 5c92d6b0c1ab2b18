/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor.c - `ranktrace doctor`: what of this host will be seen and what not, a line for each check of checks.def, with
 * cause and remedy. Attaches nothing.
 */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "attach/kernel.h"
#include "base/log.h"
#include "base/foreign.h"
#include "cmd/help.h"
#include "command.h"
#include "doctor/checks.h"
#include "inspect/discover/discover.h"
#include "inspect/discover/privilege.h"
#include "inspect/reader/reader.h"
#include "session/targets.h"

static const struct {
	const char *name, *rests;
	void (*run)(struct check *c, const struct doctor_host *h);
} checks[] = {
#define CHECK(id, name, rests) { name, rests, check_##id },
#include "doctor/checks.def"
#undef CHECK
};
#define N_CHECKS (sizeof(checks) / sizeof(checks[0]))

static const char *const statuses[] = { [CHECK_OK] = "ok", [CHECK_LIMITED] = "limited", [CHECK_MISSING] = "missing" };

static const struct argp_option doctor_options[] = {
	{ "json", 'j', 0, 0, "JSON lines", HELP_OUTPUT },
	{ 0 },
};

static error_t doctor_option(int key, char *arg, struct argp_state *state)
{
	bool *json = state->input;

	(void)arg;
	switch (key) {
	case 'j': *json = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "no arguments expected");
	}
	return ARGP_ERR_UNKNOWN;
}

static void text_print(size_t i, const struct check *c)
{
	foreign_print("%-8s %-19s %s\n", statuses[c->status], checks[i].name,
		      *c->found               ? c->found
		      : c->status == CHECK_OK ? ""
					      : "no");
	if (c->status == CHECK_OK)
		return;
	foreign_print("         %-19s for: %s\n", "", checks[i].rests);
	if (*c->cause)
		foreign_print("         %-19s why: %s\n", "", c->cause);
	if (*c->remedy)
		foreign_print("         %-19s do:  %s\n", "", c->remedy);
}

static void json_print(size_t i, const struct check *c)
{
	cJSON *o = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(o, "check", checks[i].name);
	cJSON_AddStringToObject(o, "status", statuses[c->status]);
	cJSON_AddStringToObject(o, "for", checks[i].rests);
	foreign_json(o, "found", c->found);
	foreign_json(o, "cause", c->cause);
	foreign_json(o, "remedy", c->remedy);
	text = cJSON_PrintUnformatted(o);
	if (text)
		puts(text);
	free(text);
	cJSON_Delete(o);
}

/* NULL: /proc cannot be read, which a check then says. */
static struct target_set *host_scan(struct reader **reader)
{
	const struct target_filter *filters;
	struct target_set *set = NULL;
	size_t n;
	int err;

	filters = session_target_filters(&n);
	err = reader_open(reader);
	if (!err)
		err = target_set_new(*reader, filters, n, &set);
	if (!err) {
		reader_set_timeout(*reader, READER_TIMEOUT_MS);
		err = target_set_scan_settled(set);
	}
	if (!err)
		return set;
	target_set_free(set);
	return NULL;
}

/* The worst of all checks. */
static enum check_status checks_run(const struct doctor_host *h, bool json)
{
	enum check_status worst = CHECK_OK;

	for (size_t i = 0; i < N_CHECKS; i++) {
		struct check c = { 0 };

		checks[i].run(&c, h);
		(json ? json_print : text_print)(i, &c);
		fflush(stdout);
		worst = c.status > worst ? c.status : worst;
	}
	return worst;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct argp argp = { doctor_options, doctor_option, NULL, NULL, NULL, NULL, NULL };
	static const struct help help = {
		"doctor", "[OPTIONS]",
		"Says what of this host will be seen and what not: a line for each thing that tracing rests on, ok, "
		"limited or missing, with cause and remedy. Exits 0: all ok; 1: something will not be seen; 3: tracing "
		"cannot work."
	};
	static const int codes[] = {
		[CHECK_OK] = EXIT_CLEAN, [CHECK_LIMITED] = EXIT_FINDING, [CHECK_MISSING] = EXIT_UNSUPPORTED
	};
	struct doctor_host host = { 0 };
	struct reader *reader = NULL;
	bool json = false;
	char denied[1024];
	enum check_status worst;

	command_line_parse(&argp, &help, argc, argv, 0, &json);
	if (kernel_lacks_read(&host.kernel_lacks) == -EDOM) {
		log_error("RANKTRACE_KERNEL_LACKS=%s: has a name that 'ranktrace ps --kernel' does not list",
			  getenv("RANKTRACE_KERNEL_LACKS"));
		return EXIT_USAGE;
	}
	host.reads_all = !privilege_reading(denied, sizeof(denied));
	host.set = host_scan(&reader);
	worst = checks_run(&host, json);
	target_set_free(host.set);
	reader_free(reader);
	return codes[worst];
}
