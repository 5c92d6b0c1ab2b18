/* SPDX-License-Identifier: Apache-2.0
 *
 * job_trace.c - what a tracer would have seen of a finished run besides the calls: scheduler scans, the watchdog's
 * polls, ticks, processes; put into the order of time.
 */
#include "tests/unit/job/job_state.h"

uint32_t job_pid(int rank)
{
	return 1000 + 100 * rank;
}

struct event *emit(struct job *j, int rank, uint64_t ts, enum event_kind kind)
{
	struct event *e = PUSH(j->events, j->n_events, j->cap_events);

	e->kind = kind;
	e->ts_ns = ts;
	if (rank >= 0)
		e->tgid = e->tid = job_pid(rank);
	return e;
}

void segment(struct host *h, uint64_t ns, enum task_state state, bool io)
{
	struct segment *g;

	if (h->n_segs && h->segs[h->n_segs - 1].begin_ns >= ns)
		h->n_segs--;
	g = PUSH(h->segs, h->n_segs, h->cap_segs);
	*g = (struct segment){ ns, state, io };
}

static void scan_one(struct job *j, int r, uint64_t t)
{
	struct host *h = &j->state->hosts[r];
	struct event *e = emit(j, r, t, EV_TASK), *w;
	uint64_t run = 0, io = 1, end;

	for (size_t i = 0; i < h->n_segs && h->segs[i].begin_ns <= t; i++) {
		end = i + 1 < h->n_segs && h->segs[i + 1].begin_ns < t ? h->segs[i + 1].begin_ns : t;
		e->task.state = h->segs[i].state;
		e->task.since_ns = h->segs[i].begin_ns;
		run += h->segs[i].state == TASK_ON_CPU ? end - h->segs[i].begin_ns : 0;
		io += h->segs[i].io ? (end - h->segs[i].begin_ns) / 10 : 0;
	}
	e->task.run_ns = run;
	e->task.io_bytes = io;
	e->task.wait_ns = t / 1000;
	w = emit(j, r, t, EV_TASK); /* watchdog: sleeps and polls */
	w->tid++;
	w->task.state = j->events[j->n_events - 2].task.state == TASK_STOPPED ? TASK_STOPPED : TASK_SLEEP;
	w->task.since_ns =
		w->task.state == TASK_STOPPED ? j->events[j->n_events - 2].task.since_ns : t - t % (100 * MSEC);
	w->task.run_ns = t / 50;
}

static bool stopped_between(const struct host *h, uint64_t a, uint64_t b)
{
	for (size_t i = 0; i < h->n_segs; i++)
		if (h->segs[i].state == TASK_STOPPED && h->segs[i].begin_ns > a && h->segs[i].begin_ns <= b)
			return true;
	return false;
}

static void scans(struct job *j, uint64_t end_ns)
{
	for (int r = 0; r < j->o.ranks; r++)
		for (uint64_t t = JOB_T0 + 7 * MSEC; t < end_ns; t += 250 * MSEC) {
			if (j->state->hosts[r].killed && t > j->state->hosts[r].now_ns)
				break;
			if ((t - JOB_T0) / (250 * MSEC) % 4 == (uint64_t)r % 4 ||
			    stopped_between(&j->state->hosts[r], t - 250 * MSEC, t))
				scan_one(j, r, t);
		}
}

/* The last of a group carries its event; every event that is not known done is asked for, as PyTorch's watchdog does.
 */
static bool has_cuda_event(const struct host *h, size_t i)
{
	return h->items[i].handle && (i + 1 == h->n_items || h->items[i + 1].handle != h->items[i].handle);
}

static void watchdog(struct job *j, int r, uint64_t end_ns)
{
	struct host *h = &j->state->hosts[r];
	bool *done = calloc(h->n_items + 1, sizeof(*done));
	size_t first = 0;

	assert(done);
	for (uint64_t t = JOB_T0 + 3 * MSEC + (uint64_t)r * 11 * MSEC; t < end_ns; t += WATCH_NS) {
		if (stopped_between(h, 0, t) || (h->killed && t > h->now_ns))
			break;
		for (size_t i = first; i < h->n_items && (!h->items[i].handle || h->items[i].cuda_event_ns <= t); i++) {
			struct item *it = &h->items[i];
			struct event *e;

			if (!done[i] && has_cuda_event(h, i)) {
				e = emit(j, r, t, EV_CUDA_EVENT_QUERY);
				e->tid++;
				e->cuda_event.handle = it->handle;
				done[i] = it->known && it->end_ns <= t;
				e->cuda_event.result = done[i] ? 0 : CUDA_NOT_READY;
			}
			first += i == first && (done[i] || !has_cuda_event(h, i));
		}
	}
	free(done);
}

static int event_cmp(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->cpu < y->cpu ? -1 : x->cpu > y->cpu; /* cpu: order of making */
}

/* Late attach: nothing of before is seen but who is who; a communicator is read at the first hit on it. */
static void cut(struct job *j, uint64_t from_ns)
{
	size_t n = 0, n_all = j->n_events;
	struct event *all = j->events, *shown = calloc(n_all, sizeof(*shown));
	size_t n_shown = 0;

	assert(shown);
	j->events = NULL;
	j->n_events = j->cap_events = 0;
	for (size_t i = 0; i < n_all; i++) {
		if (all[i].kind == EV_COMM_SEEN && all[i].ts_ns < from_ns)
			shown[n_shown++] = all[i];
		if (all[i].ts_ns < from_ns && all[i].kind != EV_PROC && all[i].kind != EV_START)
			continue;
		for (n = 0; all[i].kind == EV_OP && n < n_shown; n++)
			if (shown[n].comm_seen.addr == all[i].op.addr) {
				shown[n].ts_ns = all[i].ts_ns;
				shown[n].comm_seen.counters_sum = all[i].op.counters_sum;
				*PUSH(j->events, j->n_events, j->cap_events) = shown[n];
				shown[n] = shown[--n_shown];
				break;
			}
		*PUSH(j->events, j->n_events, j->cap_events) = all[i];
	}
	free(shown);
	free(all);
}

void announce(struct job *j)
{
	struct event *e = emit(j, -1, JOB_T0 - SEC, EV_START);

	e->start.dstate_limit_ns = 5 * SEC;
	e->start.hang_floor_ns = 1500 * MSEC;
	e->start.busy_limit_ns = 90 * SEC;
	e->start.host = "testhost";
	for (int r = 0; r < j->o.ranks; r++) {
		for (int child = 0; child < 2; child++) {
			e = emit(j, r, JOB_T0 - SEC + 1 + r, EV_PROC);
			e->tgid += child ? 50 : 0;
			e->proc.start_ns = 5;
			e->proc.rank = e->proc.local_rank = r;
			e->proc.world_size = j->o.ranks;
			e->proc.is_child = child;
			e->proc.parent_tgid = child ? job_pid(r) : 1;
			e->proc.job = "job";
			e->proc.name = child ? "loader" : "train";
			e->proc.container = "";
		}
	}
}

void trace_finish(struct job *j, uint64_t end_ns)
{
	const struct job_opts *o = &j->o;

	scans(j, end_ns);
	for (int r = 0; r < o->ranks && !o->no_watchdog; r++)
		watchdog(j, r, end_ns);
	for (uint64_t t = JOB_T0; t < end_ns; t += 250 * MSEC)
		emit(j, -1, t, EV_TICK);
	for (size_t i = 0; i < j->n_events; i++)
		j->events[i].cpu = i;
	qsort(j->events, j->n_events, sizeof(*j->events), event_cmp);
	if (o->attach_step)
		cut(j, JOB_T0 + (uint64_t)(o->attach_step * o->step_s * SEC));
}
