/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h - what a report gathers while a stream goes by, and the parts of its data. Times in the page are seconds
 * since `base_ns`. Of this room alone.
 */
#ifndef RANKTRACE_REPORT_H
#define RANKTRACE_REPORT_H

#include "sink/report/heat.h"
#include "sink/report/rounds.h"
#include "sink/sink.h"

struct cJSON;

#define INCIDENTS_KEPT 1000
#define GRAPHS_KEPT 4
#define LIBS_KEPT 64
#define NOTES_KEPT 200
#define COMMS_KEPT 16384

struct kept_incident { /* as last reported */
	struct incident i;
	char *sentence, *block, *evidence, *json; /* block and evidence: of when it was open */
	struct cJSON *graph;                      /* of a hang, NULL none */
	bool closed;
};

struct comm_stats { /* of one communicator, over all that was seen */
	uint64_t hash;
	int nranks, n_seen;
	const char *use; /* "tp"; NULL not known */
	uint64_t n_ops, bytes, n_rounds, n_ended;
	double wait_s, worst_s, duration_s, busy_bytes; /* first waits for last; of ended ones; bus bytes of these */
	uint64_t worst_seq;
	enum op_kind worst_op;
	int64_t worst_rank;
	UT_hash_handle hh;
};

struct note { /* something that happened and is worth a line */
	uint64_t ns;
	char *text;
};

struct lib {
	char *path, *build_id;
	uint32_t n_probes;
};

struct report {
	struct sink base;
	int fd;
	uint64_t base_ns, loss_ns;
	struct kept_incident *incidents;
	size_t n_incidents, n_dropped; /* dropped: of the least severity, past INCIDENTS_KEPT */
	struct rounds rounds;
	struct heat heat;
	struct comm_stats *comms;
	size_t n_comms, n_comms_dropped;
	struct cJSON *stacks; /* as of the newest hang; NULL: none */
	uint64_t stacks_ns;
	struct note notes[NOTES_KEPT];
	size_t n_notes, n_notes_dropped;
	struct lib libs[LIBS_KEPT];
	size_t n_libs, n_libs_dropped;
	uint64_t n_attached, n_late_ops, lost[3];
	bool stopped;
};

/* Seconds since the begin of the stream, to the millisecond. */
double report_seconds(const struct report *r, uint64_t ns);
/* As JSON sinks have texts: valid UTF-8. */
void report_add(struct cJSON *o, const char *name, const char *text);

/* kept.c: incidents */
int report_keep(struct report *r, const struct incident *i, const struct model *m);
/* Of those that are no consequence the worst; NULL: there is none of a warning or worse. */
const struct kept_incident *report_main(const struct report *r);
bool kept_is_root(const struct kept_incident *k);
void report_incidents_free(struct report *r);
struct cJSON *report_findings(const struct report *r);

/* comms.c: operations and communicators */
void report_op(struct report *r, const struct op *op);
void report_rounds_end(struct report *r, const struct model *m);
struct cJSON *report_comms(const struct report *r, const struct model *m);
struct cJSON *report_ranks(const struct report *r, const struct model *m);

/* machines.c */
struct cJSON *report_machines(const struct model *m);
struct cJSON *report_libs(const struct report *r);

/* storage.c: where ranks were blocked longest, the longest first */
struct cJSON *report_storage(const struct model *m);

/* unseen.c */
void report_note(struct report *r, const struct event *e, const struct model *m);
struct cJSON *report_unseen(const struct report *r, const struct model *m);
struct cJSON *report_notes(const struct report *r);

/* summary.c: three sentences, figures, what to do next */
struct cJSON *report_story(const struct report *r, const struct model *m);
struct cJSON *report_next(const struct report *r, const struct model *m);

/* page.c: the page around the data, which is JSON. 0 or -errno. */
int report_write(int fd, const char *json);

#endif
