/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_record.c - see proc_record.h.
 */
#include "tracers/process/proc_record.h"

#include <string.h>

#include "tracers/process/proc_wire.h"

static struct event_proc identity_of(const struct target_proc *p)
{
	return (struct event_proc){ .start_ns = p->start_time_ns,
				    .parent_tgid = p->parent_tgid,
				    .ns_pid = p->ns_pid,
				    .rank = p->rank,
				    .local_rank = p->local_rank,
				    .world_size = p->world_size,
				    .is_child = p->is_child,
				    .job = p->job,
				    .name = p->name,
				    .container = p->container,
				    .pod = p->pod,
				    .netns = p->netns,
				    .user = p->uid + 1, /* UID_UNKNOWN: 0 */
				    .pod_name = p->place->pod_name,
				    .namespace = p->place->namespace,
				    .cgroup = p->place->cgroup,
				    .boot_id = p->place->boot_id,
				    .slurm_job = p->place->slurm_job,
				    .slurm_step = p->place->slurm_step };
}

int proc_record_emit(const struct target_proc *p, uint64_t now_ns, int (*emit)(void *to, const struct wire_hdr *rec),
		     void *to)
{
	struct event_proc who = identity_of(p);
	union {
		struct record_proc f;
		char bytes[PROC_WIRE_BYTES];
	} u;

	u.f.hdr = (struct wire_hdr){ .tracer = WIRE_COLLECTOR, .tgid = p->tgid, .tid = p->tgid, .ts_ns = now_ns };
	proc_wire_write(&who, &u.f);
	u.f.rank_source = p->rank_source;
	u.f.rank_flags = (p->rank_late ? RANK_LATE : 0) | (p->other_source != RANK_UNKNOWN ? RANK_DISPUTED : 0) |
			 (p->rank_ambiguous ? RANK_AMBIGUOUS : 0);
	return emit(to, &u.f.hdr);
}
