/* SPDX-License-Identifier: Apache-2.0
 *
 * phase_cost.c - see phase_cost.h.
 */
#include "detect/straggler/phase_cost.h"

#include "base/sorted.h"
#include "model/storage/storage.h"

#define PEERS_MAX 64
#define BUSY 0.5        /* of the time: a data worker that works */
#define OTHERS_BUSY 0.5 /* of that one's share: the others do at most so much */

static double seconds(uint64_t now_ns, uint64_t then_ns, double steps)
{
	return now_ns > then_ns ? (now_ns - then_ns) * 1e-9 / steps : 0;
}

struct phase_mean phase_mean(const struct phase_totals *then, const struct phase_totals *now)
{
	struct phase_mean mean = { .known = now->n_steps > then->n_steps && now->by_changes == then->by_changes,
				   .by = now->by };
	double n = mean.known ? (double)(now->n_steps - then->n_steps) : 1;

	if (!mean.known)
		return mean;
	for (int i = 0; i < PHASES_AND_OTHER; i++) {
		mean.host_s[i] = seconds(now->host_ns[i], then->host_ns[i], n);
		mean.storage_s[i] = seconds(now->storage_ns[i], then->storage_ns[i], n);
	}
	mean.storage_at = now->storage_at;
	mean.step_s = seconds(now->wall_ns, then->wall_ns, n);
	mean.gpu_wait_s = seconds(now->gpu_wait_ns, then->gpu_wait_ns, n);
	mean.exposed_most_s = seconds(now->exposed_most_ns, then->exposed_most_ns, n);
	return mean;
}

struct phase_mean phase_median(const struct phase_mean *all, int n, enum steps_by by)
{
	struct phase_mean median = { .known = false, .by = by };
	double values[PHASES_AND_OTHER + 3][PEERS_MAX], stored[PHASES_AND_OTHER][PEERS_MAX];
	int known = 0;

	for (int i = 0; i < n && known < PEERS_MAX; i++) {
		if (!all[i].known || all[i].by != by)
			continue;
		for (int k = 0; k < PHASES_AND_OTHER; k++) {
			values[k][known] = all[i].host_s[k];
			stored[k][known] = all[i].storage_s[k];
		}
		values[PHASES_AND_OTHER][known] = all[i].step_s;
		values[PHASES_AND_OTHER + 1][known] = all[i].gpu_wait_s;
		values[PHASES_AND_OTHER + 2][known++] = all[i].exposed_most_s;
	}
	if (!known)
		return median;
	median.known = true;
	for (int k = 0; k < PHASES_AND_OTHER; k++) {
		median.host_s[k] = doubles_median(values[k], known);
		median.storage_s[k] = doubles_median(stored[k], known);
	}
	median.step_s = doubles_median(values[PHASES_AND_OTHER], known);
	median.gpu_wait_s = doubles_median(values[PHASES_AND_OTHER + 1], known);
	median.exposed_most_s = doubles_median(values[PHASES_AND_OTHER + 2], known);
	return median;
}

/* By how much a phase is longer, its waits for storage are, or nearly so. */
static void storage_take(struct phase_reason *r, const struct phase_mean *own, const struct phase_mean *usual)
{
	double longer_s = own->storage_s[r->phase] - usual->storage_s[r->phase];

	if (longer_s <= 0 || longer_s < PHASE_EXPLAINS * (r->own_s - r->usual_s))
		return;
	r->storage_s = own->storage_s[r->phase];
	r->storage_at = own->storage_at;
}

struct phase_reason phase_reason(const struct phase_mean *own, const struct phase_mean *usual, double wait_s)
{
	struct phase_reason r = { .phase = -1 };
	double longer_s, most_s = PHASE_EXPLAINS * wait_s;

	if (!own->known || !usual->known || own->by != usual->by || !(wait_s > 0))
		return r;
	for (int i = 0; i < PHASES_AND_OTHER; i++) {
		longer_s = own->host_s[i] - usual->host_s[i];
		if (longer_s < most_s)
			continue;
		most_s = longer_s;
		r = (struct phase_reason){ .phase = i,
					   .own_s = own->host_s[i],
					   .usual_s = usual->host_s[i],
					   .part = longer_s < wait_s ? longer_s / wait_s : 1 };
	}
	if (r.phase >= 0)
		storage_take(&r, own, usual);
	return r;
}

void phase_reason_note(struct finding *f, const struct phase_reason *r, const char *mount)
{
	if (!(r->part > 0))
		return;
	finding_note_text(f, EVIDENCE_PHASE, r->phase == PHASE_GPU_WAIT ? "gpu_wait" : step_phase_name(r->phase));
	finding_note(f, EVIDENCE_PHASE_S, r->own_s);
	finding_note(f, EVIDENCE_PHASE_USUAL_S, r->usual_s);
	finding_note(f, EVIDENCE_PHASE_PERCENT, 100 * r->part);
	if (!(r->storage_s > 0))
		return;
	finding_note(f, EVIDENCE_STORAGE_S, r->storage_s);
	finding_note_text(f, EVIDENCE_STORAGE_CALL, storage_act_name(r->storage_at));
	if (*mount)
		finding_note_text(f, EVIDENCE_MOUNT, mount);
}

enum finding_cause phase_reason_cause(const struct phase_reason *r)
{
	if (!(r->part > 0))
		return CAUSE_NONE;
	return r->phase == PHASE_DATA_WAIT ? CAUSE_DATA_WAIT : r->phase == PHASE_GC ? CAUSE_GC : CAUSE_HOST_PHASE;
}

/* Share of the time that its main thread works or wants to; 1 where it is blocked right now. */
static double busy_share(const struct proc *child)
{
	const struct task *t = child->tasks;

	while (t && t->tid != child->tgid)
		t = t->next;
	if (!t)
		return 0;
	if (t->state == TASK_DISK)
		return 1;
	if (!t->prev_seen_ns || t->seen_ns <= t->prev_seen_ns || t->run_ns < t->prev_run_ns ||
	    t->wait_ns < t->prev_wait_ns)
		return 0;
	return (double)(t->run_ns - t->prev_run_ns + t->wait_ns - t->prev_wait_ns) / (t->seen_ns - t->prev_seen_ns);
}

static const struct proc *child_next(const struct model *m, const struct proc *p, const struct proc *last)
{
	const struct proc *c = last ? last->next : m->procs;

	while (c && (c->dead || !c->is_child || c->leader != p))
		c = c->next;
	return c;
}

uint64_t data_worker_find(const struct model *m, const struct proc *p)
{
	uint64_t busiest = 0;
	double most = 0, next = 0, one;

	for (const struct proc *c = child_next(m, p, NULL); c; c = child_next(m, p, c)) {
		one = busy_share(c);
		if (one > most) {
			next = most;
			most = one;
			busiest = c->key;
		} else if (one > next) {
			next = one;
		}
	}
	return most >= BUSY && next <= OTHERS_BUSY * most ? busiest : 0;
}

void data_worker_note(struct finding *f, const struct model *m, const struct proc *p, uint64_t worker)
{
	const struct proc *w = worker ? model_proc(m, worker) : NULL;
	int n = 0;

	for (const struct proc *c = child_next(m, p, NULL); c; c = child_next(m, p, c))
		n++;
	finding_note(f, EVIDENCE_N_CHILDREN, n);
	if (!w)
		return;
	finding_note(f, EVIDENCE_CHILD_PID, w->tgid);
	finding_note_text(f, EVIDENCE_CHILD_NAME, w->name);
}
