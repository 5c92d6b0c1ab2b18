/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.c - kept counters and findings as lines of comma-separated values.
 */
#include <inttypes.h>
#include <stdio.h>

#include "sink/line_sink.h"
#include "sink/sink_io.h"

static int csv_open(const char *path, struct sink **ret_sink)
{
	return line_sink_open(&sink_csv, path, ret_sink);
}

static int csv_event(struct sink *base, const struct event *e, const struct model *m)
{
	const struct proc *p = model_proc(m, event_proc(e));
	char line[128];
	int n;

	if (e->kind != EV_COUNTER || !e->generic.kept)
		return 0;
	n = snprintf(line, sizeof(line), "counter,%" PRIu64 ",%d,%s,%" PRId64 "\n", e->ts_ns, p ? p->rank : -1,
		     e->generic.name, e->generic.value);
	return lines_out_put(&((struct line_sink *)base)->out, line, (size_t)n);
}

static int csv_incident(struct sink *base, const struct incident *i, const struct model *m)
{
	static const char *const phases[] = { "open", "update", "close" };
	char line[128];
	int n = snprintf(line, sizeof(line), "finding,%" PRIu64 ",%d,%s,%s\n", i->t_ns,
			 i->f.n_ranks ? i->f.ranks[0] : -1, finding_kind_name(i->f.kind), phases[i->phase]);

	(void)m;
	return lines_out_put(&((struct line_sink *)base)->out, line, (size_t)n);
}

const struct sink_class sink_csv = {
	.name = "csv",
	.help = "counters and findings as comma-separated values",
	.suffix = ".csv",
	.open = csv_open,
	.event = csv_event,
	.incident = csv_incident,
	.close = line_sink_close,
};
