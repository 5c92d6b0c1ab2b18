/* SPDX-License-Identifier: Apache-2.0
 *
 * phases.c - see phases.h. The marks of one thread nest, so they are kept as a stack; the outermost one that is a
 * phase counts. What cannot be followed any more (a loss, probes that went) ends the step as unknown: it is not
 * reported.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "model/state.h"
#include "model/steps/forward_gathers.h"
#include "model/steps/step_tail.h"

#define DEPTH_MAX 32
#define NO_PHASE STEP_PHASES
#define OPS_BACK_MAX 256 /* operations that one wait is compared with */

static const struct {
	const char *begins; /* the range's name begins so */
	enum step_phase phase;
	bool steps; /* the optimizer's own step, and not its preparation */
} names[] = {
	{ "enumerate(DataLoader)#", PHASE_DATA_WAIT, false },
	{ "Optimizer.step#", PHASE_OPTIMIZER, true },
	{ "Optimizer.zero_grad#", PHASE_OPTIMIZER, false },
	{ "DistributedDataParallel.forward", PHASE_FORWARD, false },
	{ "FullyShardedDataParallel.forward", PHASE_FORWARD, false },
	{ "FSDP::pre_forward", PHASE_FORWARD, false },
	{ "FSDP::root_pre_forward", PHASE_FORWARD, false },
	{ "FSDP::post_forward", PHASE_FORWARD, false },
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))
/* The budget decides in a second or two whether ranges stay: what stands in for them goes later than that. */
#define SUFFICE_NS 3000000000ull

struct level {
	enum step_phase phase; /* NO_PHASE: a range that is none */
	uint64_t begin_ns;
	bool range, steps, no_end; /* range: RANGE_END ends it; no_end: the next mark does */
};

struct phases {       /* of one process */
	uint32_t tid; /* of the thread that trains; 0 not known */
	struct level levels[DEPTH_MAX];
	int depth;
	struct step_done step;                 /* the present one; begin_ns 0: its begin was not seen */
	bool has_data, has_forward, has_marks; /* marks: this process marks its forwards */
	bool has_ranges;                       /* its ranges are seen: operators say nothing new */
	uint64_t ranges_whole_ns;              /* since when they alone show whole steps; 0: they do not */
	bool ranges_suffice;                   /* they do for long enough */
	bool ranges_lack_ddp;                  /* a forward of this step was shown by DDP's own mark */
	struct forward_gathers gathers;
	uint64_t all_wait_ns;                /* the training thread's waits for its GPU, of all steps */
	uint64_t operator_ns;                /* what the optimizer at hand ran last, or begins with; 0 nothing yet */
	struct step_tail at_optimizer;       /* as of optimizer_ns */
	uint64_t forward_ns, forward_end_ns; /* of an open forward its begin, 0 none, and the last mark's end */
	uint64_t idle_ns, optimizer_ns;      /* the last phase's end; the optimizer's. 0 none in this step */
	uint64_t n_ops;                      /* the process' at the step's begin */
	uint64_t gc_in_ns[PHASES_AND_OTHER]; /* collections in each phase of the step */
	bool gc_runs;                        /* one does for long, as was seen last */
};

void phases_reset(struct proc_own *p)
{
	if (!p->phases)
		return;
	p->phases->depth = 0;
	p->phases->step.begin_ns = 0;
	p->phases->forward_ns = p->phases->idle_ns = p->phases->optimizer_ns = p->phases->operator_ns = 0;
	p->phases->has_data = p->phases->has_forward = false;
	p->phases->step.n_backward = p->phases->step.n_optimizer = 0;
}

void phases_begin(struct proc_own *p)
{
	phases_reset(p);
	if (!p->phases)
		return;
	p->phases->has_ranges = p->phases->has_marks = p->phases->ranges_suffice = false;
	p->phases->ranges_whole_ns = 0;
}

void phases_free(struct proc_own *p)
{
	free(p->phases);
	p->phases = NULL;
}

static struct phases *phases_get(struct proc_own *p)
{
	if (!p->phases)
		p->phases = calloc(1, sizeof(*p->phases));
	return p->phases;
}

/* --- the present step --- */

static void part_add(struct phases *f, enum step_phase phase, uint64_t begin_ns, uint64_t end_ns)
{
	struct step_done *s = &f->step;

	begin_ns = larger(begin_ns, s->begin_ns); /* it began in the step before, which ended elsewhere */
	f->idle_ns = end_ns;
	if (!s->begin_ns || end_ns <= begin_ns)
		return;
	s->phase_ns[phase] += end_ns - begin_ns;
	if (s->n_parts && s->parts[s->n_parts - 1].phase == phase && s->parts[s->n_parts - 1].end_ns == begin_ns)
		s->parts[s->n_parts - 1].end_ns = end_ns;
	else if (s->n_parts < STEP_PARTS_MAX)
		s->parts[s->n_parts++] = (struct step_part){ phase, begin_ns, end_ns };
}

static void step_begin(struct phases *f, const struct proc_own *p, uint64_t ns)
{
	uint64_t number = f->step.number;

	f->step = (struct step_done){ .number = number, .begin_ns = ns, .tid = f->tid };
	f->n_ops = p->p.n_ops;
	memset(f->gc_in_ns, 0, sizeof(f->gc_in_ns));
	f->has_data = f->has_forward = f->ranges_lack_ddp = false;
	f->optimizer_ns = f->operator_ns = 0;
	f->idle_ns = ns;
}

/* What a collection took is not the phase's in which it ran. */
static void gc_take_out(struct phases *f)
{
	for (int i = 0; i < STEP_PHASES; i++)
		if (i != PHASE_GC)
			f->step.phase_ns[i] -= smaller(f->step.phase_ns[i], f->gc_in_ns[i]);
}

static void totals_add(struct phase_totals *t, const struct step_done *s)
{
	uint64_t ns;

	if (!s->n_backward)
		return;
	t->by_changes += t->n_steps && t->by != s->by;
	t->by = s->by;
	t->n_steps++;
	t->wall_ns += s->end_ns - s->begin_ns;
	t->gpu_wait_ns += s->gpu_wait_ns;
	t->exposed_most_ns += s->exposed_most_ns;
	for (int i = 0; i < PHASES_AND_OTHER; i++) {
		ns = i == PHASE_OTHER ? step_other_ns(s) : s->phase_ns[i];
		t->host_ns[i] += ns - smaller(ns, s->wait_ns[i]);
		t->storage_ns[i] += s->storage_ns[i];
	}
	if (s->storage_at)
		t->storage_at = s->storage_at;
}

static void suffice_note(struct phases *f, uint64_t ns)
{
	f->ranges_whole_ns = f->ranges_whole_ns ? f->ranges_whole_ns : ns;
	f->ranges_suffice |= ns - f->ranges_whole_ns >= SUFFICE_NS;
}

/* The step that ends is given to the sinks; it is good until the next event. */
static void step_end(struct model *m, struct proc_own *p, uint64_t ns, bool by_data_wait)
{
	struct phases *f = p->phases;
	struct step_done *s = &f->step;

	if (s->begin_ns && ns > s->begin_ns) {
		s->number++;
		s->proc = &p->p;
		s->end_ns = ns;
		s->by_data_wait = by_data_wait;
		s->by = f->has_ranges ? STEPS_BY_RANGES : STEPS_BY_OPERATORS;
		s->n_ops = p->p.n_ops - f->n_ops;
		if (f->has_ranges && !f->ranges_lack_ddp && s->n_backward && s->n_optimizer)
			suffice_note(f, ns);
		gc_take_out(f);
		totals_add(&p->p.phase_totals, s);
		m->state->step_done = *s;
		m->state->has_step_done = true;
	}
	step_begin(f, p, ns);
}

const struct step_done *model_step_done(const struct model *m)
{
	return m->state->has_step_done ? &m->state->step_done : NULL;
}

/* A forward that no backward followed is over with its last mark. */
static void forward_end(struct phases *f, uint64_t ns)
{
	if (f->forward_ns)
		part_add(f, PHASE_FORWARD, f->forward_ns, ns);
	f->forward_ns = f->forward_end_ns = 0;
}

/* --- begins and ends --- */

static void data_begin(struct model *m, struct proc_own *p, uint64_t ns)
{
	struct phases *f = p->phases;

	forward_end(f, f->forward_end_ns);
	if (f->optimizer_ns || (f->has_forward && !f->step.n_backward))
		step_end(m, p, ns, true);
	f->has_data = true;
}

static struct step_tail tail_now(const struct phases *f)
{
	return step_tail_now(&f->step, f->gc_in_ns[PHASE_OTHER]);
}

/* After the optimizer, and no batch was asked for: the step is over since, and what came behind is the next one's. */
static void work_begin(struct model *m, struct proc_own *p)
{
	struct phases *f = p->phases;
	struct step_tail now = tail_now(f), behind;

	if (!f->optimizer_ns || f->has_data)
		return;
	behind = step_tail_between(&f->at_optimizer, &now);
	step_tail_set(&f->step, &f->gc_in_ns[PHASE_OTHER], &f->at_optimizer);
	step_end(m, p, f->optimizer_ns, false);
	step_tail_set(&f->step, &f->gc_in_ns[PHASE_OTHER], &behind);
}

static void forward_begin(struct model *m, struct proc_own *p, uint64_t ns)
{
	struct phases *f = p->phases;

	work_begin(m, p);
	f->has_forward = f->has_marks = true;
	if (f->forward_ns)
		return;
	f->forward_ns = f->forward_end_ns = ns;
	gathers_forward_marked(&f->gathers, ns);
}

static void backward_begin(struct model *m, struct proc_own *p, uint64_t ns)
{
	struct phases *f = p->phases;

	gathers_backward_begins(&f->gathers, ns, f->all_wait_ns);
	work_begin(m, p);
	if (!f->forward_ns && !f->has_marks && f->idle_ns) {
		f->forward_ns = f->idle_ns;
		f->step.forward_by_gap = true;
	}
	forward_end(f, ns);
	f->operator_ns = 0;
	f->step.n_backward++;
}

/* Of the outermost mark that is a phase; NO_PHASE none. */
static enum step_phase phase_open(const struct phases *f)
{
	for (int i = 0; i < f->depth; i++)
		if (f->levels[i].phase != NO_PHASE)
			return f->levels[i].phase;
	return NO_PHASE;
}

static bool is_outermost(const struct phases *f)
{
	return phase_open(f) == NO_PHASE;
}

/* Behind a forward's mark its loss is still the forward's. */
static int phase_now(const struct phases *f)
{
	enum step_phase open = phase_open(f);

	if (f->gc_runs)
		return PHASE_GC;
	return open != NO_PHASE ? (int)open : f->forward_ns ? PHASE_FORWARD : PHASE_OTHER;
}

static void level_begin(struct model *m, struct proc_own *p, const struct level *l)
{
	struct phases *f = p->phases;

	if (f->depth == DEPTH_MAX) { /* ends were lost */
		phases_reset(p);
		return;
	}
	if (l->phase != NO_PHASE && is_outermost(f)) {
		switch (l->phase) {
		case PHASE_DATA_WAIT: data_begin(m, p, l->begin_ns); break;
		case PHASE_FORWARD: forward_begin(m, p, l->begin_ns); break;
		case PHASE_BACKWARD: backward_begin(m, p, l->begin_ns); break;
		/* zero_grad() stands between loss and backward in many a script */
		default: forward_end(f, l->steps ? f->forward_end_ns : l->begin_ns); break;
		}
	}
	f->levels[f->depth++] = *l;
}

static void optimizer_end(struct phases *f, uint64_t ns)
{
	f->optimizer_ns = ns;
	f->at_optimizer = tail_now(f);
}

static void level_end(struct phases *f, uint64_t ns)
{
	const struct level *l = &f->levels[--f->depth];

	if (l->phase == NO_PHASE || !is_outermost(f))
		return;
	if (l->phase == PHASE_FORWARD)
		f->forward_end_ns = ns;
	else
		part_add(f, l->phase, l->begin_ns, ns);
	if (l->phase != PHASE_OPTIMIZER)
		return;
	f->step.n_optimizer += l->steps;
	if (l->steps || f->optimizer_ns)
		optimizer_end(f, ns);
}

/* Ends what has to end for a mark of this kind to end: what lies inside lost its own. */
static void innermost_end(struct phases *f, bool range, uint64_t ns)
{
	int at = f->depth - 1;

	while (at >= 0 && f->levels[at].range != range)
		at--;
	while (at >= 0 && f->depth > at)
		level_end(f, ns);
}

static struct level range_level(const struct event *e)
{
	struct level l = { .phase = NO_PHASE, .begin_ns = e->ts_ns, .range = true };

	for (size_t i = 0; i < N_NAMES; i++)
		if (!strncmp(e->torch.name, names[i].begins, strlen(names[i].begins))) {
			l.phase = names[i].phase;
			l.steps = names[i].steps;
		}
	return l;
}

/* The first range of a process: they are seen from now on. A step that had begun without them is half of each. */
static void ranges_note(struct proc_own *p)
{
	if (p->phases->has_ranges)
		return;
	if (p->phases->step.n_optimizer || p->p.phase_totals.n_steps)
		phases_begin(p);
	p->phases->has_ranges = true;
}

/* Only where no range shows the optimizer, and between a backward and what follows it: others than optimizers run such
 * operators, too. */
static bool of_optimizer(const struct phases *f)
{
	return !f->has_ranges && f->step.n_backward && !f->forward_ns && is_outermost(f);
}

/* Between two of its operators an optimizer is at work, too. */
static void operator_run(struct phases *f, const struct event *e)
{
	if (!of_optimizer(f))
		return;
	if (!f->operator_ns)
		f->operator_ns = e->ts_ns;
	if (e->torch.what != TORCH_UPDATE)
		return;
	part_add(f, PHASE_OPTIMIZER, f->operator_ns, e->ts_ns);
	f->operator_ns = e->ts_ns;
	f->step.n_optimizer = 1;
	gathers_optimizer_ran(&f->gathers);
	optimizer_end(f, e->ts_ns);
}

static void mark_apply(struct model *m, struct proc_own *p, const struct event *e)
{
	struct level backward = { PHASE_BACKWARD, e->ts_ns, .no_end = e->torch.flags & TORCH_NO_END };
	struct phases *f = p->phases;
	struct level range;

	switch ((enum torch_what)e->torch.what) {
	case TORCH_RANGE_BEGIN:
		range = range_level(e);
		ranges_note(p);
		level_begin(m, p, &range);
		break;
	case TORCH_RANGE_END: innermost_end(f, true, e->ts_ns); break;
	case TORCH_BACKWARD_BEGIN: level_begin(m, p, &backward); break;
	case TORCH_BACKWARD_END: innermost_end(f, false, e->ts_ns); break;
	case TORCH_OPERATOR:
	case TORCH_UPDATE: operator_run(f, e); break;
	case TORCH_DDP_FORWARD:
		if (!is_outermost(f))
			break;
		f->ranges_lack_ddp = true;
		forward_begin(m, p, e->ts_ns);
		break;
	case TORCH_DDP_BACKWARD:
		if (is_outermost(f) && f->forward_ns)
			f->forward_end_ns = e->ts_ns;
		break;
	default: break;
	}
}

/* Backward whose return is not probed: over by now, unless the mark is its own. */
static void unended_end(struct phases *f, const struct event *e)
{
	if (!f->depth || !f->levels[f->depth - 1].no_end || e->torch.what == TORCH_DDP_DONE ||
	    e->torch.what == TORCH_BACKWARD_BEGIN)
		return;
	f->step.end_by_next = true;
	level_end(f, e->ts_ns);
}

/* The thread that trains is the one that calls backward; before that, the first with a mark. */
static bool is_training(struct phases *f, const struct event *e)
{
	if (!f->tid || (f->tid != e->tid && !f->step.n_backward && e->torch.what == TORCH_BACKWARD_BEGIN)) {
		f->tid = e->tid;
		f->depth = 0;
		f->step.begin_ns = 0;
	}
	return f->tid == e->tid;
}

/* Of probes on their way out: they go one after the other, and what some still show is not the whole. */
static bool is_shed(const struct proc *p, const struct event *e)
{
	bool of_range = e->torch.what == TORCH_RANGE_BEGIN || e->torch.what == TORCH_RANGE_END;

	return p->shed >> (of_range ? PROBES_RANGES : PROBES_CALLS) & 1;
}

int phases_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);

	if (!p || !phases_get(p))
		return -ENOMEM;
	if (p->p.is_child || is_shed(&p->p, e) || !is_training(p->phases, e))
		return 0;
	p->p.has_phases = true;
	p->phases->gc_runs = false;
	unended_end(p->phases, e);
	mark_apply(m, p, e);
	return 0;
}

/* Of a step, or of what comes behind an optimizer, which may be the next one's. */
static bool is_counted(const struct phases *f, const struct event *e)
{
	return (f->step.begin_ns || f->optimizer_ns) && e->ts_ns > f->step.begin_ns;
}

/* Of whatever thread: the others that run Python wait meanwhile. */
int phases_gc(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	struct phases *f = p ? phases_get(p) : NULL;
	uint64_t busy_ns;

	if (!f)
		return -ENOMEM;
	if (p->p.is_child || p->p.shed >> PROBES_GC & 1)
		return 0;
	f->gc_runs = !e->python_gc.n;
	if (f->gc_runs || !is_counted(f, e))
		return 0;
	busy_ns = smaller(e->python_gc.busy_ns, e->ts_ns - f->step.begin_ns);
	f->gc_in_ns[phase_now(f)] += busy_ns;
	f->step.phase_ns[PHASE_GC] += busy_ns;
	return 0;
}

static void gathered_forward_begin(struct model *m, struct proc_own *p, uint64_t ns)
{
	struct phases *f = p->phases;

	if (f->has_ranges || f->has_marks || f->forward_ns)
		return;
	work_begin(m, p);
	if (!f->step.begin_ns)
		return;
	f->forward_ns = larger(ns - smaller(ns, gathers_lead_ns(&f->gathers)), f->idle_ns);
	f->step.forward_by_gather = true;
}

/* A sharded model gathers a layer's parameters right before it runs. The backward's gathers are called by the engine's
 * own thread, or in it. */
void phases_called(struct model *m, struct proc_own *p, const struct op *op)
{
	struct phases *f = p->phases;
	uint64_t ns;

	if (!f)
		return;
	if (phase_open(f) == PHASE_BACKWARD && op->kind == OP_ALLGATHER)
		gather_in_backward(&f->gathers, op);
	if (f->tid != op->tid)
		return;
	if (op->kind == OP_ALLGATHER)
		gather_in_marked(&f->gathers, op);
	if (!is_outermost(f))
		return;
	if (op->kind != OP_ALLGATHER)
		return gathers_interrupted(&f->gathers, op);
	ns = gather_outside(&f->gathers, op, f->all_wait_ns);
	if (ns && gathers_anew(&f->gathers) && f->step.forward_by_gather)
		f->forward_ns = 0;
	if (ns)
		gathered_forward_begin(m, p, ns);
}

int proc_phase(const struct proc *p)
{
	const struct phases *f = ((const struct proc_own *)p)->phases;

	if (f && f->gc_runs) /* also of a process without PyTorch's marks */
		return PHASE_GC;
	return f && f->step.begin_ns ? phase_now(f) : -1;
}

bool proc_ranges_suffice(const struct proc *p)
{
	const struct phases *f = ((const struct proc_own *)p)->phases;

	return f && f->ranges_suffice;
}

/* The operations that this wait saw the end of could run from then on; UINT64_MAX: there was none. */
static uint64_t ended_from_ns(const struct proc *p, uint64_t end_ns)
{
	uint64_t from_ns = UINT64_MAX;
	const struct op *op = p->last_op;

	for (int i = 0; op && i < OPS_BACK_MAX; op = op->prev_in_proc, i++)
		if (op->end_ns == end_ns && op->start_bound_ns)
			from_ns = smaller(from_ns, op->start_bound_ns);
	return from_ns;
}

/* A wait of the training thread for the GPU is over, and the operations that it proves to be over have ended. */
void phases_waited(struct proc_own *p, const struct event *e)
{
	struct phases *f = p->phases;
	uint64_t begin_ns, from_ns;

	if (!f || f->tid != e->tid || e->ts_ns <= e->sync.begin_ns)
		return;
	f->all_wait_ns += e->ts_ns - e->sync.begin_ns;
	if (!is_counted(f, e))
		return;
	begin_ns = larger(e->sync.begin_ns, f->step.begin_ns);
	f->step.gpu_wait_ns += e->ts_ns - begin_ns;
	f->step.wait_ns[phase_now(f)] += e->ts_ns - begin_ns;
	from_ns = ended_from_ns(&p->p, e->ts_ns);
	if (from_ns < e->ts_ns)
		f->step.exposed_most_ns += e->ts_ns - larger(begin_ns, from_ns);
}

/* The training thread was blocked in a call on a file. What data workers read is in its wait for data. */
int phases_stored(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_own((struct proc *)model_proc(m, event_proc(e)));
	struct phases *f = p ? p->phases : NULL;
	uint64_t ns;

	if (!f || !e->off.storage_at || f->tid != e->tid || !is_counted(f, e))
		return 0;
	ns = e->ts_ns - larger(e->off.begin_ns, f->step.begin_ns);
	f->step.storage_ns[phase_now(f)] += ns;
	if (ns <= f->step.storage_longest_ns)
		return 0;
	f->step.storage_longest_ns = ns;
	f->step.storage_at = e->off.storage_at;
	return 0;
}
