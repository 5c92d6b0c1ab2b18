/* SPDX-License-Identifier: Apache-2.0
 *
 * report_part.h - one process, GPU, finding of the model as a part of the message. Private to this room. Texts are
 * borrowed from the model; NULL where the block is full.
 */
#ifndef RANKTRACE_CLUSTER_REPORT_PART_H
#define RANKTRACE_CLUSTER_REPORT_PART_H

#include <stdbool.h>

#include "cluster/report.h"
#include "finding.h"
#include "model/model.h"

struct report_block { /* memory of one message */
	char *bytes;
	size_t used;
	uint32_t left_out; /* what found no room */
	uint64_t since_ns; /* of the report before; 0: there was none */
};

bool report_block_init(struct report_block *b);
void report_block_free(struct report_block *b);
void report_block_reset(struct report_block *b);
void *report_alloc(struct report_block *b, size_t size);
void *report_list(struct report_block *b, size_t n); /* of n pointers */

Cluster__Process *report_process(struct report_block *b, const struct proc *p, const struct event_proc *who,
				 const struct model *m);
Cluster__Gpu *report_gpu(struct report_block *b, const struct gpu *g, uint64_t now_ns);
/* report_finding.c */
Cluster__Finding *report_finding(struct report_block *b, const struct finding *f, uint64_t now_ns);
void report_summary(const struct incident *i, char *to, size_t size); /* one sentence */

/* report_thread.c: into p->threads */
void report_threads(struct report_block *b, const struct proc *p, Cluster__Process *to, uint64_t now_ns);
/* report_calls.c: into p->calls and p->waits */
void report_calls(struct report_block *b, const struct proc *p, Cluster__Process *to, uint64_t now_ns);
/* report_member.c: into p->comms */
void report_members(struct report_block *b, const struct proc *p, Cluster__Process *to, const struct model *m);

static inline uint64_t report_age(uint64_t now_ns, uint64_t ns)
{
	return now_ns > ns ? now_ns - ns : 0;
}

/* "" and NULL are not sent. */
static inline char *report_text(const char *text)
{
	return text && *text ? (char *)text : NULL;
}

#endif
