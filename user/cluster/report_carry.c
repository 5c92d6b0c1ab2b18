/* SPDX-License-Identifier: Apache-2.0
 *
 * report_carry.c - see report_carry.h. Lists of two reports have mostly the same order: what has the same place is
 * compared first.
 */
#include "cluster/report_carry.h"

#include <string.h>

#include "event.h"

static bool texts_same(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

/* --- what of the newer one is the same thing; NULL: it does not have it --- */

static bool is_same_process(const Cluster__Process *a, const Cluster__Process *b)
{
	return a->pid == b->pid && a->start_ns == b->start_ns && texts_same(a->job, b->job);
}

static Cluster__Process *process_in(const Cluster__NodeReport *r, const Cluster__Process *p, size_t place)
{
	if (place < r->n_processes && is_same_process(r->processes[place], p))
		return r->processes[place];
	for (size_t i = 0; i < r->n_processes; i++)
		if (is_same_process(r->processes[i], p))
			return r->processes[i];
	return NULL;
}

static bool is_same_member(const Cluster__Member *a, const Cluster__Member *b)
{
	return a->addr == b->addr && a->hash == b->hash;
}

static Cluster__Member *member_in(const Cluster__Process *p, const Cluster__Member *mb, size_t place)
{
	if (place < p->n_comms && is_same_member(p->comms[place], mb))
		return p->comms[place];
	for (size_t i = 0; i < p->n_comms; i++)
		if (is_same_member(p->comms[i], mb))
			return p->comms[i];
	return NULL;
}

static const Cluster__Thread *thread_in(const Cluster__Process *p, uint32_t tid, size_t place)
{
	if (place < p->n_threads && p->threads[place]->tid == tid)
		return p->threads[place];
	for (size_t i = 0; i < p->n_threads; i++)
		if (p->threads[i]->tid == tid)
			return p->threads[i];
	return NULL;
}

/* --- does it say the same? --- */

static bool is_halted(const Cluster__Thread *t)
{
	return t->state == TASK_DISK || t->state == TASK_STOPPED;
}

/* `apart_ns`: between the two reports. The same stop has the same begin. */
static bool thread_carries(const Cluster__Thread *older, const Cluster__Thread *newer, uint64_t apart_ns)
{
	bool same = newer && newer->state == older->state && newer->state_age_ns == older->state_age_ns + apart_ns;

	return (same || !is_halted(older)) && (!older->has_stack_age_ns || (newer && newer->has_stack_age_ns));
}

static bool member_carries(const Cluster__Member *older, const Cluster__Member *newer)
{
	return newer && newer->async_result == older->async_result && newer->init_state == older->init_state &&
	       newer->aborted == older->aborted && (!older->has_ended || newer->has_ended) &&
	       (!older->has_transfers_ended || newer->has_transfers_ended) &&
	       (!older->has_signatures_hash || newer->signatures_to == older->signatures_to);
}

static bool process_carries(const Cluster__Process *older, const Cluster__Process *newer, uint64_t apart_ns)
{
	if (!newer || (older->dead && !newer->dead))
		return false;
	for (size_t i = 0; i < older->n_comms; i++)
		if (!member_carries(older->comms[i], member_in(newer, older->comms[i], i)))
			return false;
	for (size_t i = 0; i < older->n_threads; i++)
		if (!thread_carries(older->threads[i], thread_in(newer, older->threads[i]->tid, i), apart_ns))
			return false;
	return true;
}

static bool has_finding(const Cluster__NodeReport *r, const char *id)
{
	for (size_t i = 0; i < r->n_findings; i++)
		if (id && r->findings[i]->id && !strcmp(r->findings[i]->id, id))
			return true;
	return false;
}

static bool has_gpu(const Cluster__NodeReport *r, uint32_t index, size_t place)
{
	if (place < r->n_gpus && r->gpus[place]->index == index)
		return true;
	for (size_t i = 0; i < r->n_gpus; i++)
		if (r->gpus[i]->index == index)
			return true;
	return false;
}

static bool says_the_same(const Cluster__NodeReport *older, const Cluster__NodeReport *newer)
{
	uint64_t apart_ns = newer->now_ns - older->now_ns;

	if (newer->now_ns < older->now_ns || newer->paused != older->paused || newer->left_out != older->left_out)
		return false;
	for (size_t i = 0; i < older->n_findings; i++)
		if (!has_finding(newer, older->findings[i]->id))
			return false;
	for (size_t i = 0; i < older->n_gpus; i++)
		if (!has_gpu(newer, older->gpus[i]->index, i))
			return false;
	for (size_t i = 0; i < older->n_processes; i++)
		if (!process_carries(older->processes[i], process_in(newer, older->processes[i], i), apart_ns))
			return false;
	return true;
}

/* --- what is counted from report to report --- */

static void member_add(const Cluster__Member *older, Cluster__Member *newer)
{
	newer->ended += older->ended;
	newer->ended_ns += older->ended_ns;
	newer->ended_error_ns += older->ended_error_ns;
	newer->transfers_ended += older->transfers_ended;
	newer->transfers_ended_ns += older->transfers_ended_ns;
}

bool report_carries(const Cluster__NodeReport *older, Cluster__NodeReport *newer)
{
	if (!says_the_same(older, newer))
		return false;
	for (size_t i = 0; i < older->n_processes; i++) {
		const Cluster__Process *p = older->processes[i], *now = process_in(newer, p, i);

		for (size_t k = 0; k < p->n_comms; k++)
			member_add(p->comms[k], member_in(now, p->comms[k], k));
	}
	return true;
}
