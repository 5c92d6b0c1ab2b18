/* SPDX-License-Identifier: Apache-2.0
 *
 * node.c - the hosts of the stream, by their numbers, and which GPU there is whose. Hosts are never freed before the
 * model: one that is silent is still one of the job's.
 */
#include "model/node.h"

#include <errno.h>
#include <stdlib.h>

#include "model/ahead.h"

static int room_make(struct model *m, uint32_t number)
{
	uint32_t n = m->n_nodes ? m->n_nodes : 1;
	struct node **grown;

	while (n <= number)
		n *= 2;
	if (n == m->n_nodes)
		return 0;
	grown = realloc(m->nodes, n * sizeof(struct node *));
	if (!grown)
		return -ENOMEM;
	for (uint32_t i = m->n_nodes; i < n; i++)
		grown[i] = NULL;
	m->nodes = grown;
	m->n_nodes = n;
	return 0;
}

struct node *node_get(struct model *m, uint32_t number)
{
	struct node *n = model_node(m, number);

	if (n || number >= NODES_MAX || room_make(m, number))
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->number = number;
	n->name = n->boot_id = "";
	m->nodes[number] = n;
	return n;
}

int node_apply(struct model *m, const struct event *e)
{
	struct node *n = e->node < NODES_MAX ? node_get(m, e->node) : NULL;

	if (!n)
		return e->node < NODES_MAX ? -ENOMEM : -EINVAL;
	m->merged = true;
	n->name = e->host.name;
	n->clock_offset_ns = e->host.clock_offset_ns;
	n->clock_error_ns = e->host.clock_error_ns;
	return 0;
}

int node_heard(struct model *m, const struct event *e)
{
	struct node *n = model_node(m, e->node);

	if (!n)
		return -EINVAL;
	m->reported |= m->merged; /* a session that is paused has one host, and knows of no others */
	n->silent_ns = e->heard.silent ? e->ts_ns : 0;
	return 0;
}

int node_partial(struct model *m, const struct event *e)
{
	struct node *n = node_get(m, e->node);

	if (!n)
		return -ENOMEM;
	n->partial = true;
	return 0;
}

const struct gpu *node_gpu(const struct node *n, uint32_t index)
{
	for (const struct gpu *g = n ? n->gpus.all : NULL; g; g = g->next)
		if (g->device.index == index)
			return g;
	return NULL;
}

const struct gpu *node_gpu_at(const struct node *n, uint64_t pci)
{
	for (const struct gpu *g = n ? n->gpus.all : NULL; g && pci != GPU_PCI_NONE; g = g->next)
		if (g->device.pci == pci)
			return g;
	return NULL;
}

bool gpu_has_proc(const struct gpu *g, const struct proc *p)
{
	for (uint32_t i = 0; g->node == p->node && i < g->procs.n; i++)
		if (g->procs.pids[i] == p->tgid)
			return true;
	return false;
}

const struct gpu *proc_gpu(const struct proc *p)
{
	for (const struct gpu *g = p ? p->node->gpus.all : NULL; g; g = g->next)
		if (gpu_has_proc(g, p))
			return g;
	return NULL;
}

/* Whatever the driver's list says: it is read now and then, and a process may be seen when it has one of them. */
static bool on_several_gpus(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (mb->device >= 0 && mb->device != p->members->device)
			return true;
	return false;
}

int member_gpu(const struct member *mb)
{
	const struct gpu *only = NULL;

	if (mb->device >= 0 && on_several_gpus(mb->proc))
		return mb->device;
	for (const struct gpu *g = mb->proc->node->gpus.all; g; g = g->next) {
		if (!gpu_has_proc(g, mb->proc))
			continue;
		if (only)
			return mb->device;
		only = g;
	}
	return only ? (int)only->device.index : mb->device;
}
