/* SPDX-License-Identifier: Apache-2.0
 *
 * texts.c - to which texts the model still refers. Events bring it texts of the pipeline's table, and it keeps
 * pointers. One function for each struct that has some, with all of its fields that are texts: one that is forgotten
 * here is freed while it is in use (tests/check/test_held_texts.py looks for such).
 */
#include "model/state.h"
#include "model/storage/storage.h"

#define HOLD(t, ...) \
	do { \
		const char *const texts_[] = { __VA_ARGS__ }; \
		for (size_t i_ = 0; i_ < sizeof(texts_) / sizeof(texts_[0]); i_++) \
			intern_hold(t, texts_[i_]); \
	} while (0)

static void gpus_hold(const struct gpus *g, struct intern *t)
{
	for (const struct gpu *one = g->all; one; one = one->next)
		HOLD(t, one->name, one->uuid);
	for (int i = 0; i < XIDS_KEPT; i++)
		HOLD(t, g->xids[i].text);
}

static void node_hold(const struct node *n, struct intern *t)
{
	HOLD(t, n->name, n->boot_id);
	gpus_hold(&n->gpus, t);
	for (const struct port *p = n->ports; p; p = p->next)
		HOLD(t, p->device, p->netdev, p->pci, p->kind, p->layer);
	for (const struct own_gids *o = n->own; o; o = o->next)
		HOLD(t, o->device);
}

static void task_hold(const struct task *p, struct intern *t)
{
	const struct task_stack *s = &p->stack;

	HOLD(t, p->name, p->preempted_by, p->kernel_stack, p->user_stack, p->wchan, p->syscall, p->file, p->mount);
	HOLD(t, s->wait, s->file, s->kernel, s->frames, s->python, s->native, s->end);
	HOLD(t, p->wait.what, p->wait.who, p->wait.activity);
}

static void storages_hold(const struct storage *s, struct intern *t)
{
	for (; s; s = s->next)
		HOLD(t, s->mount, s->file);
}

static void proc_hold(const struct proc *p, struct intern *t)
{
	HOLD(t, p->name, p->container, p->pod, p->pod_name, p->namespace, p->slurm_job, p->slurm_step);
	HOLD(t, p->cuda_error_call, p->cuda_error_name, p->outside.stacks_unread);
	for (const struct task *one = p->tasks; one; one = one->next)
		task_hold(one, t);
	for (const struct call *c = p->calls; c; c = c->next)
		HOLD(t, c->name);
	for (const struct counter *v = p->counters; v; v = v->next)
		HOLD(t, v->name);
	storages_hold(p->storage, t);
	storages_hold(p->storage_of_rank, t);
}

static void tcp_hold(const struct tcp_connections *all, struct intern *t)
{
	for (uint32_t i = 0; i < all->n; i++)
		if (all->at[i])
			HOLD(t, all->at[i]->local, all->at[i]->remote, all->at[i]->netdev);
}

static void phases_hold(const struct known_phases *all, struct intern *t)
{
	for (size_t i = 0; i < all->n; i++)
		HOLD(t, all->all[i].job, all->all[i].site, all->all[i].wait);
}

void model_hold_texts(const struct model *m, struct intern *t)
{
	HOLD(t, m->host);
	for (const struct node *n = NULL; (n = model_next_node(m, n));)
		node_hold(n, t);
	for (const struct proc *p = m->procs; p; p = p->next)
		proc_hold(p, t);
	qp_hold_texts(m, t);
	tcp_hold(&m->tcp, t);
	phases_hold(&m->known_phases, t);
	jobs_hold_texts(m->state->jobs, t);
}
