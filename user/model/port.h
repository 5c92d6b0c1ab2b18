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
	uint64_t ts_ns, taken_ns;                  /* emitted, read */
	uint8_t state, phys_state;                 /* as in record_port_sample */
	bool gone, silent, carrier_known, carrier; /* silent: no answer since taken_ns, all else as before */
	uint32_t rate_mbps, lanes, netdev_mbps;    /* PORT_NO_VALUE */
	uint64_t counters[PORT_COUNTERS];          /* PORT_NOT_COUNTED */
};

struct port {
	struct node *node;
	uint32_t index, number;                           /* number: on its device */
	int numa_node;                                    /* -1 unknown */
	const char *device, *netdev, *pci, *kind, *layer; /* "" none or unknown */
	struct port_sample samples[PORT_SAMPLES_KEPT];    /* ring */
	uint64_t n_samples;
	struct port_sample first; /* what was counted before the session */
	bool users_known;         /* who has it open */
	uint32_t pids[PORT_USERS_MAX], n_pids;
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

bool port_has_proc(const struct port *port, const struct proc *p);
/* What a counter grew by; 0 where one of the two was not known, and where it was set back. */
uint64_t port_grown(const struct port_sample *now, const struct port_sample *before, enum port_counter counter);

/* For model.c. 0, -ENOMEM, -EINVAL. */
int port_apply(struct model *m, const struct event *e);
void ports_free(struct node *n);

#endif
