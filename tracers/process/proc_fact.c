/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_fact.c - see proc_fact.h.
 */
#include "tracers/process/proc_fact.h"

#include <string.h>

int proc_fact_emit(const struct target_proc *p, uint64_t now_ns, int (*emit)(void *to, const struct wire_hdr *rec),
		   void *to)
{
	union {
		struct fact_proc f;
		char bytes[sizeof(struct fact_proc) + 512];
	} u = {};
	const char *texts[] = { p->job, p->name, p->container, p->pod };
	uint16_t lens[4], used = 0;

	for (int i = 0; i < 4; i++) {
		lens[i] = strlen(texts[i]) + 1;
		memcpy(u.bytes + sizeof(u.f) + used, texts[i], lens[i]);
		used += lens[i];
	}
	u.f = (struct fact_proc){
		.hdr = { .size = (sizeof(u.f) + used + 7) & ~7ul,
			 .tracer = WIRE_FACT,
			 .kind = FACT_PROC,
			 .tgid = p->tgid,
			 .tid = p->tgid,
			 .ts_ns = now_ns },
		.start_ns = p->start_time_ns,
		.parent_tgid = p->parent_tgid,
		.ns_pid = p->ns_pid,
		.rank = p->rank,
		.local_rank = p->local_rank,
		.world_size = p->world_size,
		.rank_source = p->rank_source,
		.rank_flags = (p->rank_late ? RANK_LATE : 0) | (p->other_source != RANK_UNKNOWN ? RANK_DISPUTED : 0) |
			      (p->rank_ambiguous ? RANK_AMBIGUOUS : 0),
		.is_child = p->is_child,
		.job_len = lens[0],
		.name_len = lens[1],
		.container_len = lens[2],
		.pod_len = lens[3],
	};
	return emit(to, &u.f.hdr);
}
