/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - driver calls: those a host thread sits in, what finished ones took in all, and errors they returned. A
 * thread is in one call at most; whatever it does next shows that it is out of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "model/state.h"

struct call_own **call_find(struct proc_own *p, uint32_t tid)
{
	struct call **link = &p->p.calls;

	while (*link && (*link)->tid != tid)
		link = &(*link)->next;
	return (struct call_own **)link;
}

void call_forget(struct proc_own *p, uint32_t tid)
{
	struct call_own **link = call_find(p, tid), *c = *link;

	if (!c)
		return;
	*(struct call **)link = c->c.next;
	free(c);
}

static int call_open(struct proc_own *p, const struct event *e)
{
	struct call_own *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->c = (struct call){ .tid = e->tid,
			      .name = e->call.name ? e->call.name : "",
			      .begin_ns = e->call.begin_ns,
			      .next = p->p.calls };
	p->p.calls = &c->c;
	/* lint: kept by the address of its first member */
	p->p.last_call_ns = larger(p->p.last_call_ns, e->call.begin_ns);
	return 0;
}

static void call_over(struct proc *p, const struct event *e)
{
	if ((unsigned int)e->call.class < CALL_CLASS_MAX && e->ts_ns > e->call.begin_ns)
		p->call_ns[e->call.class] += e->ts_ns - e->call.begin_ns;
	p->last_call_ns = e->ts_ns;
}

/* No sign of progress: a watchdog gets the sticky error at each of its polls. */
static void error_note(struct proc_own *p, const struct event *e)
{
	const char *call = e->cuda_error.call ? e->cuda_error.call : "";

	p->p.cuda_error = e->cuda_error.result;
	p->p.cuda_error_call = call;
	p->p.cuda_error_name = e->cuda_error.error ? e->cuda_error.error : "";
	p->p.cuda_error_ns = e->ts_ns;
	if (!strncmp(call, "cuStreamEndCapture", strlen("cuStreamEndCapture")))
		capture_failed(p, e->tid);
}

int call_apply(struct model *m, const struct event *e)
{
	struct proc_own *p = proc_get(m, event_proc(e), e->ts_ns);

	if (!p)
		return -ENOMEM;
	call_forget(p, e->tid);
	if (e->kind == EV_CALL_OPEN)
		return p->p.dead ? 0 : call_open(p, e);
	if (e->kind == EV_CALL)
		call_over(&p->p, e);
	else
		error_note(p, e);
	return 0;
}
