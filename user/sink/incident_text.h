/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_text.h - an incident in words, to be read in five seconds: when, how bad, who does what to whom; then where,
 * why, where the others are, what to do, and its id. The rest, its evidence, is for those who ask for it.
 */
#ifndef RANKTRACE_INCIDENT_TEXT_H
#define RANKTRACE_INCIDENT_TEXT_H

#include "finding.h"
#include "model/model.h"
#include "sink/text.h"

void incident_text_head(struct text *t, const struct incident *i);     /* "CRITICAL  " */
void incident_text_sentence(struct text *t, const struct incident *i); /* who does what; no line break behind it */
/* "job llama, host node-b: " in front of the sentence, where there are several. */
void incident_text_place(struct text *t, const struct incident *i, const struct model *m);
/* "node-a-...-7, a consequence of node-a-...-6" */
void incident_text_id(struct text *t, const struct incident *i, const char *before, const char *behind);
/* Lines where, why, others, do, id: each only where something is known. */
void incident_text_block(struct text *t, const struct incident *i, const struct model *m);
/* What its communicator is for, then its evidence: a line each, indented. */
void incident_text_evidence(struct text *t, const struct finding *f, const struct model *m);
/* It says where the culprit's thread is, or why that is not known. */
bool incident_has_call_site(const struct finding *f);
/* The job's name: of the finding, of its ranks, of all if there is one; NULL: several, or none. */
const char *incident_job(const struct finding *f, const struct model *m);
/* What its operation moves, as nccl-tests count; 0 not known: a Send or Recv, or no member's call of it was seen. */
uint64_t incident_op_bytes(const struct finding *f, const struct model *m);
/* What its communicator is for: "tp", "dp", "pp"; NULL not known. */
const char *incident_parallelism(const struct finding *f, const struct model *m);
/* Of PyTorch, as people call it; NULL not known. *ret_seq: PyTorch's own number of the operation, -1 not known. */
const char *incident_process_group(const struct finding *f, const struct model *m, int64_t *ret_seq);
/* The GPU that it is about, or that its first rank computes on; NULL not known. */
const struct gpu *incident_gpu(const struct finding *f, const struct model *m);

#endif
