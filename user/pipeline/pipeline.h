/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline.h - everything behind the reorder window, the same for a live session and a replay: record -> (recordings)
 * -> decode -> model -> detectors at ticks -> incidents -> sinks.
 *
 * It depends on the records alone, so a replay gives the findings of the live session.
 */
#ifndef RANKTRACE_PIPELINE_H
#define RANKTRACE_PIPELINE_H

#include "pipeline/incident.h"
#include "model/model.h"
#include "pipeline/output.h"
#include "schemas/wire.h"
#include "sink/sink.h"

struct pipeline;

struct pipeline *pipeline_new(void); /* NULL: out of memory */
/* Closes sinks and recordings, which take their final names if a record was fed; returns the first error, or 0.
 * pipeline_output_change() has them all. */
int pipeline_close_outputs(struct pipeline *p);
int pipeline_free(struct pipeline *p); /* closes them too */

/* Does its suffix say what to write there? "-" needs none. */
bool pipeline_output_known(const char *path);
/* Adds an output by the suffix of its path (".rtr" or a sink's); "-": a recording on stdout. An existing file stays
 * until its successor is complete (output_file.h). 0; -EPROTONOSUPPORT: unknown suffix; or -errno. */
int pipeline_add_output(struct pipeline *p, const char *path);
/* Adds a recording, whatever its name; "-": stdout. 0 or -errno. */
int pipeline_add_recording(struct pipeline *p, const char *path);
/* Adds a sink by name that writes to `path` ("-": stdout). 0 or -errno. */
int pipeline_add_sink(struct pipeline *p, const char *name, const char *path);

/* Adds a sink that is open already, and no file: what its methods return is its own affair. The pipeline closes it.
 * 0, or -E2BIG and it stays the caller's. */
int pipeline_add_listener(struct pipeline *p, struct sink *s);

/* Before this process is confined: leaves a keeper behind for the names of the outputs so far, and for `inputs`.
 * 0 or -errno. */
int pipeline_keep(struct pipeline *p, const char *const *inputs, size_t n_inputs);
/* NULL: none was left. */
const struct keeper *pipeline_keeper(const struct pipeline *p);

/* How the outputs are followed by new ones and come back after an error; before the first record. Default: not. */
void pipeline_set_output_rules(struct pipeline *p, const struct output_rules *rules);

/* Other rules while records come. A file that was to take its name at the end takes it now where others follow it. */
void pipeline_change_output_rules(struct pipeline *p, const struct output_rules *rules);

/* Findings that come from elsewhere than the records: of a hub, what nodes found. Copied. */
void pipeline_set_outside(struct pipeline *p, const struct outside_judge *j);

/* Each record also goes to `tap`, before the model takes it; NULL: stop. Borrows `to`. From the first record on, or the
 * state that it is given is not whole. */
void pipeline_set_tap(struct pipeline *p, void (*tap)(void *to, const struct wire_hdr *rec, struct pipeline *p),
		      void *to);
/* The state of the stream as records, as a recording has to begin with that begins now (kept_records.h). 0 or -errno,
 * also of `each`. */
int pipeline_state(struct pipeline *p, int (*each)(void *to, const struct wire_hdr *rec), void *to);
/* Feeds one record. An error of an output pauses or drops that output (pipeline_output_change()) and is no error here.
 * 0 or -ENOMEM. */
int pipeline_feed(struct pipeline *p, const struct wire_hdr *rec);
/* Writes out all buffers. */
void pipeline_flush(struct pipeline *p);
/* Begins anew the files that were moved away from their names (logrotate). */
void pipeline_reopen_outputs(struct pipeline *p);
/* What became of the next output since the last call; false: nothing. */
bool pipeline_output_change(struct pipeline *p, struct output_change *ret);
struct pipeline_shortage { /* since the one before */
	uint64_t records;  /* of the stream's state: files that begin later lack them (kept_records.h) */
	uint64_t texts;    /* of what is seen: left out (base/intern.h) */
	uint64_t names;    /* of what processes are known by */
};
/* What found no room; false: nothing, or another one was returned in the last ten minutes of the records' clock. */
bool pipeline_shortage(struct pipeline *p, struct pipeline_shortage *ret);
#define OUTPUT_ANY (-1)
/* Did the output added i-th (from 0), or any, fail at any time? */
bool pipeline_output_failed(const struct pipeline *p, int i);
/* False: all outputs that were added have failed for good. */
bool pipeline_has_output(const struct pipeline *p);
/* Where the output added i-th (from 0) is written until it is complete; NULL: under its own name. */
const char *pipeline_output_place(const struct pipeline *p, int i);

const struct model *pipeline_model(const struct pipeline *p);
const struct incidents *pipeline_incidents(const struct pipeline *p);
const struct pauses *pipeline_pauses(const struct pipeline *p); /* what the detectors learnt */
uint64_t pipeline_records(const struct pipeline *p);
uint64_t pipeline_undecoded(const struct pipeline *p); /* records that no decoder knows */

#endif
