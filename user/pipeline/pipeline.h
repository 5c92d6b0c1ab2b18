/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline.h - everything after the merge, the same for a live session and a replay: record -> (recordings) ->
 * decode -> model -> detectors at ticks -> incidents -> sinks. What it does depends on the records alone.
 */
#ifndef RANKTRACE_PIPELINE_H
#define RANKTRACE_PIPELINE_H

#include "pipeline/incident.h"
#include "model/model.h"
#include "schemas/wire.h"
#include "sink/sink.h"

struct pipeline;

struct pipeline *pipeline_new(void); /* NULL without memory */
/* Closes sinks and recordings; returns the first error of a close, 0. */
int pipeline_free(struct pipeline *p);

/* An output by the suffix of its path (".rtr" or a sink's). 0; -EPROTONOSUPPORT for an unknown suffix; or -errno. */
int pipeline_add_output(struct pipeline *p, const char *path);
/* A recording, whatever its name; "-": stdout. 0 or -errno. */
int pipeline_add_recording(struct pipeline *p, const char *path);
/* A sink by name, to `path` ("-": stdout). 0 or -errno. */
int pipeline_add_sink(struct pipeline *p, const char *name, const char *path);

/* Each record goes to `tap` too, before the model takes it; NULL: not any more. `to` is borrowed. */
void pipeline_set_tap(struct pipeline *p, void (*tap)(void *to, const struct wire_hdr *rec, struct model *m), void *to);
/* Feed one record. Errors of an output drop that output (see pipeline_output_error) and are no error here.
 * 0 or -ENOMEM. */
int pipeline_feed(struct pipeline *p, const struct wire_hdr *rec);
/* Write out what is buffered. */
void pipeline_flush(struct pipeline *p);
/* The next output that failed since the last call: its path and -errno; NULL none. */
const char *pipeline_output_error(struct pipeline *p, int *ret_err);

const struct model *pipeline_model(const struct pipeline *p);
const struct incidents *pipeline_incidents(const struct pipeline *p);
uint64_t pipeline_records(const struct pipeline *p);
uint64_t pipeline_undecoded(const struct pipeline *p); /* records no decoder knew */

#endif
