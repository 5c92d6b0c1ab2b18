/* SPDX-License-Identifier: Apache-2.0
 *
 * report_make.h - the model of a node as the message that its agent publishes: what is known now, whole, and not what
 * changed. Pure.
 */
#ifndef RANKTRACE_CLUSTER_REPORT_MAKE_H
#define RANKTRACE_CLUSTER_REPORT_MAKE_H

#include "cluster/report.h"
#include "finding.h"
#include "model/model.h"

struct report_maker;

struct report_maker *report_maker_new(void); /* NULL: no memory */
void report_maker_free(struct report_maker *r);

/* What the model does not keep: who a process is (PROC), and what was found. */
int report_maker_event(struct report_maker *r, const struct event *e); /* 0 or -ENOMEM */
void report_maker_incident(struct report_maker *r, const struct incident *i);

/* Valid until the next call; its numbers (agent, sequence, lost reports) are the caller's to set. `host`: the
 * session's. */
Cluster__NodeReport *report_make(struct report_maker *r, const struct model *m);

#endif
