/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline.c - see pipeline.h. Read pipeline_feed() first: it is the whole way of one record.
 */
#include "pipeline/pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/keeper.h"
#include "pipeline/decode.h"
#include "pipeline/output.h"

#define OUTPUTS_MAX 16
#define LISTENERS_MAX 4
#define SEC 1000000000ull
#define STILL_NS (5 * SEC)          /* between two ticks: the session had no turn, or the whole host had none */
#define SETTLE_NS (8 * SEC)         /* then the ranks have time to go on; a loss is still held (detect/host/loss.c) */
#define SETTLES_EVERY_NS (60 * SEC) /* a session that gets a turn now and then has to judge some day */
#define SHORTAGE_EVERY_NS (600 * SEC)
#define TEXTS_EVERY_NS (30 * SEC) /* what nothing refers to any more is given back, so often at most, */
#define TEXTS_CAME (1u << 20)     /* and when so much came since, or a text was refused */
#if defined(__SANITIZE_ADDRESS__)
#define TEXTS_ALWAYS 1 /* at each tick: who keeps a pointer to a text and does not hold it is found */
#elif defined(__has_feature)
#define TEXTS_ALWAYS __has_feature(address_sanitizer)
#else
#define TEXTS_ALWAYS 0
#endif
#define PID_BITS 22 /* PID_MAX_LIMIT of the kernel */

struct pipeline {
	struct intern *strings;
	struct model *model;
	struct detectors *detectors;
	struct finding_list found;
	struct incidents *incidents;
	struct output_stream stream;
	struct output outputs[OUTPUTS_MAX];
	int n_outputs;
	struct sink *listeners[LISTENERS_MAX];
	int n_listeners;
	void (*tap)(void *to, const struct wire_hdr *rec, struct pipeline *p);
	void *tap_to;
	uint64_t records, undecoded;
	uint32_t node; /* whose records come now: RECORD_NODE */
	uint32_t tgid; /* of the newest record */
	struct keeper *keeper;
	uint64_t tick_ns, settle_until_ns; /* the last tick; nothing is judged until then */
	struct pipeline_shortage shortage; /* what of it was returned, and when */
	uint64_t shortage_ns;
	uint64_t texts_ns, n_refused; /* when texts were given back, and how many had been refused by then */
};

static uint64_t texts_owner(void *of)
{
	const struct pipeline *p = of;
	const struct proc *q = model_proc(p->model, proc_key(p->node, p->tgid));

	return q ? proc_texts_owner(q) : 0;
}

struct pipeline *pipeline_new(void)
{
	struct pipeline *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->strings = intern_new();
	p->model = model_new();
	p->detectors = detectors_new();
	p->incidents = incidents_new();
	p->stream = (struct output_stream){ .model = p->model, .incidents = p->incidents, .strings = p->strings };
	if (p->strings && p->model && p->detectors && p->incidents) {
		intern_set_owner(p->strings, texts_owner, p);
		return p;
	}
	pipeline_free(p);
	return NULL;
}

/* A session that could not begin fed no record: its outputs replace nothing. */
int pipeline_close_outputs(struct pipeline *p)
{
	int err = 0, last;

	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++) {
		last = output_finish(o, &p->stream, p->records);
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
	for (int i = 0; i < p->n_listeners; i++)
		p->listeners[i]->class->close(p->listeners[i], p->model);
	for (int i = 0; i < p->n_outputs; i++)
		output_free(&p->outputs[i]);
	kept_records_free(&p->stream.kept);
	finding_list_free(&p->found);
	incidents_free(p->incidents);
	keeper_free(p->keeper);
	detectors_free(p->detectors);
	model_free(p->model);
	intern_free(p->strings);
	free(p);
	return err;
}

void pipeline_set_output_rules(struct pipeline *p, const struct output_rules *rules)
{
	p->stream.rules = *rules;
}

void pipeline_change_output_rules(struct pipeline *p, const struct output_rules *rules)
{
	p->stream.rules = *rules;
	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++)
		output_begin(o, &p->stream);
}

static int output_add(struct pipeline *p, const char *path, const struct sink_class *class)
{
	int err = p->n_outputs < OUTPUTS_MAX ? output_open(&p->outputs[p->n_outputs], path, class) : -E2BIG;

	p->n_outputs += !err;
	return err;
}

bool pipeline_output_known(const char *path)
{
	const char *dot = strrchr(path, '.');

	return sink_class_by_path(path) || !strcmp(path, "-") || (dot && !strcmp(dot, ".rtr"));
}

int pipeline_add_output(struct pipeline *p, const char *path)
{
	return pipeline_output_known(path) ? output_add(p, path, sink_class_by_path(path)) : -EPROTONOSUPPORT;
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

int pipeline_add_listener(struct pipeline *p, struct sink *s)
{
	if (p->n_listeners == LISTENERS_MAX)
		return -E2BIG;
	p->listeners[p->n_listeners++] = s;
	return 0;
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

#define EACH_SINK(p, method, ...) \
	for (struct output *o_ = (p)->outputs; o_ < (p)->outputs + (p)->n_outputs; o_++) \
		if (o_->sink && o_->sink->class->method) \
	output_check(o_, &(p)->stream, o_->sink->class->method(o_->sink, __VA_ARGS__))

#define EACH_LISTENER(p, method, ...) \
	for (int i_ = 0; i_ < (p)->n_listeners; i_++) \
		if ((p)->listeners[i_]->class->method) \
	(p)->listeners[i_]->class->method((p)->listeners[i_], __VA_ARGS__)

static void ops_hand_out(struct pipeline *p)
{
	const struct op *op;

	while ((op = model_next_ended(p->model))) {
		EACH_SINK(p, op, op, p->model);
		EACH_LISTENER(p, op, op, p->model);
	}
}

static void step_hand_out(struct pipeline *p)
{
	const struct step_done *s = model_step_done(p->model);

	if (!s)
		return;
	EACH_SINK(p, step, s, p->model);
	EACH_LISTENER(p, step, s, p->model);
}

/* A host that was halted (a guest that was paused), or a session that was: by the clock all ranks waited for as long,
 * and no rank is to blame. What was open stays open; an autopsy's few ticks are no clock. */
static bool is_settling(struct pipeline *p)
{
	uint64_t now_ns = p->model->now_ns, gap_ns = p->tick_ns && now_ns > p->tick_ns ? now_ns - p->tick_ns : 0;

	p->tick_ns = now_ns;
	if (gap_ns >= STILL_NS && !model_is_autopsy(p->model) && now_ns > p->settle_until_ns + SETTLES_EVERY_NS)
		p->settle_until_ns = now_ns + SETTLE_NS;
	return now_ns < p->settle_until_ns;
}

static int judge(struct pipeline *p)
{
	const struct incident *i;
	int err = detectors_tick(p->detectors, p->model, &p->found);

	if (!err)
		err = incidents_update(p->incidents, &p->found, p->model);
	while (!err && (i = incidents_next(p->incidents))) {
		for (int k = 0; k < p->n_outputs; k++)
			output_incident(&p->outputs[k], &p->stream, i);
		EACH_LISTENER(p, incident, i, p->model);
	}
	return err;
}

static uint64_t n_refused(const struct pipeline *p)
{
	return intern_n_refused(p->strings, INTERN_TEXTS) + intern_n_refused(p->strings, INTERN_NAMES);
}

/* Behind a tick nothing but the model refers to a text: events are over, findings have their own (finding_keep()), and
 * what detectors and sinks keep from tick to tick they copy. */
static void texts_give_back(struct pipeline *p)
{
	uint64_t now_ns = p->model->now_ns;
	bool due = intern_came(p->strings) >= TEXTS_CAME || n_refused(p) != p->n_refused;

	if (!TEXTS_ALWAYS && (!due || now_ns < p->texts_ns + TEXTS_EVERY_NS))
		return;
	p->texts_ns = now_ns;
	p->n_refused = n_refused(p);
	p->found.n = 0; /* of this tick: their texts may go now */
	model_hold_texts(p->model, p->strings);
	intern_give_back(p->strings);
}

/* While nothing is judged no file is begun: one who reads it alone would not know, and judge. */
static int tick(struct pipeline *p)
{
	int err;

	if (is_settling(p))
		return 0;
	err = judge(p);
	for (int k = 0; k < p->n_outputs; k++)
		output_tend(&p->outputs[k], &p->stream);
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
	EACH_LISTENER(p, event, e, p->model);
	ops_hand_out(p);
	step_hand_out(p);
	if (e->kind != EV_TICK)
		return 0;
	err = tick(p);
	texts_give_back(p);
	return err;
}

void pipeline_set_outside(struct pipeline *p, const struct outside_judge *j)
{
	detectors_set_outside(p->detectors, j);
}

void pipeline_set_tap(struct pipeline *p, void (*tap)(void *to, const struct wire_hdr *rec, struct pipeline *p),
		      void *to)
{
	p->tap = tap;
	p->tap_to = to;
}

int pipeline_state(struct pipeline *p, int (*each)(void *to, const struct wire_hdr *rec), void *to)
{
	return stream_state(&p->stream.kept, p->model, each, to);
}

static void record_hand_out(struct pipeline *p, const struct wire_hdr *rec)
{
	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++) {
		if (!p->records)
			output_begin(o, &p->stream);
		output_record(o, &p->stream, rec);
	}
	p->records++;
	if (p->tap)
		p->tap(p->tap_to, rec, p);
	if (p->tap || p->stream.rules.lasting)
		kept_records_note(&p->stream.kept, rec);
}

int pipeline_feed(struct pipeline *p, const struct wire_hdr *rec)
{
	struct event events[DECODE_EVENTS_MAX];
	int n, err = 0;

	p->tgid = rec->tgid;
	record_hand_out(p, rec);
	n = decode_record(rec, p->strings, events);
	if (n < 0)
		p->undecoded++;
	for (int i = 0; !err && i < n; i++)
		err = event_feed(p, &events[i]);
	return err;
}

void pipeline_flush(struct pipeline *p)
{
	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++)
		output_flush(o, &p->stream);
}

void pipeline_reopen_outputs(struct pipeline *p)
{
	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++)
		output_reopen(o, &p->stream);
}

bool pipeline_output_change(struct pipeline *p, struct output_change *ret)
{
	for (struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++) {
		if (!o->change.kind)
			continue;
		*ret = o->change;
		o->change.kind = OUTPUT_IN_ORDER;
		return true;
	}
	return false;
}

bool pipeline_shortage(struct pipeline *p, struct pipeline_shortage *ret)
{
	struct pipeline_shortage all = { .records = p->stream.kept.refused,
					 .texts = intern_n_refused(p->strings, INTERN_TEXTS),
					 .names = intern_n_refused(p->strings, INTERN_NAMES) };
	uint64_t now_ns = p->model->now_ns;

	if (p->shortage_ns && now_ns < p->shortage_ns + SHORTAGE_EVERY_NS)
		return false;
	ret->records = all.records - p->shortage.records;
	ret->texts = all.texts - p->shortage.texts;
	ret->names = all.names - p->shortage.names;
	if (!ret->records && !ret->texts && !ret->names)
		return false;
	p->shortage = all;
	p->shortage_ns = now_ns;
	return true;
}

bool pipeline_output_failed(const struct pipeline *p, int i)
{
	for (int k = 0; k < p->n_outputs; k++)
		if ((i == OUTPUT_ANY || i == k) && p->outputs[k].failed)
			return true;
	return false;
}

bool pipeline_has_output(const struct pipeline *p)
{
	for (const struct output *o = p->outputs; o < p->outputs + p->n_outputs; o++)
		if (output_is_open(o) || o->paused)
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
