/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_parts.h - what the texts of an incident are made of: incident_sentence.c, incident_why.c and incident_text.c
 * share it. For everybody else: incident_text.h.
 */
#ifndef RANKTRACE_INCIDENT_PARTS_H
#define RANKTRACE_INCIDENT_PARTS_H

#include "finding.h"
#include "model/model.h"
#include "sink/text.h"

/* "rank 3", "ranks 0, 1 and 5", "ranks 0, 1, 2 and 12 more", "pid 812", "the job" */
void text_ranks(struct text *t, const struct finding *f);
/* "0, 1 and 5" of "0,1,5" */
void text_list(struct text *t, const char *list);
/* "AllReduce #29", "Send #11 to rank 3", "ncclCommSplit"; "an operation" where none is known */
void text_op(struct text *t, const struct finding *f);
/* ": " and the cause, where the sentence does not have it already */
void text_cause(struct text *t, const struct finding *f);
/* "GPU 1 (rank 5) is off the bus", "mlx5_3 port 1 is down" */
void text_gpu_health(struct text *t, const struct finding *f);
void text_xid(struct text *t, const struct finding *f);
void text_link_fault(struct text *t, const struct finding *f);
bool subject_is_link(const struct subject *s); /* a port or a path */
/* "91 ms", "1.5 s" */
void text_time_of_step(struct text *t, double s);
/* A phase of a step by its name in JSON, as people read it: "the wait for data" */
void text_phase(struct text *t, const char *phase);
/* "in openat of /mnt/0/checkpoint.pt"; nothing where neither is known */
void text_blocked_in(struct text *t, const struct finding *f);
/* The begin of a line of the block: "  why     "; "" for one that goes on. */
void text_label(struct text *t, const char *label);
/* Lines "why": at which line, waiting for what, by which figures, in which communicator. Each where it is known. */
void text_why(struct text *t, const struct finding *f, const struct model *m);

#endif
