/* SPDX-License-Identifier: Apache-2.0
 *
 * outputs.c - see outputs.h.
 */
#include "session/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

int outputs_open(struct pipeline *p, const char *sink, const struct outputs *o)
{
	int err = sink ? pipeline_add_sink(p, sink, "-") : 0;

	if (err)
		log_error("standard output: %s", strerror(-err));
	for (int i = 0; !err && i < o->n; i++) {
		err = pipeline_add_output(p, o->paths[i]);
		if (err)
			log_error("%s: %s", o->paths[i],
				  err == -EPROTONOSUPPORT ? "unknown suffix; use .pftrace, .rtr or .jsonl"
							  : strerror(-err));
	}
	return err;
}

int outputs_errors_say(struct pipeline *p)
{
	const char *path;
	int err = 0, last = 0;

	while ((path = pipeline_output_error(p, &err))) {
		log_error("%s: %s; this output ends here, what it holds stays readable; the session goes on", path,
			  strerror(-err));
		last = err;
	}
	return last;
}

#define COSTS_SAID 8

void outputs_costs_say(struct pipeline *p)
{
	const struct incident *costs[COSTS_SAID];
	size_t n = incidents_by_cost(pipeline_incidents(p), costs, COSTS_SAID);

	for (size_t i = 0; i < n; i++) {
		const struct finding *f = &costs[i]->f;
		const char *class = hang_class_name(f->class);

		char rank[24] = "";

		if (f->n_ranks)
			snprintf(rank, sizeof(rank), " rank %d", f->ranks[0]);
		log_info("cost %.1f s: %s%s%s%s%s (%s) %s", costs[i]->cost_s, finding_kind_name(f->kind),
			 *class ? "/" : "", class, rank, f->n_ranks > 1 ? " and others" : "",
			 f->cause ? finding_cause_shown(f) : "no cause known", costs[i]->id);
	}
}
