/* SPDX-License-Identifier: Apache-2.0
 *
 * table.h - jobs as rows, one a rank: what it does, how far it is behind, what is found of it. Made of models at one
 * moment: of one for a live session and for a recording, of one a job for what a hub sees. Pure. Texts are borrowed
 * from the models: good until one takes the next record.
 */
#ifndef RANKTRACE_TOP_TABLE_H
#define RANKTRACE_TOP_TABLE_H

#include "base/keyed.h"
#include "detect/gpu/gpu_role.h"
#include "model/model.h"
#include "pipeline/incident.h"

#define TOP_STANDS_NS 1500000000ull /* entered nothing for so long: two samples of tier watch, as a rule */

/* What a rank does, the worst first: name, what it says. */
/* clang-format off */
#define TOP_STATES(X) \
	X(DEAD, "dead", "its process failed or was killed; peers may wait for it") \
	X(STOPPED, "stopped", "by a signal or a debugger") \
	X(BLOCKED, "D state", "its main thread waits in the kernel, uninterruptible") \
	X(LATE, "late", "its peers entered an operation that it did not") \
	X(SILENT, "silent", "its host sends no reports") \
	X(WAITS, "waits", "in an operation that some peer did not enter") \
	X(STANDS, "stands", "entered nothing for a while, as its peers") \
	X(MOVES, "moves", "enters operations") \
	X(ENDED, "ended", "its process ended, with status 0") \
	X(UNSEEN, "?", "nothing of NCCL is seen of it")
/* clang-format on */

enum top_state {
#define X(id, name, help) TOP_##id,
	TOP_STATES(X)
#undef X
		TOP_STATE_MAX
};

/* What is known of a job, or of all of a node. Processes of two parts have two keys. */
struct top_part {
	const struct model *m;
	const struct incidents *open;
};

struct top_found {
	const struct incident *i;
	const struct model *m;
};

struct top_row {
	struct keyed keyed; /* process key, rank */
	const struct top_part *part;
	const struct proc *proc;
	int rank;         /* -1 unknown */
	const char *job;  /* as shown; "" none */
	const char *host; /* "" not known */
	enum top_state state;
	const struct member *at; /* where it stands: waits in, is late to, or was last; NULL none */
	uint64_t seq; /* of that: the first that some peer did not enter, or it itself; else the last it entered */
	bool has_seq;
	uint64_t lag;          /* collectives behind the first of its communicators */
	uint64_t wait_ns;      /* since it last entered an operation; 0 not known */
	double step_s;         /* 0 not known */
	int phase;             /* enum step_phase; -1 not known */
	double cpu;            /* its main thread, of one core; negative not known */
	const struct gpu *gpu; /* NULL not known */
	struct gpu_activity activity;
	const struct incident *worst; /* the gravest open finding that names it; NULL none */
	unsigned int n_findings;
	bool ahead, behind; /* of some peer in some communicator */
	bool moved;         /* it was seen to enter something; else wait_ns is since the first look */
};

struct top_table { /* zeroed at first */
	struct keyed_table rows;
	struct top_row **order; /* as they are to be shown: order.h */
	size_t n;
	struct top_part *parts;
	size_t n_parts;
	struct top_found *found; /* all that are open, the gravest first */
	size_t n_found;
	uint64_t now_ns; /* the latest of the parts */
	unsigned int n_open[SEVERITY_MAX], n_state[TOP_STATE_MAX];
};

/* 0 or -ENOMEM; free it either way. */
int top_table_make(struct top_table *t, const struct top_part *parts, size_t n_parts);
void top_table_free(struct top_table *t);
const char *top_state_name(enum top_state s);
const char *top_state_help(enum top_state s);
/* It is one that somebody has to look at: an open finding names it, or its state is the worse half. */
bool top_row_is_bad(const struct top_row *r);
/* "dp #1842 AllReduce", "" not known */
void top_row_op(const struct top_row *r, char *to, size_t size);
/* A finding names this process. */
bool top_finding_names(const struct finding *f, const struct proc *p, int rank);

#endif
