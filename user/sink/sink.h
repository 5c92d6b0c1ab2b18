/* SPDX-License-Identifier: Apache-2.0
 *
 * sink.h - a sink shows what the pipeline found. One file a sink and one line in sinks.def. A sink sees events,
 * operations once their end is known, steps as they end, and incidents; it never sees a tracer's record and never talks
 * back.
 */
#ifndef RANKTRACE_SINK_H
#define RANKTRACE_SINK_H

#include "finding.h"
#include "model/model.h"

struct sink;

struct sink_class {
	const char *name, *help;
	const char *suffix; /* ".pftrace": chosen by -o; NULL: not a file sink */
	bool lines;         /* each call writes whole lines or none: after an error the next may succeed */
	/* `path` "-" is stdout. 0 or -errno; on error *ret_sink is untouched and nothing is logged. */
	int (*open)(const char *path, struct sink **ret_sink);
	/* Each of these may be NULL. 0 or -errno (-ENOSPC: the caller says so and drops the sink; what was written
	 * stays readable). */
	int (*event)(struct sink *s, const struct event *e, const struct model *m);
	int (*op)(struct sink *s, const struct op *op, const struct model *m);
	int (*step)(struct sink *s, const struct step_done *step, const struct model *m);
	int (*incident)(struct sink *s, const struct incident *i, const struct model *m);
	int (*flush)(struct sink *s);
	int (*close)(struct sink *s, const struct model *m); /* frees it, also on error */
};

struct sink {
	const struct sink_class *class;
}; /* first member of every sink */

/* As its environment says, also where it is several ranks; else as NCCL does (proc_rank()). -1 unknown. */
static inline int sink_rank(const struct proc *p)
{
	return p->rank >= 0 ? p->rank : proc_rank(p);
}

#define SINK(id, name, help) extern const struct sink_class sink_##id;
#include "sink/sinks.def"
#undef SINK

/* By suffix of `path`, or by name; NULL none. */
const struct sink_class *sink_class_by_path(const char *path);
const struct sink_class *sink_class_by_name(const char *name);

#endif
