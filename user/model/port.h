/* SPDX-License-Identifier: Apache-2.0
 *
 * port.h - ports of a node's RDMA devices as the model knows them: which one it is, its newest samples, who has it
 * open. Included by node.h.
 */
#ifndef RANKTRACE_MODEL_PORT_H
#define RANKTRACE_MODEL_PORT_H

#include "event.h"

#define PORTS_MAX 64
#define PORT_SAMPLES_KEPT 64 /* of all; at ten a second some six seconds */

struct port_sample {
	uint64_t ts_ns; /* reported; `now` has when it was read */
	struct port_status now;
	uint64_t counters[PORT_COUNTERS]; /* PORT_NOT_COUNTED */
};

struct port {
	struct node *node;
	struct port_id id;
	const char *device, *netdev, *pci, *kind, *layer; /* "" none or unknown */
	struct port_sample samples[PORT_SAMPLES_KEPT];    /* ring */
	uint64_t n_samples;
	struct port_sample first; /* what was counted before the session */
	struct port_users users;  /* who has it open */
	struct port *next;
};

struct model;
struct node;
struct proc;

/* The i-th newest sample, 0 the last one; NULL: not that many are kept. */
static inline const struct port_sample *port_sample(const struct port *p, uint64_t i)
{
	return i < p->n_samples && i < PORT_SAMPLES_KEPT ? &p->samples[(p->n_samples - 1 - i) % PORT_SAMPLES_KEPT]
							 : NULL;
}

static inline bool port_is(const struct port_sample *l, enum port_flag flag)
{
	return l->now.flags & flag;
}

bool port_has_proc(const struct port *port, const struct proc *p);
/* What a counter grew by; 0 where one of the two was not known, and where it was set back. */
uint64_t port_grown(const struct port_sample *now, const struct port_sample *before, enum port_counter counter);

/* For model.c. 0, -ENOMEM, -EINVAL. */
int port_apply(struct model *m, const struct event *e);
void ports_free(struct node *n);

#endif
