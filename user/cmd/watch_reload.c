/* SPDX-License-Identifier: Apache-2.0
 *
 * watch_reload.c - see watch_reload.h.
 */
#include "cmd/watch_reload.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "command.h"

struct names { /* "hang-limit, raise" */
	char text[256];
	size_t n;
};

static void name_add(struct names *to, const char *name, bool differs)
{
	size_t at = strlen(to->text);

	if (!differs)
		return;
	snprintf(to->text + at, sizeof(to->text) - at, "%s%s", to->n ? ", " : "", name);
	to->n++;
}

static bool texts_differ(const char *a, const char *b)
{
	return !a != !b || (a && strcmp(a, b));
}

static bool outputs_differ(const struct outputs *a, const struct outputs *b)
{
	bool differ = a->n != b->n;

	for (int i = 0; !differ && i < a->n; i++)
		differ = strcmp(a->paths[i], b->paths[i]) != 0;
	return differ;
}

static bool pids_differ(const struct session_cfg *a, const struct session_cfg *b)
{
	return a->n_pids != b->n_pids || memcmp(a->pids, b->pids, a->n_pids * sizeof(a->pids[0]));
}

/* What a session is made of. */
static void fixed_compare(const struct session_args *now, const struct session_args *next, struct names *to)
{
	const struct session_cfg *a = &now->session, *b = &next->session;
	bool measured = a->budget_ppm || a->budget_node_ppm; /* what a hit costs, when the programs were loaded */

	name_add(to, "pid", pids_differ(a, b));
	name_add(to, "job", texts_differ(a->job, b->job));
	name_add(to, "duration", a->duration_ns != b->duration_ns);
	name_add(to, "output", outputs_differ(&now->outputs, &next->outputs));
	name_add(to, "json", now->json != next->json);
	name_add(to, "metrics", texts_differ(now->metrics, next->metrics));
	name_add(to, "metrics-config", texts_differ(now->metrics_config, next->metrics_config));
	name_add(to, "ring-size", a->ring_bytes != b->ring_bytes);
	name_add(to, "phases", texts_differ(a->phases, b->phases));
	name_add(to, "flight", !a->flight.dir != !b->flight.dir);
	name_add(to, "budget", !measured && (b->budget_ppm || b->budget_node_ppm));
}

static bool rules_differ(const struct output_rules *a, const struct output_rules *b)
{
	return a->rotate_bytes != b->rotate_bytes || a->rotate_ns != b->rotate_ns || a->keep != b->keep;
}

static void changed_compare(const struct session_args *now, const struct session_args *next, struct names *to)
{
	const struct session_cfg *a = &now->session, *b = &next->session;
	const struct flight_cfg *f = &a->flight, *g = &b->flight;
	bool measured = a->budget_ppm || a->budget_node_ppm;

	name_add(to, "hang-limit", a->hang_floor_ns != b->hang_floor_ns);
	name_add(to, "busy-limit", a->busy_limit_ns != b->busy_limit_ns);
	name_add(to, "dstate-limit", a->dstate_limit_ns != b->dstate_limit_ns);
	name_add(to, "budget", measured && a->budget_ppm != b->budget_ppm);
	name_add(to, "budget-node", measured && a->budget_node_ppm != b->budget_node_ppm);
	name_add(to, "paused", a->paused != b->paused);
	name_add(to, "tier", a->holds_trace != b->holds_trace || strcmp(a->held_job, b->held_job));
	name_add(to, "raise", a->no_raise != b->no_raise);
	name_add(to, "raise-for", a->raise_ns != b->raise_ns);
	name_add(to, "flight", f->dir && g->dir && strcmp(f->dir, g->dir));
	name_add(to, "flight-seconds", f->window_ns != g->window_ns);
	name_add(to, "flight-mb", f->bytes_max != g->bytes_max);
	name_add(to, "flight-keep", f->keep != g->keep);
	name_add(to, "rotate",
		 now->outputs.rules.rotate_bytes != next->outputs.rules.rotate_bytes ||
			 now->outputs.rules.rotate_ns != next->outputs.rules.rotate_ns);
	name_add(to, "keep", now->outputs.rules.keep != next->outputs.rules.keep);
	name_add(to, "fail-on", now->fail_on != next->fail_on);
}

static bool rules_change(struct session_args *now, const struct session_args *next, struct pipeline *p)
{
	struct outputs wanted = now->outputs;

	if (!rules_differ(&now->outputs.rules, &next->outputs.rules))
		return true;
	wanted.rules = next->outputs.rules;
	if (outputs_rules_set(p, &wanted))
		return false;
	now->outputs.rules = wanted.rules;
	return true;
}

static void cfg_change(struct session_cfg *to, const struct session_cfg *from)
{
	bool measured = to->budget_ppm || to->budget_node_ppm, has_flight = to->flight.dir && from->flight.dir;

	to->hang_floor_ns = from->hang_floor_ns;
	to->busy_limit_ns = from->busy_limit_ns;
	to->dstate_limit_ns = from->dstate_limit_ns;
	to->budget_ppm = measured ? from->budget_ppm : 0;
	to->budget_node_ppm = measured ? from->budget_node_ppm : 0;
	to->no_raise = from->no_raise;
	to->holds_trace = from->holds_trace;
	memcpy(to->held_job, from->held_job, sizeof(to->held_job));
	to->paused = from->paused;
	to->raise_ns = from->raise_ns;
	if (has_flight)
		to->flight = from->flight;
}

static void changes_say(const char *source, const struct names *changed, const struct names *fixed)
{
	if (changed->n)
		log_info("%s: changed: %s", source, changed->text);
	else
		log_info("%s: nothing changed", source);
	if (fixed->n)
		log_warn("%s: %s: needs a restart, stays as it was", source, fixed->text);
}

bool settings_change(struct session_args *now, const struct session_args *next, struct pipeline *p,
		     struct session_cfg *cfg, const char *source)
{
	struct names changed = { "", 0 }, fixed = { "", 0 };

	fixed_compare(now, next, &fixed);
	changed_compare(now, next, &changed);
	if (!rules_change(now, next, p)) {
		log_error("%s: nothing was changed", source);
		return false;
	}
	cfg_change(cfg, &next->session);
	now->fail_on = next->fail_on;
	changes_say(source, &changed, &fixed);
	return true;
}
