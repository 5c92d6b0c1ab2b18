/* SPDX-License-Identifier: Apache-2.0
 *
 * output.h - one output of the pipeline: a recording (takes records) or a sink (takes events, operations, findings).
 *
 * In a session that lasts, a file is followed by a new one of its name when it is large or old enough, and an output
 * that could not be written is tried again. A file that begins in the middle of a session begins with the state of
 * the stream (kept_records.h), so that each can be read alone.
 */
#ifndef RANKTRACE_OUTPUT_H
#define RANKTRACE_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/intern.h"
#include "pipeline/incident.h"
#include "pipeline/kept_records.h"
#include "pipeline/output_file.h"
#include "recording/recording.h"
#include "sink/sink.h"

#define OUTPUT_KEEP 5 /* files before the newest one */

struct output_rules {          /* of all outputs of a session; zero: a command that ends by itself */
	bool lasting;          /* it goes on for days: an output that fails is tried again */
	uint64_t rotate_bytes; /* a file of that size is followed by a new one; 0: never */
	uint64_t rotate_ns;    /* and one of that age */
	unsigned int keep;     /* files NAME.1, the newest, to NAME.keep; 0: OUTPUT_KEEP */
};

enum output_change_kind {
	OUTPUT_IN_ORDER,
	OUTPUT_ENDED,   /* it failed for good */
	OUTPUT_PAUSED,  /* it failed and is tried again */
	OUTPUT_BACK,    /* `missed` records or findings are not in it */
	OUTPUT_NOT_NEW, /* a new file could not be begun; the present one goes on */
};

struct output_change {
	enum output_change_kind kind;
	const char *path; /* present name; "-": stdout */
	int err;          /* -errno */
	uint64_t missed;
	bool findings; /* `missed` are findings, otherwise records */
	bool apart;    /* what was written before is in a file of its own, PATH.1 */
};

struct output {
	const struct sink_class *class; /* NULL: a recording */
	struct output_file file;
	struct recording *recording;
	struct sink *sink;
	int err;                     /* -errno while it is not written; closed for good unless `paused` */
	bool paused, failed;         /* failed: at any time */
	bool stays;                  /* no new file could be begun, and that was said */
	uint64_t missed;             /* since it was paused */
	uint64_t n_put;              /* records handed to the present file, or since a timeline was flushed */
	uint64_t begun_ns;           /* the present file, on the model's clock; 0: not yet known */
	uint64_t retry_ns, pause_ns; /* when it is tried again; how long after the last try */
	off_t state_bytes;           /* of the present file, what it began with */
	struct output_change change;
};

struct output_stream { /* what outputs are written from; the pipeline's */
	struct output_rules rules;
	struct model *model;
	struct incidents *incidents;
	struct intern *strings;
	struct kept_records kept; /* where the session lasts, or a flight recorder asks */
};

/* Opens `path`; class NULL: a recording. 0, or -errno with nothing to free. */
int output_open(struct output *o, const char *path, const struct sink_class *class);
/* Ends it; the file takes its final name, or goes where `fed` is false. 0 or the first -errno. */
int output_finish(struct output *o, const struct output_stream *s, bool fed);
void output_free(struct output *o); /* of a finished one */
bool output_is_open(const struct output *o);

/* The first record is fed: a file that is followed by others takes its own name now. */
void output_begin(struct output *o, const struct output_stream *s);
void output_record(struct output *o, const struct output_stream *s, const struct wire_hdr *rec);
void output_incident(struct output *o, const struct output_stream *s, const struct incident *i);
void output_flush(struct output *o, const struct output_stream *s);
/* What a method of its sink returned. */
void output_check(struct output *o, const struct output_stream *s, int err);
/* Its file was moved away by somebody else, who expects a new one: begins it. Else nothing. */
void output_reopen(struct output *o, const struct output_stream *s);
/* At a tick: a new file if it is time for one, another try if it is paused. */
void output_tend(struct output *o, const struct output_stream *s);

#endif
