/* SPDX-License-Identifier: Apache-2.0
 *
 * outputs.c - see outputs.h.
 */
#include "outputs.h"

#include <errno.h>
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
			log_error("%s: %s", o->paths[i], err == -EPROTONOSUPPORT ?
				  "unknown suffix; use .pftrace, .rtr or .jsonl" : strerror(-err));
	}
	return err;
}

int outputs_errors_say(struct pipeline *p)
{
	const char *path;
	int err = 0, last = 0;

	while ((path = pipeline_output_error(p, &err))) {
		log_error("%s: %s; what was written before stays readable, the rest goes on without this output", path,
			  strerror(-err));
		last = err;
	}
	return last;
}
