/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs.c - a stand-in for libibverbs: the exported functions the tracer probes, with the real structs. A device is the
 * path of its provider library.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#define MAX 64
static struct {
	struct ibv_context *c;
	void *dl;
} opened[MAX];
static uint32_t next_qpn = 17;

static void *provider_of(struct ibv_context *c, const char *name)
{
	for (int i = 0; i < MAX; i++)
		if (opened[i].c == c)
			return dlsym(opened[i].dl, name);
	abort();
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*open_fn)(struct ibv_device *), *c;
	void *dl = dlopen(device->dev_path, RTLD_NOW | RTLD_LOCAL);
	int i = 0;

	if (!dl) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	open_fn = dlsym(dl, "provider_open");
	c = open_fn(device);
	c->cmd_fd = open(device->ibdev_path, O_RDWR); /* a file whose name ends in uverbsN */
	if (c->cmd_fd < 0)
		return NULL;
	while (opened[i].c)
		i++;
	opened[i].c = c;
	opened[i].dl = dl;
	return c;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = c;
	return pd;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *user, struct ibv_comp_channel *ch, int v)
{
	struct ibv_cq *(*fn)(struct ibv_context *) = provider_of(c, "provider_cq"), *cq = fn(c);

	(void)user;
	(void)ch;
	(void)v;
	cq->cqe = cqe;
	return cq;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *(*fn)(struct ibv_pd *, struct ibv_qp_init_attr *, uint32_t) =
		provider_of(pd->context, "provider_qp");

	return fn(pd, attr, next_qpn++);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return (struct ibv_qp_ex *)qp;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	(void)access;
	mr->context = pd->context;
	mr->addr = addr;
	mr->length = length;
	return mr;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	(void)c;
	event->event_type = IBV_EVENT_PORT_ERR;
	event->element.port_num = 1;
	return 0;
}
