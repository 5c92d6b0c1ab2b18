/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - the way in: one event, to the file that knows its kind. Also the start and end of a process, and
 * of a session.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/larger.h"
#include "model/state.h"

#define SESSION_FLOOR_NS 1000000000ull /* of recordings that do not say what they are of */

typedef int apply_fn(struct model *m, const struct event *e);

static int limits_apply(struct model *m, const struct event *e)
{
	if (e->start.dstate_limit_ns)
		m->dstate_limit_ns = e->start.dstate_limit_ns;
	if (e->start.hang_floor_ns)
		m->hang_floor_ns = e->start.hang_floor_ns;
	if (e->start.busy_limit_ns)
		m->busy_limit_ns = e->start.busy_limit_ns;
	return 0;
}

static int start_apply(struct model *m, const struct event *e)
{
	m->start_ns = e->ts_ns;
	m->realtime_offset_ns = e->start.realtime_offset_ns;
	m->start_realtime_ns = e->ts_ns + m->realtime_offset_ns;
	limits_apply(m, e);
	m->host = e->start.host ? e->start.host : "";
	m->nodes[0]->name = m->host;
	m->by_autopsy = e->start.by_autopsy;
	m->by_session = e->start.by_session;
	return 0;
}

bool model_is_autopsy(const struct model *m)
{
	return m->by_autopsy || (!m->by_session && m->hang_floor_ns < SESSION_FLOOR_NS);
}

static int tick_apply(struct model *m, const struct event *e)
{
	int err = 0, one;

	(void)e;
	ahead_tick(m);
	err = jobs_tick(m);
	comm_inits_tick(m);
	parallel_tick(m);
	ops_tick(m);
	for (struct proc *p = m->procs; p != m->past; p = proc_next(p)) {
		one = steps_tick(m, proc_own(p));
		err = err ? err : one;
	}
	qps_tick(m);
	reap_tick(m);
	return err;
}

static int clock_apply(struct model *m, const struct event *e)
{
	m->realtime_offset_ns = e->clock.realtime_offset_ns;
	return 0;
}

/* Some were missed. */
static void marks_forget(struct proc_own *p)
{
	phases_reset(p);
	process_groups_forget(p);
}

static int loss_apply(struct model *m, const struct event *e)
{
	m->lost += e->loss.lost;
	for (struct proc *p = m->procs; p && e->loss.lost && e->loss.class == LOSS_NORMAL; p = proc_next(p))
		marks_forget(proc_own(p));
	if (e->loss.lost && e->loss.class != LOSS_BULK) /* no verdict rests on what the burst tier sees */
		m->last_loss_ns = e->ts_ns;
	return 0;
}

static int attach_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);

	if (!p)
		return -ENOMEM;
	if (e->attach.group == PROBES_NEEDED) /* the others show less than all of what it calls */
		p->p.attached_ns = e->ts_ns;
	if (e->attach.for_tracer == WIRE_TORCH && e->attach.n_probes) /* until now some of its marks were not seen */
		phases_reset(p);
	p->p.gc_visible |= e->attach.for_tracer == WIRE_PYTHON && e->attach.n_probes;
	return 0;
}

static int op_by_id(const void *a, const void *b)
{
	uint64_t x = (*(struct op *const *)a)->id, y = (*(struct op *const *)b)->id;

	return x < y ? -1 : x > y;
}

/* What is still open never ends for us: hand it out, in the order of the calls. */
static int stop_apply(struct model *m, const struct event *e)
{
	struct op **open = NULL;
	size_t n = 0, cap = m->n_ops - m->n_ops_ended + 1;

	(void)e;
	m->stopped = true;
	open = calloc(cap, sizeof(struct op *));
	for (struct proc *p = m->procs; p; p = proc_next(p))
		for (struct op *op = p->last_op; op; op = op->prev_in_proc)
			if (open && n < cap && !op_own(op)->queued_out)
				open[n++] = op; /* lint: without room, n stays 0 */
	if (!open)
		return -ENOMEM;
	qsort(open, n, sizeof(*open), op_by_id);
	for (size_t i = 0; i < n; i++)
		op_out(m, open[i]);
	free(open);
	return 0;
}

static int known_phase_apply(struct model *m, const struct event *e)
{
	return known_phases_put(&m->known_phases, &e->known_phase);
}

static int wait_end_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);
	int err = stream_apply(m, e);

	if (p)
		phases_waited(p, e);
	return err;
}

static int nothing_apply(struct model *m, const struct event *e)
{
	(void)m;
	(void)e;
	return 0;
}

/* One row a kind: what it changes. Generic events are for sinks, but for counters that are kept. */
static apply_fn *const apply_table[] = {
	[EV_NONE] = nothing_apply,
	[EV_START] = start_apply,
	[EV_STOP] = stop_apply,
	[EV_TICK] = tick_apply,
	[EV_PROC] = proc_apply,
	[EV_EXEC] = proc_apply,
	[EV_FORK] = proc_apply,
	[EV_EXIT] = proc_apply,
	[EV_THREAD] = proc_apply,
	[EV_LIB] = nothing_apply,
	[EV_ATTACH] = attach_apply,
	[EV_LOSS] = loss_apply,
	[EV_COMM_INIT] = comm_apply,
	[EV_COMM_READY] = comm_apply,
	[EV_COMM_SEEN] = comm_apply,
	[EV_COMM_GONE] = comm_apply,
	[EV_OP] = op_apply,
	[EV_GROUP_START] = op_apply,
	[EV_GROUP_END] = op_apply,
	[EV_SYNC_BEGIN] = stream_apply,
	[EV_SYNC_END] = wait_end_apply,
	[EV_CUDA_EVENT] = stream_apply,
	[EV_CUDA_EVENT_WAIT] = stream_apply,
	[EV_CUDA_EVENT_QUERY] = stream_apply,
	[EV_TASK] = proc_apply,
	[EV_CALL] = call_apply,
	[EV_CALL_OPEN] = call_apply,
	[EV_CUDA_ERROR] = call_apply,
	[EV_ELAPSED] = stream_apply,
	[EV_STREAM_QUERY] = stream_apply,
	[EV_CAPTURE] = capture_apply,
	[EV_THROTTLE] = proc_apply,
	[EV_TASK_OFF] = phases_stored,
	[EV_STORAGE] = storage_apply,
	[EV_BLOCKED] = proc_apply,
	[EV_BLOCKED_END] = proc_apply,
	[EV_SPAN] = nothing_apply,
	[EV_INSTANT] = nothing_apply,
	[EV_COUNTER] = counter_apply,
	[EV_CLOCK] = clock_apply,
	[EV_LIMITS] = limits_apply,
	[EV_COMM_SAMPLE] = sample_apply,
	[EV_TASK_AT] = proc_apply,
	[EV_COMM_SCAN] = proc_apply,
	[EV_COMM_VANISHED] = vanished_apply,
	[EV_GPU_DEVICE] = gpu_apply,
	[EV_GPU_SAMPLE] = gpu_apply,
	[EV_GPU_HEALTH] = gpu_apply,
	[EV_GPU_PROCS] = gpu_apply,
	[EV_GPU_USAGE] = gpu_apply,
	[EV_GPU_STATE] = gpu_apply,
	[EV_XID] = xid_apply,
	[EV_KERNEL_LOG] = nothing_apply,
	[EV_PRESSURE] = pressure_apply,
	[EV_PORT] = port_apply,
	[EV_PORT_SAMPLE] = port_apply,
	[EV_PORT_USERS] = port_apply,
	[EV_QP] = qp_apply,
	[EV_QP_TOTALS] = qp_apply,
	[EV_QP_ERROR] = qp_apply,
	[EV_QP_ASYNC] = qp_apply,
	[EV_GIDS] = qp_apply,
	[EV_QP_BURST] = op_burst_apply,
	[EV_TCP] = tcp_apply,
	[EV_TCP_SAMPLE] = tcp_apply,
	[EV_TIER] = proc_apply,
	[EV_BUDGET] = proc_apply,
	[EV_PROXY] = proxy_apply,
	[EV_SNAPSHOT] = snapshot_apply,
	[EV_STACK] = proc_apply,
	[EV_WAIT] = proc_apply,
	[EV_NODE] = node_apply,
	[EV_NODE_HEARD] = node_heard,
	[EV_PARTIAL] = node_partial,
	[EV_REPORTED] = reported_apply,
	[EV_KNOWN_PHASE] = known_phase_apply,
	[EV_TORCH] = phases_apply,
	[EV_PYTHON_GC] = phases_gc,
	[EV_TORCH_GROUP] = process_group_apply,
};

static void given_free(struct model_state *st)
{
	struct op_own *o;

	while ((o = st->given)) {
		st->given = o->next_out;
		free(o);
	}
}

/* What only a probe in the process shows. */
static bool from_probe(enum event_kind kind)
{
	return kind == EV_TORCH || kind == EV_PYTHON_GC || kind == EV_TORCH_GROUP ||
	       (kind >= EV_COMM_INIT && kind <= EV_CUDA_EVENT_QUERY) || (kind >= EV_CALL && kind <= EV_CAPTURE);
}

int model_apply(struct model *m, const struct event *e)
{
	given_free(m->state);
	m->state->has_step_done = false;
	if ((unsigned int)e->kind >= sizeof(apply_table) / sizeof(apply_table[0]) || !apply_table[e->kind])
		return -EINVAL;
	m->n_events++;
	m->now_ns = larger(m->now_ns, e->ts_ns);
	return from_probe(e->kind) && proc_is_unprobed(m, event_proc(e)) ? 0 : apply_table[e->kind](m, e);
}

static void nodes_free(struct model *m)
{
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		if (!m->nodes[i])
			continue;
		gpus_free(m->nodes[i]);
		ports_free(m->nodes[i]);
		own_gids_free(m->nodes[i]);
		free(m->nodes[i]->tcp);
		free(m->nodes[i]);
	}
	free(m->nodes);
}

struct model *model_new(void)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->state = calloc(1, sizeof(*m->state));
	if (m->state)
		m->state->jobs = jobs_new();
	if (!m->state || !m->state->jobs || !node_get(m, 0)) { /* the session's own host is always there */
		nodes_free(m);
		jobs_free(m->state ? m->state->jobs : NULL);
		free(m->state);
		free(m);
		return NULL;
	}
	m->state->ops_kept = 2 * MODEL_OPS_KEPT;
	m->procs_tail = &m->procs;
	m->comms_tail = &m->comms;
	m->host = "";
	m->dstate_limit_ns = 5000000000ull;
	m->hang_floor_ns = 1500000000ull;
	m->busy_limit_ns = 90000000000ull;
	return m;
}

static void out_free(struct model_state *st)
{
	struct op_own *o, *next;

	for (o = st->out_head; o; o = next) {
		next = o->next_out;
		if (o->dropped) /* its member does not know it any more */
			free(o);
	}
	given_free(st);
}

void model_free(struct model *m)
{
	struct proc *p, *next;
	struct comm *c, *c_next;

	if (!m)
		return;
	out_free(m->state);
	comm_inits_forget(m, NULL);
	qps_free(m);
	HASH_CLEAR(hh, m->state->procs);
	HASH_CLEAR(hh, m->state->comms);
	for (p = m->procs; p; p = next) {
		next = p->next;
		proc_free(proc_own(p));
	}
	for (c = m->comms; c; c = c_next) {
		c_next = c->next;
		comm_free(comm_own(c));
	}
	ranks_free(m);
	tcp_free(m);
	known_phases_free(&m->known_phases);
	nodes_free(m);
	snapshot_free(m->state);
	jobs_free(m->state->jobs);
	free(m->state->scratch);
	free(m->state->scratch_s);
	free(m->state);
	free(m);
}
