/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline.c - see pipeline.h. Read pipeline_feed() first: it is the whole way of one record.
 */
#include "pipeline/pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keeper.h"
#include "pipeline/decode.h"
#include "pipeline/output_file.h"
#include "recording/recording.h"

#define OUTPUTS_MAX 16
#define PID_BITS 22 /* PID_MAX_LIMIT of the kernel */

struct output { /* a recording (takes records) or a sink (takes events, operations, incidents) */
	struct output_file file;
	struct recording *recording;
	struct sink *sink;
	int err; /* first -errno; closes the output */
	bool reported;
};

struct pipeline {
	struct intern *strings;
	struct model *model;
	struct detectors *detectors;
	struct finding_list found;
	struct incidents *incidents;
	struct output outputs[OUTPUTS_MAX];
	int n_outputs;
	void (*tap)(void *to, const struct wire_hdr *rec, struct model *m);
	void *tap_to;
	uint64_t records, undecoded;
	uint32_t node; /* whose records come now: RECORD_NODE */
	struct keeper *keeper;
};

struct pipeline *pipeline_new(void)
{
	struct pipeline *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->strings = intern_new();
	p->model = model_new();
	p->detectors = detectors_new();
	p->incidents = incidents_new();
	if (p->strings && p->model && p->detectors && p->incidents)
		return p;
	pipeline_free(p);
	return NULL;
}

static bool is_open(const struct output *o)
{
	return o->recording || o->sink;
}

static int output_close(struct output *o, const struct model *m)
{
	int err = 0;

	if (o->recording)
		err = recording_close(o->recording);
	else if (o->sink)
		err = o->sink->class->close(o->sink, m);
	o->recording = NULL;
	o->sink = NULL;
	return err;
}

/* A session that could not begin fed no record: its outputs replace nothing. */
int pipeline_close_outputs(struct pipeline *p)
{
	int err = 0, last;

	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++) {
		if (!is_open(o))
			continue;
		last = output_close(o, p->model);
		if (!p->records)
			output_file_discard(&o->file);
		else if (!last)
			last = output_file_commit(&o->file);
		o->err = last;
		err = err ? err : last;
	}
	return err;
}

int pipeline_free(struct pipeline *p)
{
	int err;

	if (!p)
		return 0;
	err = pipeline_close_outputs(p);
	for (int i = 0; i < p->n_outputs; i++)
		output_file_free(&p->outputs[i].file);
	finding_list_free(&p->found);
	incidents_free(p->incidents);
	keeper_free(p->keeper);
	detectors_free(p->detectors);
	model_free(p->model);
	intern_free(p->strings);
	free(p);
	return err;
}

static int output_add(struct pipeline *p, const char *path, const struct sink_class *class)
{
	struct output o = {};
	int err;

	if (p->n_outputs == OUTPUTS_MAX)
		return -E2BIG;
	err = output_file_begin(&o.file, path);
	if (err)
		return err;
	err = class ? class->open(o.file.name, &o.sink) : recording_create(o.file.name, &o.recording);
	if (!err) {
		p->outputs[p->n_outputs++] = o;
		return 0;
	}
	output_file_discard(&o.file);
	output_file_free(&o.file);
	return err;
}

int pipeline_add_output(struct pipeline *p, const char *path)
{
	const struct sink_class *class = sink_class_by_path(path);
	const char *dot = strrchr(path, '.');

	if (!class && strcmp(path, "-") && (!dot || strcmp(dot, ".rtr")))
		return -EPROTONOSUPPORT;
	return output_add(p, path, class);
}

int pipeline_add_recording(struct pipeline *p, const char *path)
{
	return output_add(p, path, NULL);
}

int pipeline_add_sink(struct pipeline *p, const char *name, const char *path)
{
	const struct sink_class *class = sink_class_by_name(name);

	return class ? output_add(p, path, class) : -EPROTONOSUPPORT;
}

int pipeline_keep(struct pipeline *p, const char *const *inputs, size_t n_inputs)
{
	struct keeper_output names[OUTPUTS_MAX];
	size_t n = 0;
	int err;

	for (int i = 0; i < p->n_outputs; i++) {
		struct output_file *f = &p->outputs[i].file;

		f->number = n;
		if (f->replaces || f->created)
			names[n++] = (struct keeper_output){ .name = f->name, .replaces = f->replaces };
	}
	if (!n && !n_inputs)
		return 0;
	err = keeper_start(inputs, n_inputs, names, n, &p->keeper);
	for (int i = 0; i < p->n_outputs; i++)
		p->outputs[i].file.keeper = p->keeper;
	return err;
}

const struct keeper *pipeline_keeper(const struct pipeline *p)
{
	return p->keeper;
}

/* Closes an output at its first error, so that what it holds stays readable; the other outputs go on. */
static void output_check(struct pipeline *p, struct output *o, int err)
{
	if (!err)
		return;
	o->err = err;
	output_close(o, p->model);
}

#define EACH_SINK(p, method, ...) \
	for (struct output *o_ = (p)->outputs; o_ < (p)->outputs + (p)->n_outputs; o_++) \
		if (o_->sink && o_->sink->class->method) \
	output_check(p, o_, o_->sink->class->method(o_->sink, __VA_ARGS__))

static void ops_hand_out(struct pipeline *p)
{
	const struct op *op;

	while ((op = model_next_ended(p->model)))
		EACH_SINK(p, op, op, p->model);
}

static int tick(struct pipeline *p)
{
	const struct incident *i;
	int err = detectors_tick(p->detectors, p->model, &p->found);

	if (!err)
		err = incidents_update(p->incidents, &p->found, p->model);
	while (!err && (i = incidents_next(p->incidents)))
		EACH_SINK(p, incident, i, p->model);
	return err;
}

/* Merges of before RECORD_NODE gave processes numbers that no pid can be: host << PID_BITS | pid, and a RECORD_HOST
 * each.
 */
static void old_number_split(struct event *e)
{
	const uint32_t mask = (1u << PID_BITS) - 1;

	if (!(e->tgid >> PID_BITS))
		return;
	e->node = e->tgid >> PID_BITS;
	e->tgid &= mask;
	e->tid &= mask;
	if (e->kind == EV_PROC)
		e->proc.parent_tgid &= mask;
}

static void node_set(struct pipeline *p, struct event *e)
{
	if (e->kind == EV_NODE && !e->tgid) {
		p->node = e->node;
		return;
	}
	e->node = p->node;
	old_number_split(e);
}

static int event_feed(struct pipeline *p, struct event *e)
{
	int err;

	node_set(p, e);
	err = model_apply(p->model, e);
	if (err == -ENOMEM)
		return err;
	EACH_SINK(p, event, e, p->model);
	ops_hand_out(p);
	return e->kind == EV_TICK ? tick(p) : 0;
}

void pipeline_set_tap(struct pipeline *p, void (*tap)(void *to, const struct wire_hdr *rec, struct model *m), void *to)
{
	p->tap = tap;
	p->tap_to = to;
}

int pipeline_feed(struct pipeline *p, const struct wire_hdr *rec)
{
	struct event events[DECODE_EVENTS_MAX];
	int n, err = 0;

	p->records++;
	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++)
		if (o->recording)
			output_check(p, o, recording_put(o->recording, rec));
	if (p->tap)
		p->tap(p->tap_to, rec, p->model);
	n = decode_record(rec, p->strings, events);
	if (n < 0)
		p->undecoded++;
	for (int i = 0; !err && i < n; i++)
		err = event_feed(p, &events[i]);
	return err;
}

void pipeline_flush(struct pipeline *p)
{
	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++) {
		if (o->recording)
			output_check(p, o, recording_flush(o->recording));
		else if (o->sink && o->sink->class->flush)
			output_check(p, o, o->sink->class->flush(o->sink));
	}
}

const char *pipeline_output_error(struct pipeline *p, int *ret_err)
{
	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++) {
		if (!o->err || o->reported)
			continue;
		o->reported = true;
		*ret_err = o->err;
		return o->file.name;
	}
	return NULL;
}

bool pipeline_output_failed(const struct pipeline *p, int i)
{
	for (int k = 0; k < p->n_outputs; k++)
		if ((i == OUTPUT_ANY || i == k) && p->outputs[k].err)
			return true;
	return false;
}

bool pipeline_has_output(const struct pipeline *p)
{
	for (const struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++)
		if (is_open(o))
			return true;
	return !p->n_outputs;
}

const char *pipeline_output_place(const struct pipeline *p, int i)
{
	return p->outputs[i].file.replaces ? p->outputs[i].file.name : NULL;
}

const struct model *pipeline_model(const struct pipeline *p)
{
	return p->model;
}

const struct incidents *pipeline_incidents(const struct pipeline *p)
{
	return p->incidents;
}

const struct pauses *pipeline_pauses(const struct pipeline *p)
{
	return detectors_pauses(p->detectors);
}

uint64_t pipeline_records(const struct pipeline *p)
{
	return p->records;
}

uint64_t pipeline_undecoded(const struct pipeline *p)
{
	return p->undecoded;
}
